/**
 * A server that is killed with SIGKILL while a batch runs, and started again: the batch is complete, in order, each line
 * once, and no more calls are repeated than were in flight.
 */
import { join } from 'node:path';
import fc from 'fast-check';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { begin, linesIn, linesOf, reached } from './batching.ts';
import { serveProcess, simulated } from './serving.ts';

const KILLS = runs(1, 8);
const LINES = runs(150, 3000, 'LINES');
const LIMIT = 4;

test('killed at random moments', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  const points = fc
    .sample(fc.integer({ min: 0, max: LINES - 1 }), { numRuns: KILLS, seed })
    .sort((a, b) => a - b);
  const { url, simulator } = await simulated({ latency: '2ms-6ms' });
  const data = join(folder(), 'data');
  const serve = () => serveProcess(['--data', data, '--endpoint', url, '--endpoint-limit', String(LIMIT)]);
  const clientOf = ({ url: base }: { url: string }) =>
    new OpenAI({ apiKey: 'none', baseURL: `${base}/v1`, maxRetries: 0 });
  let server = await serve();
  let openai = clientOf(server);
  const { id } = await begin(openai, linesOf(LINES));
  for (const point of points) {
    await reached(openai, id, ({ status, request_counts: counts }) => {
      const completed = counts?.completed ?? 0;
      return completed >= point || status === 'completed';
    });
    const dead = new Promise(resolve => server.child.once('exit', resolve));
    server.child.kill('SIGKILL');
    await dead;
    server = await serve();
    openai = clientOf(server);
  }
  const done = await reached(openai, id);
  expect(done, `seed ${seed}`).toMatchObject({
    status: 'completed',
    request_counts: { total: LINES, completed: LINES, failed: 0 },
  });
  const lines = await linesIn(openai, done.output_file_id);
  expect(lines.map(({ custom_id }) => custom_id)).toEqual(Array.from({ length: LINES }, (_, n) => `r-${n}`));
  expect(simulator.counts().answers - LINES, `seed ${seed}`).toBeLessThanOrEqual(KILLS * LIMIT);
});

test('stopped by SIGTERM it gives calls in flight their time, and goes on where it was', async () => {
  const { url, simulator } = await simulated({ latency: '5ms' });
  const data = join(folder(), 'data');
  const args = ['--data', data, '--endpoint', url, '--endpoint-limit', String(LIMIT)];
  const first = await serveProcess(args);
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${first.url}/v1`, maxRetries: 0 });
  const { id } = await begin(openai, linesOf(120));
  await reached(openai, id, ({ request_counts }) => (request_counts?.completed ?? 0) >= 20);
  const ended = new Promise(resolve => first.child.once('exit', resolve));
  first.child.kill('SIGTERM');
  expect(await ended).toBe(0);
  const again = await serveProcess(args);
  const client = new OpenAI({ apiKey: 'none', baseURL: `${again.url}/v1` });
  const done = await reached(client, id);
  expect(done).toMatchObject({ status: 'completed', request_counts: { completed: 120 } });
  expect(simulator.counts().answers).toBe(120);
});
