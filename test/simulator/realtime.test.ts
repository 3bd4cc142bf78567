/** A server with an engine, on a clock that the test moves: its times, its metrics, its limits. */
import { afterEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { Engine } from '../../products/simulator/engine.ts';
import { presetNamed, withFlags } from '../../products/simulator/presets.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { engineBackend } from '../../products/simulator/timing.ts';
import { promptOf } from '../../products/simulator/tokens.ts';
import { manualClock } from '../pool/clock.ts';
import { drain } from './closed-loop.ts';
import { bodyOf, type Completion, completion, post } from './loan.ts';

const preset = presetNamed('3b-a6000');
const running: Simulator[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

/** A server whose clock stands still, and what waits until so many requests have come. */
async function start(options: SimulatorOptions = {}) {
  const clock = manualClock();
  let asked = 0;
  let tell = () => {};
  const simulator = await startSimulator({
    preset,
    clock,
    onRequest: () => {
      asked++;
      tell();
    },
    ...options,
  });
  running.push(simulator);
  const reached = (count: number) =>
    new Promise<void>(done => {
      tell = () => {
        // what a request asks for is with the engine when its turn of the event loop is over
        if (asked >= count) setImmediate(done);
      };
      tell();
    });
  const root = simulator.url.slice(0, -'/v1'.length);
  const metric = async (name: string) => {
    const text = await (await fetch(`${root}/metrics`)).text();
    const line = text.split('\n').find(each => each.startsWith(`vllm:${name}{`));
    return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1));
  };
  return { simulator, url: simulator.url, root, clock, reached, metric };
}

const system = 'You are the Risk Manager of a lender. '.repeat(40);
const question = (turn: number) => bodyOf({ system, turn });
const promptLike = (turn: number) => promptOf(JSON.parse(question(turn)).messages);

test('an answer comes when the engine says, with what its prefix cache had', async () => {
  const { url, clock, reached, metric } = await start();
  const started = clock.now();
  const answered: { at: number; usage: Completion['usage'] }[] = [];
  const asked = [0, 1, 2].map(async turn => {
    const { usage } = await completion(url, question(turn));
    answered.push({ at: clock.now() - started, usage });
    return usage;
  });
  await reached(3);
  expect(await metric('num_requests_waiting')).toBe(3);
  clock.pass(0.001, 0.001);
  // all three came before the engine began: they are in its first step
  expect(await metric('num_requests_running')).toBe(3);
  expect(await metric('kv_cache_usage_perc')).toBeGreaterThan(0.001);
  while (answered.length < 3) {
    clock.pass(50, 1);
    await new Promise(turn => setImmediate(turn));
  }
  const usages = await Promise.all(asked);

  const engine = new Engine(preset);
  const expected = usages.map(({ completion_tokens }, turn) => {
    const told = { at: 0, cached: 0 };
    engine.add(
      {
        prompt: promptLike(turn),
        output: completion_tokens,
        done(at, { cachedTokens }) {
          told.at = at;
          told.cached = cachedTokens;
        },
      },
      0,
    );
    return told;
  });
  drain(engine);
  expect(usages.map(usage => usage.prompt_tokens_details.cached_tokens).sort()).toEqual(
    expected.map(told => told.cached).sort(),
  );
  expect(Math.max(...usages.map(usage => usage.prompt_tokens_details.cached_tokens))).toBeGreaterThan(300);
  const last = Math.max(...expected.map(told => told.at));
  expect(Math.max(...answered.map(({ at }) => at))).toBeGreaterThanOrEqual(last);
  expect(Math.max(...answered.map(({ at }) => at))).toBeLessThan(last + 100);
  const state = engine.state(1e9);
  expect(await metric('prefix_cache_queries_total')).toBe(state.prefixQueries);
  expect(await metric('prefix_cache_hits_total')).toBe(state.prefixHits);
  expect(await metric('prompt_tokens_cached_total')).toBe(state.prefixHits);
  expect(await metric('generation_tokens_total')).toBe(state.outputTokens);
  expect(await metric('kv_cache_usage_perc')).toBe(0);
  // what has been said, when it was said: this clock stands still for 1 ms at a time
  const said = 1_000 * ((await metric('e2e_request_latency_seconds_sum')) ?? 0);
  const due = expected.reduce((sum, told) => sum + told.at, 0);
  expect(said).toBeGreaterThanOrEqual(due);
  expect(said).toBeLessThan(due + expected.length);
  expect(await metric('inter_token_latency_seconds_count')).toBe(
    usages.reduce((sum, usage) => sum + usage.completion_tokens - 1, 0),
  );
});

