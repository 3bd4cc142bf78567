/**
 * Rates and their comparison: plain functions of counts. Each says its formula and source; recorded values of scipy,
 * statsmodels and R are in test/study/oracle.json, which test/study/oracle.py made.
 */
import { logChoose, normalAbove, Z95 } from './special.ts';

/** A figure with its interval; `null` where the figure cannot be had (a rate of nobody, a ratio to nothing). */
export interface Interval {
  value: number;
  low: number;
  high: number;
}

/** A figure that may have no interval. */
export interface Figure {
  value: number;
  low: number | null;
  high: number | null;
}

/** `hits` of `n`. */
export interface Share {
  n: number;
  hits: number;
}

/** What one cluster has of two shares; n is 0 where it has none. */
export type Two = readonly [one: Share, other: Share];

/**
 * A rate with Wilson's score interval (Wilson 1927): (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n). Null of nobody.
 */
export function wilson({ n, hits }: Share, z = Z95): Interval | null {
  if (n === 0) return null;
  const p = hits / n;
  const scale = 1 + (z * z) / n;
  const middle = p + (z * z) / (2 * n);
  const half = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  // at the ends the formula gives 0 and 1 but for rounding
  const low = hits === 0 ? 0 : (middle - half) / scale;
  const high = hits === n ? 1 : (middle + half) / scale;
  return { value: p, low, high };
}

/**
 * The ratio of two rates (adverse impact ratio) with the log interval of Katz et al. 1978: exp(ln r ± z √(1/a − 1/n +
 * 1/b − 1/m)). Where a rate is 0, the interval is that of (a + ½)/(n + ½) and (b + ½)/(m + ½), as Walter 1975 has it.
 * Null where the reference has no hits: there is no ratio.
 */
export function rateRatio(group: Share, reference: Share, z = Z95): Interval | null {
  if (group.n === 0 || reference.n === 0 || reference.hits === 0) return null;
  const value = group.hits / group.n / (reference.hits / reference.n);
  const more = group.hits === 0 ? 0.5 : 0;
  const [a, n, b, m] = [group.hits + more, group.n + more, reference.hits + more, reference.n + more];
  const middle = Math.log(a / n / (b / m));
  const half = z * Math.sqrt(1 / a - 1 / n + 1 / b - 1 / m);
  return { value, low: Math.exp(middle - half), high: Math.exp(middle + half) };
}

/** The difference of two independent rates with Newcombe's hybrid score interval (Newcombe 1998, method 10). */
export function rateDifference(group: Share, reference: Share, z = Z95): Interval | null {
  const a = wilson(group, z);
  const b = wilson(reference, z);
  if (a === null || b === null) return null;
  const value = a.value - b.value;
  return {
    value,
    low: value - Math.hypot(a.value - a.low, b.high - b.value),
    high: value + Math.hypot(a.high - a.value, b.value - b.low),
  };
}

/** z of two independent rates, pooled: (p − q) / √(r(1 − r)(1/n + 1/m)). Null where everyone or nobody was hit. */
export function pooledZ(group: Share, reference: Share): number | null {
  const { n, hits } = group;
  const { n: m, hits: others } = reference;
  if (n === 0 || m === 0) return null;
  const pooled = (hits + others) / (n + m);
  const error = Math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m));
  return error === 0 ? null : (hits / n - others / m) / error;
}

/** Two-sided p of a z. */
export function pOfZ(z: number): number {
  return Math.min(1, 2 * normalAbove(Math.abs(z)));
}

/** Approvals that a group lacks to the rate of the reference; negative where it has more. */
export function shortfall(group: Share, reference: Share): number | null {
  if (group.n === 0 || reference.n === 0) return null;
  return (reference.hits / reference.n) * group.n - group.hits;
}

/** Tables as likely as the one at hand count too; R and scipy allow the same for rounding. */
const AS_LIKELY = 1 + 1e-7;

/** Fisher's exact test of two shares, two-sided: the tables with the same margins that are no likelier than this one. */
export function fisher(one: Share, other: Share): number {
  const hits = one.hits + other.hits;
  const all = one.n + other.n;
  const least = Math.max(0, hits - other.n);
  const most = Math.min(hits, one.n);
  const base = logChoose(all, hits);
  const chance = (k: number): number => Math.exp(logChoose(one.n, k) + logChoose(other.n, hits - k) - base);
  const observed = chance(one.hits) * AS_LIKELY;
  let p = 0;
  for (let k = least; k <= most; k++) {
    const each = chance(k);
    if (each <= observed) p += each;
  }
  return Math.min(1, p);
}

/** McNemar's exact test of `b` against `c` discordant pairs: the two-sided binomial test of b of b + c at ½. */
export function mcnemar(b: number, c: number): number {
  const n = b + c;
  if (n === 0) return 1;
  let tail = 0;
  for (let k = Math.min(b, c); k >= 0; k--) {
    const each = Math.exp(logChoose(n, k) - n * Math.LN2);
    tail += each;
    if (each < tail * 1e-18) break;
  }
  return Math.min(1, 2 * tail);
}

/**
 * The difference of two rates over `n` pairs, (b − c)/n, where b pairs have the first hit alone and c the second: Wald's
 * interval with half a pair added to each of the four cells (Agresti and Min 2005), which keeps its level for few pairs.
 */
export function pairedDifference({ n, b, c }: Pairs, z = Z95): Interval | null {
  if (n === 0) return null;
  const middle = (b - c) / (n + 2);
  const half = z * pairedError({ n, b, c });
  return { value: (b - c) / n, low: middle - half, high: middle + half };
}

export interface Pairs {
  n: number;
  b: number;
  c: number;
}

/** The standard error behind `pairedDifference`; never 0, so that one pair that agrees shows nothing. */
export function pairedError({ n, b, c }: Pairs): number {
  const m = n + 2;
  return Math.sqrt((b + c + 1 - (b - c) ** 2 / m) / (m * m));
}

/**
 * Two one-sided tests (Schuirmann 1987): the p of "the difference is not within ±margin", the larger of the two. At 0.05
 * the 90 % interval lies within the margin.
 */
export function tost(value: number, error: number, margin: number): number {
  if (error === 0) return Math.abs(value) < margin ? 0 : 1;
  return Math.max(normalAbove((value + margin) / error), normalAbove((margin - value) / error));
}

/**
 * Holm's step-down correction (Holm 1979): p values in the order given, each at least as large as it was. `weights`, which
 * come to 1, share the level out between the tests (section 3 of the same paper); without them all have the same.
 */
export function weightedHolm(ps: readonly number[], weights: readonly number[]): number[] {
  const ratio = (at: number): number => (ps[at] as number) / (weights[at] as number);
  const order = ps.map((_, at) => at).sort((a, b) => ratio(a) - ratio(b));
  const adjusted = new Array<number>(ps.length);
  let left = weights.reduce((sum, each) => sum + each, 0);
  let least = 0;
  for (const at of order) {
    least = Math.max(least, Math.min(1, left * ratio(at)));
    adjusted[at] = least;
    left -= weights[at] as number;
  }
  return adjusted;
}

export const holm = (ps: readonly number[]): number[] =>
  weightedHolm(
    ps,
    ps.map(() => 1),
  );
