/**
 * What happens when a try of a call fails: one table, with a row for each kind of failure and a column for each thing
 * that may follow. `createReactions` carries a row out.
 */
import { CallFailure } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { type Fatal, ioError } from '../../core/item/failure.ts';
import type { Usage } from '../../core/item/item.ts';
import type { Say } from '../../core/item/say.ts';
import { counted } from '../../core/item/wording.ts';
import { seconds } from '../endpoints/endpoint-words.ts';
import { backoff, type Clock, readRetryAfter, type Timing } from '../endpoints/pool-clock.ts';
import { sockets } from '../endpoints/wire.ts';
import { countFailure, isAtWork, isFailing, isLastUsable, noteFailure, pause } from './health.ts';
import { followThrottled } from './limit.ts';
import type { Outages, Suspects } from './outage.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
import { serves } from './raw.ts';
import type { FailedOutcome } from './recording.ts';

export interface Reaction {
  /** It is written to the ledger. Otherwise nothing reached a server. */
  recorded?: true;
  /** It is counted among the endpoint's failures, and its cause is told if the call fails in the end. */
  counted?: true;
  /** It counts against the endpoint: after some in a row the endpoint rests. The next try goes elsewhere. */
  against?: true;
  /** It shows that the endpoint works: it is not failing. */
  clears?: true;
  /** The endpoint is taken out until a probe finds it again. */
  takesOut?: true;
  /** Retry-After is obeyed. */
  pauses?: true;
  /** Where many calls fail so, the endpoint's limit is cut. The call waits, and loses nothing. */
  cutsLimit?: true;
  /** No connection could be opened here: from now on there are no more than now. */
  fewerSockets?: true;
  /** The endpoint may have died of this call: whether it is dead is looked at, and the call may be a suspect. */
  suspect?: true;
  /** It is one of the tries of the call. Otherwise the call is asked again for nothing. */
  costsTry?: true;
  /** … and one of the retries of the run, unless all endpoints fail. */
  spendsBudget?: true;
  /** Another endpoint is asked once. Where there is none, or it refuses too, the row is `refused-for-good`. */
  asksOneOther?: true;
  /** The call fails at once, with what the attempt says. */
  ends?: true;
  /** The code of a call whose tries all failed so; `call-failed` where they did not. */
  code?: Code;
}

const ANY_TRY = { recorded: true, counted: true, against: true, costsTry: true } as const;

export const REACTIONS = {
  /** HTTP 429 and 503: the server is full, or behind a proxy that says so. The next try is not a second chance. */
  throttled: { recorded: true, counted: true, against: true, pauses: true, cutsLimit: true },
  /** HTTP 408 and 5xx, but for the others here */
  'server-error': { ...ANY_TRY, spendsBudget: true, pauses: true },
  /** HTTP 500: the engine may have died */
  'internal-error': { ...ANY_TRY, spendsBudget: true, pauses: true, suspect: true },
  /** the connection broke while the server had the call */
  'broken-off': { ...ANY_TRY, spendsBudget: true, suspect: true },
  /** … or after the asker had the beginning of the answer: it can be asked nowhere else */
  'broken-stream': { recorded: true, counted: true, against: true, ends: true },
  /** no answer in time */
  timeout: { ...ANY_TRY, spendsBudget: true, code: 'call-timeout' },
  /** HTTP 200 with something that is no completion */
  'bad-answer': { ...ANY_TRY, spendsBudget: true },
  /** the answer of another call */
  crossed: { ...ANY_TRY, spendsBudget: true, code: 'call-crossed' },
  /** other statuses: the server says that the request is wrong, which may be the server's fault */
  refused: { recorded: true, counted: true, against: true, asksOneOther: true },
  'refused-for-good': { recorded: true, counted: true, clears: true, ends: true },
  /** the prompt does not fit into the context */
  'too-long': { recorded: true, counted: true, clears: true, ends: true },
  /** the answer to a raw call is larger than --max-body: so would be the next one */
  'too-large': { recorded: true, counted: true, clears: true, ends: true },
  /** nothing was sent: the endpoint is not there */
  unreachable: { counted: true, takesOut: true },
  /** nothing was sent: this process has no descriptor or port left */
  'no-socket': { fewerSockets: true },
  /** dropped by this process, which ends */
  interrupted: { recorded: true, ends: true },
} as const satisfies Record<string, Reaction>;

export type FailureKind = keyof typeof REACTIONS;

/** A try that gave no answer. */
export interface FailedAttempt {
  kind: FailureKind;
  /** as the ledger and the endpoint's counts call it */
  label: FailedOutcome | 'not connected';
  /** in words */
  cause: string;
  /** of the reply, where there was one that refused */
  status?: number;
  retryAfter?: string | undefined;
  /** what the call is told where it `ends` */
  failure?: CallFailure;
  /** what the server says that it used all the same */
  usage?: Usage;
}

/** 5xx that another try cannot change: the server does not know how. */
const UNSUPPORTED = new Set([501, 505]);

