/**
 * What is known of how many calls a server should have: what limits yield, and how far the search for a better one is.
 *
 * By Little's law (L = λW) the tokens that come back a second are the calls in flight times the tokens of a call a
 * second. Each answer tells both, whatever its length, and answers that come in waves do not disturb that. Only calls
 * count that were sent since the limit was moved. Plain state and the caller's clock: no socket, no timer.
 */
import { MAX_LIMIT } from '../endpoints/settings.ts';

/** What a limit yields. */
export interface Level {
  limit: number;
  /** tokens a ms: of all calls together, and of one of them */
  yield: number;
  speed: number;
  /** ms of an answer */
  latency: number;
  /** relative standard error of yield and speed */
  error: number;
  /** measured in haste, while a limit grew */
  isRough?: boolean;
}

/** How a limit comes back that throttled calls have cut (throttling.ts). */
export interface Climb {
  /** where the limit was, and whether it was still growing there */
  to: number;
  isGrowth: boolean;
  /** what was known of the limit before: null while that was still being learned */
  known: number | null;
  /** ms: from when on it may climb, and how long it was told to wait for that */
  from: number;
  wait: number;
  /** calls in a row that were answered since the last one that was throttled */
  clean: number;
}

/** an answer, as the learner sees it */
export interface Answered {
  /** in which it was sent, as noteSent said */
  round: number;
  /** ms */
  latency: number;
  /** output tokens; 1 where the server does not say */
  tokens: number;
  /** calls in flight there when it was sent, and now, itself included */
  among: number;
  here: number;
}

/** A limit of which less is in use is not learned from, and not raised. */
export const USED_SHARE = 0.85;
/** At a limit that a person has set, throttled calls are judged over so many calls and four times the limit. */
const PINNED_WINDOW = 32;
/** A call slower than this share of the fastest is held up by others: less may do. */
const HELD_UP_BELOW = 0.85;
const AS_FAST = 0.95;
/** The mean is as fast as this share of the first answers, where answers differ by a fifth. */
const GLANCE_MEAN = 0.8;
/** The fastest speed fades with each comparison: prompts grow, and servers slow down. */
const FADING = 0.999;

export const createLearner = (limit: number, pinned: boolean, now: number, meant = 0, reserve = 0) => ({
  /** calls that the server should have at once, of all who share it */
  limit,
  /** who share it: so many clients that do as this one does, itself among them */
  sharers: 1,
  /** a person has set it: it stays, and only throttled calls are judged */
  pinned,
  /** calls that a person expects it to take, 0 where nothing was said: growth goes there once what is usual had room */
  meant,
  /** places of the limit that batches leave to live calls, at most half of it */
  reserve,
  phase: 'grow' as 'grow' | 'hold' | 'up' | 'down' | 'cut' | 'climb',
  window: windowFrom(now),
  /** counts the moves of the limit: calls of an earlier round say nothing of this one */
  round: 0,
  /** the level that others are compared with; null where none has been measured */
  base: null as Level | null,
  /** the most that a single call was given at any limit, which is what it gets where there is room */
  fastest: 0,
  fastestAt: limit,
  /** … as the first answers of a limit told, which are the fast ones of many */
  isGlanced: false,
  /** the least limit above the base that yielded less; infinite while none is known */
  tooMany: Number.POSITIVE_INFINITY,
  /** factors of the next tries */
  upBy: Math.SQRT2,
  downBy: 0.5,
  next: 'up' as 'up' | 'down',
  /** relative spread of what one limit yields from window to window, beyond what single answers explain */
  noise: 0.03,
  /** windows until something is tried again, and how many it was the last time */
  rest: 0,
  lastRest: 1,
  /** the share of calls that is throttled whatever the limit */
  random: 0,
  /** before the last cut: the limit, and the calls that were sent and throttled then */
  before: null as { limit: number; sent: number; throttled: number } | null,
  /** null where throttled calls did not cut it, or it is back */
  climb: null as Climb | null,
  /** It is the one of an earlier run, and nothing has shown yet that more would be too many. */
  isRecalled: false,
});

