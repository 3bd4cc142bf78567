/** fw work: parts come, are run, and go back, whatever goes away meanwhile. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freePort } from '../free-port.ts';
import { callsOf } from '../ledger/reading.ts';
import { type Ask, echo, serve } from '../pool/serving.ts';
import { MODEL, simulated } from '../server/serving.ts';
import { fakeCoordinator, filesOf, taskOf } from './coordinator.ts';
import { until } from './queueing.ts';
import { REQUEST, requests, working } from './working.ts';

const idsOf = (lines: (string | undefined)[]): unknown[] => lines.map(line => JSON.parse(line ?? 'null')?.id);
const failuresOf = (lines: (string | undefined)[]): unknown[] =>
  lines.flatMap(line => JSON.parse(line ?? 'null')?.failure?.code ?? []);

test('a work is done, each line once and in its place, over a ledger of its own', async () => {
  const { url, simulator } = await simulated();
  const shards = [requests(30), requests(20, 30), requests(7, 50)];
  const fake = await fakeCoordinator({ w1: { task: taskOf(REQUEST, { models: [MODEL] }), shards } });
  const worker = await working(fake, { endpoints: [url] });
  await fake.done('w1');
  expect(idsOf(fake.lines('w1'))).toEqual(idsOf(shards.flat()));
  expect(failuresOf(fake.lines('w1'))).toEqual([]);
  expect(simulator.counts().answers).toBe(57);
  worker.stop();
  const { sums, isClean } = await worker.ended;
  expect(isClean).toBe(true);
  expect(sums).toMatchObject({ parts: 3, lines: 57, asked: { calls: 57, retries: 0, replayed: 0 } });
  expect(fake.results.map(({ asked }) => asked.calls).sort()).toEqual([20, 30, 7]);
  expect(fake.results.every(({ model, seconds }) => model === MODEL && seconds > 0)).toBe(true);
  expect(fake.hellos.at(-1)).toMatchObject({ isStopping: true, held: [], models: [MODEL] });
  expect(readdirSync(join(worker.data, 'parts'))).toEqual([]);
});

const AGENT = (key: string) =>
  `key: ${key}\nshort: ${key}\ndisplay: ${key.toUpperCase()}\nrole: agent\npersona: You judge.\n` +
  'schema: ../schemas/answer.schema.json\nsampling: { temperature: 0.2, max_tokens: 60 }\n';
const FILES = {
  '1/agents/first.yaml': AGENT('first'),
  '1/agents/second.yaml': AGENT('second'),
  '1/agents/orderings.yaml': 'default: [[first, second]]\n',
  '1/schemas/answer.schema.json': JSON.stringify({
    type: 'object',
    required: ['verdict'],
    properties: { verdict: { enum: ['yes', 'no'] } },
    additionalProperties: false,
  }),
};
const prompts = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `p-${from + n}`, prompt: `Is ${from + n} even?` }),
  );

test('chains, by agents that came along; two works have the same files once, and each its own ledger', async () => {
  const { body, sha256 } = filesOf(FILES);
  const row = [
    { stage: 'chain', options: { agents: '1/agents', attempts: 2, decision: false } },
    { stage: 'validate', options: { agents: '1/agents' } },
  ];
  const given = { task: taskOf(row, { files: sha256 }), files: body };
  const fake = await fakeCoordinator({
    one: { ...given, shards: [prompts(12), prompts(5, 12)] },
    two: { ...given, shards: [prompts(4)] },
  });
  const asked: string[] = [];
  fake.answers = (_method, path) => {
    asked.push(path);
    return null;
  };
  const worker = await working(fake);
  await Promise.all([fake.done('one'), fake.done('two')]);
  const steps = fake
    .lines('one')
    .map(line => JSON.parse(line ?? '').steps.map((step: { output: unknown }) => step.output));
  expect(steps).toHaveLength(17);
  for (const each of steps)
    expect(each).toEqual([{ verdict: expect.any(String) }, { verdict: expect.any(String) }]);
  expect(fake.results.map(({ asked }) => asked.calls).sort((a, b) => a - b)).toEqual([8, 10, 24]);
  expect(asked.filter(path => path.endsWith('/files'))).toHaveLength(1);
  expect(asked.filter(path => path.endsWith('/task')).sort()).toEqual([
    '/shards/one/task',
    '/shards/two/task',
  ]);
  worker.stop();
  await worker.ended;
  const calls = ['one', 'two'].map(work => callsOf(join(worker.data, work, 'ledger')).length);
  expect(calls).toEqual([34, 8]);
  expect(readFileSync(join(worker.data, 'files', sha256, '1/agents/first.yaml'), 'utf8')).toBe(
    AGENT('first'),
  );
});

/** A server that keeps what it is asked, until told to answer; `requests(…)` with MODEL_M ask for its model. */
async function holding() {
  const held: Ask[] = [];
  let isOpen = false;
  const server = await serve(ask => (isOpen ? echo(ask) : void held.push(ask)));
  return {
    ...server,
    held,
    server,
    answerHeld: () => held.splice(0).forEach(echo),
    open() {
      isOpen = true;
      this.answerHeld();
    },
  };
}
const OF_M = { model: 'm' };

