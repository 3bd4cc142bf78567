/** Agreement, repeated decisions and distributions. As in statistics.ts, each function says its formula and source. */
import { chiSquaredAbove, kolmogorovAbove, Z95 } from './special.ts';
import type { Interval } from './statistics.ts';

/**
 * Cohen's kappa of two raters, of a square table of counts, with the asymptotic interval of Fleiss, Cohen and Everitt
 * (1969). Null where chance alone agrees always (one category), or of an empty table.
 */
export function kappa(table: readonly (readonly number[])[], z = Z95): Interval | null {
  const size = table.length;
  const at = (i: number, j: number): number => table[i]?.[j] ?? 0;
  let n = 0;
  const rows = new Array<number>(size).fill(0);
  const columns = new Array<number>(size).fill(0);
  for (let i = 0; i < size; i++)
    for (let j = 0; j < size; j++) {
      n += at(i, j);
      rows[i] = (rows[i] as number) + at(i, j);
      columns[j] = (columns[j] as number) + at(i, j);
    }
  if (n === 0) return null;
  const row = rows.map(sum => sum / n);
  const column = columns.map(sum => sum / n);
  let observed = 0;
  let chance = 0;
  for (let i = 0; i < size; i++) {
    observed += at(i, i) / n;
    chance += (row[i] as number) * (column[i] as number);
  }
  if (1 - chance < 1e-12) return null;
  const value = (observed - chance) / (1 - chance);
  let a = 0;
  let b = 0;
  for (let i = 0; i < size; i++)
    for (let j = 0; j < size; j++) {
      const share = at(i, j) / n;
      const sum = (row[j] as number) + (column[i] as number);
      if (i === j) a += share * (1 - ((row[i] as number) + (column[i] as number)) * (1 - value)) ** 2;
      else b += share * sum ** 2;
    }
  b *= (1 - value) ** 2;
  const c = (value - chance * (1 - value)) ** 2;
  const error = Math.sqrt(Math.max(0, a + b - c) / n) / (1 - chance);
  return { value, low: Math.max(-1, value - z * error), high: Math.min(1, value + z * error) };
}

/** Cochran's Q (Cochran 1950) of `k` treatments over blocks: `treatments` their sums, `blocks` the hits of each block. */
export function cochranQ(
  treatments: readonly number[],
  blocks: readonly number[],
): { q: number; df: number; p: number } | null {
  const k = treatments.length;
  const total = treatments.reduce((sum, each) => sum + each, 0);
  let spread = 0;
  for (const hits of blocks) spread += hits * (k - hits);
  if (k < 2 || spread === 0) return null;
  const squares = treatments.reduce((sum, each) => sum + (each - total / k) ** 2, 0);
  const q = ((k - 1) * k * squares) / spread;
  return { q, df: k - 1, p: chiSquaredAbove(q, k - 1) };
}

/**
 * The two-sample Kolmogorov-Smirnov test: the largest distance of the two cumulative distributions, and its p in the
 * limit, at √(nm/(n + m)) d. Ties make the test conservative. Both samples sorted, without NaN. Null where one is empty.
 */
export function kolmogorovSmirnov(
  one: ArrayLike<number>,
  other: ArrayLike<number>,
): { d: number; p: number } | null {
  const n = one.length;
  const m = other.length;
  if (n === 0 || m === 0) return null;
  let d = 0;
  for (let i = 0, j = 0; i < n && j < m; ) {
    const x = Math.min(one[i] as number, other[j] as number);
    while (i < n && (one[i] as number) <= x) i++;
    while (j < m && (other[j] as number) <= x) j++;
    d = Math.max(d, Math.abs(i / n - j / m));
  }
  return { d, p: kolmogorovAbove(Math.sqrt((n * m) / (n + m)) * d) };
}

/** The value below which the share `q` of a sorted sample lies, between neighbours in proportion (type 7 of R). NaN of none. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  const at = (sorted.length - 1) * q;
  const low = Math.floor(at);
  const from = sorted[low] as number;
  const to = sorted[Math.min(low + 1, sorted.length - 1)] as number;
  return from + (to - from) * (at - low);
}
