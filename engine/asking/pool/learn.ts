/**
 * Learns from answers alone how many calls a server should have at once, by comparing what two limits yield:
 *
 *   grow ──► calls slow down ──► hold ⇄ try a little more, or less: kept where it yields more, or as much with less
 */
import {
  type Answered,
  isHeldUp,
  isRoomy,
  type Learner,
  type Level,
  levelOf,
  move,
  noteIn,
  noteSpeed,
  ownOf,
  USED_SHARE,
  usedOf,
  windowFrom,
} from './learner.ts';
import { judgeCut, noteShare } from './throttling.ts';

/** Answers that a comparison takes at least, and at most where the limit is lower. */
const MIN_ANSWERS = 32;
const MAX_ANSWERS = 400;
/** … and for a glance, while a limit grows. */
const GLANCE_ANSWERS = 8;
/** Of a limit that was raised, what is in use once it is filled. */
const FILLED_SHARE = 0.95;

/** What servers usually take (vLLM's `max_num_seqs`, for one). A limit grows to here unless a raise loses clearly. */
const USUAL_LIMIT = 256;
/** Factors of growth while calls do not slow down: at first, from the usual limit to just above it, and from there. */
const GROW_AT_FIRST = 2;
const GROW_ABOVE_USUAL = 1.25;
const GROW_FROM_THERE = 3;
/** … and at most where the server says that it has room: what is too much waits there. */
const GROW_WITH_ROOM = 4;
/** A raise loses clearly where the yield falls below this share. */
const LOSS_BELOW = 0.9;

/** A raise has to yield so much more for each doubling. */
const GAIN_PER_DOUBLING = 0.1;
/** Less is as good where it surely yields this share. */
const AS_GOOD = 0.97;
/** … and better from this share on. */
const BETTER = 1.03;
/** On what would be enough if calls were as fast as the fastest: a little to spare. */
const WITH_SPARE = 1.05;
/** The largest step of a search that goes up, and the least one of a search that is still coarse. */
const MAX_STEP_UP = 1.5;
const COARSE_STEP = 0.8;
/** Steps of a chain are not alike, and items begin together: a difference that is not clear takes so many rounds. */
const DECIDING_ROUNDS = 4;
const CLEAR_DIFFERENCE = 0.1;
/** Windows between tries: what does not change is tried ever more rarely. */
const MAX_REST_WINDOWS = 64;
/** What the server says of itself: calls wait there, none do, or nothing is said. */
export type Room = 'none' | 'some' | 'unknown';

export function noteAnswered(learner: Learner, answered: Answered, now: number, room: Room): void {
  const { window, phase } = learner;
  if (answered.round < learner.round) return;
  // What was sent while a raised limit filled found a shorter queue than it leaves; in the beginning there is no time for that.
  if (phase !== 'grow' && answered.among < FILLED_SHARE * usedOf(learner) - 1) return;
  noteIn(window, answered);
  if (phase === 'cut') return void judgeCut(learner, now);
  if (phase === 'grow' && window.answers === GLANCE_ANSWERS && isFilled(learner)) glance(learner, now, room);
  if (window !== learner.window || window.answers < answersNeeded(learner)) return;
  if (!isFilled(learner)) {
    // something else holds calls back
    learner.window = windowFrom(now);
    return;
  }
  const level = levelOf(learner);
  if (phase === 'grow') return grow(learner, level, now, room);
  if (phase === 'hold' || learner.base === null) return hold(learner, level, now, room);
  decide(learner, learner.base, level, now, room);
}

/**
 * An answer that came late because this process was late. It says nothing of the server, so a limit that was only tried is
 * taken back, and a comparison begins again. A limit below what is usual grows all the same: a busy process gets more out
 * of more calls, and servers take that many.
 */
export function noteOwnLag(learner: Learner, answered: Answered, now: number, room: Room): void {
  const { base, phase, limit, window } = learner;
  if (answered.round < learner.round || phase === 'cut') return;
  if ((phase === 'up' || phase === 'down') && base !== null) return move(learner, base.limit, 'hold', now);
  if (phase !== 'grow') {
    learner.window = windowFrom(now);
    return;
  }
  noteIn(window, answered);
  if (window.answers < answersNeeded(learner)) return;
  const mayGrow = limit < USUAL_LIMIT && room !== 'none' && isFilled(learner);
  if (mayGrow) move(learner, Math.min(USUAL_LIMIT, GROW_AT_FIRST * limit), 'grow', now);
  else learner.window = windowFrom(now);
}

/** It grows, and has what servers usually take. */
export const isUsual = ({ phase, limit }: Learner): boolean => phase === 'grow' && limit >= USUAL_LIMIT;

/** Of the memory of a server, what calls may be expected to fill. */
const FILLED_KV = 0.9;

