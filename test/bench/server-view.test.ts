/** What servers say of a run: pages of metrics before and after it, and what it is held against. */
import { expect, test } from 'vitest';
import { labelSetOf, pageOf } from '../../engine/asking/endpoints/server-load.ts';
import { viewOf } from '../../products/measure/bench/server-view.ts';

const page = (lines: readonly string[]): string => pageOf(Buffer.from(`${lines.join('\n')}\n`));
const labels = '{engine="0",model_name="m"}';
const at = (answers: number, seconds: number, hits: number): string[] => [
  `vllm:time_to_first_token_seconds_sum${labels} ${seconds}`,
  `vllm:time_to_first_token_seconds_count${labels} ${answers}`,
  `vllm:e2e_request_latency_seconds_sum${labels} ${10 * seconds}`,
  `vllm:e2e_request_latency_seconds_count${labels} ${answers}`,
  `vllm:num_preemptions_total${labels} ${answers / 10}`,
  `vllm:kv_cache_usage_perc${labels} 0.4`,
  `vllm:prefix_cache_queries_total${labels} ${1_000 * answers}`,
  `vllm:prefix_cache_hits_total${labels} ${hits}`,
];
const timeline = { running: [3, 5], waiting: [0, 2], kv: [0.1, 0.4], gpu: [0.9, null] };

test('means are deltas over all servers; what was counted before the run is not in them', () => {
  const pairs = [
    { first: page(at(100, 50, 7)), last: page(at(120, 51, 5_007)) },
    { first: page(at(0, 0, 0)), last: page(at(20, 3, 0)) },
  ];
  const view = viewOf(pairs, 2, timeline, null);
  expect(view).toMatchObject({
    seen: 2,
    of: 2,
    restarted: false,
    requests: 40,
    preemptions: 4,
    kvMax: 0.4,
    runningMean: 4,
    runningMax: 5,
    waitingMax: 2,
    gpu: null,
  });
  expect(view.mean.ttft).toBeCloseTo((1_000 * (1 + 3)) / 40, 9);
  expect(view.mean.e2el).toBeCloseTo((10_000 * (1 + 3)) / 40, 9);
  expect(view.prefixHits).toBeCloseTo(5_000 / 40_000, 12);
  const bare = pairs.map(({ first, last }) => ({ first, last: last.replaceAll('vllm:kv', 'other:kv') }));
  expect(viewOf(bare, 2, timeline, null).kvMax).toBeNull();
  // nobody said these
  expect([view.mean.queue, view.outputTokens]).toEqual([null, null]);
});

test('a server that began again is left out and named; of none there is no figure', () => {
  const again = { first: page(at(100, 50, 7)), last: page(at(20, 3, 7)) };
  expect(viewOf([again], 1, timeline, null)).toMatchObject({
    seen: 0,
    restarted: true,
    requests: null,
    kvMax: null,
    runningMax: null,
  });
  expect(viewOf([], 3, { running: [], waiting: [], kv: [], gpu: [] }, null)).toMatchObject({
    seen: 0,
    of: 3,
  });
});

test('the settings of a server are the labels of a series, each bounded', () => {
  const many = Array.from({ length: 200 }, (_, i) => `l${i}="${i}"`).join(',');
  const text = page([
    'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",evil="a\\"b=\\"c"} 1.0',
    `vllm:vllm_config_info{${many},long="${'x'.repeat(500)}"} 1.0`,
  ]);
  expect(labelSetOf(text, 'vllm:cache_config_info')).toEqual({
    block_size: '16',
    enable_prefix_caching: 'True',
  });
  const bounded = labelSetOf(text, 'vllm:vllm_config_info');
  expect(Object.keys(bounded)).toHaveLength(64);
  expect(labelSetOf(text, 'vllm:none')).toEqual({});
});
