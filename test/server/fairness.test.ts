/** Twenty batches of unequal size from two owners on the same servers: who gets how much, and who is done first. */
import { join } from 'node:path';
import type OpenAI from 'openai';
import { expect, test } from 'vitest';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { runs } from '../all.ts';
import { freePort } from '../free-port.ts';
import { folder } from '../fw.ts';
import { begin, linesOf, reached } from './batching.ts';
import { keyOf, MODEL, served } from './serving.ts';

const SMALLEST = 40;
/** of a small batch; more than any has done by the time at which the smallest is done */
const LINES = runs(100, 600, 'LINES');
/** of the batch with the least time, when all stops */
const URGENT = runs(200, 400, 'LINES');
/** of all that a group has, how far one of it may be from its part */
const WITHIN = 0.1;

test('owners share equally, and so do the batches of an owner; the smallest is done first', async () => {
  // nobody answers until all are there, so that all begin at once
  const first = await startSimulator({ port: await freePort(), model: MODEL });
  const { url } = first;
  await first.close();
  const data = join(folder(), 'data');
  const { client } = await served({ data, endpoints: [url], limit: 8 });
  const [few, many] = [client(keyOf(data, 'few')), client(keyOf(data, 'many'))];
  const make = async (openai: OpenAI, sizes: number[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const size of sizes) ids.push((await begin(openai, linesOf(size))).id);
    return ids;
  };
  const ofFew = await make(
    few,
    [2.5, 2.2, 2.7, 2.3, 2.5].map(times => times * LINES),
  );
  const ofMany = await make(
    many,
    Array.from({ length: 15 }, (_, n) => (n === 9 ? SMALLEST : LINES + 10 * n)),
  );
  const smallest = ofMany[9] as string;
  for (const id of ofMany) await reached(many, id, ({ status }) => status === 'in_progress');
  for (const id of ofFew) await reached(few, id, ({ status }) => status === 'in_progress');

  const simulator = await startSimulator({ port: Number(new URL(url).port), latency: '3ms', model: MODEL });
  await reached(many, smallest);
  await simulator.close(); // from now on nothing moves
  const batches = async (openai: OpenAI) => (await openai.batches.list({ limit: 100 })).data;
  const all = [...(await batches(few)), ...(await batches(many))];
  const countOf = (id: string): number => all.find(one => one.id === id)?.request_counts?.completed ?? 0;
  expect(all.filter(({ status }) => status === 'completed').map(({ id }) => id)).toEqual([smallest]);
  const fair = (ids: string[]): void => {
    const counts = ids.map(countOf);
    const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
    for (const count of counts) expect(Math.abs(count - mean)).toBeLessThanOrEqual(WITHIN * mean + 1);
  };
  fair(ofFew);
  fair(ofMany.filter(id => id !== smallest));
  const sum = (ids: string[]): number => ids.reduce((total, id) => total + countOf(id), 0);
  const [one, other] = [sum(ofFew), sum(ofMany)];
  expect(Math.abs(one - other)).toBeLessThanOrEqual((WITHIN * (one + other)) / 2);
});

test('of an owner, the batch with a fourth of the time gets four times as much', async () => {
  const { url, close } = await startSimulator({ port: await freePort(), model: MODEL });
  await close(); // nobody answers until both are there
  const openai = (await served({ endpoints: [url], limit: 8 })).client();
  const batches: string[] = [];
  for (const hours of ['4h', '1h'])
    batches.push((await begin(openai, linesOf(URGENT * 2.5), { completion_window: hours as '24h' })).id);
  for (const id of batches) await reached(openai, id, ({ status }) => status === 'in_progress');

  const simulator = await startSimulator({ port: Number(new URL(url).port), latency: '3ms', model: MODEL });
  const done = async (id: string): Promise<number> =>
    (await openai.batches.retrieve(id)).request_counts?.completed ?? 0;
  await reached(openai, batches[1] as string, one => (one.request_counts?.completed ?? 0) > URGENT);
  await simulator.close(); // from now on nothing moves
  const [late, urgent] = [await done(batches[0] as string), await done(batches[1] as string)];
  expect(urgent / late).toBeGreaterThan(3);
  expect(urgent / late).toBeLessThan(5);
});
