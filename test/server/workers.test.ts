/** Batches that workers answer: as anybody sees them, over an end, a stop and a Redis that is away. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { settingsOf } from '../../products/serve/serve-config.ts';
import { QUEUE_OPTIONS, type QueueSettings } from '../../products/workers/queue-options.ts';
import { freePort } from '../free-port.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { until } from '../shards/queueing.ts';
import { slowWithRedis, startRedis, withRedis } from '../shards/redis.ts';
import { begin, linesIn, linesOf, put, reached } from './batching.ts';
import { reachedOn, visitor } from './pages.ts';
import { keyOf, MODEL, type Served, type ServedOptions, served, simulated } from './serving.ts';
import { workerBy } from './working.ts';

const LEASE = 60_000;
/** After a start workers first say what they have: for a sixth of a lease nothing is given out. */
const SHORT = 2_000;
const queueAt = (url: string, lease = LEASE): QueueSettings => ({ url, prefix: 'fw', lease });

/** Its Redis is away: what is handed in needs none. */
async function withoutRedis(options: ServedOptions = {}, lease = LEASE): Promise<Served> {
  const queue = queueAt(`redis://127.0.0.1:${await freePort()}`, lease);
  return served({ endpoints: [], ...options, settings: { grace: 100, queue, ...options.settings } });
}

const open = async (server: Served, key?: string) => {
  const openai = server.client(key);
  const { id } = await begin(openai, linesOf(5));
  return { openai, id };
};
const held = (id: string, lines: number) => [{ work: id, root: 0, part: 0, done: 0, lines }];

test('a batch is open before a worker is there; what is handed in is its output, in order, and charged to its key', async () => {
  const data = folder();
  const key = keyOf(data, 'loans', ['batch', 'metrics'], { tokens_per_day: 100 });
  const server = await withoutRedis({ data });
  const { openai, id } = await open(server, key);
  const worker = workerBy(server.url, keyOf(data, 'gpus', ['worker']));
  const taken = await worker.take(id, 0);
  expect(taken.lines.map(line => JSON.parse(line).id)).toEqual(['r-0', 'r-1', 'r-2', 'r-3', 'r-4']);
  expect((await openai.batches.retrieve(id)).status).toBe('in_progress');
  expect(JSON.parse((await worker.put(taken, 3)).text)).toEqual({ rest: 2 });
  const rest = await worker.take(id, 0, 1);
  expect(JSON.parse((await worker.put(rest, rest.lines.length, 100)).text)).toEqual({ rest: 0 });
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 5, failed: 0 } });
  const lines = await linesIn(openai, done.output_file_id);
  expect(lines.map(({ custom_id }) => custom_id)).toEqual(['r-0', 'r-1', 'r-2', 'r-3', 'r-4']);
  expect(lines[3]?.response?.body.choices[0]?.message.content).toBe('answer to r-3');
  expect((await worker.put(rest)).status).toBe(410);
  // only the state is left of it
  expect(readdirSync(join(data, 'batches', id))).toEqual(['state.json']);
  const input_file_id = await put(openai, linesOf(1));
  const next = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
  await expect(openai.batches.create(next)).rejects.toThrow('100 tokens a day');
});

test('a disk that is nearly full gives workers nothing new, and takes what they have; then it goes on', async () => {
  let free = 50e9;
  const server = await withoutRedis({ disk: () => ({ free, size: 100e9 }) });
  const { openai, id } = await open(server);
  const worker = workerBy(server.url);
  const taken = await worker.take(id, 0);
  free = 1e9;
  await until(() => server.said.some(line => line.startsWith(`${id} is paused`)));
  expect(JSON.parse((await worker.put(taken, 3)).text)).toEqual({ rest: 2 });
  const body = JSON.stringify({ worker: worker.worker });
  const headers = { 'content-type': 'application/json' };
  const asked = await fetch(`${server.url}/shards/${id}/0/1/take`, { method: 'POST', headers, body });
  expect([asked.status, (await openai.batches.retrieve(id)).status]).toEqual([503, 'in_progress']);
  free = 50e9;
  expect((await worker.put(await worker.take(id, 0, 1))).status).toBe(200);
  expect(await reached(openai, id)).toMatchObject({ request_counts: { completed: 5, failed: 0 } });
});

