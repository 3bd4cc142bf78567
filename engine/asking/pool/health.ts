/**
 * Whether an endpoint may be asked, and how long a call may take there. State is kept per endpoint and never for all of
 * them: one server that sends calls away must not stop the others.
 */

import type { Call } from '../../core/item/call.ts';
import type { Usage } from '../../core/item/item.ts';
import { medianOf, noLatencies, noteLatency, slowestOf, type Timing } from '../endpoints/pool-clock.ts';
import { placesForLive } from './limit.ts';
import type { Endpoint, Ticket } from './pool-state.ts';

/** Failures in a row, answered at once, after which an endpoint gets a rest before it draws more calls to itself. */
const FAILING_AFTER = 5;
/** … and the share of its places that it has until it answers, where no other endpoint could be asked. */
const SHARE_OF_LAST = 0.25;

export function isUsable(endpoint: Endpoint, now: number): boolean {
  return endpoint.state === 'up' && endpoint.pausedUntil <= now && !endpoint.isShut;
}

/** Whether at most one endpoint could be asked now: it is never closed, whatever it does. */
export function isLastUsable(endpoints: readonly Endpoint[], now: number): boolean {
  let usable = 0;
  for (const endpoint of endpoints) if (isUsable(endpoint, now)) usable++;
  return usable <= 1;
}

export function isFailing({ failuresInARow }: Endpoint): boolean {
  return failuresInARow >= FAILING_AFTER;
}

/**
 * Calls that it may have at a time. One that failed several times in a row has one place until it answers: a circuit
 * breaker that is half open. The last one that could be asked keeps a part of its places, for a run must not depend on
 * one call.
 */
export function placesOf(endpoint: Endpoint, isLast: boolean): number {
  const limit = Math.max(1, Math.floor(endpoint.limit));
  if (!isFailing(endpoint)) return limit;
  return isLast ? Math.max(1, Math.floor(limit * SHARE_OF_LAST)) : 1;
}

/**
 * … and of these, those that `call` may have: a part is kept free for live calls, at most half. A limit that is still
 * being learned does not hold up those for whom somebody waits, and their first tokens may leave batches less
 * (live-share.ts).
 */
export function placesFor(endpoint: Endpoint, isLast: boolean, { live }: Pick<Call, 'live'>): number {
  const places = placesOf(endpoint, isLast);
  if (live && !isFailing(endpoint)) return placesForLive(endpoint);
  if (live) return places;
  const usual = Math.max(1, places - Math.min(endpoint.learner.reserve, places >> 1));
  return endpoint.share === null ? usual : Math.min(usual, endpoint.share.most);
}

export function noteAnswer(endpoint: Endpoint, agent: string, latency: number, usage: Usage): void {
  const { counts, byAgent } = endpoint;
  endpoint.failuresInARow = 0;
  noteLatency(endpoint.latencies, latency);
  let ofAgent = byAgent.get(agent);
  if (ofAgent === undefined) {
    ofAgent = noLatencies();
    byAgent.set(agent, ofAgent);
  }
  noteLatency(ofAgent, latency);
  counts.answered++;
  counts.usage.prompt += usage.prompt;
  counts.usage.completion += usage.completion;
  counts.usage.cached += usage.cached ?? 0;
}

export function countFailure({ counts: { failed } }: Endpoint, kind: string): void {
  failed[kind] = (failed[kind] ?? 0) + 1;
}

/**
 * A try that got no answer. `sentAt`: where it was sent before the last failure that counted, it says nothing more than
 * that one. A server that fails at once is always the emptiest, so after several failures in a row it rests, each time
 * twice as long; the last one that could be asked rests but a moment. A call without an answer says nothing against a
 * server that works.
 */
export function noteFailure(
  endpoint: Endpoint,
  {
    cause,
    isLast,
    sentAt,
    isSilence = false,
  }: { cause: string; isLast: boolean; sentAt?: number | undefined; isSilence?: boolean },
  now: number,
  { rest, restCap, timeoutFloor }: Timing,
): void {
  endpoint.cause = cause;
  if (isSilence && isAtWork(endpoint, now, timeoutFloor)) return;
  endpoint.signs.wasSilent = isSilence;
  if (sentAt !== undefined && sentAt <= endpoint.failedAt) return;
  endpoint.failedAt = now;
  const more = ++endpoint.failuresInARow - FAILING_AFTER;
  if (more >= 0) pause(endpoint, now + (isLast ? rest : Math.min(restCap, rest * 2 ** more)));
}

/** Whether it was seen to work within the last so many ms. */
export function isAtWork({ signs: { at } }: Endpoint, now: number, within: number): boolean {
  return now - at <= within;
}

export function pause(endpoint: Endpoint, until: number): void {
  endpoint.pausedUntil = Math.max(endpoint.pausedUntil, until);
}

/** A call that was given up may really need longer: twice as long next time, up to this. */
const MAX_PATIENCE = 4;

export function patienceWith({ codes }: Ticket): number {
  return Math.min(MAX_PATIENCE, 2 ** (codes?.['call-timeout'] ?? 0));
}

/**
 * How long a call may run at an endpoint that shows no sign of work, in ms, by what like calls needed: patience.ts has
 * what one may take that works. Before an endpoint has given enough answers it is judged by what the slowest one needs,
 * if another has given any.
 */
export function createTimeLimits(
  endpoints: readonly Endpoint[],
  timing: Timing,
): (endpoint: Endpoint, ticket: Ticket) => number {
  // one look at all endpoints is enough for all that are asked about
  const needs = new Map<string, Need>();
  return (endpoint, ticket) => {
    const { agent } = ticket.call;
    const { timeoutFloor, timeoutBorrowed, timeoutFactor, timeoutUnknown, answersToKnow } = timing;
    const own = endpoint.byAgent.get(agent);
    if (own !== undefined && own.count >= answersToKnow)
      return Math.max(timeoutFloor, timeoutFactor * medianOf(own));
    const need = needs.get(agent) ?? needOf(endpoints, agent, timing);
    needs.set(agent, need);
    const { most, only } = need;
    if (most === null || only === endpoint) return timeoutUnknown;
    const limit = Math.max(timeoutBorrowed, timeoutFactor * most);
    return Math.min(limit * patienceWith(ticket), Math.max(limit, timeoutUnknown));
  };
}

interface Need {
  /** of the slowest endpoint that gave an answer, in ms; null where none did */
  most: number | null;
  /** the one that did, where it is one alone */
  only: Endpoint | null;
}

function needOf(endpoints: readonly Endpoint[], agent: string, { answersToKnow }: Timing): Need {
  const need: Need = { most: null, only: null };
  for (const endpoint of endpoints) {
    const recent = endpoint.byAgent.get(agent);
    if (recent === undefined) continue;
    need.only = need.most === null ? endpoint : null;
    // the first answers to come are the short ones: of a few, the longest tells what a call may need
    const here = recent.count < answersToKnow ? slowestOf(recent) : medianOf(recent);
    need.most = Math.max(need.most ?? 0, here);
  }
  return need;
}
