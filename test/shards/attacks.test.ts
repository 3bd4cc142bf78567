/**
 * What somebody with a key of scope worker may try at a coordinator: to be believed, to fill its memory, to hold up others,
 * to reach what is not for workers. Such a key is trusted with lines and answers (docs/workers.md); it is not to end the server.
 */
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createAccess } from '../../products/serve/access.ts';
import { createHttp } from '../../products/serve/http.ts';
import { ringOf } from '../../products/serve/run-coordinator.ts';
import { ServerMetrics } from '../../products/serve/serve-metrics.ts';
import { addShards, shardMetrics } from '../../products/serve/shard-routes.ts';
import { createDesk } from '../../products/workers/desk.ts';
import type { Hello } from '../../products/workers/protocol.ts';
import { newPlanner } from '../../products/workers/shard-plan.ts';
import type { PlannedWork } from '../../products/workers/shard-work.ts';
import { remotePool } from '../../products/workers/sharding.ts';
import { folder } from '../fw.ts';
import { keyOf, served } from '../server/serving.ts';

const KEY = 'a-key-of-workers-0';
const QUEUE = {
  isUp: true,
  add: async () => {},
  waiting: async () => new Set<string>(),
  onReady() {},
  close: async () => {},
};
const HELLO: Hello = {
  ...{ worker: 'w1', host: 'h', pid: 1, version: '0', models: ['m'], endpoints: [], places: 8, rate: 10 },
  ...{ held: [], isStopping: false },
};
const ASKED = { calls: 1, retries: 0, replayed: 0, promptTokens: 2, completionTokens: 3, cachedTokens: 0 };
const RESULT = { worker: 'w1', answered: [0, 1, 2], asked: ASKED, model: 'm', seconds: 1 };
const done = (id: unknown, more: object = {}): string =>
  JSON.stringify({ id, steps: [{ response: { status_code: 200, body: {} } }], ...more });
const LINES = ['i0', 'i1', 'i2'].map(id => done(id));
const put = (lines: readonly string[], more: object = {}): string =>
  [JSON.stringify({ ...RESULT, ...more }), ...lines, ''].join('\n');

/** A real desk behind real routes, with a work `w` of one shard with three lines, and a clock that a test moves. */
async function coordinating() {
  const time = { now: 1_000_000 };
  const said: string[] = [];
  const say = (text: string): void => void said.push(text);
  const desk = createDesk({ queue: QUEUE, id: 't', lease: 60_000, now: () => time.now, say });
  const data = folder();
  const planner = newPlanner(join(data, 'spool'));
  for (const id of ['i0', 'i1', 'i2']) planner.add(Buffer.from(`{"id":"${id}"}\n`));
  const row = [{ stage: 'request', options: {} }];
  const task = { label: 'w', row, files: null, models: [], owner: 'o', weight: 1 };
  const work: PlannedWork = desk.open(
    { id: 'w', task, files: null },
    planner.finish(() => join(data, 'work')),
  );
  const metrics = new ServerMetrics(remotePool(desk, () => work).stats);
  const access = createAccess(ringOf(KEY), () => time.now);
  const app = createHttp({ access, metrics, mostBody: 1024 * 1024, say });
  addShards(app, desk);
  shardMetrics({ metrics, now: () => time.now }, desk);
  await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    app.server.closeAllConnections();
    await app.close();
    await desk.close();
  });
  const { port } = app.server.address() as AddressInfo;
  const ask = async (method: string, path: string, body: string, type: string) => {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': type };
    const reply = await fetch(`http://127.0.0.1:${port}/shards${path}`, { method, headers, body });
    return { status: reply.status, text: await reply.text() };
  };
  return {
    ...{ desk, work, said, time, metrics },
    hello: (more: object) => ask('POST', '/hello', JSON.stringify({ ...HELLO, ...more }), 'application/json'),
    take: (worker: string) => ask('POST', '/w/0/0/take', JSON.stringify({ worker }), 'application/json'),
    put: (body: string, part = '/w/0/0') => ask('PUT', part, body, 'application/x-ndjson'),
  };
}

