import type { Interval } from '../../kit/statistics.ts';
import { meanInterval } from '../bench/bench-statistics.ts';

/**
 * The highest rate at which bounds are kept. Rates are rungs of one ladder, 2 % apart, the same for all settings: so two
 * settings are asked the same requests at the same times, and one is better only where it keeps a rung that the other does
 * not.
 */
export const STEP = 1.02;
/** Rungs from a rate to half of it. */
const HALF = 35;
/** How often the lower end is halved before nothing is found. */
const HALVINGS = 5;

export const rungOf = {
  /** requests a second; four digits tell 2 % apart */
  rate: (rung: number): number => Number((STEP ** rung).toPrecision(4)),
  below: (rate: number): number => Math.floor(Math.log(rate) / Math.log(STEP) + 0.02),
};

/** Nearer to what a server takes at full load a queue grows without end, though it takes longer than a measurement to see. */
const SUSTAINED = 0.98;

/** The highest rung that is asked of a server that takes so many requests a second at full load. */
export const mostFor = (capacity: number): number => rungOf.below(SUSTAINED * capacity);

/**
 * The points that are to be measured, one after the other: each `yield` is a rung, and gets whether it was kept; returned
 * is the highest that was, or null. No rung above `most` is asked: what a server takes at full load is the most that it
 * can keep. With `above` nothing up to that rung is of interest, and the next one above it is asked first: a setting that
 * does not keep it is not better.
 */
export function* search(most: number, above: number | null): Generator<number, number | null, boolean> {
  if (above !== null) {
    if (above >= most || !(yield above + 1)) return null;
    return yield* between(above + 1, most);
  }
  // between half and all of what it takes; only where nothing of that is kept, lower
  for (let halvings = 0, high = most; halvings <= HALVINGS; halvings++, high -= HALF) {
    const found = yield* between(high - HALF, high);
    if (found > high - HALF) return found;
  }
  return null;
}

/** The highest rung that is kept, above `low`, which is not asked again; `low` where there is none. */
function* between(low: number, high: number): Generator<number, number, boolean> {
  let [kept, open] = [low, high];
  while (kept < open) {
    const middle = Math.ceil((kept + open) / 2);
    if (yield middle) kept = middle;
    else open = middle - 1;
  }
  return kept;
}

/** The same where each answer is there at once. */
export function lastKept(most: number, keeps: (rung: number) => boolean): number | null {
  const searching = search(most, null);
  let step = searching.next();
  while (!step.done) step = searching.next(keeps(step.value));
  return step.value;
}

// When a setting has been measured enough: the rules of the race, on means of blocks with their intervals.

/** With fewer than three blocks an interval is as wide as the figure. */
const FEWEST_BLOCKS = 3;
export const MOST_BLOCKS = 8;
/** Half of an interval, as a share of the mean: what is known so well needs no further block. */
const NARROW = 0.01;

export type Ruling =
  | 'more' // another block
  | 'behind' // it is surely behind the best
  | 'ahead' // surely ahead of it
  | 'known'; // measured as well as can be: narrow, or for as long as there is

export function ruling(blocks: readonly number[], best: Interval | null): Ruling {
  const own = meanInterval(blocks);
  if (own === null || blocks.length < FEWEST_BLOCKS) return 'more';
  if (best !== null && own.high < best.low) return 'behind';
  if (best !== null && own.low > best.high) return 'ahead';
  if (blocks.length >= MOST_BLOCKS || own.high - own.value <= NARROW * own.value) return 'known';
  return 'more';
}
