/** What is made of runs: the page, the table, the comparison. The runs are made up, and so are the servers' words in them. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FORMULAS } from '../../products/measure/bench/bench-figures.ts';
import { benchPage } from '../../products/measure/bench/bench-page.ts';
import type { Load, SpreadJson } from '../../products/measure/bench/bench-result.ts';
import { csvOf } from '../../products/measure/bench/bench-result.ts';
import { fallingLoads } from '../../products/measure/bench/bench-tables.ts';
import { compareBenches } from '../../products/measure/bench/compare-benches.ts';
import type { BenchResult } from '../../products/measure/bench/json.ts';
import { CHROMIUM, startChromium } from '../chromium.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const spread = (mean: number): SpreadJson => ({
  n: 100,
  mean,
  std: 2,
  min: mean - 5,
  max: mean + 5,
  p50: mean,
  p90: mean,
  p95: mean,
  p99: mean,
});
const WICKED = '<script>alert(1)</script>"\'&=cmd|x';

/** A run whose times are `times` as long as usual; its rates are as much less. */
function run(
  load: Load,
  { times = 1, number = 1, of = 1, windows = 12, servers = 1, noise = 0.02 } = {},
): BenchResult {
  const figures = Object.fromEntries(
    Object.entries({ ttft: 40, tpot: 8, itl: 8, e2el: 1_000 }).flatMap(([metric, ms]) =>
      Object.entries({ mean: 1, median: 0.9, std: 0.2, p90: 1.4, p95: 1.6, p99: 2 }).map(
        ([figure, share]) => [`${figure}_${metric}_ms`, ms * share * times],
      ),
    ),
  );
  const wave = (value: number): number[] =>
    Array.from({ length: windows }, (_, i) => value * (1 + noise * Math.sin(7 * i + number)));
  return {
    ...(figures as never as BenchResult),
    date: '20261122-120000',
    label: WICKED,
    model_id: WICKED,
    num_prompts: 100,
    duration: 60,
    completed: 99,
    failed: 1,
    total_input_tokens: 40_000,
    total_output_tokens: 12_800,
    request_throughput: (10 / times) * (1 + 0.001 * number),
    request_goodput: 9,
    output_throughput: (1_280 / times) * (1 + 0.001 * number),
    total_token_throughput: 5_280,
    max_concurrent_requests: 10,
    fw: {
      bench: 1,
      version: '0.1.0',
      began: '2026-11-22T12:00:00.000Z',
      run: number,
      of,
      load,
      endpoints: Array.from({ length: servers }, (_, i) => `http://gpu${i + 1}:8005/v1`),
      goodput: { ttft: 500 },
      workload: {
        source: WICKED,
        seed: 7,
        first_request: 0,
        repeated: 0,
        body: `{"messages":"${WICKED}"}`,
        body_sha256: '0'.repeat(64),
        input_tokens: spread(400),
        output_tokens: spread(128),
        cached_share: 0.02,
        uncounted: 0,
      },
      verdict: load.kind === 'closed' && load.concurrency === 40 ? 'client-limited' : 'ok',
      client: {
        limits: load.kind === 'closed' && load.concurrency === 40 ? [WICKED] : [],
        loop_utilisation: 0.2,
        cores: 0.3,
        waited: 0.01,
        lag_mean_ms: 0.2,
        lag_p99_ms: 1.4,
        lateness_p50_ms: null,
        lateness_p99_ms: null,
        coalesced_share: 0,
      },
      servers: Array.from({ length: servers }, (_, i) => ({
        url: `http://gpu${i + 1}:8005/v1`,
        version: WICKED,
        root: null,
        max_model_len: 8192,
        settings: { gpu_memory_utilization: '0.9', [WICKED]: WICKED },
      })),
      server: {
        seen: servers,
        restarted: false,
        requests: 200,
        mean_ttft_ms: 38 * times,
        mean_tpot_ms: 8 * times,
        mean_e2el_ms: 1_000 * times,
        mean_queue_ms: 2,
        mean_prefill_ms: 36,
        mean_decode_ms: 960,
        gap_ttft_ms: 2,
        gap_tpot_ms: 0,
        gap_e2el_ms: 2,
        prompt_tokens: 80_000,
        output_tokens: 25_600,
        preemptions: 3,
        prefix_hits: 0.02,
        kv_max: 0.4,
        running_mean: 9,
        running_max: 10,
        waiting_mean: 0,
        waiting_max: 0,
        gpu_use: 0.93,
        gpu_memory: null,
      },
      steady: { seconds: 20, request_throughput: 11 / times, output_throughput: 1_400 / times },
      incomplete: 0,
      failures: [{ code: 'call-failed', cause: 'HTTP 503', count: 1, message: WICKED }],
      e2el_due_ms: spread(1_000 * times),
      first_event_ms: spread(40),
      first_answer_ms: spread(40),
      intervals: {
        median_ttft_ms: [34 * times, 38 * times],
        p99_ttft_ms: [70 * times, null],
        p99_e2el_ms: [1_900 * times, 2_100 * times],
      },
      windows:
        windows === 0
          ? null
          : {
              seconds: 5,
              ttft: wave(40 * times),
              tpot: wave(8 * times),
              e2el: wave(1_000 * times),
              requests: wave(10 / times),
              tokens: wave(1_280 / times),
            },
      timeline: {
        events: wave(1_280).map(Math.round),
        under_way: wave(10).map(Math.round),
        running: wave(9).map(Math.round),
        waiting: wave(1).map(Math.abs),
        kv: wave(0.4).map(Math.abs),
        gpu: wave(0.9),
      },
      formulas: FORMULAS,
    },
  };
}

