/** What a call may write, which counters are signs of work, and what a person says of the time of a try. */
import { expect, test } from 'vitest';
import { poolSettings } from '../../engine/asking/endpoints/settings.ts';
import { extentOf } from '../../engine/asking/pool/extent.ts';
import { createEndpoint } from '../../engine/asking/pool/pool-state.ts';
import { noteLook, noteTurn, turnFrom } from '../../engine/asking/pool/signs-of-work.ts';
import { manualClock } from './clock.ts';
import { callOf, errorOf, open, serve, until } from './serving.ts';

const CHAT = '/v1/chat/completions';

test.each<[what: string, path: string, body: unknown, write: number | null]>([
  ['max_tokens', CHAT, { max_tokens: 300 }, 300],
  ['the newer name goes before it, as in vLLM', CHAT, { max_tokens: 300, max_completion_tokens: 20 }, 20],
  ['that of the Responses API', '/v1/responses', { max_output_tokens: 70 }, 70],
  ['no more than the context', CHAT, { max_tokens: 1e9 }, 4_096],
  ['the context, where it says nothing', CHAT, {}, 4_096],
  ['… or nothing of use', CHAT, { max_tokens: 'many', n: -3, best_of: null, prompt: [] }, 4_096],
  ['choices', CHAT, { max_tokens: 100, n: 8 }, 800],
  ['… of which the best is taken', '/v1/completions', { max_tokens: 100, n: 2, best_of: 5 }, 500],
  ['a list of prompts', '/v1/completions', { max_tokens: 100, prompt: ['a', 'b', 'c'], n: 2 }, 600],
  ['a prompt as tokens', '/v1/completions', { max_tokens: 100, prompt: [1, 2, 3] }, 100],
  ['at most what a server takes', CHAT, { max_tokens: 1, n: 1e12 }, 16_384],
  ['min_tokens and ignore_eos', CHAT, { max_tokens: 50, min_tokens: 50, ignore_eos: true }, 50],
  ['embeddings', '/v1/embeddings', { input: ['a'], max_tokens: 9 }, 0],
  ['rerank, with a query', '/rerank?x=1', { query: 'a' }, 0],
  ['a body that is no object', CHAT, [1], 4_096],
])('what a call may write: %s', (_, path, body, write) => {
  expect(extentOf({ path, body: Buffer.from(JSON.stringify(body)) }, 4_096).write).toBe(write);
});

test('what a call may write is unknown where neither its body nor the server says', () => {
  expect(extentOf({ path: CHAT, body: Buffer.from('{}') }, undefined)).toMatchObject({
    write: null,
    isSaid: false,
  });
  expect(extentOf({ path: CHAT, body: Buffer.from('no JSON') }, undefined).write).toBe(null);
});

/** An endpoint whose /metrics are looked at once a second; `says` makes a page of so many tokens written. */
function looked() {
  const endpoint = createEndpoint({ url: 'http://127.0.0.1:1/v1', limit: 8, pinned: true }, 0, undefined);
  let now = 0;
  const look = (page: string | null | undefined) => {
    now += 1_000;
    noteLook(endpoint, typeof page === 'string' ? `\n${page}` : page, now);
    return { ...endpoint.signs, now };
  };
  const says = (written: number, running = 4, more = '') =>
    look(`vllm:num_requests_running ${running}\nvllm:generation_tokens_total ${written}\n${more}`);
  return { endpoint, look, says };
}

test('tokens that are counted while nothing is answered show that they are counted as they are written', () => {
  const { says } = looked();
  expect(says(1_000).isLive).toBe(false);
  expect(says(1_400)).toMatchObject({ isLive: true, at: 2_000, steps: 100 });
  // it stands still
  expect(says(1_400)).toMatchObject({ at: 2_000, steps: 100 });
});

test('tokens that are counted when an answer is over say nothing while none is', () => {
  const { endpoint, says } = looked();
  for (let n = 0; n < 10; n++) {
    const { isLive } = says(200 * n);
    expect(isLive).toBe(false);
    endpoint.counts.answered++;
    endpoint.counts.usage.completion += 200;
  }
});

test('an engine that is never still between two looks is seen, whatever it answered', () => {
  const { endpoint, says } = looked();
  for (let n = 0; n < 5; n++) {
    says(210 * n);
    endpoint.counts.answered++;
    endpoint.counts.usage.completion += 200;
  }
  expect(endpoint.signs.isLive).toBe(true);
});

