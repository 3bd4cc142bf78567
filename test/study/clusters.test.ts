/** Statistics of whole clusters agree with scipy, statsmodels and plain counting (oracle.json), and are exact where few. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  clusteredDifference,
  clusteredShare,
  exactRate,
  repeatedMeasures,
} from '../../products/kit/agreement.ts';
import { clusteredKappa, type TwoByTwo } from '../../products/kit/kappa.ts';
import { columnShuffle, distanceSwap, labelSwap, seeded, signFlip } from '../../products/kit/permute.ts';
import * as special from '../../products/kit/statistics.ts';
import { fisher, type Interval, mcnemar, type Two, weightedHolm } from '../../products/kit/statistics.ts';
import { equivalenceOf } from '../../products/report/changed.ts';
import { ROOT } from '../fw.ts';

const oracle = JSON.parse(readFileSync(join(ROOT, 'test/study/oracle.json'), 'utf8'));
const NOBODY = { n: 0, hits: 0 };

/** To nine digits of the larger, or to 1e-12. */
function same(found: number | null | undefined, wanted: number, of: unknown): void {
  const off = Math.abs((found ?? Number.NaN) - wanted);
  expect(off, `${JSON.stringify(of)}: ${found} for ${wanted}`).toBeLessThanOrEqual(
    Math.max(1e-12, 1e-9 * Math.abs(wanted)),
  );
}

test('beta, t and F', () => {
  const { betaBelow, betaQuantile, studentAbove, studentQuantile, fAbove } = oracle.special;
  for (const [x, a, b, p] of betaBelow) same(special.betaBelow(x, a, b), p, [x, a, b]);
  for (const [p, a, b, x] of betaQuantile) same(special.betaQuantile(p, a, b), x, [p, a, b]);
  for (const [t, df, p] of studentAbove) same(special.studentAbove(t, df), p, [t, df]);
  for (const [p, df, t] of studentQuantile) same(special.studentQuantile(p, df), t, [p, df]);
  for (const [f, one, other, p] of fAbove) same(special.fAbove(f, one, other), p, [f, one, other]);
});

test('a page is corrected as if every set of its tests were', () => {
  for (const [ps, weights, adjusted] of oracle.weightedHolm)
    for (const [at, p] of weightedHolm(ps, weights).entries()) same(p, adjusted[at], ps);
});

test('intervals of clusters are those of a model with errors by clusters', () => {
  for (const [k, n, level, low, high] of oracle.exact) {
    const found = exactRate(k / n, n, level);
    same(found.low, k === 0 ? 0 : low, [k, n]);
    same(found.high, k === n ? 1 : high, [k, n]);
  }
  for (const { tables, rate, difference } of oracle.clusters as {
    tables: [number, number][][];
    rate: number[];
    difference: number[];
  }[]) {
    const two = tables.map(([a, b]): Two => {
      const [one, other] = [a, b] as [[number, number], [number, number]];
      return [
        { n: other[0], hits: other[1] },
        { n: one[0], hits: one[1] },
      ];
    });
    const found = clusteredShare(two.map(([, base]) => base)) as Interval;
    same(found.low, rate[0] as number, 'low');
    same(found.high, rate[1] as number, 'high');
    const apart = clusteredDifference(two).difference as Interval;
    same(apart.value, difference[0] as number, 'difference');
    same(apart.low, difference[1] as number, 'low');
    same(apart.high, difference[2] as number, 'high');
  }
  for (const [tables, value, low, high] of oracle.clusteredKappa) {
    const found = clusteredKappa(tables);
    same(found?.value, value, 'kappa');
    same(found?.low, low, 'low');
    same(found?.high, high, 'high');
  }
});

test('labels dealt anew: all ways counted', () => {
  for (const [values, p] of oracle.signFlip) same(signFlip(values), p, values);
  for (const [n, hits, chosen, p] of oracle.labelSwap) {
    const two = n.map((size: number, at: number): Two => {
      const share = { n: size, hits: hits[at] };
      return at < chosen ? [share, NOBODY] : [NOBODY, share];
    });
    same(labelSwap(two), p, n);
  }
  for (const [rows, f, p] of oracle.repeatedMeasures) {
    const found = repeatedMeasures(rows);
    same(found?.f, f, 'F');
    same(found?.p, p, 'p');
  }
});