test('cancelled: what workers have is handed in, and what they have not answered gets its error', async () => {
  const server = await withoutRedis({ settings: { grace: 2_000 } });
  const { openai, id } = await open(server);
  const worker = workerBy(server.url);
  const taken = await worker.take(id, 0);
  await worker.hello(held(id, 5));
  await openai.batches.cancel(id);
  const { drop, queues } = await worker.hello(held(id, 5));
  expect([drop, queues.length > 0]).toEqual([[taken.name], true]);
  expect((await openai.batches.retrieve(id)).status).toBe('cancelling');
  expect((await worker.put(taken, 3)).status).toBe(200);
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'cancelled', request_counts: { completed: 3, failed: 2 } });
  expect((await linesIn(openai, done.output_file_id)).map(one => one.custom_id)).toEqual([
    'r-0',
    'r-1',
    'r-2',
  ]);
  const errors = await linesIn(openai, done.error_file_id);
  expect(errors.map(({ custom_id, error }) => [custom_id, error?.code])).toEqual([
    ['r-3', 'batch_cancelled'],
    ['r-4', 'batch_cancelled'],
  ]);
});

test('cancelled, and nothing comes from the worker: after the grace it is not waited for', async () => {
  const server = await withoutRedis();
  const { openai, id } = await open(server);
  const worker = workerBy(server.url);
  const taken = await worker.take(id, 0);
  await openai.batches.cancel(id);
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'cancelled', request_counts: { completed: 0, failed: 5 } });
  expect((await worker.put(taken)).status).toBe(410);
});

test('expired: as cancelled, by the window', async () => {
  let ahead = 0;
  const server = await withoutRedis({ now: () => Date.now() + ahead });
  const openai = server.client();
  const { id } = await begin(openai, linesOf(5), { completion_window: '1h' as '24h' });
  const worker = workerBy(server.url);
  const taken = await worker.take(id, 0);
  expect((await worker.put(taken, 1)).status).toBe(200);
  ahead = 3_601_000;
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'expired', request_counts: { completed: 1, failed: 4 } });
  const errors = await linesIn(openai, done.error_file_id);
  expect(errors.map(({ error }) => error?.code)).toEqual(Array(4).fill('batch_expired'));
});

test('stopped and started, also without --redis: what workers have done is kept, and they hand in what they hold', async () => {
  const data = folder();
  const first = await withoutRedis({ data });
  const { id } = await open(first);
  const worker = workerBy(first.url);
  const taken = await worker.take(id, 0);
  expect((await worker.put(taken, 2)).status).toBe(200);
  const rest = await worker.take(id, 0, 1);
  await first.stop();

  // endpoints are there, and nothing of it is asked at them
  const { url, simulator } = await simulated();
  const second = await served({ data, endpoints: [url] });
  const page = await reachedOn(visitor(second.url), `/ui/batches/${id}`, /workers have begun it/);
  expect(page.text).toContain('workers have begun it, and wait for a server with --redis');
  expect((await workerBy(second.url).put(rest, 1)).status).toBe(200);
  const { id: other } = await begin(second.client(), linesOf(2));
  expect(await reached(second.client(), other)).toMatchObject({ status: 'completed' });
  expect(simulator.counts().requests).toBe(2);
  await second.stop();

  const third = await withoutRedis({ data }, SHORT);
  const last = workerBy(third.url);
  expect((await last.put(await last.take(id, 0, 2))).status).toBe(200);
  const done = await reached(third.client(), id);
  expect(done).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 5 } });
});

test('a key that has used its tokens of the day: its batch ends, with what workers had', async () => {
  const data = folder();
  const server = await withoutRedis({ data });
  const { openai, id } = await open(server, keyOf(data, 'loans', ['batch'], { tokens_per_day: 100 }));
  const worker = workerBy(server.url, keyOf(data, 'gpus', ['worker']));
  expect((await worker.put(await worker.take(id, 0), 2, 100)).status).toBe(200);
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'completed', request_counts: { completed: 2, failed: 3 } });
  const errors = await linesIn(openai, done.error_file_id);
  expect(errors.map(({ error }) => error?.code)).toEqual(Array(3).fill('rate_limit_exceeded'));
});

