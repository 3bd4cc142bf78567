/** Rates of the last seconds and the time that is left: fed with made-up runs, whose true end is known. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createEstimate, createRecent } from '../../bin/progress/recent.ts';
import { timeWords } from '../../bin/progress/words.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`progress properties: SEED=${SEED}`);

/** Steps of a second, `perSecond(second)` items in each; returns how many there are then. */
function feed(seconds: number, perSecond: (second: number) => number) {
  const estimate = createEstimate();
  let done = 0;
  estimate.add(0, 0);
  for (let second = 1; second <= seconds; second++) {
    done += perSecond(second);
    estimate.add(second * 1000, done);
  }
  return estimate;
}

test('a steady rate: the time that is left to the ms, with no spread', () => {
  expect(feed(60, () => 5).eta(1000)).toEqual({ left: 200_000, spread: 0 });
});

test('the rate is that of the last minutes: a run that was ten times faster before is not', () => {
  const slower = feed(600, second => (second < 300 ? 50 : 5));
  expect(slower.eta(1000)?.left).toBeCloseTo(200_000, 0);
});

test('nothing is said before there is something to say', () => {
  expect(feed(300, () => 0).eta(10)).toBeNull();
  expect(feed(9, () => 5).eta(10)).toBeNull();
  // one chain takes two minutes: what was before the first item left is no rate
  const chains = feed(160, second => (second <= 120 ? 0 : 10));
  expect(chains.eta(100)?.left).toBeCloseTo(10_000, -1);
});

test('waves of chains spread the estimate: twice the standard error of the mean of ten blocks', () => {
  // 100 items every 30 s: blocks of 18 s hold 0, 50 or 100 of them
  const waves = feed(400, second => (second % 30 === 0 ? 100 : 0)).eta(1000);
  expect(waves?.left).toBeGreaterThan(200_000);
  expect(waves?.left).toBeLessThan(400_000);
  expect(waves?.spread).toBeGreaterThan(30_000);
});

test('of runs whose items leave at random, the true end is within the spread in about 19 of 20', () => {
  let random: () => number = () => 0;
  let within = 0;
  let runs = 0;
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      fc.double({ min: 0.5, max: 20, noNaN: true }),
      (seed, rate) => {
        let state = seed;
        random = () => {
          state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
          return (state + 0.5) / 2 ** 32;
        };
        const poisson = () => {
          let count = 0;
          for (let product = random(); product > Math.exp(-rate); product *= random()) count++;
          return count;
        };
        const eta = feed(200, poisson).eta(rate * 100);
        runs++;
        if (eta && Math.abs(eta.left - 100_000) <= eta.spread) within++;
      },
    ),
    { seed: SEED, numRuns: 400 },
  );
  expect(within / runs, `SEED=${SEED}`).toBeGreaterThan(0.85);
  expect(within / runs, `SEED=${SEED}`).toBeLessThan(0.995);
});

test('rates are those of the last ten seconds', () => {
  const recent = createRecent();
  const look = (at: number, calls: number) =>
    recent.add(at, { items: 0, calls, prompt: 100 * calls, cached: 0, completion: 0, busy: 0 });
  look(0, 0);
  expect(recent.rates().calls).toBe(0);
  look(1_000, 50);
  expect(recent.rates()).toMatchObject({ calls: 50, prompt: 5000, items: 0 });
  for (let second = 2; second <= 60; second++) look(second * 1000, 50 + second);
  expect(recent.rates()).toMatchObject({ calls: 1, prompt: 100 });
});

test.each([
  [0, '0 s'],
  [59_400, '59 s'],
  [59_600, '1 min'],
  [3_570_000, '1 h 0 min'],
  [4_320_000, '1 h 12 min'],
  [200_000_000, '2 d 7 h'],
])('%d ms are %s', (ms, words) => expect(timeWords(ms)).toBe(words));