test('told to stop it hands back what was not asked, and another one asks just that', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(10, 0, OF_M)] } });
  const first = await working(fake, { endpoints: [slow.url], limit: 4, grace: 60_000 });
  await slow.server.reached(4);
  first.stop();
  await fake.until(() => fake.hellos.some(({ isStopping }) => isStopping));
  slow.answerHeld();
  expect(await first.ended).toMatchObject({ isClean: true, sums: { parts: 1, lines: 4 } });
  expect(fake.results).toMatchObject([{ answered: [0, 1, 2, 3], asked: { calls: 10 } }]);
  expect(first.said.join()).toContain('handed back with 4 of 10 lines answered');
  slow.open();
  await working(fake, { endpoints: [slow.url], limit: 4 });
  await fake.done('w');
  expect(slow.server.asked).toBe(10);
  expect(failuresOf(fake.lines('w'))).toEqual([]);
});

test('what a server does not answer within the grace goes back, and is dropped there', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(10, 0, OF_M)] } });
  const worker = await working(fake, { endpoints: [slow.url], limit: 4, grace: 50 });
  await slow.server.reached(4);
  worker.stop();
  expect(await worker.ended).toMatchObject({ isClean: true, sums: { parts: 0, lines: 0 } });
  await slow.server.dropped(4);
  expect(fake.results).toMatchObject([{ answered: [] }]);
  expect(fake.results[0]).not.toHaveProperty('broken');
});

test('a part that is to be dropped goes back with what it has; the others go on', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({
    w: { task: taskOf(REQUEST), shards: [requests(6, 0, OF_M), requests(2, 6, OF_M)] },
  });
  await working(fake, { endpoints: [slow.url], limit: 4, grace: 60_000 });
  await slow.server.reached(4);
  slow.answerHeld();
  await slow.server.reached(8);
  fake.orders = { drop: [{ work: 'w', root: 0, part: 0 }] };
  await fake.until(() => fake.hellos.at(-1)?.held.length === 2);
  slow.answerHeld();
  await fake.until(() => fake.results.some(({ name }) => name.root === 0 && name.part === 0));
  fake.orders = {};
  slow.open();
  await fake.done('w');
  expect(slow.server.asked).toBe(8);
});

test('the coordinator goes away: what is in hand goes on, and is handed in when it is back', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(3, 0, OF_M)] } });
  const { said, data } = await working(fake, { endpoints: [slow.url] });
  await slow.server.reached(3);
  await fake.away();
  slow.answerHeld();
  const result = join(data, 'parts', 'w.0.0', 'result.ndjson');
  await until(() => existsSync(result));
  await until(() => said.some(text => text.includes('does not answer')));
  await fake.back();
  await fake.done('w');
  await until(() => said.some(text => text.includes('answers again')));
  const told = said.filter(text => text.includes(fake.url));
  expect(told).toEqual([
    expect.stringMatching(/ knows this worker as .*: it has m$/),
    expect.stringContaining('does not answer'),
    expect.stringContaining('answers again'),
  ]);
  await until(() => !existsSync(result));
  expect(fake.results).toHaveLength(1);
});