/** The row of a reply that is no HTTP 200. */
export function kindOfStatus(status: number): FailureKind {
  if (status === 429 || status === 503) return 'throttled';
  if (status === 500) return 'internal-error';
  if (status === 408 || (status > 500 && !UNSUPPORTED.has(status))) return 'server-error';
  return 'refused';
}

/** Tries of one call that count. */
export const MAX_TRIES = 6;
/** Times that a call may be throttled, or fail as all others do. The run ends long before. */
const MAX_THROTTLED = 1_000;
/** A pause that a server asks for is told a person from here on. */
const TELL_PAUSE_FROM_MS = 5_000;
/** An endpoint that fails, answers and fails again is told so often. */
const TELL_FAILING_EVERY_MS = 60_000;
/** Retries that any run may make, so that a small one can lose all calls in flight (an endpoint that dies) and finish. */
const MIN_BUDGET = 256;

export interface ReactionOptions {
  endpoints: readonly Endpoint[];
  clock: Clock;
  timing: Timing;
  random: () => number;
  warn: Say;
  /** of the calls, the share of retries that a run may make. Servers in trouble would be asked six times without it. */
  retryBudget: number;
  /** calls that were sent so far, by all parts */
  sent: () => number;
  suspects: Suspects;
  outages: Outages;
  /** ends all parts */
  giveUp: (fatal: Fatal, why: string) => void;
  /** Asks again, not before `ticket.notBefore`. */
  sleep: (ticket: Ticket) => void;
  fail: (ticket: Ticket, reason: Error) => void;
}

/** Carries out what follows a failed try. */
export class Reactions {
  readonly #options: ReactionOptions;
  readonly #floor: number;
  #spent = 0;

