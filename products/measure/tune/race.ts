/** When a setting has been measured enough: the rules of the race, on means of blocks with their intervals. */

import type { Interval } from '../../kit/statistics.ts';
import { meanInterval } from '../bench/bench-statistics.ts';

/** With fewer than three blocks an interval is as wide as the figure. */
export const FEWEST_BLOCKS = 3;
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