const RESULTS: [string, string, number][] = [
  ['a line too few', put(LINES.slice(1)), 400],
  ['a line too many', put([...LINES, done('i3')]), 400],
  ['lines of other ids', put(['a', 'b', 'c'].map(id => done(id))), 400],
  ['lines in another order', put([...LINES].reverse()), 400],
  [
    'an id that is a list of a million lists',
    put([`{"id":${'['.repeat(1e6)}${']'.repeat(1e6)}}`, ...LINES.slice(1)]),
    400,
  ],
  [
    'an id twice, the second another one',
    put(['{"id":"i0","steps":[{}],"id":"i9"}', ...LINES.slice(1)]),
    400,
  ],
  ['a line that is no JSON', put(['{', ...LINES.slice(1)]), 400],
  ['lines without an answer', put(['i0', 'i1', 'i2'].map(id => JSON.stringify({ id }))), 400],
  ['a line number twice', put(LINES, { answered: [0, 0, 1] }), 400],
  ['a line number beyond', put(LINES, { answered: [0, 1, 3] }), 400],
  ['numbers in another order', put(LINES, { answered: [2, 1, 0] }), 400],
  [
    '40 MB of empty lists',
    put([`{"id":"i0","failure":{},"x":[${'[],'.repeat(13e6)}0]}`, ...LINES.slice(1)]),
    400,
  ],
  ['costs that are infinite', put(LINES).replace('"calls":1', '"calls":1e999'), 400],
  ['costs that are no number', put(LINES).replace('"calls":1', '"calls":NaN'), 400],
  ['seconds below nothing', put(LINES, { seconds: -1 }), 400],
  ['a model with a name of 10,000 characters', put(LINES, { model: 'm'.repeat(10_000) }), 400],
];

test.each(RESULTS)(
  'a result with %s is refused, in words, and the work is as it was',
  async (_, body, status) => {
    const { take, put: handIn, work, said } = await coordinating();
    await take('another');
    const reply = await handIn(body);
    expect(reply.status).toBe(status);
    expect(reply.text.length).toBeLessThan(2_000);
    expect([work.parts.done.lines, said]).toEqual([0, []]);
    expect((await handIn(put(LINES))).status).toBe(200);
    expect(work.parts.done.lines).toBe(3);
  },
);

test('a result is taken once; a part that is not there, or of another work, takes none', async () => {
  const { put: handIn, take, work } = await coordinating();
  await take('w1');
  expect((await handIn(put(LINES))).status).toBe(200);
  const statuses = [];
  for (const part of ['/w/0/0', '/w/0/1', '/w/7/0', '/w/999999999/999999999'])
    statuses.push((await handIn(put(LINES), part)).status);
  expect(statuses).toEqual([410, 410, 410, 410]);
  expect((await handIn(put(LINES), '/other/0/0')).status).toBe(503); // it may open yet
  expect((await handIn(put(LINES), '/..%2fw/0/0')).status).toBe(404);
  expect([work.parts.done.lines, work.asked.calls]).toEqual([3, 1]);
});

test('who holds a part is not told to others: results are handed in under that name', async () => {
  const { take } = await coordinating();
  await take('host/1/secret');
  const { status, text } = await take('mallory');
  expect(status).toBe(409);
  expect(text).not.toContain('secret');
});

test('hellos under many names fill the memory up to a bound, and those that are there are still heard', async () => {
  const { hello, desk } = await coordinating();
  expect((await hello({ worker: 'honest' })).status).toBe(200);
  const models = Array.from({ length: 1_000 }, (_, at) => `${at}`.padEnd(300, 'm'));
  const endpoints = Array.from({ length: 350 }, (_, at) => ({
    ...{ url: `http://h/${at}`.padEnd(1_900, 'u'), isUp: true, inFlight: 1e9, limit: 1e9 },
  }));
  let refused = 0;
  for (let at = 0; at < 80; at++) {
    const { status } = await hello({ worker: `m${at}`, models, endpoints });
    if (status === 429) refused += 1;
    else expect(status).toBe(200);
  }
  expect(refused).toBeGreaterThan(0);
  expect(desk.stats().alive + refused).toBe(81);
  expect((await hello({ worker: 'honest', places: 9 })).status).toBe(200);
});

test('endpoints that workers name are bounded in /metrics, and gone with their workers', async () => {
  const { hello, metrics, time } = await coordinating();
  for (let at = 0; at < 12; at++) {
    const endpoints = Array.from({ length: 1_000 }, (_, n) => ({
      ...{ url: `http://h${at}/"\\n${n}`, isUp: true, inFlight: 1, limit: 1 },
    }));
    expect((await hello({ worker: `m${at}`, endpoints })).status).toBe(200);
  }
  const count = async () =>
    (await metrics.page()).split('\n').filter(line => line.startsWith('fw_endpoint_up{'));
  const lines = await count();
  expect(lines).toHaveLength(10_000);
  expect(lines[0]).toMatch(/^fw_endpoint_up\{endpoint="[^\n]*"\} 1$/);
  time.now += 61_000;
  expect(await count()).toEqual([]);
  expect(await metrics.page()).toMatch(/^fw_workers 0$/m);
});