  constructor(options: ReactionOptions) {
    this.#options = options;
    this.#floor = Math.max(
      MIN_BUDGET,
      options.endpoints.reduce((sum, { limit }) => sum + limit, 0),
    );
  }

  /** A try of `ticket` at `endpoint` failed, and its place is free again. */
  failed(ticket: Ticket, endpoint: Endpoint, attempt: FailedAttempt): void {
    const { clock, suspects, outages, retryBudget, sent, giveUp, fail } = this.#options;
    const kind =
      attempt.kind === 'refused' && this.#isForGood(ticket, endpoint) ? 'refused-for-good' : attempt.kind;
    const { label, cause, failure, status, usage } = attempt;
    const { recording, ending, counts } = ticket.part;
    const reaction: Reaction = REACTIONS[kind];
    ticket.sentAwayWith = reaction.cutsLimit ? (status ?? null) : null;
    const now = clock.now();
    if (reaction.recorded && label !== 'not connected')
      recording.failure(ticket, endpoint, label, cause, usage);
    if (usage !== undefined) ticket.part.paid(endpoint, usage);
    if (reaction.counted) {
      countFailure(endpoint, label);
      noteCause(ticket, endpoint, cause);
    }
    if (reaction.takesOut) outages.lost(endpoint, cause);
    if (reaction.fewerSockets && !sockets.fewer()) giveUp(ioError(cause), 'nothing could be opened here');
    if (reaction.clears) for (const one of [endpoint, ticket.refusedAt]) if (one) one.failuresInARow = 0;
    const isByChance =
      reaction.against === true && this.#noteAgainst(endpoint, ticket, attempt, reaction, now);
    if (reaction.ends && failure) {
      fail(ticket, failure);
      if (reaction.clears) ending.noteRefused(endpoint.url, failure, counts.outstanding);
      return;
    }
    if (reaction.suspect) {
      if (suspects.isAlone(ticket)) return fail(ticket, quarantined(ticket));
      suspects.noteBroken(endpoint, ticket, now);
      outages.check(endpoint);
    }
    const code = reaction.code;
    if (code) ticket.codes = { ...ticket.codes, [code]: (ticket.codes?.[code] ?? 0) + 1 };
    if (reaction.cutsLimit) return this.#throttled(ticket, isByChance, now);
    // somebody who waits is told that all fail; a batch waits until they do not
    if (reaction.spendsBudget && !ticket.call.live && outages.allEndpointsFailing(ticket))
      return this.#throttled(ticket, false, now);
    if (reaction.asksOneOther) ticket.refusedAt = endpoint;
    const most = ticket.call.live?.tries ?? MAX_TRIES;
    if (reaction.costsTry && ++ticket.tries >= most)
      return fail(ticket, exhausted(ticket, counted(most, 'try', 'tries')));
    if (reaction.spendsBudget) {
      if (this.#spent >= this.#floor + retryBudget * sent())
        return fail(
          ticket,
          exhausted(ticket, `the retries of this run are spent (${this.#spent} in ${sent()} calls)`),
        );
      this.#spent++;
    }
    this.#again(ticket, now, Math.max(1, ticket.tries + ticket.throttled));
  }

  /** Whether no other endpoint can be asked what this one refused, or one was. */
  #isForGood({ refusedAt, call }: Ticket, endpoint: Endpoint): boolean {
    if (refusedAt !== null && refusedAt !== endpoint) return true;
    return !this.#options.endpoints.some(
      other => other !== endpoint && other.state === 'up' && serves(other, call),
    );
  }

  /** Counts it against the endpoint. True for a call that was throttled by chance: it says nothing of others. */
  #noteAgainst(
    endpoint: Endpoint,
    ticket: Ticket,
    { kind, cause, retryAfter }: FailedAttempt,
    reaction: Reaction,
    now: number,
  ): boolean {
    const { endpoints, clock, timing, warn } = this.#options;
    ticket.avoid = endpoint;
    if (kind === 'timeout') {
      ticket.unanswered = [...(ticket.unanswered ?? []), endpoint];
      endpoint.signs.unansweredAt = now;
    }
    const wait = (reaction.pauses && readRetryAfter(retryAfter, clock.date(), timing.pauseCap)) || 0;
    const throttling = reaction.cutsLimit ? followThrottled(endpoint, ticket, now) : null;
    const sentAt = throttling === 'random' || throttling === 'burst' ? ticket.sentAt : undefined;
    const isLast = isLastUsable(endpoints, now);
    const wasFailing = isFailing(endpoint);
    noteFailure(endpoint, { cause, isLast, sentAt, isSilence: kind === 'timeout' }, now, timing);
    if (reaction.spendsBudget && !wasFailing && isFailing(endpoint) && endpoint.state === 'up')
      this.#tell(
        endpoint,
        `fails: ${cause}; ${isLast ? 'it gets fewer calls until it answers' : 'until it answers it gets one call at a time'}, and its calls are sent again`,
        now,
      );
    else if (kind === 'timeout' && isAtWork(endpoint, now, timing.timeoutFloor))
      this.#tell(endpoint, `left a call unanswered: ${cause}; it is sent again`, now);
    if (throttling === 'random') {
      if (isLast) ticket.notBefore = now + wait;
      return true;
    }
    if (wait >= TELL_PAUSE_FROM_MS && endpoint.pausedUntil < now)
      warn(`${endpoint.url} asks for a pause of ${seconds(wait)}`, {
        ...{ event: 'endpoint-pauses', level: 'info', endpoint: endpoint.url },
      });
    pause(endpoint, now + wait);
    return false;
  }

  #tell(endpoint: Endpoint, what: string, now: number): void {
    if (now - endpoint.toldAt < TELL_FAILING_EVERY_MS) return;
    endpoint.toldAt = now;
    this.#options.warn(`${endpoint.url} ${what}`, {
      ...{ event: 'endpoint-fails', level: 'warn', endpoint: endpoint.url },
    });
  }

  /** Where a server throttles one call now and then, waiting longer each time would not help. */
  #throttled(ticket: Ticket, isByChance: boolean, now: number): void {
    if (++ticket.throttled >= MAX_THROTTLED)
      return this.#options.fail(ticket, exhausted(ticket, `${MAX_THROTTLED} refusals with 429 or 503`));
    this.#again(ticket, now, isByChance ? 1 : ticket.tries + ticket.throttled);
  }

  #again(ticket: Ticket, now: number, times: number): void {
    const { timing, random, sleep, fail } = this.#options;
    const { reason } = ticket.part.ending;
    if (reason) return fail(ticket, reason);
    const wait = backoff(times, timing.backoffBase, timing.backoffCap, random);
    ticket.notBefore = Math.max(ticket.notBefore, now + wait);
    sleep(ticket);
  }

  /** The last try was lost with its endpoint: no fault of the call, and nothing that the budget is there to bound. */
  giveBack(ticket: Ticket): void {
    if (ticket.tries === 0) return;
    ticket.tries--;
    this.#spent--;
  }
}

function noteCause(ticket: Ticket, endpoint: Endpoint, cause: string): void {
  ticket.causes ??= new Map();
  ticket.causes.set(endpoint.url, cause);
}

/**
 * The failure of a call that is given up: what was said last, and `why` it is not asked again. It goes into an item, and
 * items say nothing of endpoints, so that two runs give the same bytes; the pool's counts know who said it.
 */
function exhausted({ causes, tries, codes }: Ticket, why: string): CallFailure {
  const [each] = Object.entries(codes ?? {}).filter(([, times]) => times === tries);
  const code = (each?.[0] ?? 'call-failed') as Code;
  return new CallFailure(code, `No answer after ${why}: ${[...new Set(causes?.values())].join('; ')}`);
}

/** A call that broke off wherever it was, alone in the end: it is not sent to yet another server. */
function quarantined({ causes }: Ticket): CallFailure {
  const last = [...new Set(causes?.values())].join('; ');
  return new CallFailure(
    'call-quarantined',
    `Several servers broke the connection during this call, the last one while it had no other call: ${last}`,
  );
}
