/** fw serve --redis and two fw work as processes, with a real Redis and simulated servers: batches as the client of OpenAI sees them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished } from 'vitest';
import { freePort } from '../free-port.ts';
import { binFolder, environment, folder } from '../fw.ts';
import { type RealRedis, slowWithRedis, startRedis, withRedis } from '../shards/redis.ts';
import { begin, type Line, lineOf, linesIn, linesOf, reached } from './batching.ts';
import { keyOf, MODEL, served, serveProcess, simulated } from './serving.ts';

const LINES = 450;

interface Site {
  redis: RealRedis;
  data: string;
  port: number;
  server: ChildProcess;
  openai: OpenAI;
  /** starts it again, at the same address */
  start(): Promise<ChildProcess>;
  work(endpoint: string): ChildProcess;
}

async function site(): Promise<Site> {
  const redis = await startRedis();
  const data = folder();
  const key = keyOf(data, 'loans', ['batch']);
  const workerKey = keyOf(data, 'gpus', ['worker']);
  const port = await freePort();
  // a process may have to wait for its turn for seconds, beside other tests: it is not to lose what it has
  const args = ['--data', data, '--redis', redis.url, '--listen', `127.0.0.1:${port}`, '--lease', '24s'];
  const start = async (): Promise<ChildProcess> => (await serveProcess(args)).child;
  const baseURL = `http://127.0.0.1:${port}`;
  return {
    ...{ redis, data, port, start, server: await start() },
    openai: new OpenAI({ apiKey: key, baseURL: `${baseURL}/v1`, maxRetries: 5 }),
    work(endpoint) {
      const own = ['--redis', redis.url, '--server', baseURL, '--endpoint', endpoint];
      const child = spawn(join(binFolder, 'fw'), ['work', ...own, '--data', join(folder(), 'fw-work')], {
        env: { ...environment({}), FW_WORKER_KEY: workerKey },
        stdio: 'ignore',
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      return child;
    },
  };
}

const told = (lines: readonly Line[]) =>
  lines.map(({ custom_id, response, error }) => ({
    ...{ custom_id, status: response?.status_code, error },
    said: response?.body.choices.map(({ message }) => message.content),
    usage: response?.body.usage,
  }));

const asked = (...servers: Awaited<ReturnType<typeof simulated>>[]): number =>
  servers.reduce((sum, { simulator }) => sum + simulator.counts().requests, 0);

withRedis('two workers: the same lines in the same order as without, and each is asked once', async () => {
  const { openai, work, redis } = await site();
  const [one, other] = [await simulated(), await simulated()];
  const workers = [work(one.url), work(other.url)];
  const { id } = await begin(openai, linesOf(LINES));
  const done = await reached(openai, id);
  expect(done).toMatchObject({
    status: 'completed',
    request_counts: { total: LINES, completed: LINES, failed: 0 },
  });
  const lines = told(await linesIn(openai, done.output_file_id));
  expect(asked(one, other)).toBe(LINES);

  const alone = (await served({ endpoints: [one.url] })).client();
  const same = await reached(alone, (await begin(alone, linesOf(LINES))).id);
  expect(lines).toEqual(told(await linesIn(alone, same.output_file_id)));
  expect(done.usage).toEqual(same.usage);

  for (const worker of workers) worker.kill('SIGTERM');
  expect(await Promise.all(workers.map(worker => once(worker, 'exit')))).toEqual(Array(2).fill([0, null]));
  // nothing of what was asked, and no key, is in Redis
  const kept = redis.cli('keys', '*').trim().split('\n');
  for (const key of kept) expect(redis.cli('dump', key)).not.toMatch(/Say|fw_[\w-]{43}/);
});

slowWithRedis(
  'lines of two models that different workers have: each is answered once, over a kill of a worker and of the server',
  async () => {
    const { openai, work, server, start } = await site();
    const slow = { latency: '30ms' };
    const [one, other] = [await simulated(slow), await simulated({ ...slow, model: 'other-model' })];
    const [first] = [work(one.url), work(other.url)];
    const model = (n: number): string => (n % 3 === 0 ? 'other-model' : MODEL);
    const text = Array.from({ length: LINES }, (_, n) => lineOf(`r-${n}`, { model: model(n) })).join('\n');
    const { id } = await begin(openai, text);
    while (asked(one) < 60 || asked(other) < 20) await new Promise(setImmediate);
    for (const child of [first as ChildProcess, server]) child.kill('SIGKILL');
    await once(server, 'exit');
    await start();
    work(one.url);
    const done = await reached(openai, id);
    expect(done).toMatchObject({ status: 'completed', request_counts: { total: LINES, completed: LINES } });
    const lines = await linesIn(openai, done.output_file_id);
    expect(lines.map(({ custom_id }) => custom_id)).toEqual(
      Array.from({ length: LINES }, (_, n) => `r-${n}`),
    );
    expect(lines.map(({ response }) => response?.body.model)).toEqual(lines.map((_, n) => model(n)));
  },
);

slowWithRedis(
  'the server is killed and started again: workers go on, and nothing is asked twice',
  async () => {
    const { openai, work, server, start } = await site();
    const slow = { latency: '50ms' };
    const [one, other] = [await simulated(slow), await simulated(slow)];
    for (const { url } of [one, other]) work(url);
    const { id } = await begin(openai, linesOf(LINES));
    while (asked(one, other) < 60) await new Promise(setImmediate);
    server.kill('SIGKILL');
    await once(server, 'exit');
    await start();
    const done = await reached(openai, id);
    expect(done).toMatchObject({ status: 'completed', request_counts: { total: LINES, completed: LINES } });
    const ids = (await linesIn(openai, done.output_file_id)).map(({ custom_id }) => custom_id);
    expect(ids).toEqual(Array.from({ length: LINES }, (_, n) => `r-${n}`));
    expect(asked(one, other)).toBe(LINES);
  },
);

slowWithRedis(
  'a cancel calls workers back: what is answered is kept, and they are free for the next batch',
  async () => {
    const { openai, work, port } = await site();
    const [one, other] = [await simulated({ latency: '30ms' }), await simulated({ latency: '30ms' })];
    for (const { url } of [one, other]) work(url);
    const { id } = await begin(openai, linesOf(LINES));
    while (asked(one, other) < 100) await new Promise(setImmediate);
    await openai.batches.cancel(id);
    const { status, request_counts, output_file_id, error_file_id } = await reached(openai, id);
    expect(status).toBe('cancelled');
    const [good, bad] = [await linesIn(openai, output_file_id), await linesIn(openai, error_file_id)];
    expect(request_counts).toEqual({ total: LINES, completed: good.length, failed: bad.length });
    expect(good.length).toBeGreaterThan(50);
    expect(new Set(bad.map(({ error }) => error?.code))).toEqual(new Set(['batch_cancelled']));
    expect(good.length + bad.length).toBe(LINES);
    const next = await reached(openai, (await begin(openai, linesOf(30, LINES))).id);
    expect(next).toMatchObject({ status: 'completed', request_counts: { completed: 30 } });
    const page = await fetch(`http://127.0.0.1:${port}/ready`);
    expect(await page.json()).toMatchObject({ status: 'ready', workers: 2, queue_up: true });
  },
);
