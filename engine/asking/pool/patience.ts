/**
 * How long a call is waited for. A server says nothing before the end of an answer, so what a call may take follows from
 * what it may write, at the speed that was seen there. Two things end it (README.md here states the bounds):
 *
 *   silence     its endpoint shows no sign of work (signs-of-work.ts), for as long as `createTimeLimits` says;
 *   its share   the endpoint works, and would have written by now several times what this call and the longest one
 *               beside it may write. So ends a call that was lost there.
 *
 * A server takes calls in the order in which they come (vLLM's default). As long as none that was sent behind a call is
 * answered, it may be in the server's queue, so its share begins anew with each answer to one before it.
 */
import type { Call } from '../../core/item/call.ts';
import { counted } from '../../core/item/wording.ts';
import { seconds } from '../endpoints/endpoint-words.ts';
import type { Timing } from '../endpoints/pool-clock.ts';
import { ASSUMED_TOKENS, type Extent, extentOf } from './extent.ts';
import { createTimeLimits, isFailing, patienceWith } from './health.ts';
import { isMuteFor } from './mute.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
import { serves } from './raw.ts';
import { paceOf, type SpeedOf } from './signs-of-work.ts';

/** Times that a call has its share: calls slow each other down, wait for places, and are preempted. */
const SHARES = 4;
/** ms a token, where no speed has been seen and the call says what it may write: a full cache preempts, and halves it */
const SLOWEST = 200;
/** A question takes as long to read as a token to write for so many of its bytes: about 8 tokens, of 4 bytes each. */
const BYTES_READ = 32;
const TOKENS_READ = 8;
/** On top, in tokens: what a short call waits for is not its own length. */
const SPARE = 64;
/** Of the time that a live call has, the part that a server may have that shows no sign of work. */
export const LIVE_SHARE = 0.25;
/** Looks in a row to which a server said nothing, after which it is silent altogether. */
const MAX_UNHEARD = 3;

/** Says why a call is given up at `now`, in words; null while it is not. */
export type Judge = (endpoint: Endpoint, ticket: Ticket) => string | null;

