/** Agreement, repeated decisions and distributions. As in statistics.ts, each function says its formula and source. */
import { clusteredShare, isSingle, LEAST, WEIGHING, WEIGHING_APART, weighing } from './clusters.ts';
import { chiSquaredAbove, fAbove, kolmogorovAbove, studentQuantile, Z95 } from './special.ts';
import type { Figure, Interval } from './statistics.ts';

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

/** [no, yes] of one by [no, yes] of the other. */
export type TwoByTwo = [[number, number], [number, number]];

export const emptyTable = (): TwoByTwo => [
  [0, 0],
  [0, 0],
];

export function addTable(sum: TwoByTwo, of: TwoByTwo): void {
  for (const i of [0, 1] as const) for (const j of [0, 1] as const) sum[i][j] += of[i][j];
}

export const sizeOf = ([[a, b], [c, d]]: TwoByTwo): number => a + b + c + d;
const agreeing = ([[no], [, yes]]: TwoByTwo): number => no + yes;

/** The share of records that both decide alike, of the tables of clusters. */
export const agreementOf = (tables: readonly TwoByTwo[]): Interval | null =>
  clusteredShare(tables.map(table => ({ n: sizeOf(table), hits: agreeing(table) })));

/**
 * Cohen's kappa of all tables together, each that of a cluster. Where records are independent its interval is that of
 * `kappa`; else the jackknife over clusters (Efron 1982; Davison and Hinkley 1997, 3.2), with Student's t of as many as
 * weigh. Without any disagreement there is no spread: then the lower end is that of the agreement, on kappa's scale.
 * Fewer than `LEAST` clusters, or so few that disagree or would by chance, tell no interval.
 */
export function clusteredKappa(tables: readonly TwoByTwo[]): Figure | null {
  const all = emptyTable();
  for (const table of tables) addTable(all, table);
  const own = kappa(all);
  if (own === null) return null;
  const { value } = own;
  const known = tables.filter(table => sizeOf(table) > 0);
  const rate = (nth: 0 | 1): number =>
    (nth === 0 ? all[1][0] : all[0][1]) / sizeOf(all) + all[1][1] / sizeOf(all);
  const chance = rate(0) * rate(1) + (1 - rate(0)) * (1 - rate(1));
  if (known.length < LEAST || (1 - chance) * known.length < WEIGHING) return { value, low: null, high: null };
  if (value > 1 - 1e-12) {
    const low = agreementOf(known)?.low ?? 0;
    return { value, low: (low - chance) / (1 - chance), high: 1 };
  }
  if (isSingle(known.map(table => ({ n: sizeOf(table), hits: 0 })))) return own;
  const without = known.map(table => {
    const rest: TwoByTwo = [
      [all[0][0] - table[0][0], all[0][1] - table[0][1]],
      [all[1][0] - table[1][0], all[1][1] - table[1][1]],
    ];
    return kappa(rest)?.value ?? value;
  });
  const mean = without.reduce((sum, each) => sum + each, 0) / without.length;
  const { squares, clusters } = weighing(without.map(each => each - mean));
  if (clusters < WEIGHING_APART) return { value, low: null, high: null };
  const half = studentQuantile(0.025, clusters - 1) * Math.sqrt(squares * (1 - 1 / known.length));
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

/**
 * Whether the columns of `rows`, each that of a cluster, have the same mean: the F of repeated measures, its degrees of
 * freedom less by the epsilon of Greenhouse and Geisser (1959), since columns need not vary and go together alike. Null
 * without any spread.
 */
export function repeatedMeasures(
  rows: readonly (readonly number[])[],
): { f: number; df: [number, number]; p: number } | null {
  const width = rows[0]?.length ?? 0;
  const count = rows.length;
  if (width < 2 || count < 2) return null;
  const centred = rows.map(row => {
    const middle = row.reduce((sum, each) => sum + each, 0) / width;
    return row.map(each => each - middle);
  });
  const means = Array.from({ length: width }, (_, at) =>
    centred.reduce((sum, row) => sum + (row[at] as number) / count, 0),
  );
  const off = centred.map(row => row.map((each, at) => each - (means[at] as number)));
  let [trace, squares] = [0, 0];
  for (let i = 0; i < width; i++)
    for (let j = 0; j < width; j++) {
      let product = 0;
      for (const row of off) product += (row[i] as number) * (row[j] as number);
      squares += (product / (count - 1)) ** 2;
      if (i === j) trace += product / (count - 1);
    }
  if (trace < 1e-12) return null;
  const epsilon = trace ** 2 / ((width - 1) * squares);
  const f = (count * means.reduce((sum, each) => sum + each * each, 0)) / trace;
  const df: [number, number] = [epsilon * (width - 1), epsilon * (width - 1) * (count - 1)];
  return { f, df, p: fAbove(f, ...df) };
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