test('a rate that is too high has a part asked back ever more seldom, so that it is done in the end', async () => {
  const { desk, time } = await coordinating();
  const name = { work: 'w', root: 0, part: 0 };
  let [asked, handedIn] = [0, 0];
  desk.take(name, 'honest');
  for (let second = 0; second < 3_600; second++) {
    time.now += 1_000;
    desk.look();
    desk.hello({ ...HELLO, worker: 'mallory', rate: 1e9 });
    const { drop } = desk.hello({ ...HELLO, worker: 'honest', held: [{ ...name, done: 0, lines: 3 }] });
    if (drop.length === 0) continue;
    asked += 1;
    desk.put(name, { ...RESULT, worker: 'honest', answered: [] }, Buffer.alloc(0));
    handedIn += 1;
    desk.take(name, 'honest');
  }
  expect(asked).toBeGreaterThan(0);
  expect(asked).toBeLessThan(15);
  expect(handedIn).toBe(asked);
});

test('a worker that says hello for ever and gets nowhere has its part for an hour, then for two', async () => {
  const { desk, time, said, work } = await coordinating();
  const name = { work: 'w', root: 0, part: 0 };
  const hour = (worker: string, minutes = 60, done = (_minute: number) => 0): number => {
    let dropped = 0;
    for (let second = 0; second < minutes * 60; second++) {
      time.now += 1_000;
      desk.look();
      if (second % 5 > 0) continue;
      const held = [{ ...name, done: done(second / 60), lines: 3 }];
      dropped += desk.hello({ ...HELLO, worker, rate: 0, held }).drop.length;
    }
    return dropped;
  };
  desk.take(name, 'mallory');
  expect([hour('mallory', 59), said]).toEqual([0, []]);
  expect(hour('mallory', 3)).toBeGreaterThan(0);
  expect(said).toEqual([
    expect.stringMatching(
      /^mallory is connected but has answered nothing for 60 minutes; .*3 lines in 1 part$/,
    ),
  ]);
  desk.take(name, 'slow');
  expect(hour('slow', 119)).toBe(0); // a call may be that long
  expect(hour('slow', 3)).toBeGreaterThan(0);
  desk.take(name, 'slow');
  expect(hour('slow', 360, minute => Math.floor(minute / 150))).toBe(0); // … and longer where lines are done
  const lines = Buffer.from(`${LINES.join('\n')}\n`);
  expect(desk.put(name, { ...RESULT, worker: 'mallory' }, lines)).toBe(0); // what was answered late is taken all the same
  expect(work.parts.done.lines).toBe(3);
});

test('numbers of workers that are huge leave every metric a number', async () => {
  const { hello, take, metrics } = await coordinating();
  await take('w1');
  const held = [{ work: 'w', root: 0, part: 0, done: 1e9, lines: 1e9 }];
  expect((await hello({ rate: 1e9, places: 1e9, held })).status).toBe(200);
  for (const rate of ['1e999', '-1', '"NaN"', 'null'])
    expect((await hello({ rate: 0, held: [], worker: 'x', pid: rate })).status).toBe(400);
  const values = (await metrics.page())
    .split('\n')
    .filter(line => /^fw_/.test(line))
    .map(line => Number(line.split(' ').at(-1)));
  expect(values.filter(value => !Number.isFinite(value) || value < 0)).toEqual([]);
});

test('a key of workers opens no route of others at a server', async () => {
  const data = folder();
  const key = keyOf(data, 'gpus', ['worker']);
  const { url } = await served({ data });
  const routes = [
    ...[
      'GET /v1/files',
      'POST /v1/files',
      'GET /v1/batches',
      'POST /v1/batches',
      'POST /v1/chat/completions',
    ],
    ...['POST /v1/completions', 'POST /v1/embeddings', 'POST /v1/load_lora_adapter', 'GET /metrics'],
  ];
  const statuses = [];
  for (const route of routes) {
    const [method = '', path] = route.split(' ');
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = method === 'POST' ? { body: '{}' } : {};
    statuses.push(`${route} ${(await fetch(`${url}${path}`, { method, headers, ...body })).status}`);
  }
  expect(statuses).toEqual(routes.map(route => `${route} 403`));
});