test('the exact tests of single records are cases of those of clusters, however they are reckoned', () => {
  for (const [b, c] of [
    [0, 0],
    [6, 0],
    [3, 9],
    [40, 60],
    [100, 140],
  ] as const) {
    const ones = [...Array<number>(b).fill(1), ...Array<number>(c).fill(-1)];
    expect(signFlip(ones)).toBeCloseTo(mcnemar(b, c), 9);
    // no whole numbers: by draws, or by the normal distribution
    expect(Math.abs(signFlip(ones.map(each => each * Math.PI)) - mcnemar(b, c))).toBeLessThan(0.05);
  }
  const random = seeded(5);
  for (const [n, m] of [
    [8, 9],
    [40, 50],
  ] as const) {
    const [a, b] = [
      { n, hits: 0 },
      { n: m, hits: 0 },
    ];
    const two = Array.from({ length: n + m }, (_, at): Two => {
      const share = { n: 1, hits: random() < 0.4 ? 1 : 0 };
      (at < n ? a : b).hits += share.hits;
      return at < n ? [share, NOBODY] : [NOBODY, share];
    });
    // Fisher's rule of "no likelier" is not that of "as far apart", but for equal groups
    const far = Math.abs(labelSwap(two) - fisher(a, b));
    expect(far).toBeLessThan(0.25);
  }
});

test('few applications find nothing that they cannot, and their intervals have a width', () => {
  const of = (n: number, hits: number) => ({ n, hits });
  const three: Two[] = [
    ...[1, 2, 3].map((): Two => [of(12, 0), NOBODY]),
    ...[1, 2, 3].map((): Two => [NOBODY, of(12, 12)]),
  ];
  expect(labelSwap(three)).toBeCloseTo(0.1, 12);
  const { difference } = clusteredDifference(three);
  expect(difference?.value).toBe(-1);
  expect(difference?.high).toBeGreaterThan(-0.2);
  for (const n of [1, 3, 20, 29, 30, 400]) {
    const all = clusteredShare(Array.from({ length: n }, () => of(3, 3)));
    expect([all?.value, all?.high]).toEqual([1, 1]);
    expect(all?.low).toBeCloseTo(special.betaQuantile(0.025, n, 1), 9);
  }
  const twins = Array.from({ length: 40 }, (): Two => [of(6, 4), of(6, 4)]);
  const alike = clusteredDifference(twins);
  expect([alike.difference?.value, alike.ratio?.value]).toEqual([0, 1]);
  expect((alike.difference?.high ?? 0) - (alike.difference?.low ?? 0)).toBeGreaterThan(0.05);
  const kappa = clusteredKappa(
    Array.from(
      { length: 40 },
      (_, at): TwoByTwo =>
        at % 2
          ? [
              [6, 0],
              [0, 0],
            ]
          : [
              [0, 0],
              [0, 6],
            ],
    ),
  );
  expect([kappa?.value, kappa?.high]).toEqual([1, 1]);
  expect(kappa?.low).toBeLessThan(0.95);
  expect(
    clusteredKappa([
      [
        [3, 1],
        [1, 3],
      ],
    ]),
  ).toEqual({ value: 0.5, low: null, high: null });
});

test('equivalence is not shown by few applications, nor by a share of changes that so many can hide', () => {
  const alike = (count: number): TwoByTwo[] =>
    Array.from({ length: count }, () => [
      [0, 0],
      [0, 12],
    ]);
  const shown = (count: number, margin: number) => {
    const { p, equivalent } = equivalenceOf(
      [
        [0, 0],
        [0, 12 * count],
      ],
      alike(count),
      margin,
    );
    return [p === null ? null : Number(p.toFixed(6)), equivalent];
  };
  expect(shown(2, 0.1)).toEqual([null, false]);
  expect(shown(29, 0.1)).toEqual([null, false]);
  // 0 of 40 changed: of 10 % that change one sees that in 1.5 % of cases, of 5 % in 12.9 %
  expect(shown(40, 0.1)).toEqual([Number((0.9 ** 40).toFixed(6)), true]);
  expect(shown(40, 0.05)).toEqual([Number((0.95 ** 40).toFixed(6)), false]);
});

test('numbers and orders are dealt anew by clusters, with the same bytes for the same lines', () => {
  const random = seeded(11);
  const apart = Array.from({ length: 30 }, () => {
    const base = random() * 10;
    return [
      Array.from({ length: 6 }, () => base + random()),
      Array.from({ length: 6 }, () => base + random()),
    ] as const;
  });
  expect(distanceSwap(apart)).toEqual(distanceSwap(apart));
  expect(distanceSwap(apart)?.p).toBeGreaterThan(0.01);
  const moved = apart.map(([one, other]) => [one.map(each => each + 3), other] as const);
  expect(distanceSwap(moved)?.p).toBeLessThan(0.001);
  // three cells can be swapped in eight ways, of which two are as extreme
  expect(distanceSwap(moved.slice(0, 3))?.p).toBeGreaterThan(0.2);
  expect(distanceSwap(apart.map(([one]) => [one, []]))).toBeNull();
  // six cases of twelve names decided alike, in three orders: Cochran's Q of the 72 lines says 7.6e-10
  const rows = [
    [12, 12, 0],
    [12, 12, 12],
    [0, 0, 0],
    [12, 12, 0],
    [12, 0, 12],
    [12, 12, 12],
  ];
  expect(columnShuffle(rows)).toBeGreaterThan(0.15);
});
