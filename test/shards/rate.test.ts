/** How fast a worker is, as it tells the coordinator. */
import { expect, test } from 'vitest';
import { createRate } from '../../products/workers/worker/speech.ts';

test('time without work is no part of the rate', () => {
  const rate = createRate(60_000);
  expect(rate(0, 0, false)).toBe(0);
  expect(rate(1_000_000, 0, true)).toBe(0);
  expect(rate(1_005_000, 500, true)).toBe(100);
  expect(rate(1_010_000, 1_000, false)).toBe(100);
  // an hour in which there was nothing to do
  for (let at = 1_015_000; at < 4_600_000; at += 5_000) expect(rate(at, 1_000, false)).toBe(100);
  expect(rate(4_600_000, 1_000, true)).toBe(100);
  expect(rate(4_605_000, 1_500, true)).toBe(100);
});

test('a worker that has become slow says so after a minute of work', () => {
  const rate = createRate(60_000);
  let [second, lines] = [0, 0];
  const work = (seconds: number, each: number): number => {
    let told = rate(second * 1000, lines, true);
    for (let i = 0; i < seconds; i++) {
      second += 1;
      lines += each;
      told = rate(second * 1000, lines, true);
    }
    return told;
  };
  expect(work(100, 100)).toBeCloseTo(100, 0);
  expect(work(61, 10)).toBeCloseTo(10, 0);
  expect(work(61, 0)).toBe(0);
});
