/** A worker believes nobody: not what a coordinator tells it to do, nor that it is the lines that are at fault. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { isSource, type Stage, stagesOf } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import type { Task } from '../../products/workers/protocol.ts';
import { isInside, readOrders, STAGES } from '../../products/workers/worker/task.ts';
import { stages } from '../../stages/index.ts';
import { folder } from '../fw.ts';
import { echo, serve } from '../pool/serving.ts';
import { fakeCoordinator, filesOf, taskOf } from './coordinator.ts';
import { until } from './queueing.ts';
import { REQUEST, requests, working } from './working.ts';

const OF_M = { model: 'm' };

test('the stages that a task may name make one line of one line, and write nothing', async () => {
  for (const name of STAGES) {
    const [stage, ...more] = stagesOf((await stages[name]?.())?.default as Stage) as [Stage];
    expect(more).toEqual([]);
    expect([stage.each !== undefined, stage.through, stage.frame, stage.ends, stage.dropsFailures]).toEqual([
      true,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(isSource(stage, {})).toBe(false);
    const written = Object.entries(stage.options).filter(
      ([, schema]) => 'file' in schema && schema.file?.startsWith('write'),
    );
    expect(written).toEqual([]);
    expect(Object.keys(optionsOf(stage))).toContain('failures'); // which is not for a task to say
  }
});

const agent = (more: string): string =>
  `key: a\nshort: a\ndisplay: A\nrole: agent\npersona: p\nsampling: { temperature: 0, max_tokens: 9 }\n${more}\n`;
const chain = (options: object = {}) => [{ stage: 'chain', options: { agents: 'agents', ...options } }];

const BAD: [string, Partial<Task>, Record<string, string> | null, RegExp][] = [
  ['no stage', { row: [] }, null, /row: expected 1 to 16 stages/],
  [
    'a stage that writes',
    { row: [{ stage: 'legacy-convert', options: {} }] },
    null,
    /expected a stage of agent-step/,
  ],
  [
    'a stage that reads what it likes',
    { row: [{ stage: 'merge', options: {} }] },
    null,
    /expected a stage of/,
  ],
  ['a name of an object', { row: [{ stage: 'constructor', options: {} }] }, null, /expected a stage of/],
  [
    'an option that is none',
    { row: [{ stage: 'request', options: { shell: 'rm' } }] },
    null,
    /request\.shell: no option/,
  ],
  [
    'agents of this machine',
    { row: [{ stage: 'chain', options: {} }] },
    null,
    /chain\.agents: expected a folder/,
  ],
  [
    'a path from the root',
    { row: chain({ agents: '/etc' }) },
    {},
    /chain\.agents: expected a path among the files/,
  ],
  ['a path upwards', { row: chain({ agents: 'a/../../b' }) }, {}, /expected a path among the files/],
  ['files of messages upwards', { row: chain({ files: '..' }) }, {}, /chain\.files: expected a path among/],
  ['a file upwards', { row: chain() }, { '../../../x': 'x' }, /expected a path among the files of the task/],
  [
    'a file from the root',
    { row: chain() },
    { '/tmp/x': 'x' },
    /expected a path among the files of the task/,
  ],
  ['a file that is a folder of another', { row: chain() }, { a: 'x', 'a/b': 'y' }, /a\/b/],
  [
    'a schema upwards',
    { row: chain() },
    { 'agents/a.yaml': agent('schema: ../../x.json') },
    /agents\/a\.yaml: schema: expected a path/,
  ],
  [
    'a schema from the root',
    { row: chain() },
    { 'agents/a.yaml': agent('schema: /etc/hostname') },
    /schema: expected a path among/,
  ],
  [
    'a schema behind an anchor',
    { row: chain() },
    { 'agents/a.yaml': agent('display2: &x /etc/hostname\nschema: *x') },
    /schema: expected a path among/,
  ],
  [
    'a schema in the other spelling',
    { row: chain() },
    { 'agents/a.YML': agent('schema: "/etc/hostname"') },
    /schema: expected a path among/,
  ],
  [
    'a model that has a list for a name',
    { row: REQUEST, models: [1] as never },
    null,
    /models: expected names/,
  ],
];

test.each(BAD)('%s: the part is broken, in words, and nothing is run', async (_, task, files, message) => {
  const bundle = files === null ? null : filesOf(files);
  const given = { task: { ...task, files: bundle?.sha256 ?? null }, files: bundle?.body ?? null };
  const server = await serve(echo);
  const fake = await fakeCoordinator({ w: { ...given, shards: [requests(2, 0, OF_M)] } });
  const { data } = await working(fake, { endpoints: [server.url] });
  await fake.until(() => fake.results.length > 0);
  expect(fake.results[0]).toMatchObject({ answered: [], broken: expect.stringMatching(message) });
  expect(fake.results[0]?.broken).not.toContain(data);
  expect(server.asked).toBe(0);
  expect(readdirSync(data).sort()).toEqual(['files', 'locks', 'parts']);
  expect(readdirSync(dirname(data))).toEqual(['fw-work']);
});

test('files that are not those of their hash are not used', async () => {
  const { body } = filesOf({ 'agents/a.yaml': agent('schema: { type: object }') });
  const task = { row: chain(), files: 'a'.repeat(64) };
  const fake = await fakeCoordinator({ w: { task, files: body, shards: [requests(1)] } });
  const { data } = await working(fake);
  await fake.until(() => fake.results.length > 0);
  expect(fake.results[0]?.broken).toMatch(/expected files with the SHA-256 a+, found/);
  expect(readdirSync(join(data, 'files'))).toEqual(['none']);
});

test('whom to ask, and what is kept, is not for a task to say', async () => {
  const server = await serve(echo);
  const options = {
    ...{ endpoint: ['http://127.0.0.1:1/v1'], pool: '/etc/passwd', 'api-key-env': 'HOME' },
    ...{
      ledger: '/tmp/fw-never',
      failures: '/tmp/fw-never',
      metrics: '0.0.0.0:1',
      grace: '24h',
      'in-flight': 1,
    },
  };
  const row = [{ stage: 'request', options }];
  const fake = await fakeCoordinator({ w: { task: taskOf(row), shards: [requests(3, 0, OF_M)] } });
  await working(fake, { endpoints: [server.url] });
  await fake.done('w');
  expect(server.asked).toBe(3);
  expect(existsSync('/tmp/fw-never')).toBe(false);
});

test('a path among files is relative, and never upwards', () => {
  const inside = ['a', '1/agents/risk.yaml', 'ä/ö', 'a..b', '.a'];
  const outside = [
    '',
    '/',
    '/a',
    '..',
    '.',
    'a/..',
    '../a',
    'a//b',
    'a/',
    'a\\..\\b',
    'a\0b',
    'a/./b',
    'x'.repeat(256),
  ];
  expect(inside.filter(path => !isInside(path))).toEqual([]);
  expect(outside.filter(isInside)).toEqual([]);
});

test('orders that are none are not followed, and said once', async () => {
  const fine = { queues: ['any'], drop: [], sharing: {}, every: 5_000, lease: 60_000 };
  expect(readOrders({ ...fine, every: 1e12, more: 1 })).toEqual({ ...fine, every: 3_600_000 });
  const wrong = [
    null,
    [],
    {},
    { ...fine, queues: 'any' },
    { ...fine, queues: ['a:b'] },
    { ...fine, every: 0 },
  ];
  for (const orders of [...wrong, { ...fine, drop: [{ work: '..', root: 0, part: 0 }] }])
    expect(() => readOrders(orders), JSON.stringify(orders)).toThrow(/expected/);
  const server = await serve(echo);
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(2, 0, OF_M)] } });
  const { said } = await working(fake, { endpoints: [server.url] });
  await fake.done('w');
  fake.orders = { queues: 7 as never };
  await until(() => said.some(text => text.includes('queues: expected names, found 7')));
  const heard = fake.hellos.length;
  await fake.until(() => fake.hellos.length > heard + 5);
  expect(said.filter(text => text.includes('expected names'))).toHaveLength(1);
});

test.each([
  ['a key that is refused', 401, /expected a key of scope worker in FW_WORKER_KEY/],
  ['a server that is no coordinator', 404, /expected a coordinator/],
])('%s ends a worker that was never heard', async (_, status, message) => {
  const fake = await fakeCoordinator({});
  fake.answers = () => ({ status, body: '{"error":{"message":"not you"}}' });
  const { broken } = await (await working(fake)).ended;
  expect(broken?.exit).toBe(64);
  expect(broken?.message).toMatch(message);
  expect(broken?.message).toContain('not you');
});

test('an endpoint that refuses the key answers no line: all goes back, and is taken again later', async () => {
  let refuses = true;
  const server = await serve(ask => (refuses ? ask.send(401, { error: 'Unauthorized' }) : echo(ask)));
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(5, 0, OF_M)] } });
  const { said } = await working(fake, { endpoints: [server.url], timing: { rest: 300 } });
  await fake.until(() => fake.results.length > 0);
  expect(fake.results[0]).toMatchObject({ answered: [] });
  expect(fake.results[0]).not.toHaveProperty('broken');
  expect(said.join('\n')).toMatch(/an endpoint refuses to be asked: HTTP 401.*taking none for/);
  refuses = false;
  await fake.done('w');
  const lines = fake.lines('w').map(line => JSON.parse(line ?? ''));
  expect(lines.map(({ failure }) => failure)).toEqual(Array(5).fill(undefined));
});

test('a model that is gone from the endpoints fails no line', async () => {
  const server = await serve(echo, { models: ['other'] });
  const task = taskOf(REQUEST, { models: ['m'] });
  const fake = await fakeCoordinator({ w: { task, shards: [requests(2, 0, OF_M)] } });
  const { said } = await working(fake, { endpoints: [server.url], timing: { rest: 60_000 } });
  await fake.until(() => fake.results.length > 0);
  expect(fake.results[0]).toMatchObject({ answered: [] });
  expect(said.join('\n')).toContain('Expected a model that is served (other), found "m".');
});

test('a server that refuses everything ends the worker; one that has answered fails lines by name', async () => {
  const { body, sha256 } = filesOf({ 'agents/a.yaml': agent('schema: { type: object }') });
  const task = { row: chain({ decision: false }), files: sha256 };
  const prompts = Array.from({ length: 40 }, (_, n) => JSON.stringify({ id: `p${n}`, prompt: `${n}` }));
  const refusing = await serve(ask => ask.send(400, { error: { message: 'no such thing' } }));
  const one = await fakeCoordinator({ w: { task, files: body, shards: [prompts] } });
  const { broken, sums } = await (await working(one, { endpoints: [refusing.url] })).ended;
  expect(broken?.exit).toBe(69);
  expect(broken?.message).toMatch(
    /expected answers, found none: 20 calls were refused, the last with: .*no such thing/,
  );
  expect(one.results[0]?.answered.length).toBeLessThan(20);
  expect(sums.lines).toBeLessThan(20);

  const server = await serve(ask =>
    ask.n > 3 ? ask.send(400, { error: { message: 'no' } }) : ask.answer('{}'),
  );
  const two = await fakeCoordinator({ w: { task, files: body, shards: [prompts] } });
  await working(two, { endpoints: [server.url], limit: 1 });
  await two.done('w');
  const codes = two.lines('w').flatMap(line => JSON.parse(line ?? '').failure?.code ?? []);
  expect(codes).toEqual(Array(37).fill('call-refused'));
});

test('lines that fail without a call are answered so', async () => {
  const server = await serve(echo);
  const failure = { stage: 'chain', code: 'no-valid-answer', message: 'x' };
  const odd = [
    { id: 'a', prompt: 'p', failure },
    { id: 'b', request: { method: 'GET', url: '/v1/models', body: {} } },
  ].map(line => JSON.stringify(line));
  const shards = [[...odd, ...requests(2, 0, OF_M)]];
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards } });
  await working(fake, { endpoints: [server.url] });
  await fake.done('w');
  const lines = fake.lines('w').map(line => JSON.parse(line ?? ''));
  expect(lines[0]).toEqual(JSON.parse(odd[0] as string));
  expect(lines[1].failure.code).toBe('bad-request');
});

test('a disk that takes no ledger ends the worker, and no part is the worse for it', async () => {
  const server = await serve(echo);
  const data = join(folder(), 'fw-work');
  mkdirSync(data);
  writeFileSync(join(data, 'w'), 'where the ledger belongs');
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(2, 0, OF_M)] } });
  const { broken } = await (await working(fake, { endpoints: [server.url], data })).ended;
  expect(broken?.exit).toBe(74);
  expect(broken?.message).toMatch(/ENOTDIR/);
  expect(fake.results).toMatchObject([{ answered: [] }]);
  expect(fake.results[0]).not.toHaveProperty('broken');
  expect(server.asked).toBe(0);
});

test('results of an earlier start that are damaged are forgotten', async () => {
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(2)] } });
  const data = join(folder(), 'fw-work');
  const first = await working(fake, { data });
  await fake.done('w');
  first.stop();
  await first.ended;
  writeFileSync(join(data, 'parts', 'nobody'), 'x');
  const again = await working(fake, { data });
  await fake.until(() => fake.hellos.length > 3);
  expect(readdirSync(join(data, 'parts'))).toEqual([]);
  expect(again.said).toEqual([]);
});
