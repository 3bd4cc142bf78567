/** The use of GPUs, as a DCGM exporter or nvidia-smi shows it: read, averaged over a run, and missed without harm. */
import { expect, test } from 'vitest';
import { lookAtGpus, readGpuPage, readSmi, SMI } from '../../engine/asking/endpoints/gpu.ts';
import { TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import { pageOf } from '../../engine/asking/endpoints/server-load.ts';
import type { OpenWire, Request } from '../../engine/asking/endpoints/wire.ts';
import { createEndpoint } from '../../engine/asking/pool/pool-state.ts';
import { newTimes } from '../../engine/core/item/account.ts';
import { closingLines } from '../../engine/running/watch/closing.ts';
import { endpointWords, summaryWords } from '../../engine/running/watch/run-words.ts';
import { manualClock } from './clock.ts';
import { virtual } from './virtual.ts';

const series = (name: string, gpu: number, value: number | string): string =>
  `${name}{gpu="${gpu}",UUID="GPU-${gpu}a",device="nvidia${gpu}",modelName="NVIDIA A40",Hostname="gpu1"} ${value}`;
const PAGE = [
  '# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).',
  '# TYPE DCGM_FI_DEV_GPU_UTIL gauge',
  series('DCGM_FI_DEV_GPU_UTIL', 0, 96),
  series('DCGM_FI_DEV_GPU_UTIL', 1, 50),
  series('DCGM_FI_DEV_FB_FREE', 0, 1000),
  series('DCGM_FI_DEV_FB_FREE', 1, 3000),
  series('DCGM_FI_DEV_FB_USED', 0, 3000),
  series('DCGM_FI_DEV_FB_USED', 1, 1000),
].join('\n');

test.each<[string, string, string[], ReturnType<typeof readGpuPage>]>([
  ['all that are shown, on average', PAGE, [], { use: 0.73, memory: 0.5 }],
  ['one by number', PAGE, ['0'], { use: 0.96, memory: 0.75 }],
  ['one by UUID', PAGE, ['GPU-1a'], { use: 0.5, memory: 0.25 }],
  ['two by both', PAGE, ['0', 'GPU-1a'], { use: 0.73, memory: 0.5 }],
  ['one that is not there', PAGE, ['7'], null],
  ['a number that begins another', PAGE.replaceAll('gpu="0"', 'gpu="10"'), ['1'], { use: 0.5, memory: 0.25 }],
  ['a divided card', series('DCGM_FI_PROF_GR_ENGINE_ACTIVE', 0, 0.8), [], { use: 0.8, memory: null }],
  ['no use', series('DCGM_FI_DEV_FB_USED', 0, 3), [], null],
  ['more than there is', series('DCGM_FI_DEV_GPU_UTIL', 0, 4e9), [], { use: 1, memory: null }],
  ['no numbers', series('DCGM_FI_DEV_GPU_UTIL', 0, 'NaN'), [], null],
  ["a server's own page", 'vllm:num_requests_running{model="m"} 3', [], null],
  ['nothing', '', [], null],
])('a page: %s', (_, page, ids, expected) => {
  expect(readGpuPage(pageOf(Buffer.from(page)), ids)).toEqual(expected);
});

test.each<[string, string, string[], ReturnType<typeof readSmi>]>([
  ['two cards', '0, GPU-0a, 100, 60, 80\n1, GPU-1a, 0, 20, 80\n', [], { use: 0.5, memory: 0.5 }],
  ['one of them', '0, GPU-0a, 100, 60, 80\n1, GPU-1a, 0, 20, 80\n', ['1'], { use: 0, memory: 0.25 }],
  ['no memory said', '0, GPU-0a, 40, [N/A], [N/A]\n', [], { use: 0.4, memory: null }],
  ['a divided card', '0, GPU-0a, [N/A], 60, 80\n', [], null],
  ['an error in words', 'No devices were found\n', [], null],
  ['nothing', '', [], null],
])('nvidia-smi: %s', (_, printed, ids, expected) => {
  expect(readSmi(printed, ids)).toEqual(expected);
});

const setting = (name: string, from: string, ids: string[] = []) => ({
  url: `http://${name}:8005/v1`,
  limit: 8,
  pinned: false,
  gpu: { from, ids },
});

/** A wire that answers GET by `reply`, and what it was asked. */
function pages(reply: () => { status: number; body: string } | Error | null) {
  const asked: string[] = [];
  const openWire: OpenWire = origin => ({
    send({ path }: Request, settle) {
      asked.push(origin + path);
      const got = reply();
      if (got !== null)
        settle(
          got instanceof Error
            ? got
            : ({ status: got.status, headers: [], body: Buffer.from(got.body) } as never),
        );
      return { abort() {} } as never;
    },
    close: async () => {},
  });
  return { openWire, asked };
}

test('one page serves the endpoints that name it; what is missing is said once and looked for again', () => {
  const clock = manualClock();
  let reply: ReturnType<Parameters<typeof pages>[0]> = { status: 200, body: PAGE };
  const { openWire, asked } = pages(() => reply);
  const from = 'http://gpu1:9400/metrics';
  const endpoints = [setting('gpu1', from, ['0']), setting('gpu1b', from, ['1'])].map((one, at) =>
    createEndpoint(one, at, undefined, { openWire }),
  );
  const warnings: string[] = [];
  const { look } = lookAtGpus({
    endpoints,
    clock,
    timing: TIMING,
    warn: text => void warnings.push(text),
    openWire,
  });
  const step = (ms: number): void => {
    clock.pass(ms);
    look(clock.now());
  };
  step(0);
  step(100);
  expect(asked).toEqual([from]);
  expect(endpoints.map(({ gpu }) => gpu?.use)).toEqual([0.96, 0.5]);

  for (const lost of [{ status: 404, body: '' }, new Error('refused'), { status: 200, body: 'x' }, null]) {
    reply = lost;
    step(60_000);
    step(TIMING.probeTimeout); // one that is never answered is given up
    expect(endpoints.map(({ gpu }) => gpu)).toEqual([null, null]);
  }
  expect(warnings).toEqual([
    'http://gpu1:8005/v1: expected the use of its GPUs of 0 from http://gpu1:9400/metrics, found HTTP 404; the run continues without it, and looks again every minute',
  ]);
  reply = { status: 200, body: PAGE };
  step(60_000);
  expect(endpoints.map(({ gpu }) => gpu?.use)).toEqual([0.96, 0.5]);
});

test.each<[string, string | Error, number | undefined, string[]]>([
  ['there', '0, GPU-0a, 93, 60, 80\n', 0.93, []],
  ['not there', Object.assign(new Error('x'), { code: 'ENOENT' }), undefined, ['found no such program']],
  ['broken', new Error('x'), undefined, ['found an error of it']],
])('a program that is %s', (_, printed, use, said) => {
  const clock = manualClock();
  const endpoint = createEndpoint(setting('local', SMI), 0, undefined);
  const warnings: string[] = [];
  const { look } = lookAtGpus({
    endpoints: [endpoint],
    clock,
    timing: TIMING,
    warn: text => void warnings.push(text),
    smi: (args, _timeout, done) => {
      expect(args.join(' ')).toBe(
        '--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits',
      );
      done(printed);
    },
  });
  look(0);
  expect(endpoint.gpu?.use).toBe(use);
  expect(warnings.map(text => /found [^;]*/.exec(text)?.[0])).toEqual(said);
});

test('a run shows it in its bars and closing lines', async () => {
  const seen = pages(() => ({ status: 200, body: PAGE }));
  const run = await virtual({ count: 2 }, ({ servers, openWire }) => ({
    endpoints: servers.map(({ url }, at) => ({
      ...{ url, limit: 32, pinned: false },
      gpu: { from: 'http://gpu1:9400/metrics', ids: [String(at)] },
    })),
    openWire: (origin, ...more) => (origin.endsWith(':9400') ? seen.openWire : openWire)(origin, ...more),
  }));
  await run.ask(2_000);
  const stats = run.pool.stats();
  expect(stats.endpoints.map(({ gpu }) => gpu?.use)).toEqual([0.96, 0.5]);
  expect(stats.endpoints.map(one => endpointWords(one).at(-1))).toEqual(['GPU 96 %', 'GPU 50 %']);
  expect(summaryWords(stats.endpoints)).toContain('GPU 50 % to 96 %');
  const lines = closingLines({
    stats,
    times: newTimes(),
    now: stats.since,
    loop: 0,
    itemsInFlight: 512,
    room: { starved: 0, tail: 0, capped: 0, all: null },
  });
  expect(lines.slice(1).map(line => line.split(' · ')[3])).toEqual([
    'GPU 96 % busy on average',
    'GPU 50 % busy on average',
  ]);
});
