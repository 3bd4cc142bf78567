/** Percentiles, intervals and arrivals, held against Python's own statistics (oracle.py) and against what they promise. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dueTimes } from '../../products/kit/arrivals.ts';
import {
  deviation,
  differenceOfMeans,
  mean,
  meanInterval,
  percentile,
  percentileBounds,
  ranksOf,
  sorted,
  studentT,
} from '../../products/measure/bench/bench-statistics.ts';
import { runs } from '../all.ts';
import { ROOT } from '../fw.ts';

interface Oracle {
  cases: { samples: number[]; mean: number; std: number; percentiles: Record<string, number> }[];
  ranks: { n: number; p: number; ranks: [number | null, number | null] }[];
}
const oracle: Oracle = JSON.parse(readFileSync(join(ROOT, 'test/bench/percentiles.json'), 'utf8'));

test.each(oracle.cases.map(each => [each.samples.length, each] as const))(
  'figures of %i samples are those of numpy',
  (_, { samples, mean: middle, std, percentiles }) => {
    const all = sorted(samples);
    expect(mean(samples)).toBeCloseTo(middle, 9);
    expect(deviation(samples)).toBeCloseTo(std, 9);
    for (const [p, value] of Object.entries(percentiles))
      expect(percentile(all, Number(p)), `p${p}`).toBeCloseTo(value, 9);
  },
);

test.each(oracle.ranks.map(each => [each.n, each.p, each.ranks] as const))(
  'the interval of the %i samples at p%i has the ranks %j',
  (n, p, ranks) => {
    expect(ranksOf(n, p / 100)).toEqual(ranks);
  },
);

test('nothing has no figures, and a small sample no upper end', () => {
  expect(percentile([], 50)).toBeNaN();
  expect(mean([])).toBeNaN();
  expect(percentileBounds([], 50)).toEqual({ low: null, high: null });
  expect(percentileBounds([1, 2, 3], 99)).toEqual({ low: 2, high: null });
  expect(percentileBounds([1, 2], 99)).toEqual({ low: 1.99, high: null });
  expect(meanInterval([3])).toBeNull();
  expect(differenceOfMeans([1], [1, 2])).toBeNull();
});

test('the interval of a percentile holds it in 95 of 100 samples, or more', () => {
  // of a uniform distribution the 90th percentile is 0.9
  const seed = 20_261_122;
  let held = 0;
  const trials = runs(400, 4_000);
  const word = { state: seed };
  const random = (): number => {
    word.state = (Math.imul(word.state, 1_664_525) + 1_013_904_223) >>> 0;
    return word.state / 2 ** 32;
  };
  for (let trial = 0; trial < trials; trial++) {
    const { low, high } = percentileBounds(sorted(Array.from({ length: 200 }, random)), 90);
    if ((low as number) <= 0.9 && 0.9 <= (high as number)) held++;
  }
  expect(held / trials, `seed ${seed}`).toBeGreaterThan(0.93);
});

test('the interval of a mean is that of Student', () => {
  // by hand: mean 3, s = 1.581139, t(4) = 2.776445, half = 2.776445 x 1.581139 / sqrt(5)
  const { value, low, high } = meanInterval([1, 2, 3, 4, 5]) as { value: number; low: number; high: number };
  expect(value).toBe(3);
  expect(high - value).toBeCloseTo(1.963243, 5);
  expect(value - low).toBeCloseTo(1.963243, 5);
  expect(studentT(40)).toBeCloseTo(2.021075, 5);
  expect(studentT(31)).toBeCloseTo(2.039513, 5);
  expect(studentT(1e9)).toBeCloseTo(1.959964, 5);
  const same = differenceOfMeans([1, 1, 1], [2, 2, 2]);
  expect(same).toEqual({ value: 1, low: 1, high: 1 });
});

describe('arrivals', () => {
  test('keep the rate that was asked for, in order, by the seed alone', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.1, max: 1_000, noNaN: true }),
        fc.constantFrom(0.25, 0.5, 1, 3, Number.POSITIVE_INFINITY),
        fc.integer({ min: 1, max: 500 }),
        fc.integer(),
        (rate, burstiness, count, seed) => {
          const due = dueTimes({ rate, burstiness, count, seed });
          expect(due).toHaveLength(count);
          expect(due.at(-1)).toBeCloseTo((count / rate) * 1000, 6);
          expect([...due]).toEqual([...due].sort((a, b) => a - b));
          expect(due[0]).toBeGreaterThanOrEqual(0);
          expect(dueTimes({ rate, burstiness, count, seed })).toEqual(due);
        },
      ),
      { seed: 7, numRuns: runs(100, 1_000) },
    );
  });

  test.each([
    [1, 1],
    [0.25, 2],
    [4, 0.5],
  ])('with burstiness %d have gaps whose deviation is %d of their mean', (burstiness, share) => {
    const due = dueTimes({ rate: 10, burstiness, count: 20_000, seed: 3 });
    const gaps = [...due].map((at, i) => at - (i === 0 ? 0 : (due[i - 1] as number)));
    expect(deviation(gaps) / mean(gaps)).toBeCloseTo(share, 1);
  });

  test('come all at once, or evenly', () => {
    const inf = Number.POSITIVE_INFINITY;
    expect([...dueTimes({ rate: inf, burstiness: 1, count: 3, seed: 1 })]).toEqual([0, 0, 0]);
    const even = dueTimes({ rate: 4, burstiness: inf, count: 3, seed: 1 });
    for (const [i, at] of [250, 500, 750].entries()) expect(even[i]).toBeCloseTo(at, 9);
  });
});
