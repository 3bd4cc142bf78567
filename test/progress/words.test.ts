/** The facts of a run in words: what is said, in which order, and what is left out where there is nothing to say. */
import { expect, test } from 'vitest';
import type { EndpointStats } from '../../engine/asking/pool/pool-stats.ts';
import type { Facts } from '../../engine/running/watch/run-facts.ts';
import { factsWords } from '../../engine/running/watch/run-words.ts';

const FACTS: Facts = {
  done: 1_200,
  total: null,
  share: null,
  inFlight: 512,
  failed: [],
  eta: null,
  late: null,
  work: null,
  rates: { items: 10, calls: 50, prompt: 40_000, cached: 0, completion: 7_500, busy: 180 },
  retries: 0,
  replayed: null,
  endpoints: [],
};

test('little to say', () => {
  expect(factsWords(FACTS)).toEqual([
    '1,200 items done',
    '512 in flight',
    '50 calls/s',
    'tokens/s 40,000 in, 7,500 out',
  ]);
});

test('all there is to say', () => {
  const facts: Facts = {
    ...FACTS,
    total: 5_760,
    share: 0.4499,
    failed: [
      ['no-valid-answer', 12],
      ['call-failed', 3],
      ['call-timeout', 2],
      ['prompt-too-long', 1],
    ],
    eta: { left: 456_000, spread: 21_000, isOver: false },
    rates: { ...FACTS.rates, cached: 17_200, busy: 970 },
    retries: 31,
    replayed: 400,
  };
  expect(factsWords(facts)).toEqual([
    '44 % of calls',
    'ETA 8 min ± 21 s',
    '18 failed (12 no-valid-answer, 3 call-failed, 2 call-timeout, …)',
    '1,200 of 5,760 items done',
    '512 in flight',
    'this process is 97 % busy and holds it up',
    '50 calls/s',
    'tokens/s 40,000 in (43 % cached), 7,500 out',
    '31 retries',
    '400 replayed',
  ]);
});

test('what is late is said in place of a time that is over', () => {
  const one = { ...FACTS, total: 300, share: 0.999, late: 1 };
  expect(factsWords(one)).toContain('waits for 1 call');
  const endpoints = [{ oldest: 45_000 }, { oldest: 61_000 }, { oldest: null }] as unknown as EndpointStats[];
  expect(factsWords({ ...one, late: 3, endpoints })).toContain(
    'waits for 3 calls, the oldest asked 1 min ago',
  );
});

test('no run that goes on is over in 0 s', () => {
  for (const left of [0, 1, 40, 499, 999])
    expect(factsWords({ ...FACTS, eta: { left, spread: 0, isOver: false } })[0]).toBe('ETA 1 s ± 0 s');
});
