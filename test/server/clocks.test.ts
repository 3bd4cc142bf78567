/** A clock that jumps, forth and back, while a server runs and between two of its lives: nothing is lost, hidden or late for it. */
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createRates } from '../../products/serve/batches/batch-metrics.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { createCache } from '../../products/serve/gateway/answer-cache.ts';
import { believedClock } from '../../products/serve/wall-clock.ts';
import { Webhooks } from '../../products/serve/webhooks.ts';
import { slow } from '../all.ts';
import { folder } from '../fw.ts';
import { begin, ENDPOINT, linesOf, put, reached } from './batching.ts';
import { MODEL, served, simulated } from './serving.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const NOW = 1_790_000_000_000;

test.each([
  ['a day forth', DAY],
  ['a day back', -DAY],
  ['a year forth', YEAR],
  ['to 1970', -NOW],
  ['to 2100', Date.UTC(2100, 0) - NOW],
])('%s: not believed for a moment, and believed once it lasts', (_, jump) => {
  let wall = NOW;
  let elapsed = 0;
  const { now } = believedClock({ wall: () => wall, elapsed: () => elapsed });
  const pass = (ms: number): number => {
    wall += ms;
    elapsed += ms;
    return now();
  };
  expect(pass(1_000)).toBe(NOW + 1_000);
  wall += jump;
  expect(pass(1_000)).toBe(NOW + 2_000);
  wall -= jump;
  expect(pass(10 * 60_000)).toBe(NOW + 602_000);
  wall += jump;
  pass(0);
  expect(pass(299_000)).toBe(NOW + 901_000);
  expect(pass(1_000)).toBe(NOW + 902_000 + jump);
  // what is less is a correction
  wall -= 30_000;
  expect(pass(0)).toBe(NOW + 872_000 + jump);
});

test.each([
  ['60 days forth', 60 * DAY, 'doubted'],
  ['off for a day and a minute', DAY + 60_001, 'doubted'],
  ['off for a day', DAY, 'believed'],
  ['off for a second', 1_000, 'believed'],
  ['some seconds back', -50_000, 'believed'],
  ['two minutes back', -120_000, 'doubted'],
  ['to 1970', -NOW, 'doubted'],
])('at a start, %s: %s ms are %s', (_, off, how) => {
  let elapsed = 7_000;
  const said: string[] = [];
  const wall = () => NOW + off + elapsed - 7_000;
  const say = (message: string): void => void said.push(message);
  const { now, stamp } = believedClock({ wall, elapsed: () => elapsed, seen: NOW, say });
  const start = how === 'doubted' ? NOW : NOW + off;
  for (elapsed of [7_000, 8_000, 306_000]) {
    expect(now()).toBe(start + elapsed - 7_000);
    // what is made meanwhile does not expire as soon as the clock is believed
    expect(stamp()).toBe(Math.max(start, NOW + off) + elapsed - 7_000);
  }
  expect(said).toHaveLength(how === 'doubted' ? 1 : 0);
  elapsed = 307_000;
  expect(now()).toBe(NOW + off + 300_000);
  expect(said).toHaveLength(how === 'doubted' ? 2 : 0);
});

test.each([true, false])(
  'a server that starts 60 days later ends no batch and removes no file (clock kept: %s)',
  async isKept => {
    const data = join(folder(), 'data');
    const asleep = await simulated({ latency: '1h' });
    const one = await served({ data, endpoints: [asleep.url] });
    const file = await put(one.client(), linesOf(3));
    const { id } = await begin(one.client(), linesOf(3));
    await reached(one.client(), id, ({ status }) => status === 'in_progress');
    await one.stop();
    if (!isKept) rmSync(join(data, 'clock.json'));
    const later = 60 * DAY;
    let elapsed = 0;
    const clocks = { wall: () => Date.now() + later + elapsed, elapsed: () => performance.now() + elapsed };
    const two = await served({ data, endpoints: [asleep.url], clocks });
    expect(two.said.join('\n')).toMatch(
      /the clock says .*, expected about .*: it is trusted once it has lasted for 5 minutes/,
    );
    const openai = two.client();
    expect((await openai.files.retrieve(file)).id).toBe(file);
    expect((await openai.batches.retrieve(id)).status).toBe('in_progress');
    const made = await put(openai, linesOf(1));
    elapsed = 301_000;
    await expect.poll(async () => (await openai.batches.retrieve(id)).status).toBe('expired');
    await expect(openai.files.retrieve(file)).rejects.toThrow(/404/);
    expect((await openai.files.retrieve(made)).id).toBe(made);
  },
);

test('a clock that jumps again and again is never believed', () => {
  let wall = NOW;
  let elapsed = 0;
  const { now } = believedClock({ wall: () => wall, elapsed: () => elapsed });
  for (let n = 1; n <= 30; n++) {
    elapsed += 60_000;
    wall = NOW + elapsed + (n % 2 === 0 ? DAY : -YEAR) * n;
    expect(now()).toBe(NOW + elapsed);
  }
});

