/**
 * How a limit comes back that throttled calls have cut. A server may throttle for a moment only (it starts, it is reloaded,
 * somebody else floods it), and the search of learn.ts, a few percent at a time, would take an hour from there. So the
 * limit doubles with each round of calls of which none is throttled, as TCP does, while there are calls to fill it. One
 * that is throttled on the way is cut again, and waits twice as long until it climbs again: a server that is full there is
 * asked for too much once in a while, and not all the time.
 */
import { type Answered, type Learner, move, ownOf } from './learner.ts';

/** ms until a limit that was cut climbs: after the first cut, and at most. */
const FIRST_WAIT = 1_000;
const MOST_WAIT = 10_000;
/** Calls in a row that make a round of a large limit: some are throttled now and then, whatever the limit. */
const ROUND = 16;
const DOUBLED = 2;
/** A limit that is not filled is not raised. */
const FILLED_SHARE = 0.85;

/** The limit is about to be cut since calls were throttled. */
export function noteCut(learner: Learner, now: number): void {
  const { climb, phase, limit, isRecalled } = learner;
  const isGrowth = phase === 'grow' || isRecalled;
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
  const { climb, phase, limit, reserve } = learner;
  if (climb === null || phase === 'grow') return false;
  if (round < learner.round) return phase === 'climb';
  climb.clean++;
  const own = ownOf(learner);
  // batches leave places free for live calls
  const isFilled = here >= FILLED_SHARE * (own - Math.min(reserve, own >> 1));
  const isDue = now >= climb.from && climb.clean >= Math.min(ROUND, own) && isFilled;
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