export type Learner = ReturnType<typeof createLearner>;

/** What was seen of the calls that were sent since the limit was moved last. */
export const windowFrom = (since: number) => ({
  /** ms: when the first of them was sent */
  since,
  /** calls that were sent, throttled, and answered */
  sent: 0,
  throttled: 0,
  answers: 0,
  /** sums over the answers: ms, tokens, calls in flight meanwhile, and the square of ms a token */
  ms: 0,
  tokens: 0,
  here: 0,
  square: 0,
});

export type Window = ReturnType<typeof windowFrom>;

/** Adds an answer. */
export function noteIn(window: Window, { latency, tokens, here }: Answered): void {
  window.answers++;
  window.ms += latency;
  window.tokens += tokens;
  window.here += here;
  window.square += (latency / tokens) ** 2;
}

/** Of the limit, what this client may have. */
export function ownOf({ limit, sharers }: Pick<Learner, 'limit' | 'sharers'>): number {
  return Math.max(1, Math.floor(limit / sharers));
}

/** What batches use of the limit: they leave places free for live calls (health.ts, placesFor). */
export function usedOf(learner: Learner): number {
  const own = ownOf(learner);
  return own - Math.min(learner.reserve, own >> 1);
}

/** What is in a window with answers: the others who share the server have as many calls there. */
export function levelOf({ limit, window, sharers }: Pick<Learner, 'limit' | 'window' | 'sharers'>): Level {
  const { answers, ms, tokens, here, square } = window;
  const speed = tokens / Math.max(ms, 1e-9);
  const mean = 1 / speed;
  const variance = Math.max(0, square / answers - mean ** 2);
  return {
    limit,
    speed,
    latency: ms / answers,
    yield: sharers * (here / answers) * speed,
    error: Math.sqrt(variance / answers) / mean,
  };
}

/** Returns the round that the call belongs to. */
export function noteSent(learner: Learner, now: number): number {
  if (learner.pinned && learner.window.sent > PINNED_WINDOW + 4 * learner.limit)
    learner.window = windowFrom(now);
  if (learner.window.sent++ === 0) learner.window.since = now;
  return learner.round;
}

/** Something other than answers moved the limit, and measuring begins again there. */
export function setLimit(learner: Learner, limit: number, now: number): void {
  learner.base = null;
  learner.before = null;
  move(learner, limit, learner.phase === 'grow' ? 'grow' : 'hold', now);
}

export function move(learner: Learner, limit: number, phase: Learner['phase'], now: number): void {
  learner.limit = Math.min(MAX_LIMIT, Math.max(1, Math.round(limit)));
  learner.phase = phase;
  learner.round++;
  learner.window = windowFrom(now);
}

/** `isGlance`: of the first answers to come back, which are the fast ones. Its speed holds until a whole window has one. */
export function noteSpeed(learner: Learner, { speed, limit }: Level, isGlance: boolean): void {
  learner.fastest *= FADING;
  const isReplaced = learner.isGlanced && !isGlance && speed > GLANCE_MEAN * learner.fastest;
  if (!isReplaced) {
    if (speed < learner.fastest && limit >= learner.fastestAt) return;
    // one that is as fast with fewer calls tells more
    if (speed < AS_FAST * learner.fastest) return;
  }
  learner.fastest = isReplaced ? speed : Math.max(speed, learner.fastest);
  learner.fastestAt = Math.min(limit, learner.fastestAt);
  learner.isGlanced = isGlance;
}

/** Whether a call at this level is as fast as at a much lower one: there is room, and fewer calls would yield less. */
export function isRoomy({ fastest, fastestAt }: Learner, { speed, limit }: Level): boolean {
  return limit >= 1.4 * fastestAt && speed >= HELD_UP_BELOW * fastest;
}

export function isHeldUp({ fastest }: Learner, { speed }: Level): boolean {
  return speed < HELD_UP_BELOW * fastest;
}
