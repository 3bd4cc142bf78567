/**
 * Percentiles, spreads and intervals of a benchmark. Percentiles and deviations are those of numpy, which vllm bench serve
 * uses, so that figures of both can be compared: linear interpolation, and division by n.
 */
import { quantile } from '../../kit/agreement.ts';
import type { Interval } from '../../kit/statistics.ts';
import { logChoose, Z95 } from '../../kit/statistics.ts';

/** Ascending. Samples are copied once; a Float64Array sorts by number. */
export function sorted(samples: ArrayLike<number>): Float64Array {
  return Float64Array.from(samples).sort();
}

export function mean(samples: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += samples[i] as number;
  return samples.length === 0 ? Number.NaN : sum / samples.length;
}

/** Population standard deviation (ddof 0), in two passes. */
export function deviation(samples: ArrayLike<number>): number {
  const middle = mean(samples);
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += ((samples[i] as number) - middle) ** 2;
  return samples.length === 0 ? Number.NaN : Math.sqrt(sum / samples.length);
}

/** numpy.percentile of ascending samples, by linear interpolation. NaN of none. */
export function percentile(ascending: ArrayLike<number>, p: number): number {
  return quantile(ascending, p / 100);
}

/** An end is null where the sample is too small to have one. */
export interface Bounds {
  low: number | null;
  high: number | null;
}

/**
 * A 95 % interval of a percentile by order statistics: the number of samples below it is binomial (n, p), so it lies
 * between the two ranks that cut 2.5 % off each end. No shape of the distribution is assumed, but that samples are
 * independent. The 99th percentile has an upper end from 368 samples on, the 95th from 72 on.
 */
export function percentileBounds(ascending: ArrayLike<number>, p: number): Bounds {
  const [low, high] = ranksOf(ascending.length, p / 100);
  const at = (rank: number): number => ascending[rank - 1] as number;
  // a percentile of few samples lies between two of them, and may be outside of the ranks: its interval holds it
  const value = percentile(ascending, p);
  return {
    low: low === null ? null : Math.min(value, at(low)),
    high: high === null ? null : Math.max(value, at(high)),
  };
}

const TAIL = 0.025;

/** Ranks from 1. Sums the tails of the binomial from the outside in: few terms count. */
export function ranksOf(n: number, p: number): [low: number | null, high: number | null] {
  if (n < 1) return [null, null];
  const term = (k: number): number => Math.exp(logChoose(n, k) + k * Math.log(p) + (n - k) * Math.log1p(-p));
  const spread = Math.sqrt(n * p * (1 - p));
  // what lies beyond ten deviations adds nothing that a double could show
  const first = Math.max(0, Math.floor(n * p - 10 * spread) - 1);
  const last = Math.min(n, Math.ceil(n * p + 10 * spread) + 1);
  let low: number | null = null;
  let below = 0;
  for (let k = first; k <= last; k++) {
    below += term(k); // P(at most k samples lie below)
    if (below > TAIL) break;
    low = k + 1;
  }
  let high: number | null = null;
  let above = 0;
  for (let k = last; k >= first; k--) {
    above += term(k); // P(at least k samples lie below)
    if (above > TAIL) break;
    high = k;
  }
  return [low, high];
}

/** 95 % interval of the mean of `samples`, which are independent: runs, or windows of a run. Null of fewer than two. */
export function meanInterval(samples: readonly number[]): Interval | null {
  const n = samples.length;
  if (n < 2) return null;
  const value = mean(samples);
  const error = (deviation(samples) * Math.sqrt(n / (n - 1))) / Math.sqrt(n);
  const half = studentT(n - 1) * error;
  return { value, low: value - half, high: value + half };
}

/** Difference b - a of two means by Welch, with its 95 % interval. Null where one has fewer than two samples. */
export function differenceOfMeans(a: readonly number[], b: readonly number[]): Interval | null {
  if (a.length < 2 || b.length < 2) return null;
  const variance = (list: readonly number[]): number => deviation(list) ** 2 / (list.length - 1);
  const [va, vb] = [variance(a), variance(b)];
  const value = mean(b) - mean(a);
  const error = Math.sqrt(va + vb);
  // Welch and Satterthwaite; two samples without any spread differ or do not
  const df =
    error === 0
      ? a.length + b.length - 2
      : (va + vb) ** 2 / (va ** 2 / (a.length - 1) + vb ** 2 / (b.length - 1));
  const half = studentT(df) * error;
  return { value, low: value - half, high: value + half };
}

/** Student's t at 0.975, of 1 to 30 degrees of freedom. */
const T975 = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881,
  2.16037, 2.14479, 2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596, 2.07961, 2.07387, 2.06866, 2.0639,
  2.05954, 2.05553, 2.05183, 2.04841, 2.04523, 2.04227,
];

/** Between whole degrees of freedom the lower one, which is the wider; beyond 30 the expansion of Cornish and Fisher. */
export function studentT(df: number): number {
  if (df <= 30) return T975[Math.max(1, Math.floor(df)) - 1] as number;
  const z = Z95;
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
  ];
  return terms.reduce((sum, term, at) => sum + term / df ** (at + 1), z);
}