/**
 * The server says that all it was sent runs, and how much of its KV cache that takes, 0 to 1: while the limit grows up to what
 * is usual, it gets four times as much, as far as its memory reaches, and answers are not waited for.
 */
export function noteRoom(learner: Learner, running: number, kv: number, now: number): void {
  const { phase, limit } = learner;
  // what several clients sent at once is no sign that the server has room for what each of them would add
  if (phase !== 'grow' || learner.sharers > 1 || limit >= USUAL_LIMIT || running < USED_SHARE * limit) return;
  // that nothing waits is a sign of room where a scheduler says so, and one that has a KV cache says how full it is
  if (kv === 0) return;
  const to = Math.min(USUAL_LIMIT, (running * FILLED_KV) / kv, GROW_WITH_ROOM * limit);
  if (to > limit) move(learner, to, 'grow', now);
}

/** Answers after which a window tells something. */
function answersNeeded(learner: Learner): number {
  const { phase, base } = learner;
  const own = ownOf(learner);
  if (phase === 'grow') return Math.max(GLANCE_ANSWERS, own / 2);
  const isExact = phase === 'hold' && base !== null && base.isRough !== true;
  return Math.max(MIN_ANSWERS, isExact ? DECIDING_ROUNDS * own : own);
}

function isFilled(learner: Learner): boolean {
  const { window } = learner;
  return window.here / window.answers >= USED_SHARE * usedOf(learner);
}

/**
 * The first answers after a raise come long before the others: where they are as fast as with fewer calls, there is room
 * for many more. What is slow from the first answer, and yields less, is not waited for.
 */
function glance(learner: Learner, now: number, room: Room): void {
  const level = levelOf(learner);
  const { base, limit, meant } = learner;
  noteSpeed(learner, level, true);
  if (isHeldUp(learner, level)) {
    if (base === null) return;
    const isLoss = level.yield < LOSS_BELOW * base.yield;
    if (isLoss || limit > GROW_ABOVE_USUAL * USUAL_LIMIT) settle(learner, level, now);
    return;
  }
  if (room === 'none') return;
  learner.base = { ...level, isRough: true };
  let to = GROW_AT_FIRST * limit;
  if (base !== null || limit === USUAL_LIMIT)
    to =
      limit < USUAL_LIMIT
        ? USUAL_LIMIT
        : limit === USUAL_LIMIT
          ? Math.max(GROW_ABOVE_USUAL * USUAL_LIMIT, meant)
          : GROW_FROM_THERE * limit;
  move(learner, to, 'grow', now);
}

/** Growth where the first answers were slower. Many servers slow down with each call, and yield more all the same. */
function grow(learner: Learner, level: Level, now: number, room: Room): void {
  const { base } = learner;
  const { limit } = level;
  noteSpeed(learner, level, true);
  const isLoss = base !== null && level.yield < LOSS_BELOW * base.yield;
  const goesOn = limit < USUAL_LIMIT ? !isLoss : !isHeldUp(learner, level);
  if (!goesOn || room === 'none') return settle(learner, level, now);
  learner.base = { ...level, isRough: true };
  move(
    learner,
    limit < USUAL_LIMIT ? Math.min(USUAL_LIMIT, GROW_AT_FIRST * limit) : GROW_AT_FIRST * limit,
    'grow',
    now,
  );
}

/**
 * The end of growth. What is usual stays unless it lost. Otherwise fewer would yield as much if they were as fast as the
 * fastest (Little's law), and no fewer than had room before. A raise that did yield more ended somewhere between.
 */
function settle(learner: Learner, level: Level, now: number): void {
  const { base, fastest } = learner;
  const { limit } = level;
  const gain = base === null ? 1 : level.yield / base.yield;
  const roomy = base !== null && isRoomy(learner, base) ? base.limit : 1;
  let to = (WITH_SPARE * level.yield) / fastest;
  if (limit <= USUAL_LIMIT && gain >= LOSS_BELOW) to = limit;
  else if (base !== null && gain >= isMore(limit / base.limit)) to = Math.sqrt(to * limit);
  to = Math.min(limit, Math.max(roomy, to));
  learner.tooMany = limit;
  learner.base = null;
  learner.next = to === roomy ? 'up' : 'down';
  // what is known of both sides of a limit is worth a few windows of rest
  if (to === roomy || to === limit) learner.rest = learner.lastRest = 2;
  move(learner, to, 'hold', now);
}

/** The least yield of a raise by so many times, as a share of the yield before it. */
function isMore(times: number): number {
  return 1 + GAIN_PER_DOUBLING * Math.log2(times);
}

