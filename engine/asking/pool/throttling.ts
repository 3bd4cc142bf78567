/**
 * Throttled calls (429, 503) are judged by their share. A full server throttles whatever comes, and less where it is
 * asked for less; one that throttles by chance does so at any limit, and no limit helps. What tells them apart is
 * whether a cut brings the share down.
 *
 * A limit that was cut comes back. A server may throttle for a moment only (it starts, it is reloaded, somebody else floods
 * it), and the search of learn.ts, a few percent at a time, would take an hour from there. So the limit doubles with each
 * round of calls of which none is throttled, as TCP does, while there are calls to fill it. One that is throttled on the
 * way is cut again, and waits twice as long until it climbs again: a server that is full there is asked for too much once
 * in a while, and not all the time.
 */
import { type Answered, type Learner, move, ownOf, USED_SHARE, usedOf } from './learner.ts';

/** From this share on, throttled calls beyond the random ones tell of a full server. */
const FULL_SHARE = 0.05;
/** … and it was full if a cut brings the share below this part of it. */
const FALLEN_TO = 0.6;
/** Calls that a share takes. */
const CALLS_FOR_SHARE = 32;
/** The weight of the last window in the share that is expected. */
const LAST_WEIGHT = 0.3;
/** So many in a row are no chance, and a server that throttles nearly all takes nothing. */
const NONE_TAKEN = 8;
const NONE_TAKEN_SHARE = 0.95;
const MAX_RANDOM = 0.5;

/**
 * What a throttled call tells. `random`: it is one of those that are throttled now and then, at any load. `full`: so many
 * are that the server is full; the limit is cut to what it took. `burst`: it was sent before that cut. `none`: the server
 * takes nothing at all any more, which no limit helps against.
 */
export type Throttling = 'random' | 'full' | 'burst' | 'none';

/** A call was throttled; `here` are those that the server still has, of all who share it. */
export function noteThrottled(learner: Learner, round: number, here: number, now: number): Throttling {
  const { window, before } = learner;
  if (round < learner.round) {
    if (before === null) return 'random';
    // of the burst that the cut was made for: those that are here may be throttled too
    before.throttled++;
    learner.limit = Math.max(1, Math.min(learner.limit, here));
    return 'burst';
  }
  window.throttled++;
  if (learner.climb !== null) learner.climb.clean = 0;
  if (learner.phase === 'cut') return judgeCut(learner, now);
  const expected = window.sent * (learner.random + FULL_SHARE);
  if (window.throttled <= expected + 3 * Math.sqrt(expected) + 1) return 'random';
  if (learner.pinned) return 'full';
  learner.before = { limit: learner.limit, sent: window.sent, throttled: window.throttled };
  noteCut(learner, here, now);
  move(learner, here, 'cut', now);
  return 'full';
}

/** Over a window that ended without a cut: what is throttled now and then, and did no harm, is expected from now on. */
export function noteShare(learner: Learner): void {
  const { throttled, sent } = learner.window;
  learner.random += LAST_WEIGHT * (Math.min(MAX_RANDOM, throttled / sent) - learner.random);
}

/** After a cut: whether fewer are throttled. If not, it is by chance, and no limit helps. */
export function judgeCut(learner: Learner, now: number): Throttling {
  const { window, before } = learner;
  if (before === null) return 'full';
  const share = window.throttled / window.sent;
  if (window.answers === 0 && window.throttled >= NONE_TAKEN && share > NONE_TAKEN_SHARE) return 'none';
  if (window.sent < CALLS_FOR_SHARE || window.throttled + window.answers < CALLS_FOR_SHARE / 2) return 'full';
  const isRandom = share >= (FALLEN_TO * before.throttled) / before.sent;
  learner.before = null;
  if (isRandom) {
    learner.random = Math.min(MAX_RANDOM, share);
    learner.climb = null;
    move(learner, before.limit, learner.base === null ? 'grow' : 'hold', now);
    return 'random';
  }
  learner.upBy = 1.05;
  learner.base = null;
  learner.rest = learner.lastRest = 2;
  move(learner, learner.limit, 'hold', now);
  return 'full';
}

/** ms until a limit that was cut climbs: after the first cut, and at most. */
const FIRST_WAIT = 1_000;
const MOST_WAIT = 10_000;
/** Calls in a row that make a round of a large limit: some are throttled now and then, whatever the limit. */
const ROUND = 16;
const DOUBLED = 2;
/** What a limit that grows has been multiplied by at most since a round of answers was well. */
const GROWN = 4;

/**
 * The limit is about to be cut to `here` since calls were throttled. Where that is little less, or the end of a growth, the
 * server is full there, and the search of learn.ts goes on. One that falls further was not cut for its height: it comes back.
 */
function noteCut(learner: Learner, here: number, now: number): void {
  const { climb, phase, limit, isRecalled } = learner;
  const isGrowth = phase === 'grow' || isRecalled;
  if (climb === null && here >= limit / (phase === 'grow' ? GROWN : DOUBLED)) return;
  const wait = climb === null ? FIRST_WAIT : Math.min(MOST_WAIT, DOUBLED * climb.wait);
  learner.climb = {
    to: Math.max(limit, climb?.to ?? 0),
    isGrowth: climb?.isGrowth ?? isGrowth,
    known: climb ? climb.known : phase === 'grow' ? null : limit,
    ...{ from: now + wait, wait, clean: 0 },
  };
  learner.isRecalled = false;
}

/** A call was answered. True where the limit climbs, and the answer says nothing else of it. */
export function climbs(learner: Learner, { round, here }: Answered, now: number): boolean {
  const { climb, phase, limit } = learner;
  if (climb === null || phase === 'grow') return false;
  if (round < learner.round) return phase === 'climb';
  climb.clean++;
  const isFilled = here >= USED_SHARE * usedOf(learner);
  const isDue = now >= climb.from && climb.clean >= Math.min(ROUND, ownOf(learner)) && isFilled;
  if (!isDue) return phase === 'climb';
  if (limit >= climb.to) cameBack(learner, now);
  else {
    climb.clean = 0;
    learner.base = null;
    learner.before = null;
    move(learner, Math.min(climb.to, DOUBLED * limit), 'climb', now);
  }
  return true;
}

/** The limit is where it was before it was cut, and is learned from there on as it was. */
export function cameBack(learner: Learner, now: number): void {
  const { climb, limit } = learner;
  if (climb === null) return;
  learner.climb = null;
  learner.base = null;
  learner.before = null;
  learner.upBy = Math.SQRT2;
  move(learner, Math.max(limit, climb.to), climb.isGrowth ? 'grow' : 'hold', now);
}