test('stopped while the coordinator is away, it keeps results for its next start, which asks nothing', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(3, 0, OF_M)] } });
  const first = await working(fake, { endpoints: [slow.url], timing: { handIn: 200 } });
  await slow.server.reached(3);
  await fake.away();
  slow.answerHeld();
  await until(() => existsSync(join(first.data, 'parts', 'w.0.0', 'result.ndjson')));
  first.stop();
  expect(await first.ended).toMatchObject({ isClean: false, sums: { parts: 0 } });
  expect(first.said.join()).toContain('is kept for the next start');
  await fake.back();
  const again = await working(fake, { endpoints: [slow.url], data: first.data });
  await fake.done('w');
  expect(again.said.join()).toContain('1 result of an earlier start');
  expect(slow.server.asked).toBe(3);
  await until(() => readdirSync(join(first.data, 'parts')).length === 0);
});

test('a coordinator that is gone for good keeps no idle worker', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(3, 0, OF_M)] } });
  fake.orders = { lease: 100 };
  const worker = await working(fake, {
    endpoints: [slow.url],
    grace: 50,
    idle: 150,
    timing: { handIn: 200 },
  });
  await slow.server.reached(3);
  await fake.away();
  await until(() => worker.said.some(text => text.includes('does not answer')));
  slow.answerHeld();
  expect(await worker.ended).toMatchObject({ isClean: true, sums: { parts: 0 } });
  expect(existsSync(join(worker.data, 'parts', 'w.0.0', 'result.ndjson'))).toBe(true);
});

test('two parts that have the same lines for a while ask each call once', async () => {
  const slow = await holding();
  const lines = requests(4, 0, OF_M);
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [lines, lines] } });
  await working(fake, { endpoints: [slow.url], limit: 8, grace: 0 });
  await slow.server.reached(4);
  await fake.until(() => fake.hellos.at(-1)?.held.length === 2);
  fake.orders = { drop: [{ work: 'w', root: 0, part: 0 }] };
  await slow.server.reached(8); // those of the first part were dropped, and the other one asks for itself
  fake.orders = {};
  slow.open();
  await fake.done('w');
  expect(slow.server.asked).toBe(8);
  expect(failuresOf(fake.lines('w'))).toEqual([]);
});

test('without an endpoint for a while it hands all back, and takes parts again when one is up', async () => {
  const slow = await holding();
  const { port } = slow.server;
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(3, 0, OF_M)] } });
  const { said } = await working(fake, { endpoints: [slow.url], timing: { outage: 100 } });
  await slow.server.reached(3);
  await slow.server.close();
  await fake.until(() => fake.results.length > 0);
  expect(fake.results).toMatchObject([{ answered: [] }]);
  expect(said.join()).toMatch(
    /no endpoint has been up for 0 s: taking nothing until one is; http.*connection refused/,
  );
  await serve(echo, { port });
  await fake.done('w');
  expect(said.join()).toContain('an endpoint is up again');
});

test('of an endpoint that several workers have it takes its part', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(20, 0, OF_M)] } });
  await working(fake, { endpoints: [slow.url], limit: 9 });
  await slow.server.reached(9);
  const [own] = fake.hellos.at(-1)?.endpoints ?? [];
  expect(own).toMatchObject({ url: slow.url, limit: 9, isUp: true });
  fake.orders = { sharing: { [own?.url ?? '']: 3 } };
  await fake.until(() => fake.hellos.at(-1)?.endpoints[0]?.limit === 3);
  expect(fake.hellos.at(-1)?.places).toBe(6);
  slow.answerHeld();
  await slow.server.reached(12);
  expect(slow.held).toHaveLength(3);
  slow.open();
  await fake.done('w');
});

