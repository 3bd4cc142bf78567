/**
 * Rates and their comparison: plain functions of counts. Each says its formula and source; recorded values of scipy,
 * statsmodels and R are in test/study/oracle.json, which test/study/oracle.py made.
 */

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

/**
 * The few special functions that the tests of hypotheses need, to about twelve digits. Written here, because what is
 * kept elsewhere costs more than it gives: @stdlib is 250 packages for two of them, and the normal distribution of
 * simple-statistics is a table of two decimals. test/study/statistics.test.ts holds them against scipy.
 */

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
] as const;

/** ln Γ(x) for x > 0, by Lanczos (g = 7, nine terms). */
export function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  let sum: number = LANCZOS[0];
  for (let i = 1; i < LANCZOS.length; i++) sum += (LANCZOS[i] as number) / (x - 1 + i);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

const SMALL_FACTORIALS: number[] = [0];

/** ln n! for a whole n ≥ 0; the small ones are summed once, since they are asked for most. */
function logFactorial(n: number): number {
  if (n >= 4096) return logGamma(n + 1);
  for (let i = SMALL_FACTORIALS.length; i <= n; i++)
    SMALL_FACTORIALS.push((SMALL_FACTORIALS[i - 1] as number) + Math.log(i));
  return SMALL_FACTORIALS[n] as number;
}

/** ln of n over k. */
export function logChoose(n: number, k: number): number {
  return logFactorial(n) - logFactorial(k) - logFactorial(n - k);
}

/**
 * The regularized upper incomplete gamma function Q(a, x), for a > 0 and x ≥ 0: a series below a + 1, a continued
 * fraction above (Press et al., Numerical Recipes, 6.2).
 */
function gammaQ(a: number, x: number): number {
  if (x <= 0) return 1;
  if (x === Number.POSITIVE_INFINITY) return 0;
  const front = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = a + 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
      term *= x / n;
      sum += term;
    }
    return 1 - front * sum;
  }
  const tiny = 1e-300;
  let b = x + 1 - a;
  let c = 1 / tiny;
  let d = 1 / b;
  let h = d;
  for (let i = 1; i < 10_000; i++) {
    const an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (Math.abs(d) < tiny) d = tiny;
    c = b + an / c;
    if (Math.abs(c) < tiny) c = tiny;
    d = 1 / d;
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return front * h;
}

/** The share of a standard normal distribution above z. */
export function normalAbove(z: number): number {
  const tail = gammaQ(0.5, (z * z) / 2) / 2;
  return z >= 0 ? tail : 1 - tail;
}

/** The share of a chi-squared distribution with `df` degrees of freedom above x. */
export function chiSquaredAbove(x: number, df: number): number {
  return gammaQ(df / 2, x / 2);
}

/** z of two-sided 95 % and of two-sided 90 % intervals. */
export const Z95 = 1.959963984540054;
/**
 * The share of Kolmogorov's limiting distribution above x: 2 Σ (−1)^(k−1) exp(−2 k² x²), and for small x, where that
 * converges slowly, its other form (Marsaglia, Tsang, Wang 2003).
 */
export function kolmogorovAbove(x: number): number {
  if (x <= 0) return 1;
  if (x < 1) {
    let sum = 0;
    for (let k = 1; k <= 20; k++) sum += Math.exp((-((2 * k - 1) ** 2) * Math.PI ** 2) / (8 * x * x));
    return 1 - (Math.sqrt(2 * Math.PI) / x) * sum;
  }
  let sum = 0;
  for (let k = 1; k <= 20; k++) sum += (k % 2 === 1 ? 1 : -1) * Math.exp(-2 * k * k * x * x);
  return Math.min(1, 2 * sum);
}

/**
 * The regularized incomplete beta function I(x; a, b) for a, b > 0: its continued fraction by Lentz's method, on the side
 * where that converges (Press et al., Numerical Recipes, 6.4).
 */
export function betaBelow(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaBelow(1 - x, b, a);
  const front = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  const tiny = 1e-300;
  const away = (value: number): number => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let h = d;
  for (let m = 1; m < 100_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    h *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return (Math.exp(front) * h) / a;
}

/** The x below which the share `p` of a beta distribution lies, by halving. */
export function betaQuantile(p: number, a: number, b: number): number {
  return halved(0, 1, x => betaBelow(x, a, b) < p);
}

/** The share of Student's t distribution with `df` degrees of freedom above t. */
export function studentAbove(t: number, df: number): number {
  const tail = betaBelow(df / (df + t * t), df / 2, 0.5) / 2;
  return t >= 0 ? tail : 1 - tail;
}

/** The t that the share `above` (below ½) of Student's distribution exceeds. */
export function studentQuantile(above: number, df: number): number {
  const x = betaQuantile(2 * above, df / 2, 0.5);
  return Math.sqrt((df * (1 - x)) / x);
}

/** The share of an F distribution with `one` and `other` degrees of freedom above f. */
export function fAbove(f: number, one: number, other: number): number {
  return betaBelow(other / (other + one * f), other / 2, one / 2);
}

/** Where `isBelow` ends, between `low` and `high`, to the last bit. */
function halved(low: number, high: number, isBelow: (x: number) => boolean): number {
  for (let i = 0; i < 1100; i++) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (isBelow(middle)) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