const closed = (concurrency: number): Load => ({ kind: 'closed', concurrency });
const open = (rate: number): Load => ({ kind: 'open', rate, burstiness: 1 });
const many = [
  closed(1),
  closed(10),
  closed(40),
  open(2),
  open(5),
  { kind: 'open', rate: 'inf', burstiness: 1 } as const,
];

test('tokens/s that fall with the load are named, with what the servers say of it', () => {
  const [few, more] = [run(closed(10)), run(closed(50), { times: 1.6, number: 2 })];
  const said = (change: (one: BenchResult) => void): string[] => {
    const other = structuredClone(more);
    change(other);
    return fallingLoads([few, other]);
  };
  expect(fallingLoads([few, run(closed(50))])).toEqual([]);
  expect(said(() => {})).toEqual([
    expect.stringMatching(
      /^50 at a time: 875 tokens\/s out, less than the 1,400 of 10 at a time:.*preempted 3 requests/,
    ),
  ]);
  expect(
    said(one => {
      one.fw.server = null;
      one.failed = 0;
    }),
  ).toEqual([expect.stringContaining('no metrics that would say why')]);
  expect(
    said(one => {
      one.failed = 0;
      Object.assign(one.fw.server ?? {}, { preemptions: 0, waiting_mean: 20 });
    }),
  ).toEqual([expect.stringContaining('more requests waited than ran')]);
});