test('a streamed answer comes in parts while its tokens are made', async () => {
  const { url, clock, reached } = await start();
  const asked = post(url, bodyOf({ more: { stream: true } }));
  await reached(1);
  clock.pass(200, 1);
  const reader = (await asked).body!.getReader();
  const first = Buffer.from((await reader.read()).value!).toString();
  expect(first).toContain('"role":"assistant"');
  expect(first).not.toContain('[DONE]');
  clock.pass(60_000, 1_000);
  let rest = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    rest += Buffer.from(part.value).toString();
  }
  expect(rest.endsWith('data: [DONE]\n\n')).toBe(true);
  const events = `${first}${rest}`.split('\n\n').filter(event => event.startsWith('data: {'));
  const text = events.map(event => JSON.parse(event.slice(6)).choices[0].delta.content ?? '').join('');
  expect(JSON.parse(text).loan_type).toBe('personal_loan');
});

test('each token of a stream comes at the end of its step', async () => {
  const { url, clock, reached } = await start();
  const asked = post(url, bodyOf({ more: { stream: true, max_tokens: 12, ignore_eos: true } }));
  await reached(1);
  const engine = new Engine(preset);
  const due: number[] = [];
  engine.add(
    {
      prompt: promptOf(JSON.parse(bodyOf({})).messages),
      output: 12,
      firstToken: at => due.push(at),
      progress: { every: 1, tokens: at => due.push(at) },
      done: at => due.push(at),
    },
    0,
  );
  drain(engine);
  expect(due).toHaveLength(12);
  let reader: { read(): Promise<{ value?: Uint8Array; done: boolean }> } | undefined;
  let passed = 0;
  for (const [token, at] of due.entries()) {
    clock.pass(at + 0.001 - passed);
    passed = at + 0.001;
    reader ??= (await asked).body!.getReader();
    const { value } = await reader.read();
    const said = Buffer.from(value!)
      .toString()
      .match(/"content":"[^"]/g);
    expect(said, `token ${token + 1}`).toHaveLength(1);
  }
});

test('the KV cache follows the share of memory, batches their limits', async () => {
  const flags = { maxNumSeqs: 8, maxNumBatchedTokens: 512, gpuMemoryUtilization: 0.8 };
  const { limits } = withFlags(preset, flags);
  // a tenth of 48 GiB, at 114,688 bytes a token
  const less = (0.1 * 48 * 2 ** 30) / 114_688;
  expect(limits).toEqual({
    maxNumSeqs: 8,
    maxNumBatchedTokens: 512,
    kvTokens: Math.floor(290_000 - less),
  });
  expect(withFlags(preset, {}).limits).toEqual(preset.limits);
  expect(withFlags(preset, { gpuMemoryUtilization: 0.9 }).limits).toEqual(preset.limits);
  const bare = { ...preset, file: { ...preset.file, gpu_memory_gib: undefined } };
  expect(() => withFlags(bare as never, { gpuMemoryUtilization: 0.8 })).toThrow(
    /gpu_memory_gib in the preset/,
  );
});

test('a client that goes away frees its blocks', async () => {
  const { url, clock, reached, metric } = await start();
  const patience = new AbortController();
  const asked = fetch(`${url}/chat/completions`, {
    method: 'POST',
    body: question(0),
    signal: patience.signal,
  });
  await reached(1);
  clock.pass(100, 1);
  expect(await metric('num_requests_running')).toBe(1);
  patience.abort();
  await expect(asked).rejects.toThrow();
  while ((await metric('request_success_total{finished_reason="abort"}')) === 0)
    await new Promise(setImmediate);
  clock.pass(100, 1);
  expect(await metric('num_requests_running')).toBe(0);
  expect(await metric('kv_cache_usage_perc')).toBe(0);
});

describe('limits', () => {
  test('so many requests are let in, the next get 503, and are counted', async () => {
    const { simulator, url, clock, reached, root } = await start({ maxQueuedRequests: 2 });
    const asked = [0, 1].map(turn => completion(url, question(turn)));
    await reached(2);
    const refused = await post(url, question(2));
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      error: { type: 'Service Unavailable', code: 503, message: /currently busy/ },
    });
    clock.pass(60_000, 1_000);
    await Promise.all(asked);
    expect(simulator.counts()).toMatchObject({ requests: 3, answers: 2 });
    const text = await (await fetch(`${root}/metrics`)).text();
    expect(text).toMatch(/admission_rejections_total\{.*reason="max_num_queued_reqs"\} 1\n/);
  });

  test('so many prompt tokens may wait to be computed', async () => {
    const { url, clock, reached } = await start({ maxQueuedTokens: 500 });
    const asked = [0, 1].map(turn => completion(url, question(turn)));
    await reached(2);
    expect((await post(url, question(2))).status).toBe(503);
    clock.pass(200, 1);
    // all of it is computed by now, and the two still decode
    const third = completion(url, question(2));
    await reached(4);
    clock.pass(60_000, 1_000);
    expect((await Promise.all([...asked, third])).every(({ choices }) => choices.length === 1)).toBe(true);
  });
});