test('what workers had handed in and a killed server had not added up is charged at the next start', async () => {
  const data = folder();
  const key = keyOf(data, 'loans', ['batch'], { tokens_per_day: 1_000 });
  const gpus = keyOf(data, 'gpus', ['worker']);
  const first = await withoutRedis({ data });
  const { id } = await open(first, key);
  const worker = workerBy(first.url, gpus);
  await worker.put(await worker.take(id, 0), 2, 500);
  await first.stop();
  rmSync(join(data, 'budgets.jsonl'));
  const second = await withoutRedis({ data }, SHORT);
  const openai = second.client(key);
  const other = workerBy(second.url, gpus);
  await other.put(await other.take(id, 0, 1), 3, 500);
  await reached(openai, id);
  await expect(begin(openai, linesOf(1))).rejects.toThrow('1000 tokens a day');
});

test('expired while the server was away: what workers still hand in is kept', async () => {
  const data = folder();
  let ahead = 0;
  const now = () => Date.now() + ahead;
  const first = await withoutRedis({ data, now }, SHORT);
  const { id } = await begin(first.client(), linesOf(5), { completion_window: '1h' as '24h' });
  const taken = await workerBy(first.url).take(id, 0);
  await first.stop();
  ahead = 3_601_000;
  const second = await withoutRedis({ data, now, settings: { grace: 5_000 } }, SHORT);
  const worker = workerBy(second.url);
  while ((await worker.put(taken, 3)).status === 503) await new Promise(resolve => setTimeout(resolve, 5));
  const done = await reached(second.client(), id);
  expect(done).toMatchObject({ status: 'expired', request_counts: { completed: 3, failed: 2 } });
});

test('a batch that endpoints have begun stays with them', async () => {
  const data = folder();
  const slow = await simulated({ latency: '600s' });
  const first = await served({ data, endpoints: [slow.url] });
  const { id } = await begin(first.client(), linesOf(3));
  await reached(first.client(), id, batch => batch.status === 'in_progress');
  while (slow.simulator.counts().requests === 0) await new Promise(setImmediate);
  await first.stop();
  const { url } = await simulated();
  const second = await withoutRedis({ data, endpoints: [url] });
  expect(await reached(second.client(), id)).toMatchObject({ status: 'completed' });
});

test('without endpoints and workers it is ready: workers find it by that; the gateway says what it lacks', async () => {
  const server = await withoutRedis();
  const ready = await fetch(`${server.url}/ready`);
  expect([ready.status, await ready.json()]).toEqual([
    200,
    { status: 'ready', disk: 'ok', endpoints_up: 0, workers: 0, queue_up: false },
  ]);
  const asked = server.client().chat.completions.create({ model: MODEL, messages: [] });
  await expect(asked).rejects.toThrow('No model server is up.');
  expect(server.said.join('\n')).toContain('it is tried again, and batches wait for it');
});