describe('the comparison', () => {
  const verdicts = (a: readonly BenchResult[], b: readonly BenchResult[]): Record<string, string> =>
    Object.fromEntries(
      compareBenches(a, b).comparisons.flatMap(({ differences }) =>
        differences.map(({ key, verdict }) => [key, verdict]),
      ),
    );

  test('says better and worse where a difference is more than noise, and else that there is none', () => {
    expect(verdicts([run(closed(10))], [run(closed(10), { times: 0.8, number: 2 })])).toEqual({
      request_throughput: 'better',
      output_throughput: 'better',
      mean_ttft_ms: 'better',
      p99_ttft_ms: 'unknown',
      mean_tpot_ms: 'better',
      mean_itl_ms: 'unknown',
      mean_e2el_ms: 'better',
      p99_e2el_ms: 'better',
    });
    const same = verdicts([run(closed(10))], [run(closed(10), { times: 1.001, number: 3, noise: 0.1 })]);
    expect(same).toMatchObject({
      request_throughput: 'no difference',
      mean_ttft_ms: 'no difference',
      p99_e2el_ms: 'no difference',
    });
    expect(verdicts([run(closed(10))], [run(closed(10), { times: 1.5 })])).toMatchObject({
      request_throughput: 'worse',
      mean_ttft_ms: 'worse',
      p99_e2el_ms: 'worse',
    });
  });

  test('takes runs for samples where there are two or more, and windows of one run else', () => {
    const runs = (times: number): BenchResult[] =>
      [1, 2, 3].map(number => run(closed(10), { times, number, of: 3, windows: 0 }));
    const [compared] = compareBenches(runs(1), runs(0.9)).comparisons;
    expect(compared?.differences.map(({ of }) => of)).toEqual(Array(8).fill('runs'));
    expect(compared?.differences[0]?.change).toBeCloseTo(1 / 0.9 - 1, 3);
    const [short] = compareBenches(
      [run(closed(10), { windows: 0 })],
      [run(closed(10), { windows: 0 })],
    ).comparisons;
    expect(short?.differences[0]).toMatchObject({ of: null, verdict: 'unknown' });
  });

  test('names what was not alike, and loads that one side alone has', () => {
    const other = run(closed(40));
    other.model_id = 'other';
    other.fw.workload = { ...other.fw.workload, source: 'synthetic', input_tokens: spread(500) };
    const { comparisons, onlyA, onlyB } = compareBenches(
      [run(closed(40)), run(closed(1))],
      [other, run(open(2), { servers: 2 })],
    );
    expect(comparisons[0]?.notes).toEqual([
      expect.stringContaining('other requests were asked'),
      'prompts had 400.0 and 500.0 tokens on average',
      expect.stringContaining('the models are'),
      expect.stringContaining('A was client-limited'),
      expect.stringContaining('1 requests of A failed'),
      expect.stringContaining('B was client-limited'),
      expect.stringContaining('1 requests of B failed'),
    ]);
    expect([onlyA, onlyB]).toEqual([['1 at a time, 1 server'], ['2/s, 2 servers']]);
  });

  test('fw bench compare prints it, and refuses what is none', async () => {
    const at = folder();
    const put = (name: string, value: unknown): void => writeFileSync(join(at, name), JSON.stringify(value));
    put('a.json', [run(closed(10)), run(open(2))]);
    put('b.json', run(closed(10), { times: 0.8, number: 2 }));
    put('vllm.json', { duration: 1, completed: 1 });
    put('part.json', { ...run(closed(1)), p99_itl_ms: 'x' });
    put('empty.json', []);
    put('other.json', run(closed(3)));
    writeFileSync(join(at, 'text.json'), '{');
    const ran = await fw('fw bench compare a.json b.json', { cwd: at });
    expect([ran.code, ran.stderr]).toEqual([0, '']);
    expect(ran.stdout).toMatch(/^10 at a time on 1 server$/m);
    expect(ran.stdout).toMatch(/^ {2}requests\/s +10\.01 +12\.53 +\+25\.1 % .* better +windows of a run$/m);
    expect(ran.stdout).toContain('in A alone: 2/s, 1 server');
    const json = await fw('fw bench compare a.json b.json --json', { cwd: at });
    expect(JSON.parse(json.stdout)).toMatchObject({ compare: 1, a: 'a.json', comparisons: [{ servers: 1 }] });
    for (const [name, code, message] of [
      ['none.json', 65, /none\.json: expected a file of fw bench --json, found none/],
      ['text.json', 65, /text\.json: expected JSON/],
      ['vllm.json', 65, /found none of its own/],
      ['part.json', 65, /found no number at p99_itl_ms/],
      ['empty.json', 65, /found none/],
      ['other.json', 65, /expected a load that both have/],
      ['', 64, /expected two files/],
    ] as const) {
      const refused = await fw(`fw bench compare a.json ${name}`, { cwd: at });
      expect([refused.code, refused.stdout], name).toEqual([code, '']);
      expect(refused.stderr).toMatch(message);
    }
  });
});

test('the table has a line a run, and no cell that a spreadsheet takes for a formula', () => {
  const lines = csvOf([run(closed(1)), { ...run(open(2)), label: '=1+1' }]).split('\r\n');
  expect(lines).toHaveLength(4);
  const head = lines[0]?.split(',');
  expect(head).toContain('p99_e2el_ms');
  expect(lines[1]).toContain('"<script>alert(1)</script>""\'&=cmd|x"');
  expect(lines[2]?.split(',')[1]).toBe("'=1+1");
});

test('the page holds all runs, and no word of a server becomes markup', () => {
  const page = benchPage(many.map(load => run(load)));
  expect(page).not.toMatch(/<script|onclick=|javascript:/);
  for (const words of [
    '10 at a time',
    '5/s',
    'all at once',
    'HTTP 503',
    'Time to first token',
    'first event with non-empty content',
    'client-limited',
  ])
    expect(page).toContain(words);
  expect(benchPage([run(closed(1), { windows: 0 })])).toContain('</html>');
});

describe.runIf(CHROMIUM !== '')('the page in Chromium', () => {
  const shots = process.env.FW_SHOTS ?? folder();
  let browser: Browser;
  let at: string;
  beforeAll(async () => {
    mkdirSync(shots, { recursive: true });
    at = folder();
    writeFileSync(
      join(at, 'bench.html'),
      benchPage([
        ...many.map(load => run(load)),
        ...[1, 2].map(number => run(closed(20), { servers: 3, number, of: 2 })),
      ]),
    );
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  test.each([
    [1280, 'light'],
    [390, 'dark'],
  ] as const)('%i pixels, %s', async (width, colorScheme) => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    await page.goto(`file://${at}/bench.html`);
    await page.screenshot({ path: join(shots, `bench-${width}-${colorScheme}.png`), fullPage: true });
    const seen = await page.evaluate(readFileSync(join(ROOT, 'test/study/in-page.js'), 'utf8'));
    expect(seen).toMatchObject({ wrong: [], over: 0, scripts: 0, figures: 10 });
    await page.close();
  });
});