test.each([
  ['new', true, false],
  ['old', false, true],
  ['both', true, true],
] as const)('metrics under %s names', async (metricNames, current, old) => {
  const { root } = await start({ metricNames });
  const text = await (await fetch(`${root}/metrics`)).text();
  const has = (name: string) => new RegExp(`^vllm:${name}\\{`, 'm').test(text);
  for (const name of [
    'kv_cache_usage_perc',
    'prefix_cache_hits_total',
    'inter_token_latency_seconds_count',
  ]) {
    expect(has(name), name).toBe(current);
  }
  for (const name of [
    'gpu_cache_usage_perc',
    'gpu_prefix_cache_hits_total',
    'time_per_output_token_seconds_sum',
  ]) {
    expect(has(name), name).toBe(old);
  }
  expect(text).toContain(
    'vllm:cache_config_info{engine="0",model_name="simulated-3b",block_size="16",num_gpu_blocks="18125"} 1\n',
  );
});

test('a context longer than the KV cache is refused, as vLLM refuses to start', async () => {
  await expect(startSimulator({ preset, maxModelLength: 300_000 })).rejects.toThrow(
    /at most 290000 tokens, the KV cache of 3b-a6000, found 300000/,
  );
});

test('embeddings and completions go through the engine too', async () => {
  const { url, clock, reached } = await start();
  const embedded = post(
    url,
    JSON.stringify({ input: ['a loan', 'two loans', 'a loan'], dimensions: 32 }),
    '/embeddings',
  );
  const completed = post(url, JSON.stringify({ prompt: 'Once upon a time', max_tokens: 9 }), '/completions');
  await reached(2);
  clock.pass(60_000, 1_000);
  const { data, usage } = (await (await embedded).json()) as {
    data: { embedding: number[] }[];
    usage: { prompt_tokens: number };
  };
  expect(usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 0 });
  expect(data.map(({ embedding }) => embedding.length)).toEqual([32, 32, 32]);
  expect(data[0]).toEqual({ ...data[2], index: 0 });
  expect(Math.hypot(...data[1]!.embedding)).toBeCloseTo(1, 6);
  expect(await (await completed).json()).toMatchObject({
    object: 'text_completion',
    choices: [{ index: 0, text: expect.stringMatching(/^[A-Za-z]/) }],
    usage: { prompt_tokens: 4 },
  });
});

test('who came before the end of a step is in the next one, however late both are seen', () => {
  let now = 1_000;
  const clock = { ...manualClock(), now: () => now, after: () => () => {} };
  const backend = engineBackend(preset, clock, 8_192);
  const queued: number[] = [];
  const ask = (came: number) =>
    backend.start(
      {
        ...{ asked: 'x'.repeat(4_000 + came), promptTokens: 1_000, outputTokens: 2, priority: 0 },
        ...{ request: Buffer.alloc(32), streamed: false, came },
      },
      { firstToken() {}, progress() {}, done: told => queued.push(told.queued) },
    );
  ask(now);
  const engine = new Engine(preset);
  engine.add({ prompt: promptOf('x'.repeat(5_000)), output: 2, done() {} }, now);
  const end = engine.advance(now)!;
  // the process was busy, and reads three requests behind the end of the step
  now = end + 5;
  ask(end - 1);
  ask(end + 1);
  // never before what the engine was told already
  ask(end - 2);
  now = end + 10_000;
  backend.live();
  // the first of all, and who came after the end waits for the step that began there
  const sorted = queued.sort((a, b) => a - b);
  expect(sorted).toHaveLength(4);
  expect(sorted[0]).toBe(0);
  expect(sorted[1]).toBeCloseTo(1, 9);
  expect(sorted[2]).toBeGreaterThan(5);
});

test('a time of the real clock is not run before it, and can be called off', async () => {
  const ran: number[] = [];
  const times = [0, 0.4, 1, 3.7].map(ms => performance.now() + ms);
  const callOff = systemClock.at!(performance.now() + 2, () => ran.push(Number.NaN));
  callOff();
  const waitFor = (when: number) =>
    new Promise<void>(done =>
      systemClock.at!(when, () => {
        ran.push(performance.now() - when);
        done();
      }),
    );
  await Promise.all(times.map(waitFor));
  expect(ran.filter(late => late >= 0)).toHaveLength(4);
});
