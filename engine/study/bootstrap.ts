/**
 * The cluster bootstrap: whole applicants (or cells of twins) are drawn again with replacement, so that an applicant
 * who was judged in twelve orders counts as one. Percentile intervals (Efron 1979; for clusters Davison and Hinkley
 * 1997, 3.8). The same seed gives the same interval.
 */
import { quantile } from './agreement.ts';
import type { Interval } from './statistics.ts';

export const RESAMPLES = 2000;
export const SEED = 7;

/** mulberry32: numbers in [0, 1), the same on every machine. */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Sums of the clusters, by column: `at[cluster * width + column]`. */
export interface ClusterSums {
  clusters: number;
  width: number;
  at: Float64Array;
}

/**
 * Intervals of figures of the sums of all clusters. `figures` gives, of one set of sums, as many numbers as it is asked
 * to give intervals for; NaN (a ratio to nothing) leaves that resample out of the figure. The value is of the data as
 * it is. A figure that half of the resamples cannot give has no interval.
 */
export function clusterBootstrap(
  { clusters, width, at }: ClusterSums,
  figures: (sums: Float64Array) => readonly number[],
  { resamples = RESAMPLES, seed = SEED, level = 0.95 } = {},
): (Interval | null)[] {
  const sums = new Float64Array(width);
  for (let i = 0; i < clusters; i++)
    for (let j = 0; j < width; j++) sums[j] = (sums[j] as number) + (at[i * width + j] as number);
  const values = figures(sums);
  const drawn = values.map(() => new Float64Array(resamples));
  const counts = values.map(() => 0);
  const random = seeded(seed);
  for (let round = 0; round < resamples && clusters > 0; round++) {
    sums.fill(0);
    for (let k = 0; k < clusters; k++) {
      const from = Math.floor(random() * clusters) * width;
      for (let j = 0; j < width; j++) sums[j] = (sums[j] as number) + (at[from + j] as number);
    }
    for (const [figure, value] of figures(sums).entries()) {
      if (Number.isNaN(value)) continue;
      (drawn[figure] as Float64Array)[counts[figure] as number] = value;
      counts[figure] = (counts[figure] as number) + 1;
    }
  }
  return values.map((value, figure) => {
    const count = counts[figure] as number;
    if (Number.isNaN(value) || count < resamples / 2 || count === 0) return null;
    const sorted = (drawn[figure] as Float64Array).subarray(0, count).sort();
    return { value, low: quantile(sorted, (1 - level) / 2), high: quantile(sorted, (1 + level) / 2) };
  });
}
