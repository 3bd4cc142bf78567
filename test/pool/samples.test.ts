/** /metrics as servers write it, and as nobody should. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  averageOf,
  hasSeries,
  labelsOf,
  largestOf,
  noLoads,
  noteLoad,
  pageOf,
  readLoad,
  sumOf,
} from '../../engine/asking/endpoints/server-load.ts';

const pageWith = (...lines: string[]) => pageOf(Buffer.from(lines.join('\n')));

test('sums over engines, the first name that has a value, timestamps, comments', () => {
  const page = pageWith(
    '# HELP vllm:num_requests_running Requests in execution.',
    'vllm:num_requests_running{engine="0",model_name="a b} 9"} 3.0',
    'vllm:num_requests_running{engine="1",model_name="m"} 4 1700000000000',
    'vllm:num_requests_running_created{engine="0"} 1.7e9',
    'vllm:old_counter 5\r',
    'vllm:broken{engine="0"} lots',
    'vllm:nothing',
  );
  expect(sumOf(page, ['vllm:num_requests_running'])).toBe(7);
  expect(largestOf(page, ['vllm:num_requests_running'])).toBe(4);
  expect(sumOf(page, ['vllm:none', 'vllm:old_counter'])).toBe(5);
  expect(sumOf(page, ['vllm:broken', 'vllm:nothing'])).toBeUndefined();
  expect(['vllm:', 'llamacpp:', 'HELP'].map(prefix => hasSeries(page, prefix))).toEqual([true, false, false]);
});

const NONE = { preemptions: 0, prompts: 0, cached: 0, written: 0 };

test('figures beyond all measure stay figures', () => {
  const load = readLoad(
    pageWith(
      'vllm:num_requests_running{engine="0"} 1e308',
      'vllm:num_requests_running{engine="1"} 1e308',
      'vllm:num_requests_waiting NaN',
      'vllm:kv_cache_usage_perc 1e308',
      'vllm:num_preemptions_total -1',
    ),
  );
  expect(load).toEqual({ running: Number.MAX_SAFE_INTEGER, waiting: 0, kv: 1, ...NONE });
});

test('the load of llama.cpp', () => {
  const page = pageWith('llamacpp:requests_processing 8', 'llamacpp:requests_deferred 3');
  expect(readLoad(page)).toEqual({ running: 8, waiting: 3, kv: 0, ...NONE });
});

test('a label is found where it begins, not inside of a value or at the end of another name', () => {
  const page = pageWith(
    'i{mamba_block_size="32",note=",block_size=\\"99\\"",block_size="16"} 1',
    'i{block_size="8"} 1',
    'j{block_size="4"} 1',
    `long{a="${'x'.repeat(1_000)}"} 1`,
  );
  expect(labelsOf(page, 'i', 'block_size')).toEqual(['16', '8']);
  expect(labelsOf(page, 'i', 'size')).toEqual([]);
  expect(labelsOf(page, 'long', 'a')).toEqual([]);
});

test('no text is too strange', () => {
  const piece = fc.constantFrom('vllm:a', '{', '}', 'l="', '"', '\\"', ',', ' ', '1', 'NaN', '\n', '#', 'é');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), pieces => {
      const page = pageWith(pieces.join(''));
      const sum = sumOf(page, ['vllm:a']);
      expect(sum === undefined || Number.isFinite(sum)).toBe(true);
      for (const value of labelsOf(page, 'vllm:a', 'l')) expect(value).not.toContain('"');
    }),
    { numRuns: 2_000 },
  );
});

describe('a batch is full where as many run as ever did, and more are there than ever ran', () => {
  const fullOf = (looks: readonly [running: number, waiting: number][]): number | undefined => {
    const sum = noLoads();
    for (const [running, waiting] of looks) noteLoad(sum, { running, waiting, kv: 0.1, ...NONE }, 1_000);
    return averageOf(sum)?.full;
  };
  test.each<[string, [number, number][], number]>([
    [
      'a batch of 32 with a queue',
      [
        [31, 3],
        [32, 4],
        [32, 9],
        [32, 12],
      ],
      1,
    ],
    [
      'and the tail behind it',
      [
        [32, 4],
        [32, 9],
        [20, 0],
        [5, 0],
      ],
      0.5,
    ],
    // whoever waits there is let in at once: all together are as many as are sent
    [
      'a limit of 16 calls, and prompts that wait for their prefill',
      [
        [16, 0],
        [14, 2],
        [15, 1],
        [12, 4],
      ],
      0,
    ],
    [
      'a queue whose batch was larger before',
      [
        [256, 4],
        [40, 43],
        [42, 40],
        [44, 41],
      ],
      0,
    ],
    [
      'nothing',
      [
        [0, 0],
        [0, 0],
      ],
      0,
    ],
  ])('%s', (_what, looks, full) => expect(fullOf(looks)).toBe(full));

  test('a server that says another number each second takes no more memory for it', () => {
    const sum = noLoads();
    for (let at = 0; at < 30_000; at++) noteLoad(sum, { running: at / 7, waiting: 1, kv: 0, ...NONE }, 1_000);
    expect(sum.crowds.size).toBeLessThanOrEqual(10_000);
  });
});
