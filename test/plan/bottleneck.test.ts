/** What holds a run back, for figures that are each plainly one thing. */
import { expect, test } from 'vitest';
import type { Limit } from '../../engine/running/watch/diagnosis.ts';
import { bottleneckOf } from '../../products/plan/bottleneck.ts';
import type { Figures } from '../../products/plan/plan-figures.ts';
import { lasting, sparkline } from '../../products/plan/plan-page.ts';
import { presetNamed } from '../../products/simulator/presets.ts';

/** 256 of 256 sequences run, the KV cache is half full, and most of a step reads it. */
const STEADY: Figures = {
  endpoints: 1,
  items: 10_000,
  failed: 0,
  makespan: 3_000,
  begun: 2_900,
  calls: 50_000,
  retries: 0,
  tokens: { prompt: 40e6, cached: 20e6, completion: 8e6 },
  preemptions: 0,
  gpuHours: 1,
  busy: 1,
  step: { cpu: 0.03, weights: 0.1, computing: 0.4, kv: 0.47, drafting: 0 },
  inFlight: 512,
  limit: 280,
  pinned: false,
  steady: { kv: 0.5, running: 256, waiting: 20, queued: 200, busy: 1 },
  rate: 3,
  series: { every: 60, kv: [], running: [], waiting: [], queued: [], busy: [], outputTokensPerSecond: [] },
  simulated: 10_000,
  spread: 0,
};

const cases: [Limit, string, Partial<Figures>][] = [
  ['reading', 'reading the KV cache: what 256 sequences', {}],
  [
    'computing',
    '50 % of them are in no cache',
    { step: { cpu: 0.03, weights: 0.1, computing: 0.6, kv: 0.27, drafting: 0 } },
  ],
  [
    'batch',
    'would bring up to 60 % more',
    { step: { cpu: 0.1, weights: 0.6, computing: 0.1, kv: 0.2, drafting: 0 } },
  ],
  [
    'few-items',
    'all 100 were in flight',
    { items: 100, steady: { ...STEADY.steady, running: 90, waiting: 0, queued: 0, busy: 0.9 } },
  ],
  [
    'few-items',
    'all 600 had begun after 10 % of the time',
    {
      items: 600,
      begun: 300,
      limit: 35,
      endpoints: 4,
      steady: { ...STEADY.steady, running: 204, waiting: 19 },
    },
  ],
  // what waits for its prefill in a batch that is far from full says nothing of max_num_seqs
  [
    'few-items',
    'all 60 were',
    { items: 60, begun: 1, steady: { ...STEADY.steady, running: 50, waiting: 2 } },
  ],
  ['own-process', '105 % of the time', { makespan: 10 }],
  ['kv', '97 % of it is in use', { steady: { ...STEADY.steady, kv: 0.97, running: 120 } }],
  ['kv', '5000 preemptions', { preemptions: 5_000 }],
  [
    'pinned',
    'that was set for server 1: calls waited',
    { limit: 64, pinned: true, steady: { ...STEADY.steady, running: 64, waiting: 0 } },
  ],
  [
    'in-flight',
    '--in-flight 512: the servers had room',
    { steady: { ...STEADY.steady, running: 64, waiting: 0, queued: 0, busy: 0.6 } },
  ],
];

test.each(cases)('%s: %s', (limit, words, change) => {
  const found = bottleneckOf({ ...STEADY, ...change }, presetNamed('3b-a6000'));
  expect(found.limit).toBe(limit);
  expect(found.text).toContain(words);
});

test('a long tail is told', () => {
  const { text } = bottleneckOf({ ...STEADY, begun: 1_500 }, presetNamed('3b-a6000'));
  expect(text).toContain('50 % of the time only the last items were in flight');
});

test('durations and sparklines', () => {
  expect([0, 59.6, 61, 3_599.7, 7_199.9, 90_000].map(lasting)).toEqual([
    '0 s',
    '1 min 00 s',
    '1 min 01 s',
    '1 h 00 min',
    '2 h 00 min',
    '25 h 00 min',
  ]);
  expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 7)).toBe('▁▂▃▄▅▆▇█');
  expect(sparkline([], 1)).toBe('');
  expect(
    sparkline(
      Array.from({ length: 1_000 }, () => 0),
      0,
    ),
  ).toBe('▁'.repeat(60));
});
