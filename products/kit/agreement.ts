/** Agreement, repeated decisions and distributions. As in statistics.ts, each function says its formula and source. */

import { labelSwap } from './permute.ts';
import {
  betaQuantile,
  chiSquaredAbove,
  fAbove,
  fisher,
  type Interval,
  kolmogorovAbove,
  rateDifference,
  rateRatio,
  type Share,
  studentQuantile,
  type Two,
  wilson,
} from './statistics.ts';

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

// Rates of records that are not independent: one applicant in twelve orders, three samples of a question, the twins of a
// cell. What is independent is the cluster, and whoever has `LEAST` or more of them is told an interval of that many:
// the error of a rate comes from what each cluster adds to it (linearization; Liang and Zeger 1986), the records are taken
// for so many independent ones as would have that error, and Wilson's interval is that of these, with Student's t of
// clusters − 1 (Korn and Graubard 1998; Dean and Pagano 2015). Of fewer, each cluster counts as one case, and the interval
// is that of Clopper and Pearson: clusters that decide all their records alike need one so wide, others need less, so it
// holds more often than it says.

/** Fewer clusters than this are shown and not judged, and have the interval of few. */
export const LEAST = 30;

/** By value, by cluster. */
export type Clusters = (Map<number, Share> | undefined)[];

export const NONE: Share = { n: 0, hits: 0 };

/** `value` and `isHit` of each record; one whose value is negative is in none. */
export function clustersOf<T extends { cluster: number }>(
  records: Iterable<T>,
  value: (record: T) => number,
  isHit: (record: T) => boolean,
): Clusters {
  const clusters: Clusters = [];
  for (const record of records) {
    const of = value(record);
    if (of >= 0) addTo(clusters, of, record.cluster, 1, isHit(record) ? 1 : 0);
  }
  return clusters;
}

/** Adds `n` records with `hits` to the share that `cluster` has of `value`. */
export function addTo(clusters: Clusters, value: number, cluster: number, n: number, hits: number): void {
  clusters[value] ??= new Map<number, Share>();
  const of = clusters[value];
  const share = of.get(cluster);
  if (share === undefined) of.set(cluster, { n, hits });
  else {
    share.n += n;
    share.hits += hits;
  }
}

/** The shares that clusters have of `value`. */
export const partsOf = (clusters: Clusters, value: number): Share[] => [...(clusters[value]?.values() ?? [])];

/** Of each cluster that has records of `one` or of `other`, its shares of them. */
export function twoOf(clusters: Clusters, one: number, other: number): Two[] {
  const base = clusters[other] ?? new Map<number, Share>();
  const own = clusters[one] ?? new Map<number, Share>();
  const all = [...base].map(([cluster, share]): Two => [own.get(cluster) ?? NONE, share]);
  for (const [cluster, share] of own) if (!base.has(cluster)) all.push([share, NONE]);
  return all;
}

/** p of "the same rate": Fisher's exact test where each cluster is one record, else labels dealt anew among clusters. */
export function sameRate(two: readonly Two[]): number {
  if (!isApart(two)) return labelSwap(two);
  const sum = (nth: 0 | 1): Share => ({
    n: two.reduce((n, each) => n + each[nth].n, 0),
    hits: two.reduce((hits, each) => hits + each[nth].hits, 0),
  });
  return fisher(sum(0), sum(1));
}

/** Whether each cluster is one record, so that records are independent. */
export const isSingle = (parts: readonly Share[]): boolean => parts.every(({ n }) => n <= 1);
const isApart = (two: readonly Two[]): boolean => two.every(([one, other]) => one.n + other.n <= 1);

/** A share of clusters, as far as an interval needs it. */
interface Estimate {
  n: number;
  rate: number;
  /** clusters with records of it */
  clusters: number;
  /** clusters of one size that would say as much (Kish 1965): (Σ n)² / Σ n² */
  alike: number;
}

function estimateOf(parts: readonly Share[]): Estimate {
  let [n, hits, squares, clusters] = [0, 0, 0, 0];
  for (const part of parts) {
    n += part.n;
    hits += part.hits;
    squares += part.n ** 2;
    if (part.n > 0) clusters += 1;
  }
  return { n, rate: hits / n, clusters, alike: n ** 2 / squares };
}

/**
 * Clusters that must weigh in an error, for it to be known: (Σ u²)² / Σ u⁴ of what each adds. A difference, which is as
 * often above the truth as below it, needs fewer than a share, which may be near its end.
 */
export const WEIGHING = 10;
export const WEIGHING_APART = 4;

