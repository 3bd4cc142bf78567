/**
 * A sample drawn with a seed: the same files and options give the same rows, on any machine. With a column, each of its
 * values has its share of the sample; what is left over by rounding goes to the largest remainders.
 */
import { usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { seeded } from '../kit/permute.ts';
import { ALL_ROWS, type Query, withTests } from './query.ts';
import type { Run } from './rows/run.ts';

export interface Sample {
  /** in the order in which they were drawn */
  rows: readonly number[];
  seed: number;
  size: number;
  by?: string;
  /** rows that it was drawn from */
  of: number;
}

/** Of a column with more values, most would have no row in the sample. */
const MOST_STRATA = 1_000;
export const MOST_SAMPLE = 10_000;

export interface Draw {
  size: number;
  seed: number;
  by: string | null;
  /** the rows to draw from */
  where: Query;
}

export async function drawOf(run: Run, { size, seed, by, where }: Draw): Promise<Sample> {
  const random = seeded(seed);
  const from = { ...ALL_ROWS, filters: where.filters, text: where.text };
  const all = await searched(run, from);
  if (by === null) {
    const rows = shuffled(pick(all.count, Math.min(size, all.count), random), random).map(at => all.at(at));
    return { rows, seed, size: rows.length, of: all.count };
  }
  const column = run.columns().find(({ name }) => name === by);
  if (column === undefined)
    throw usageError(`--stratify: expected a column of these files, found '${by}', which none has`);
  const counts = all.counts(by, MOST_STRATA + 1);
  if (column.kind !== 'values' || counts.others > 0 || counts.values.length > MOST_STRATA)
    throw usageError(
      `--stratify: expected a column of at most ${number(MOST_STRATA)} different values, found more in ${by}`,
    );
  const strata = [
    ...counts.values
      .map(({ value, count }) => ({ value, count }))
      .sort((a, b) => (a.value < b.value ? -1 : 1)),
    ...(counts.none > 0 ? [{ value: '', count: counts.none }] : []),
  ];
  const shares = sharesOf(
    strata.map(({ count }) => count),
    Math.min(size, all.count),
  );
  const rows: number[] = [];
  for (const [at, { value }] of strata.entries()) {
    const share = shares[at] as number;
    if (share === 0) continue;
    const own = await searched(run, withTests(from, by, [{ isNot: false, value }]));
    rows.push(...pick(own.count, Math.min(share, own.count), random).map(place => own.at(place)));
  }
  return { rows: shuffled(rows, random), seed, size: rows.length, by, of: all.count };
}

/** A text search ends some time after it began. */
async function searched(run: Run, query: Query) {
  for (;;) {
    const selection = await run.select(query, 60_000);
    if (selection.searching?.done ?? true) return selection;
  }
}

/** `size` in the proportions of `counts`, each at most its count. */
export function sharesOf(counts: readonly number[], size: number): number[] {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return counts.map(() => 0);
  const exact = counts.map(count => (count * size) / all);
  const shares = exact.map(Math.floor);
  const order = exact
    .map((share, at) => ({ at, left: share - Math.floor(share) }))
    .sort((a, b) => b.left - a.left || a.at - b.at);
  let left = size - shares.reduce((sum, share) => sum + share, 0);
  for (const { at } of order) {
    if (left === 0) break;
    if ((shares[at] as number) >= (counts[at] as number)) continue;
    shares[at]! += 1;
    left -= 1;
  }
  return shares;
}

/** `size` different whole numbers below `of`, each set of them as likely as any other: Floyd's algorithm. */
export function pick(of: number, size: number, random: () => number): number[] {
  const picked = new Set<number>();
  for (let top = of - size; top < of; top++) {
    const at = Math.floor(random() * (top + 1));
    picked.add(picked.has(at) ? top : at);
  }
  return [...picked];
}

/** In a new order, each as likely as any other: Fisher and Yates. */
function shuffled(rows: readonly number[], random: () => number): number[] {
  const all = [...rows];
  for (let at = all.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [all[at], all[other]] = [all[other]!, all[at]!];
  }
  return all;
}