export function createJudge(endpoints: readonly Endpoint[], timing: Timing, now: number): Judge {
  const limits = createTimeLimits(endpoints, timing);
  // one look at all calls of an endpoint is enough for those that are late there
  const longest = { writes: new Map<Endpoint, number>(), reads: new Map<Endpoint, number>() };

  function longestAt(endpoint: Endpoint, what: SpeedOf): number {
    let most = longest[what].get(endpoint);
    if (most === undefined) {
      most = endpoint.running.reduce((max, ticket) => Math.max(max, workOf(endpoint, ticket, what)), 0);
      longest[what].set(endpoint, most);
    }
    return most;
  }

  /** ms a token, or a byte: as seen there, else at the slowest other one; NaN where none is known */
  function paceAt(endpoint: Endpoint, { call: { model } }: Ticket, what: SpeedOf): number {
    const own = paceOf(endpoint.signs.speeds, what, model);
    if (!Number.isNaN(own)) return own;
    const others = endpoints.map(({ signs }) => paceOf(signs.speeds, what, model));
    const known = others.filter(pace => !Number.isNaN(pace));
    return known.length > 0 ? Math.max(...known) : Number.NaN;
  }

  /** Where somebody waits, silence is borne for no more than a part of the time that they have. */
  function limitFor(endpoint: Endpoint, ticket: Ticket): number {
    const { live } = ticket.call;
    return Math.min(limits(endpoint, ticket), live ? live.answer * LIVE_SHARE : Number.POSITIVE_INFINITY);
  }

  /** Whether another endpoint could take it. */
  function isElsewhere(endpoint: Endpoint, call: Call): boolean {
    return endpoints.some(
      one => one !== endpoint && one.state === 'up' && !isFailing(one) && serves(one, call),
    );
  }

  return (endpoint, ticket) => {
    const { call, sentAt, turn } = ticket;
    const { signs } = endpoint;
    const { timeout, timeoutUnknown } = timing;
    if (call.live && !isElsewhere(endpoint, call)) return null; // it ends by its own limits (live-calls.ts)
    if (timeout !== null && !call.live) return now - sentAt > timeout ? late(timeout, ' (--timeout)') : null;
    const limit = limitFor(endpoint, ticket);
    if (now - sentAt <= limit) return null;
    // … and what shows no silence has that part at least: nobody who waits loses an answer to a guess at its length
    const least = call.live ? call.live.answer * LIVE_SHARE : limit;
    // who waits does so for all tries together
    const patience = call.live ? 1 : patienceWith(ticket);
    const quiet = now - lastSign(endpoint, ticket, timeoutUnknown);
    const silence = Math.min(patience * limit, Math.max(limit, timeoutUnknown));
    const isTold = signs.isLive || signs.unheard >= MAX_UNHEARD;
    if (quiet > silence && (isTold || (call.live && isMuteFor(endpoint, limit))))
      return late(silence, ', and no sign of work there');

    const extent = extentAt(endpoint, ticket);
    const what: SpeedOf = extent.write === 0 ? 'reads' : 'writes';
    const atWork = quiet > limit ? 0 : timeoutUnknown;
    const age = now - turn.from;
    const steps = signs.isLive ? signs.steps - turn.steps : 0;
    const pace = what === 'writes' && steps > 0 ? age / steps : paceAt(endpoint, ticket, what);
    if (Number.isNaN(pace)) {
      const most = extent.isSaid ? patience * SLOWEST * (extent.write ?? 0) : 0;
      const allowed = Math.max(least, atWork, most);
      return now - sentAt > allowed ? late(allowed) : null;
    }
    const share = patience * SHARES * (workOf(endpoint, ticket, what) + longestAt(endpoint, what)) * pace;
    // what works, and does not say how fast, has some minutes
    const isMeasured = what === 'writes' && (steps > 0 || !signs.isLive);
    const allowed = Math.max(least, share, isMeasured ? 0 : patience * atWork);
    return age > allowed ? late(allowed, whyOf(extent, pace)) : null;
  };
}

const late = (ms: number, why = ''): string => `no answer within ${seconds(ms)}${why}`;

function whyOf({ write }: Extent, pace: number): string {
  if (write === 0) return ` (--timeout allows more)`;
  const most = counted(write ?? ASSUMED_TOKENS, 'token');
  const may =
    write === null ? `nothing says how much it may write, and ${most} are assumed` : `it may write ${most}`;
  return `; ${may}, at ${seconds(pace)} each here (--timeout allows more)`;
}

/** When its endpoint was last seen to work; a cache that changes shows it for `most` ms without a token. */
function lastSign({ signs: { at, stirredAt } }: Endpoint, { sentAt }: Ticket, most: number): number {
  const worked = Math.max(sentAt, at);
  return Math.max(worked, Math.min(stirredAt, worked + most));
}

function extentAt(endpoint: Endpoint, ticket: Ticket): Extent {
  ticket.extent ??= extentOf(ticket.call, contextAt(endpoint, ticket));
  return ticket.extent;
}

/** Of a call that names no model, and may go to any: the largest that there is. */
function contextAt({ contexts }: Endpoint, { call: { model } }: Ticket): number | undefined {
  return (
    contexts.get(model) ?? (model === '' && contexts.size > 0 ? Math.max(...contexts.values()) : undefined)
  );
}

/** What a call costs, in tokens to write, or in bytes to read. */
function workOf(endpoint: Endpoint, ticket: Ticket, what: SpeedOf): number {
  const { write, read } = extentAt(endpoint, ticket);
  if (what === 'reads') return read;
  const context = contextAt(endpoint, ticket) ?? Number.POSITIVE_INFINITY;
  return (write ?? ASSUMED_TOKENS) + Math.min(read / BYTES_READ, context / TOKENS_READ) + SPARE;
}
