/** Rates of the last seconds and the time that is left: fed with made-up runs, whose true end is known. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { timeWords } from '../../engine/core/item/wording.ts';
import { createEstimate, createRecent } from '../../engine/running/watch/recent.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`progress properties: SEED=${SEED}`);

/** Steps of a second, with `perSecond(second)` calls settled in each, and what else `mark` says of it. */
function feed(seconds: number, perSecond: (second: number) => number, mark = (_second: number) => ({})) {
  const estimate = createEstimate();
  let done = 0;
  const none = { at: 0, settled: 0, asked: 0, replayed: 0, without: 0, isFull: true };
  estimate.add(none);
  for (let second = 1; second <= seconds; second++) {
    done += perSecond(second);
    estimate.add({ ...none, at: second * 1000, settled: done, asked: done, ...mark(second) });
  }
  /** `left` calls, of items that all have begun; chains of `longest` calls of `latency` ms */
  const eta = (left: number, { unread = 0, longest = 0, latency = 0 } = {}) =>
    estimate.eta({ settled: done, due: done + left, unread, longest }, latency);
  return { eta };
}

test('a steady rate: the time that is left to the ms, with no spread', () => {
  expect(feed(60, () => 5).eta(1000)).toEqual({ left: 200_000, spread: 0, isOver: false });
});

test('the rate is that of the last minutes: a run that was ten times faster before is not', () => {
  const slower = feed(600, second => (second < 300 ? 50 : 5));
  expect(slower.eta(1000)?.left).toBeCloseTo(200_000, 0);
});

test('nothing is said before there is something to say', () => {
  expect(feed(300, () => 0).eta(10)).toBeNull();
  expect(feed(9, () => 5).eta(10)).toBeNull();
  // one answer takes two minutes: what was before the first one is no rate
  const chains = feed(160, second => (second <= 120 ? 0 : 10));
  expect(chains.eta(100)?.left).toBeCloseTo(10_000, -1);
});

test('what a chain still has before it takes its time, however fast the others were', () => {
  const run = feed(60, () => 50);
  // ten items with five calls of 4 s each
  expect(run.eta(50, { longest: 5, latency: 4_000 })?.left).toBe(20_000);
  // 10,000 calls of items that have not come yet, and then the chain of the last one
  expect(run.eta(10_050, { unread: 10_000, longest: 5, latency: 4_000 })?.left).toBe(220_000);
  expect(run.eta(50_000, { longest: 5, latency: 4_000 })?.left).toBe(1_000_000);
});

test('a resumed run does not believe that answers go on to come as fast as from the ledger', () => {
  // 20 s of 5,000 answers a second on record, one of the items asked meanwhile; then 5 calls a second
  const replayed = (second: number) => 5_000 * Math.min(second, 20);
  const resumed = (seconds: number) =>
    feed(
      seconds,
      second => (second <= 20 ? 5_001 : 5),
      second => ({
        replayed: replayed(second),
        asked: Math.min(second, 20) + 5 * Math.max(0, second - 20),
        isFull: second > 20,
      }),
    );
  expect(resumed(20).eta(1_000)).toBeNull();
  expect(resumed(25).eta(1_000)).toBeNull();
  expect(resumed(60).eta(1_000)?.left).toBeCloseTo(200_000, -3);
  // answers on record that wait for those of their items that are not count as what they are
  const mixed = feed(
    60,
    () => 5,
    second => ({ replayed: 4 * second, asked: second }),
  );
  expect(mixed.eta(1_000)?.left).toBeCloseTo(200_000, 0);
});

test('an outage and a standstill are not counted as time in which a run is slow', () => {
  const outage = feed(
    700,
    second => (second > 60 && second <= 660 ? 0 : 5),
    second => ({ without: 1000 * Math.max(0, Math.min(second - 60, 600)) }),
  );
  expect(outage.eta(1_000)?.left).toBeCloseTo(200_000, 0);
  const stopped = feed(
    100,
    () => 5,
    second => ({ at: (second + (second > 50 ? 3_600 : 0)) * 1000 }),
  );
  expect(stopped.eta(1_000)?.left).toBeCloseTo(200_000, -4);
});

test('waves of chains spread the estimate: twice the standard error of the mean of ten blocks', () => {
  // 100 items every 30 s: blocks of 18 s hold 0, 50 or 100 of them
  const waves = feed(400, second => (second % 30 === 0 ? 100 : 0)).eta(1000);
  expect(waves?.left).toBeGreaterThan(200_000);
  expect(waves?.left).toBeLessThan(400_000);
  expect(waves?.spread).toBeGreaterThan(30_000);
});

test('of a run whose last calls hang, whatever its rate was, the time is over once it has passed', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 0, max: 20_000 }),
      fc.integer({ min: 1, max: 100 }),
      (rate, calls, latency, idle) => {
        const run = feed(60 + idle, second => (second <= 60 ? rate : 0));
        const eta = run.eta(calls, { longest: 1, latency });
        expect(eta?.isOver).toBe(idle * 1000 > (eta?.left ?? 0) + (eta?.spread ?? 0));
        // what it said while things still moved has come and gone
        const before = feed(60, () => rate).eta(calls, { longest: 1, latency });
        if (idle * 1000 <= latency) expect(eta?.isOver).toBe(false);
        if (idle * 1000 > 10 * ((before?.left ?? 0) + 1_000)) expect(eta?.isOver).toBe(true);
      },
    ),
    { seed: SEED, numRuns: 300 },
  );
  // time without an endpoint, or asleep, is not time in which calls are late
  const outage = feed(
    160,
    second => (second <= 60 ? 100 : 0),
    second => ({ without: Math.max(0, second - 60) * 1000 }),
  );
  expect(outage.eta(5, { longest: 1, latency: 100 })?.isOver).toBe(false);
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

test('after a standstill the rate is that of the time since', () => {
  const recent = createRecent();
  const look = (second: number, calls: number) =>
    recent.add(second * 1000, { items: 0, calls, prompt: 0, cached: 0, completion: 0, busy: 0 });
  for (let second = 0; second <= 20; second++) look(second, 50 * second);
  look(3_620, 1_000);
  look(3_621, 1_050);
  expect(recent.rates().calls).toBe(50);
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
