/** fw work as processes, over a real Redis and a real coordinator: killed, told to stop, and what their ledgers are worth. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished } from 'vitest';
import { binFolder, environment, folder } from '../fw.ts';
import { begin, linesIn, linesOf, reached } from '../server/batching.ts';
import { serveProcess, simulated } from '../server/serving.ts';
import { until } from './queueing.ts';
import { slowWithRedis, startRedis } from './redis.ts';

const LIMIT = 4;

interface Process {
  child: ChildProcess;
  said(): string;
  ended: Promise<number | null>;
}

function work(args: readonly string[]): Process {
  const child = spawn(join(binFolder, 'fw'), ['work', '--endpoint-limit', String(LIMIT), ...args], {
    env: environment({}),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr?.on('data', chunk => {
    said += chunk;
  });
  return { child, said: () => said, ended: once(child, 'exit').then(([code]) => code) };
}

/** A coordinator with its Redis, and one simulated server. */
async function coordinator(latency: string, lease = '30s') {
  const redis = await startRedis();
  const { url: endpoint, simulator } = await simulated({ latency });
  const at = folder();
  const { url } = await serveProcess(['--data', join(at, 'serve'), '--redis', redis.url, '--lease', lease]);
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0 });
  const argsOf = (name: string) => [
    ...['--redis', redis.url, '--server', url, '--endpoint', endpoint, '--data', join(at, name)],
  ];
  return { openai, simulator, redis, argsOf };
}

slowWithRedis(
  'killed, it comes back with its ledger: no more is repeated than was at the server',
  async () => {
    const { openai, simulator, argsOf } = await coordinator('10ms-20ms');
    const first = work(argsOf('one'));
    const { id } = await begin(openai, linesOf(160));
    await until(() => simulator.counts().answers >= 40);
    first.child.kill('SIGKILL');
    await first.ended;
    const again = work(argsOf('one'));
    const done = await reached(openai, id);
    expect(done.request_counts).toEqual({ total: 160, completed: 160, failed: 0 });
    const lines = await linesIn(openai, done.output_file_id);
    expect(lines.map(line => line.custom_id)).toEqual(Array.from({ length: 160 }, (_, n) => `r-${n}`));
    expect(simulator.counts().answers - 160).toBeLessThanOrEqual(LIMIT);
    again.child.kill('SIGTERM');
    expect(await again.ended).toBe(0);
    expect(again.said()).toMatch(/handed in 160 lines of 1 part · \d+ calls \+ \d\d replayed/);
  },
);

slowWithRedis('told to stop it hands back at once, and the other one asks what is left', async () => {
  const { openai, simulator, argsOf } = await coordinator('20ms');
  const first = work(argsOf('one'));
  const { id } = await begin(openai, linesOf(100));
  await until(() => simulator.counts().answers >= 20);
  first.child.kill('SIGTERM');
  expect(await first.ended).toBe(0);
  expect(first.said()).toContain('SIGTERM: takes no more work; calls in flight have 10s');
  expect(first.said()).toMatch(/handed back with \d+ of 100 lines answered/);
  const other = work([...argsOf('two'), '--idle', '1s']);
  const done = await reached(openai, id);
  expect(done.request_counts).toEqual({ total: 100, completed: 100, failed: 0 });
  expect(simulator.counts().answers).toBe(100);
  expect(await other.ended).toBe(0);
  expect(other.said()).toContain('idle for 1 s: exiting');
});

slowWithRedis(
  'Redis goes away with all that it had: what is in hand goes on, and the rest when it is back',
  async () => {
    const { openai, simulator, redis, argsOf } = await coordinator('10ms');
    const one = work(argsOf('one'));
    const { id } = await begin(openai, linesOf(500));
    await until(() => simulator.counts().answers >= 50);
    await redis.kill();
    await until(() => simulator.counts().answers >= 200); // a shard has 200 lines
    await redis.start();
    const done = await reached(openai, id);
    expect(done.request_counts).toEqual({ total: 500, completed: 500, failed: 0 });
    expect(simulator.counts().answers).toBe(500);
    one.child.kill('SIGTERM');
    expect(await one.ended).toBe(0);
  },
);

slowWithRedis('suspended for longer than its lease, it drops what others have meanwhile', async () => {
  const { openai, simulator, argsOf } = await coordinator('20ms', '1s');
  const one = work(argsOf('one'));
  const { id } = await begin(openai, linesOf(120));
  await until(() => simulator.counts().answers >= 20);
  one.child.kill('SIGSTOP');
  const other = work(argsOf('two'));
  await until(() => simulator.counts().answers >= 60); // it has what the first one had
  one.child.kill('SIGCONT');
  const done = await reached(openai, id);
  expect(done.request_counts).toEqual({ total: 120, completed: 120, failed: 0 });
  const lines = await linesIn(openai, done.output_file_id);
  expect(new Set(lines.map(line => line.custom_id)).size).toBe(120);
  for (const { child } of [one, other]) child.kill('SIGTERM');
  expect(await Promise.all([one.ended, other.ended])).toEqual([0, 0]);
});

slowWithRedis('a second signal ends it at once; two workers do not have one folder', async () => {
  const { openai, simulator, argsOf } = await coordinator('30s');
  const first = work(argsOf('one'));
  await begin(openai, linesOf(10));
  await until(() => simulator.counts().requests >= LIMIT);
  const second = work(argsOf('one'));
  expect(await second.ended).toBe(64);
  expect(second.said()).toMatch(
    /one is in use by .*\n.*a folder has one worker at a time; give each its own: --data DIR/s,
  );
  first.child.kill('SIGINT');
  await until(() => first.said().includes('SIGINT: takes no more work'));
  first.child.kill('SIGINT');
  expect(await first.ended).toBe(130);
});