test('it takes the next part before an endpoint has nothing to do, and no more than that', async () => {
  const slow = await holding();
  const shards = Array.from({ length: 6 }, (_, n) => requests(10, 10 * n, OF_M));
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards } });
  fake.orders = { every: 60_000 }; // no hello wakes it
  await working(fake, { endpoints: [slow.url], limit: 4 }); // so that eight lines have a place
  await slow.server.reached(4);
  for (let asked = 4; asked < 60; asked += 4) {
    await slow.server.reached(asked); // each time four at once, over the ends of parts
    expect(slow.held).toHaveLength(4);
    slow.answerHeld();
  }
  await slow.server.reached(60);
  slow.answerHeld();
  await fake.done('w');
  expect(fake.mostHeld).toBe(2);
});

test('a part that is asked alone waits until all else is handed in, and nothing is taken beside it', async () => {
  const slow = await holding();
  const shards = [requests(2, 0, OF_M), requests(2, 2, OF_M), requests(2, 4, OF_M)];
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards } });
  fake.alone = [1];
  await working(fake, { endpoints: [slow.url], limit: 8 });
  await fake.until(() => fake.hellos.at(-1)?.held.length === 2);
  await slow.server.reached(2);
  slow.answerHeld();
  await slow.server.reached(4);
  expect(fake.results.map(({ name }) => name.root)).toEqual([0]);
  slow.answerHeld();
  await slow.server.reached(6);
  expect(fake.results.map(({ name }) => name.root)).toEqual([0, 1]);
  slow.answerHeld();
  await fake.done('w');
  expect(fake.mostHeld).toBe(2);
});

test('a part that waits to be asked alone is handed back at once', async () => {
  const slow = await holding();
  const shards = [requests(2, 0, OF_M), requests(2, 2, OF_M)];
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards } });
  fake.alone = [1];
  const worker = await working(fake, { endpoints: [slow.url], limit: 8, grace: 60_000 });
  await fake.until(() => fake.hellos.at(-1)?.held.length === 2);
  worker.stop();
  await fake.until(() => fake.results.length === 1);
  expect(fake.results).toMatchObject([{ name: { root: 1 }, answered: [] }]);
  slow.open();
});

test('a pointer that is there twice, or leads nowhere, is taken off and does no harm', async () => {
  const slow = await holding();
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(2, 0, OF_M)] } });
  fake.point({ work: 'w', root: 0, part: 0 });
  fake.point({ work: '../../etc', root: 0, part: 0 });
  fake.point({ work: 'gone', root: 0, part: 7 });
  const { said } = await working(fake, { endpoints: [slow.url] });
  await slow.server.reached(2);
  await until(() => said.some(text => text.includes('leads nowhere')));
  slow.open();
  await fake.done('w');
  expect(slow.server.asked).toBe(2);
  expect(fake.results).toHaveLength(1);
  expect(said.filter(text => !/leads nowhere|knows this worker/.test(text))).toEqual([]);
});

test('a part whose lines or result are refused is said to be broken: it would come back for ever', async () => {
  const { url } = await simulated();
  const shards = [requests(2), requests(2, 2), requests(2, 4)];
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST, { models: [MODEL] }), shards } });
  let puts = 0;
  fake.answers = (method, path) => {
    if (path === '/shards/w/0/0/take') return { status: 404, body: 'no such lines' };
    if (path === '/shards/w/2/0/take') return { status: 200, body: requests(2, 4).join('\n') };
    return method === 'PUT' && path === '/shards/w/1/0' && puts++ === 0 ? { status: 400, body: 'no' } : null;
  };
  await working(fake, { endpoints: [url] });
  await fake.until(() => fake.results.length === 3);
  expect(fake.results.map(({ broken, answered }) => [broken, answered]).sort()).toEqual([
    ['cannot be taken: HTTP 404: no such lines', []],
    ['cannot be taken: expected isAlone in the first line of a part, found none', []],
    ['its result was refused: HTTP 400: no', []],
  ]);
});

test('it ends when there was nothing to do for so long; a server that still loads is not idle', async () => {
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(3, 0, OF_M)] } });
  const port = await freePort();
  const worker = await working(fake, { endpoints: [`http://127.0.0.1:${port}/v1`], idle: 150 });
  await fake.until(() => fake.hellos.length > 20);
  await serve(echo, { port });
  expect(await worker.ended).toMatchObject({ isClean: true, sums: { lines: 3 } });
  expect(worker.said.join()).toContain('idle for 0.15 s');
});