test('ids of a server that starts again with an earlier clock sort behind those that are there', async () => {
  const first = await import('../../products/serve/ids.ts');
  const [file, batch] = [first.newFileId(Date.UTC(2100, 0)), first.newBatchId(Date.UTC(2101, 0))];
  for (const id of [file, batch]) {
    vi.resetModules();
    const again = await import('../../products/serve/ids.ts');
    again.noteId(id);
    expect(again.newFileId(NOW) > file).toBe(true);
    if (id === batch) expect(again.newBatchId(NOW) > batch).toBe(true);
  }
});

test('a delivery that waits for its next try does not wait for a clock that was set back', async () => {
  const statuses = [500, 200];
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(statuses.shift() ?? 200).end();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  let now = NOW;
  const webhooks = new Webhooks({
    folder: join(folder(), 'webhooks'),
    targets: [
      {
        owner: 'ann',
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        secret_env: 'HOOK',
      },
    ],
    env: { HOOK: `whsec_${Buffer.alloc(32, 7).toString('base64')}` },
    now: () => now,
    say: () => {
      now -= YEAR; // as the first try has failed
    },
    waits: [0, 1],
  });
  onTestFinished(() => webhooks.stop());
  webhooks.tell('ann', 'batch.completed', 'batch_1');
  await expect.poll(() => webhooks.counts()).toEqual({ waiting: 0, delivered: 1, givenUp: 0 });
});

test('a create that repeats the body of a batch from a time that is yet to come is a new one', async () => {
  let now = NOW;
  const server = await served({ now: () => now });
  const openai = server.client();
  const file = await put(openai, linesOf(1));
  const headers = { 'x-stainless-retry-count': '1' };
  const create = async (): Promise<string> => {
    const asked = { input_file_id: file, endpoint: ENDPOINT, completion_window: '24h' } as const;
    return (await openai.batches.create(asked, { headers })).id;
  };
  const first = await create();
  now += 60_000;
  expect(await create()).toBe(first);
  now -= DAY;
  expect(await create()).not.toBe(first);
});

test('the rate of a batch begins anew where the clock was set back', () => {
  let now = NOW;
  const rates = createRates(() => now);
  const note = (completed: number): void =>
    rates.note([
      { id: 'a', status: 'in_progress', counts: { total: 99, completed, failed: 0 } } as BatchRecord,
    ]);
  for (const completed of [0, 10, 20]) {
    note(completed);
    now += 2_000;
  }
  expect(rates.of('a')).toBe(5);
  now -= DAY;
  note(22);
  expect(rates.of('a')).toBe(null);
  now += 2_000;
  note(24);
  expect(rates.of('a')).toBe(1);
});

test('an answer of the cache has no age below zero', () => {
  let now = NOW;
  const cache = createCache(HOUR, () => now);
  cache.expect('item', 'question');
  // a line that is there, so that only its age can be what is wrong
  const path = join(folder(), 'ledger.ndjson');
  writeFileSync(path, 'x');
  cache.note('item', { path, at: 0, length: 1 });
  now -= DAY;
  expect(cache.find('question')).toBe(null);
});

slow(
  'a batch that was paused goes on after its seconds, though the clock was set back meanwhile',
  async () => {
    let now = Date.now();
    const data = join(folder(), 'data');
    const id = `batch_${'0'.repeat(32)}`;
    const at = join(data, 'batches', id);
    mkdirSync(at, { recursive: true });
    const record: BatchRecord = {
      ...{
        id,
        owner: 'local',
        key: null,
        endpoint: '/v1/chat/completions',
        input_file_id: 'file-0',
        window: 86_400,
      },
      ...{ completion_window: '24h', status: 'in_progress', created_at: Math.floor(now / 1000), times: {} },
      ...{ errors: [], counts: { total: 2, completed: 0, failed: 0 }, failures: [], metadata: null },
      ...{ usage: { input: 0, cached: 0, output: 0, reasoning: 0 }, models: [MODEL], model: MODEL },
      ...{ outputs_kept: null, outputs: null, asked: { body: '', idempotency: null } },
    };
    // an output that cannot be written
    writeFileSync(join(at, 'state.json'), JSON.stringify(record));
    writeFileSync(join(at, 'input.jsonl'), linesOf(2));
    mkdirSync(join(at, 'output.jsonl'));
    const server = await served({ data, now: () => now });
    await expect.poll(() => server.said.join('\n')).toContain('is paused');
    now -= DAY;
    rmdirSync(join(at, 'output.jsonl'));
    const status = async () => (await server.client().batches.retrieve(id)).status;
    await expect.poll(status).toBe('completed');
  },
);