test('steps count as they are, for all calls of the batch: of vLLM the mean of its engines, of llama.cpp its own', () => {
  const { says, look } = looked();
  const steps = (one: number, two: number) =>
    `vllm:iteration_tokens_total_count{engine="0"} ${one}\nvllm:iteration_tokens_total_count{engine="1"} ${two}\n`;
  says(0, 4, steps(10, 10));
  expect(says(800, 4, steps(90, 110)).steps).toBe(90);
  // beyond a step a ms it is another server's count
  expect(says(900, 4, steps(90_000, 110_000)).steps).toBe(1_090);
  const llama = looked();
  const page = (decoded: number) =>
    `llamacpp:requests_processing 1\nllamacpp:tokens_predicted_total 5\nllamacpp:n_decode_total ${decoded}\n`;
  llama.look(page(7));
  expect(llama.look(page(57))).toMatchObject({ steps: 50, isLive: true });
  expect(look(null).isLive).toBe(false);
});

test('several servers behind one URL, whose counters come by turns, are not taken for one that works', () => {
  const { says } = looked();
  const all = Array.from({ length: 40 }, (_, n) => says(n % 2 ? 500_000 : 2_000));
  // both hang: only the first change could be one of a server
  expect(all.at(-1)).toMatchObject({ at: 2_000, isLive: false, steps: 1_000 });
});

test('a look without an answer is no page without counters', () => {
  const { says, look } = looked();
  says(1_000);
  says(1_400);
  expect(look(undefined)).toMatchObject({ isLive: true, unheard: 1 });
  expect(look(undefined)).toMatchObject({ unheard: 2 });
  expect(look(null)).toMatchObject({ isLive: false, unheard: 0 });
});

test('a sign of work clears what silence has counted, and nothing else', () => {
  for (const wasSilent of [true, false]) {
    const { endpoint, says } = looked();
    endpoint.signs.wasSilent = wasSilent;
    endpoint.failuresInARow = 7;
    says(1_000);
    says(1_001);
    expect(endpoint.failuresInARow).toBe(wasSilent ? 0 : 7);
  }
});

test('the turn of a call begins anew with each answer to one before it, and no more once one behind it is answered', () => {
  const turn = turnFrom(100, 5);
  const answered = (answeredAt: number, newestSent: number) => {
    const { signs } = looked().endpoint;
    noteTurn(turn, 100, { ...signs, answeredAt, newestSent, stepsAtAnswer: answeredAt });
    return { ...turn };
  };
  expect(answered(200, 90)).toEqual({ from: 200, steps: 200, isOvertaken: false });
  expect(answered(300, 101)).toEqual({ from: 300, steps: 300, isOvertaken: true });
  expect(answered(400, 101)).toMatchObject({ from: 300 });
});

test('--timeout is the time of each try, and goes before that of a pool file', async () => {
  const endpoints = [{ url: 'http://127.0.0.1:1/v1' }];
  const of = (flag?: string, file?: string) =>
    poolSettings({ pool: { endpoints, ...(file && { timeout: file }) }, ...(flag && { timeout: flag }) }, {})
      .timeout;
  expect([of(), of('90s'), of(undefined, '20m'), of('90s', '20m')]).toEqual([
    undefined,
    90_000,
    1_200_000,
    90_000,
  ]);
  expect(() => of('soon')).toThrow(
    "--timeout: expected a duration such as 250ms, 90s, 10m or 2h, found 'soon'",
  );
  expect(() => of('0s')).toThrow('--timeout: expected more than 0s');

  const clock = manualClock();
  const silent = await serve(() => {});
  const pool = await open([silent.url], { clock, timing: { tick: 100 }, timeout: 7_000 });
  const failing = errorOf(pool.call(callOf()));
  for (let n = 1; n <= 6; n++) {
    for (let step = 0; step < 200 && pool.stats().inFlight === 0; step++) clock.pass(100, 100);
    await silent.reached(n);
    clock.pass(6_900, 100);
    expect(pool.stats().inFlight).toBe(1);
    clock.pass(200, 100);
    await until(() => pool.stats().inFlight === 0);
  }
  expect((await failing).message).toContain('no answer within 7 s (--timeout)');
});
