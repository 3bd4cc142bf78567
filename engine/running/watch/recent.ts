/**
 * Rates over the last seconds, and when a run will be over at the rate of the last minutes. Counts since the start say
 * what a run was like; a person who looks wants to know what it is like.
 */

import type { Ahead } from '../../core/item/account.ts';

/** Counts that only grow. */
export interface Counts {
  items: number;
  calls: number;
  prompt: number;
  cached: number;
  completion: number;
  /** ms in which this process's one thread had something to do */
  busy: number;
}

/** a second each; calls take seconds, so that fewer would jump */
const RATES_OVER = 10_000;
/** Looks come every second. If two are further apart, the process was suspended between them, and had no rate. */
const STOOD = 5_000;

export function createRecent() {
  let looks: { at: number; counts: Counts }[] = [];
  return {
    /** `at` in ms */
    add(at: number, counts: Counts): void {
      if (at - (looks.at(-1)?.at ?? at) > STOOD) looks = [];
      looks.push({ at, counts });
      while ((looks[1]?.at ?? at) <= at - RATES_OVER) looks.shift();
    },
    /** a second each, over the last ten seconds; all 0 before there are two looks */
    rates(): Counts {
      const [first, last] = [looks[0], looks.at(-1)];
      const ms = first && last ? last.at - first.at : 0;
      const rate = (of: keyof Counts): number =>
        first && last && ms > 0 ? ((last.counts[of] - first.counts[of]) * 1000) / ms : 0;
      const [items, calls, busy] = [rate('items'), rate('calls'), rate('busy')];
      return {
        items,
        calls,
        prompt: rate('prompt'),
        cached: rate('cached'),
        completion: rate('completion'),
        busy,
      };
    },
  };
}

/** ms */
export interface Eta {
  left: number;
  /** the true end is within left ± spread in about 19 of 20 cases, as long as the rate stays what it was */
  spread: number;
  /** nothing has been settled for longer than that, so the rate says nothing of what is left */
  isOver: boolean;
}

/** Long enough for several waves of chains that began together, short enough to forget an endpoint that is gone. */
const WINDOW = 180_000;
const BLOCKS = 10;
/** a window shorter than this says too little */
const LEAST = 10_000;
const STEP = 1_000;

/** One look at how far a run is; sums since its start, times in ms. */
export interface Mark {
  at: number;
  /** answers that items need, and that are there or will not come */
  settled: number;
  /** of all answers, those that were asked for and those from the ledger */
  asked: number;
  replayed: number;
  /** time in which no endpoint was available */
  without: number;
  /** whether as many items are in flight as may be, about */
  isFull: boolean;
}

/**
 * The rate is the mean over the blocks of the window, its spread twice the standard error of that mean (batch means:
 * Conway 1963, Some tactical problems in digital simulation). What says nothing of the time to come is left out of it,
 * as if it had not been: a standstill of this process, the time without an endpoint, and the beginning of a run that is
 * resumed, whose answers come from the ledger as fast as they are read. Where answers from the ledger wait for others of
 * their items, as many items are in flight as may be, and they count.
 */
export function createEstimate() {
  let looks: { at: number; done: number }[] = [];
  let last: Mark | null = null;
  let movedAt = 0; // when something was settled last, as `looks` count time
  const skipped = { ms: 0, settled: 0 };

  /** settled by `at`, between two looks by their line */
  function doneAt(at: number): number {
    const after = looks.findIndex(look => look.at >= at);
    const [one, two] = [looks[after - 1], looks[after]];
    if (two === undefined) return looks.at(-1)?.done ?? 0;
    if (one === undefined) return two.done;
    return one.done + ((two.done - one.done) * (at - one.at)) / (two.at - one.at);
  }

  function saysNothing(from: Mark, to: Mark): boolean {
    const ms = to.at - from.at;
    const replays = to.replayed - from.replayed;
    const isReplay = replays > to.asked - from.asked && !(from.isFull && to.isFull);
    return isReplay || ms > STOOD || to.without - from.without > ms / 2;
  }

  return {
    add(mark: Mark): void {
      if (last !== null) {
        if (mark.at - last.at < STEP) return;
        if (saysNothing(last, mark)) {
          skipped.ms += mark.at - last.at;
          skipped.settled += mark.settled - last.settled;
        }
      }
      const moved = mark.settled !== last?.settled;
      last = mark;
      const [at, done] = [mark.at - skipped.ms, mark.settled - skipped.settled];
      if (moved) movedAt = at;
      // what was before the first answer is its length, and no rate
      if (done === 0) looks = [];
      if (looks.at(-1)?.at === at) return;
      looks.push({ at, done });
      while ((looks[1]?.at ?? at) <= at - WINDOW) looks.shift();
    },
    /**
     * Until what lies ahead is settled, each answer of a chain taking `latency` ms. Infinity where nothing is settled,
     * null where it is too early to say.
     */
    eta({ settled, due, unread, longest }: Ahead, latency: number): Eta | null {
      const [first, last] = [looks[0], looks.at(-1)];
      if (first === undefined || last === undefined || last.at - first.at < LEAST) return null;
      const length = (last.at - first.at) / BLOCKS;
      const counts = Array.from(
        { length: BLOCKS },
        (_, block) => doneAt(first.at + (block + 1) * length) - doneAt(first.at + block * length),
      );
      const mean = (last.done - first.done) / BLOCKS;
      if (mean === 0)
        return { left: Number.POSITIVE_INFINITY, spread: Number.POSITIVE_INFINITY, isOver: false };
      const variance = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / (BLOCKS - 1);
      const each = length / mean;
      // the last item that begins has its whole chain before it, however many others end meanwhile
      const begun = due - unread - settled;
      const left = unread * each + Math.max(begun * each, longest * latency);
      const spread = left * 2 * (Math.sqrt(variance / BLOCKS) / mean);
      return { left, spread, isOver: last.at - movedAt > left + spread };
    },
  };
}