/** More, or less, was tried. In doubt it stays as it was. */
function decide(learner: Learner, base: Level, level: Level, now: number, room: Room): void {
  const { phase, window } = learner;
  const ratio = level.yield / base.yield;
  const rounds = window.answers / level.limit;
  const error = Math.hypot(level.error, base.error, learner.noise * Math.sqrt(DECIDING_ROUNDS / rounds));
  const needed = phase === 'up' ? isMore(level.limit / base.limit) : AS_GOOD + error;
  const isClear = Math.abs(ratio - needed) > Math.max(2 * error, CLEAR_DIFFERENCE);
  // fast answers come back first, so that a first round flatters what is tried
  const isEnough = isClear && (ratio < needed || rounds >= 2);
  if (!isEnough && window.answers < Math.max(MAX_ANSWERS, DECIDING_ROUNDS * level.limit)) return;
  noteWindow(learner, level);
  if (ratio < needed) return phase === 'up' ? notMore(learner, base, now) : notLess(learner, base, now);
  // the best is remembered, so that many small losses do not add up
  learner.base = { ...level, yield: Math.max(level.yield, base.yield) };
  learner.lastRest = 1;
  if (phase === 'up') {
    learner.upBy = Math.min(MAX_STEP_UP, learner.upBy ** 2);
    if (learner.tooMany < GROW_ABOVE_USUAL * level.limit) learner.tooMany = Number.POSITIVE_INFINITY;
    return room !== 'none' ? tryMore(learner, now) : pause(learner, now);
  }
  if (ratio >= BETTER) learner.tooMany = base.limit;
  if (isHeldUp(learner, level) || ratio >= BETTER) return tryLess(learner, now);
  pause(learner, now);
}

function notMore(learner: Learner, base: Level, now: number): void {
  learner.tooMany = Math.min(learner.tooMany, learner.limit);
  learner.isRecalled = false;
  learner.next = 'down';
  learner.upBy = Math.sqrt(learner.upBy);
  move(learner, base.limit, 'hold', now);
  restLonger(learner);
}

function notLess(learner: Learner, base: Level, now: number): void {
  // calls held up before, and too few of them after: the best lies between
  const isBetween = learner.downBy < COARSE_STEP && isHeldUp(learner, base);
  learner.next = isBetween ? 'down' : 'up';
  learner.downBy = Math.sqrt(learner.downBy);
  move(learner, base.limit, 'hold', now);
  if (!isBetween) restLonger(learner);
}

function restLonger(learner: Learner): void {
  learner.rest = learner.lastRest = Math.min(MAX_REST_WINDOWS, 2 * learner.lastRest);
}

function pause(learner: Learner, now: number): void {
  learner.rest = learner.lastRest;
  if (learner.lastRest >= 8) learner.tooMany = Number.POSITIVE_INFINITY;
  learner.phase = 'hold';
  learner.window = windowFrom(now);
}

function tryMore(learner: Learner, now: number): void {
  const { limit, tooMany, upBy } = learner;
  move(learner, Math.max(limit + 1, Math.min(limit * upBy, Math.sqrt(limit * tooMany))), 'up', now);
}

/** Where faster calls are known, Little's law says how many would do; where none are, it may be far fewer. */
function tryLess(learner: Learner, now: number): void {
  const { limit, base, fastest, fastestAt, downBy } = learner;
  if (limit === 1) return pause(learner, now);
  const enough = base === null || limit <= fastestAt ? 0 : (WITH_SPARE * base.yield) / fastest;
  move(learner, Math.min(limit - 1, Math.max(limit * downBy, enough)), 'down', now);
}

function hold(learner: Learner, level: Level, now: number, room: Room): void {
  const { base } = learner;
  if (base === null || base.isRough) learner.base = { ...level, isRough: base === null };
  else if (level.limit === base.limit) {
    const change = Math.log(level.yield / base.yield);
    learner.noise = Math.sqrt(0.7 * learner.noise ** 2 + 0.3 * Math.max(0, change ** 2 - level.error ** 2));
    learner.base = {
      ...level,
      yield: 0.5 * (base.yield + level.yield),
      speed: 0.5 * (base.speed + level.speed),
      error: Math.max(level.error / 2, (0.7 * Math.hypot(level.error, base.error)) / 1.4),
    };
  }
  noteWindow(learner, level);
  learner.window = windowFrom(now);
  // one of several who tries more alone yields more at the cost of the others, and all of them would go on so
  if (learner.sharers > 1 || learner.rest-- > 0) return;
  const mayBeFewer = level.limit <= learner.fastestAt || isHeldUp(learner, level);
  if (learner.next === 'down' && mayBeFewer) tryLess(learner, now);
  else if (room !== 'none') tryMore(learner, now);
}

/** What a window tells beside its yield, once it is over. */
function noteWindow(learner: Learner, level: Level): void {
  noteShare(learner);
  noteSpeed(learner, level, false);
}