export function weighing(adds: Iterable<number>): { squares: number; clusters: number } {
  let [squares, fourths] = [0, 0];
  for (const each of adds) {
    squares += each ** 2;
    fourths += each ** 4;
  }
  return { squares, clusters: fourths === 0 ? 0 : squares ** 2 / fourths };
}

/** The standard error of a sum of what each cluster adds; null where too few add to it for it to be known. */
function errorOf(adds: Iterable<number>, clusters: number, least = WEIGHING): number | null {
  const { squares, clusters: known } = weighing(adds);
  return clusters < LEAST || known < least ? null : Math.sqrt((squares * clusters) / (clusters - 1));
}

const quantiles = new Map<number, number>();

/** Student's t of a two-sided 95 % interval of so many clusters. */
function t95(clusters: number): number {
  const known = quantiles.get(clusters) ?? studentQuantile(0.025, Math.max(1, clusters - 1));
  quantiles.set(clusters, known);
  return known;
}

/**
 * The interval of Clopper and Pearson (1934) of `rate` of `n` cases, neither of which need be whole: hits are rounded
 * down for the lower end and up for the upper one. `level` is that of both sides together.
 */
export function exactRate(rate: number, n: number, level = 0.95): Interval {
  const tail = (1 - level) / 2;
  const most = Math.max(1, Math.floor(n + 1e-9));
  const [down, up] = [Math.floor(rate * most + 1e-9), Math.ceil(rate * most - 1e-9)];
  return {
    value: rate,
    low: down === 0 ? 0 : betaQuantile(tail, down, most - down + 1),
    high: up === most ? 1 : betaQuantile(1 - tail, up + 1, most - up),
  };
}

/** A rate, of the parts that the clusters have of it; Wilson's where each is one record. Null of nobody. */
export function clusteredShare(parts: readonly Share[]): Interval | null {
  const estimate = estimateOf(parts);
  const { n, rate, clusters, alike } = estimate;
  if (n === 0) return null;
  if (isSingle(parts)) return wilson(shareOf(estimate));
  const error = errorOf(
    parts.map(part => (part.hits - rate * part.n) / n),
    clusters,
  );
  if (error === null) return exactRate(rate, alike);
  const counted = Math.min(n, Math.max(alike, (rate * (1 - rate)) / error ** 2));
  const { low, high } = wilson({ n: counted, hits: rate * counted }, t95(clusters)) as Interval;
  return { value: rate, low, high };
}

const shareOf = ({ n, rate }: Estimate): Share => ({ n, hits: Math.round(rate * n) });

export interface Compared {
  /** the first less the second */
  difference: Interval | null;
  /** the first by the second; null where the second is 0 */
  ratio: Interval | null;
}

/**
 * Two shares of the same clusters, or of clusters of their own. Newcombe and Katz where all records are independent.
 * Else Student's interval by what each cluster adds to the difference, and to the logarithm of the ratio. Of few
 * clusters, or few that differ, the exact intervals of both shares at 97.5 % taken together, which hold at 95 % whatever
 * one share has to do with the other.
 */
export function clusteredDifference(two: readonly Two[]): Compared {
  const [own, base] = [two.map(([first]) => first), two.map(([, second]) => second)];
  const [one, other] = [estimateOf(own), estimateOf(base)];
  if (one.n === 0 || other.n === 0) return { difference: null, ratio: null };
  if (isApart(two)) {
    const [a, b] = [shareOf(one), shareOf(other)];
    return { difference: rateDifference(a, b), ratio: rateRatio(a, b) };
  }
  const [p, q] = [one.rate, other.rate];
  const adds = (byOne: number, byOther: number): number[] =>
    two.map(([a, b]) => ((a.hits - p * a.n) / one.n) * byOne - ((b.hits - q * b.n) / other.n) * byOther);
  const least = Math.min(one.clusters, other.clusters);
  const [a, b] = [exactRate(p, one.alike, 0.975), exactRate(q, other.alike, 0.975)];
  const error = errorOf(adds(1, 1), least, WEIGHING_APART);
  const half = t95(least) * (error ?? 0);
  const difference =
    error === null
      ? { value: p - q, low: a.low - b.high, high: a.high - b.low }
      : { value: p - q, low: Math.max(-1, p - q - half), high: Math.min(1, p - q + half) };
  if (q === 0) return { difference, ratio: null };
  const log = p === 0 ? null : errorOf(adds(1 / p, 1 / q), least, WEIGHING_APART);
  const times = Math.exp(t95(least) * (log ?? 0));
  const ratio =
    log === null
      ? { value: p / q, low: a.low / b.high, high: a.high / b.low }
      : { value: p / q, low: p / q / times, high: (p / q) * times };
  return { difference, ratio: Number.isFinite(ratio.high) ? ratio : null };
}
