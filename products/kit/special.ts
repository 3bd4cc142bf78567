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
export function logFactorial(n: number): number {
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
export function gammaQ(a: number, x: number): number {
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
export const Z90 = 1.6448536269514722;

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