withRedis(
  'why a batch waits is said: no worker, none for its model, no Redis; and told to Prometheus',
  async () => {
    const redis = await startRedis();
    const server = await served({ endpoints: [], settings: { queue: queueAt(redis.url) } });
    const { id } = await open(server);
    const at = visitor(server.url);
    const path = `/ui/batches/${id}`;
    await reachedOn(at, path, /no worker is there/);
    const metrics = async () => (await fetch(`${server.url}/metrics`)).text();
    const before = await metrics();
    expect(before).toMatch(/^fw_workers 0$/m);
    expect(before).toMatch(/^fw_queue_up 1$/m);
    expect(before).toMatch(/^fw_shard_lines\{state="queued"\} 5$/m);
    expect(before).toMatch(/^fw_shards\{state="offered"\} 1$/m);
    expect(before).toMatch(/^fw_batch_items_left 5$/m);
    expect(before).toMatch(/^fw_data_free_bytes \d{6,}$/m);
    expect(before).not.toMatch(/^fw_(shard_work_seconds|shard_last_result_seconds|batch_left_seconds)\S* /m);
    await workerBy(server.url, 'none', { models: ['another'] }).hello();
    await reachedOn(at, path, /no worker serves simulated-3b/);
    await until(() => server.said.some(text => /^worker \S+ is here: 1 endpoint, /.test(text)));
    const worker = workerBy(server.url, 'none', { rate: 2 });
    const { queues } = await worker.hello();
    expect(redis.cli('keys', '*')).toContain(`fw:${queues.at(-1)}`);
    const taken = await worker.take(id, 0);
    await worker.hello([{ ...taken.name, done: 3, lines: 5 }]);
    const during = await metrics();
    expect(during).toMatch(/^fw_workers 2$/m);
    expect(during).toMatch(/^fw_shard_lines\{state="running"\} 2$/m);
    expect(during).toMatch(/^fw_shard_work_seconds\{state="running"\} 1$/m);
    expect(during).toMatch(/^fw_shards\{state="running"\} 1$/m);
    const seen = (await at.get(path)).text;
    expect(seen).toContain('0 of 1 shard done; 1 worker has 2 lines without an answer');
    expect(seen).toContain('>3 of 5</td>');
    await redis.kill();
    await reachedOn(at, path, /Redis is away/);
    expect((await worker.put(taken)).status).toBe(200);
    expect(await reached(server.client(), id)).toMatchObject({ status: 'completed' });
    expect(await metrics()).toMatch(/^fw_shard_last_result_seconds \d/m);
  },
);

slowWithRedis('a Redis that comes after the server is found', async () => {
  const redis = await startRedis();
  await redis.kill();
  const server = await served({ endpoints: [], settings: { queue: queueAt(redis.url) } });
  const { id } = await open(server);
  const at = visitor(server.url);
  await reachedOn(at, `/ui/batches/${id}`, /Redis is away/);
  await redis.start();
  await reachedOn(at, `/ui/batches/${id}`, /no worker is there/);
  while (!redis.cli('keys', '*').includes(':wait')) await new Promise(resolve => setTimeout(resolve, 20));
});

test('options: a flag before the file, the file before FW_REDIS; nothing repeats the URL', async () => {
  const file = join(folder(), 'serve.yaml');
  writeFileSync(file, 'data: d\nredis: redis://file:1\nredis_prefix: mine\nlease: 2s\n');
  const of = (flags: object, env: object = {}) =>
    settingsOf({ data: 'd', ...flags }, env as NodeJS.ProcessEnv).settings.queue;
  expect(of({})).toBeNull();
  expect(of({}, { FW_REDIS: 'redis://env:1' })).toEqual({
    url: 'redis://env:1',
    prefix: 'fw',
    lease: 60_000,
  });
  expect(of({ config: file }, { FW_REDIS: 'redis://env:1' })).toEqual({
    ...{ url: 'redis://file:1', prefix: 'mine', lease: 2_000 },
  });
  expect(of({ config: file, redis: 'redis://flag:1', lease: '5s' })).toMatchObject({
    ...{ url: 'redis://flag:1', prefix: 'mine', lease: 5_000 },
  });
  expect(() => of({ redis: 'redis://a', lease: '1ms' })).toThrow('--lease: expected 1s to 1h, found 1ms');
  expect(() => of({ redis: 'redis://a', 'redis-prefix': 'a:b' })).toThrow('--redis-prefix: expected');
  for (const url of ['http://user:secret@h', 'redis://:sec/ret@h', 'secret']) {
    const { code, stderr } = await fw(`fw serve --data ${folder()} --listen 0 --redis ${url}`);
    expect([code, stderr]).toEqual([64, expect.not.stringContaining('secret')]);
    expect(stderr).toContain('expected a Redis URL');
  }
  const page = readFileSync(new URL('../../docs/serve.md', import.meta.url), 'utf8');
  for (const name of Object.keys(QUEUE_OPTIONS)) expect(page).toContain(`--${name}`);
});
