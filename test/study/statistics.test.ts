/** The statistics agree with scipy and statsmodels (oracle.json, made by oracle.py), and keep their promises at the edges. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cochranQ, kolmogorovSmirnov } from '../../products/kit/agreement.ts';
import { kappa } from '../../products/kit/kappa.ts';
import * as special from '../../products/kit/statistics.ts';
import * as statistics from '../../products/kit/statistics.ts';
import { ROOT } from '../fw.ts';

interface SharesRow {
  [name: string]: number | null | [number, number];
}
const oracle = JSON.parse(readFileSync(join(ROOT, 'test/study/oracle.json'), 'utf8'));

/** To ten digits of the larger, or to 1e-14. */
function same(found: number | null | undefined, wanted: number | null, of: unknown): void {
  if (wanted === null) return expect(found, JSON.stringify(of)).toBeNull();
  const off = Math.abs((found as number) - wanted);
  expect(off, `${JSON.stringify(of)}: ${found} for ${wanted}`).toBeLessThanOrEqual(
    Math.max(1e-14, 1e-10 * Math.abs(wanted)),
  );
}

test('special functions', () => {
  const { normalAbove, chiSquaredAbove, logGamma, kolmogorovAbove } = oracle.special;
  for (const [z, p] of normalAbove) same(special.normalAbove(z), p, z);
  for (const [x, df, p] of chiSquaredAbove) same(special.chiSquaredAbove(x, df), p, [x, df]);
  for (const [x, y] of logGamma) same(special.logGamma(x), y, x);
  for (const [x, p] of kolmogorovAbove) same(special.kolmogorovAbove(x), p, x);
});

test.each(oracle.shares as SharesRow[])('$a of $n against $b of $m', row => {
  const group = { hits: row.a as number, n: row.n as number };
  const reference = { hits: row.b as number, n: row.m as number };
  const pairs = (
    [
      [statistics.wilson(group), row.wilson],
      [statistics.rateDifference(group, reference), row.difference],
      [statistics.rateRatio(group, reference), row.ratio],
    ] as [statistics.Interval, [number, number]][]
  ).flatMap(([{ low, high }, [from, to]]) => [
    [low, from],
    [high, to],
  ]) as [number, number][];
  for (const [found, wanted] of pairs) same(found, wanted, row);
  expect(statistics.fisher(group, reference)).toBeCloseTo(row.fisher as number, 9);
  const z = statistics.pooledZ(group, reference);
  same(z, row.z as number | null, row);
  if (z !== null) same(statistics.pOfZ(z), row.zp as number, row);
});

test('paired, corrected and repeated decisions', () => {
  for (const [b, c, p] of oracle.mcnemar) expect(statistics.mcnemar(b, c)).toBeCloseTo(p, 10);
  for (const [ps, adjusted] of oracle.holm)
    for (const [at, p] of statistics.holm(ps).entries()) same(p, adjusted[at], ps);
  for (const [table, value, low, high] of oracle.kappa) {
    const found = kappa(table) as statistics.Interval;
    same(found.value, value, table);
    same(found.low, Math.max(-1, low), table);
    same(found.high, Math.min(1, high), table);
  }
  for (const [rows, q, p] of oracle.cochranQ as [number[][], number, number][]) {
    const sums = (rows[0] as number[]).map((_, at) =>
      rows.reduce((sum, row) => sum + (row[at] as number), 0),
    );
    const found = cochranQ(
      sums,
      rows.map(row => row.reduce((sum, each) => sum + each, 0)),
    );
    same(found?.q, q, rows.length);
    same(found?.p, p, rows.length);
  }
  for (const [x, y, d, p] of oracle.ks) {
    const sorted = (list: number[]): number[] => [...list].sort((a, b) => a - b);
    const found = kolmogorovSmirnov(sorted(x), sorted(y));
    same(found?.d, d, x.length);
    same(found?.p, p, x.length);
  }
  for (const [n, b, c, margin, low, high, p] of oracle.paired) {
    const found = statistics.pairedDifference({ n, b, c }) as statistics.Interval;
    same(found.low, low, [n, b, c]);
    same(found.high, high, [n, b, c]);
    same(statistics.tost(found.value, statistics.pairedError({ n, b, c }), margin), p, [n, b, c]);
  }
});

test('what cannot be had is null, and one pair shows nothing', () => {
  expect(statistics.wilson({ n: 0, hits: 0 })).toBeNull();
  expect(statistics.rateRatio({ n: 5, hits: 1 }, { n: 5, hits: 0 })).toBeNull();
  expect(statistics.pooledZ({ n: 5, hits: 5 }, { n: 5, hits: 5 })).toBeNull();
  expect(
    kappa([
      [7, 0],
      [0, 0],
    ]),
  ).toBeNull();
  expect(cochranQ([3, 3], [2, 2, 2])).toBeNull();
  expect(kolmogorovSmirnov([], [1])).toBeNull();
  expect(statistics.tost(0, statistics.pairedError({ n: 1, b: 0, c: 0 }), 0.02)).toBeGreaterThan(0.4);
  expect(statistics.holm([])).toEqual([]);
  expect(statistics.mcnemar(0, 0)).toBe(1);
});
