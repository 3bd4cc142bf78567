/**
 * What a hostile coordinator, or whoever may write to its Redis, may try at a worker: to have it ask what is not theirs to
 * ask, to write where it should not, to learn its key, and to end it. Each attack is a row with what it must end in.
 */
import { readdirSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { readOrders } from '../../products/workers/worker/task.ts';
import { runs } from '../all.ts';
import { echo, serve } from '../pool/serving.ts';
import { type FakeCoordinator, fakeCoordinator, filesOf, taskOf } from './coordinator.ts';
import { QUEUE } from './queue-name.ts';
import { nothingOnConsole, offer, taken, takerOf } from './queueing.ts';
import { startRedis, withRedis } from './redis.ts';
import { REQUEST, requests, working } from './working.ts';

nothingOnConsole();
const OF_M = { model: 'm' };
const withUrl = (url: string, at: number): string =>
  JSON.stringify({ id: `u${at}`, request: { method: 'POST', url, body: { model: 'm', messages: [] } } });

const URLS = [
  ...['/v1/load_lora_adapter', '/v1/unload_lora_adapter', '/sleep', '/wake_up', '/reset_prefix_cache', '/'],
  ...['/v1/chat/completions/../../sleep', '/v1/chat/%2e%2e/%2e%2e/sleep', '/v1/chat/completions?x=1'],
  ...[
    '//127.0.0.1/v1/chat/completions',
    'http://127.0.0.1:1/x',
    '@127.0.0.1',
    '/V1/CHAT/COMPLETIONS',
    '',
    '/metrics',
  ],
  ...[
    '/v1/chat/completions ',
    '/v1/chat/completions\r\nX: y',
    '/v1/chat/completions\u0000',
    '/v1/moderations',
  ],
];

test('lines reach the paths of inference at the endpoints of a worker, and those that it names itself', async () => {
  const asked: string[] = [];
  const server = await serve(ask => {
    asked.push(ask.request.url ?? '');
    ask.send(200, { results: [1] });
  });
  const shards = [[...URLS.map(withUrl), ...requests(1, 0, OF_M)]];
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards } });
  await working(fake, { endpoints: [server.url] });
  await fake.done('w');
  const lines = fake.lines('w').map(line => JSON.parse(line ?? ''));
  expect(lines.map(({ failure }) => failure?.code)).toEqual([...URLS.map(() => 'bad-request'), undefined]);
  expect(lines[0].failure.message).toMatch(/expected a path that the worker lets through .*fw work --path/);
  expect(asked).toEqual(['/v1/chat/completions']);

  const other = await fakeCoordinator({
    w: { task: taskOf(REQUEST), shards: [[withUrl('/v1/moderations', 0)]] },
  });
  await working(other, { endpoints: [server.url], paths: ['/v1/moderations'] });
  await other.done('w');
  expect(asked).toEqual(['/v1/chat/completions', '/v1/moderations']);
});

/** What is answered to `take`, and what is handed in for it: a reason, or the codes of its lines. */
const TAKEN: [string, string | Buffer, RegExp | string[]][] = [
  ['nothing', '', /expected (JSON|isAlone)/],
  ['no JSON', 'x\n', /expected JSON/],
  ['a list', '[]\n{}\n', /expected isAlone/],
  ['a word for isAlone', '{"isAlone":"no"}\n', /expected isAlone/],
  ['no newline', '{"isAlone":false}', /expected (JSON|isAlone)/],
  ['a hundred thousand brackets', `${'['.repeat(100_000)}\n`, /expected JSON/],
  [
    '64 MiB of lines',
    `{"isAlone":false}\n${'\n'.repeat(60 * 1024 * 1024)}`,
    /at most 100000 lines, found more/,
  ],
  ['more than 64 MiB', Buffer.alloc(65 * 1024 * 1024, ' '), /at most 64 MiB/],
  ['lines that are no JSON', '{"isAlone":false}\n{{{\n', ['not-json']],
  ['lines that are no items', '{"isAlone":false}\n{"id":7}\n', ['not-an-item']],
  [
    'lines that nest',
    `{"isAlone":false}\n{"id":"a","request":${'['.repeat(50_000)}${']'.repeat(50_000)}}\n`,
    ['not-an-item'],
  ],
];

test.each(TAKEN)(
  '%s in the place of a part: it is broken or its lines fail, and the next part is done',
  async (_, body, ends) => {
    const server = await serve(echo);
    const task = taskOf(REQUEST);
    const fake = await fakeCoordinator({
      bad: { task, shards: [['{}']] },
      good: { task, shards: [requests(2, 0, OF_M)] },
    });
    const handedIn: string[] = [];
    fake.answers = (method, path, sent) => {
      if (!path.startsWith('/shards/bad/0')) return null;
      if (path.endsWith('/take')) return { status: 200, body };
      if (method === 'PUT') handedIn.push(sent);
      return { status: 200, body: '{"rest":0}' };
    };
    await working(fake, { endpoints: [server.url] });
    await fake.done('good');
    await fake.until(() => handedIn.length > 0);
    const [head = '', ...lines] = (handedIn[0] ?? '').trimEnd().split('\n');
    if (ends instanceof RegExp)
      expect(JSON.parse(head)).toMatchObject({ answered: [], broken: expect.stringMatching(ends) });
    else expect(lines.map(line => JSON.parse(line).failure.code)).toEqual(ends);
    expect(server.asked).toBe(2);
  },
);

const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`f${at}`, 'x']));
const BUNDLES: [string, Record<string, string> | string, RegExp][] = [
  ['10,001 files', many, /expected at most 10000 files/],
  ['a name of a folder up', { '1/../../x': 'x' }, /expected a path among the files/],
  ['a name with a NUL', { 'a\0b': 'x' }, /expected a path among the files/],
  ['a name of 256 bytes', { ['x'.repeat(256)]: 'x' }, /expected a path among the files/],
  [
    'a path of 5,000 characters',
    { ['a/'.repeat(2_500).concat('b')]: 'x' },
    /expected a path among the files/,
  ],
  ['the folder itself', { '': 'x' }, /expected a path among the files/],
  ['no map', '[]', /expected at most 10000 files by their paths/],
  ['a file that is a number', '{"files":{"a":{"base64":1}}}', /expected the bytes of "a" in base64/],
  ['nothing that ends', '['.repeat(1_000_000), /expected at most 10000 files by their paths/],
];

test.each(BUNDLES)('files with %s: nothing of them is written', async (_, files, message) => {
  const { body } = filesOf(typeof files === 'string' ? {} : files);
  const sent = typeof files === 'string' ? Buffer.from(files) : body;
  const { createHash } = await import('node:crypto');
  const task = { row: REQUEST, files: createHash('sha256').update(sent).digest('hex') };
  const fake = await fakeCoordinator({ w: { task, files: sent, shards: [requests(1)] } });
  const { data } = await working(fake, { endpoints: [(await serve(echo)).url] });
  await fake.until(() => fake.results.length > 0);
  expect(fake.results[0]?.broken).toMatch(message);
  expect(readdirSync(join(data, 'files'))).toEqual(['none']);
  expect(readdirSync(data).sort()).toEqual(['files', 'locks', 'parts']);
});

/** A server that answers all of it by `act`, and notes what it was shown. */
async function answering(act: (response: ServerResponse) => void) {
  const shown: string[] = [];
  const server = createServer((request, response) => {
    shown.push(`${request.headers.authorization}`);
    request.resume().on('end', () => act(response));
    response.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, shown };
}

const HELLO = JSON.stringify({ queues: ['any'], drop: [], sharing: {}, every: 20, lease: 2_000 });
const endless = (response: ServerResponse): void => {
  const write = (): void => {
    while (!response.destroyed && response.write(' '.repeat(65_536)));
    if (!response.destroyed) response.once('drain', write);
  };
  write();
};

test.each<[string, (response: ServerResponse, other: string) => void, RegExp]>([
  [
    'a redirect',
    (response, other) => response.writeHead(307, { location: `${other}/shards/hello` }).end(),
    /HTTP 307/,
  ],
  [
    'what is packed',
    response => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(HELLO)),
    /expected JSON/,
  ],
  ['an answer without an end', response => endless(response.writeHead(200)), /at most 1 MiB/],
  ['a list', response => response.end('[]'), /queues: expected names/],
  ['a hundred thousand brackets', response => response.end('['.repeat(100_000)), /expected JSON/],
  [
    'control characters',
    response => response.writeHead(400).end('\u001b]0;evil\u0007\u001b[2J'),
    /expected a coordinator .*found HTTP 400: [^\p{Cc}]*2J/u,
  ],
])(
  'a coordinator that answers the first hello with %s is none, and its key goes nowhere else',
  async (_, act, message) => {
    const other = await answering(response => response.end(HELLO));
    const coordinator = await answering(response => act(response, other.url));
    const fake = { ...(await fakeCoordinator({})), url: coordinator.url } as FakeCoordinator;
    const { broken } = await (await working(fake, { endpoints: [(await serve(echo)).url] })).ended;
    expect(broken?.exit).toBe(64);
    expect(broken?.message).toMatch(message);
    expect(other.shown).toEqual([]);
  },
);

test('orders are bounded: no hello each microsecond, no limit of 0', () => {
  const orders = { queues: [], drop: [], sharing: { a: 1e300, b: -1, c: 0.5 }, every: 1e-9, lease: 1e300 };
  expect(readOrders(orders)).toMatchObject({ every: 10, lease: 3_600_000, sharing: { b: -1 } });
  expect(() => readOrders({ ...orders, queues: Array(1_001).fill('q') })).toThrow(/queues/);
});

const POINTERS: unknown[] = [
  ...[
    null,
    7,
    'text',
    [],
    {},
    { work: 'w' },
    { work: '../../x', root: 0, part: 0 },
    { work: '/etc/x', root: 0, part: 0 },
  ],
  ...['.', '..', 'files', 'parts', 'locks', 'a\0b', 'x'.repeat(1_000_000), 'a/b', 'a%2fb', ''].map(work => ({
    work,
    root: 0,
    part: 0,
  })),
  ...[-1, 0.5, 1e9, 2 ** 53, 1e300, '0', null].map(root => ({ work: 'w', root, part: 0 })),
  ...[-1, 1e9, {}].map(part => ({ work: 'w', root: 0, part })),
];

test('pointers that lead nowhere: nobody is asked about them, they are said a few times, and the next part is done', async () => {
  const server = await serve(echo);
  const evil = await answering(response => response.end(HELLO));
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [] } });
  const asked: string[] = [];
  fake.answers = (_, path) => {
    if (path !== '/shards/hello') asked.push(path);
    return null;
  };
  const { said, data } = await working(fake, { endpoints: [server.url] });
  for (let round = 0; round < 4; round++) for (const pointer of POINTERS) fake.point(pointer);
  fake.point({ work: 'of-another', root: 0, part: 0, server: evil.url, url: evil.url });
  await fake.until(() => asked.length > 0);
  expect(asked).toEqual(['/shards/of-another/0/0/take']);
  expect(evil.shown).toEqual([]);
  expect(said.filter(text => text.includes('leads nowhere'))).toHaveLength(20);
  expect(readdirSync(data).sort()).toEqual(['files', 'locks', 'parts']);
  expect(said.join('').length).toBeLessThan(10_000);
});

test('thousands of pointers to a part in hand: it is asked for once more, and not once for each', async () => {
  let go = (): void => {};
  const held = new Promise<void>(resolve => {
    go = resolve;
  });
  const server = await serve(async ask => {
    await held;
    return echo(ask);
  });
  const fake = await fakeCoordinator({ w: { task: taskOf(REQUEST), shards: [requests(1, 0, OF_M)] } });
  let takes = 0;
  fake.answers = (_, path) => {
    if (path.endsWith('/take')) takes += 1;
    return null;
  };
  const worker = await working(fake, { endpoints: [server.url] });
  await fake.until(() => takes === 1);
  for (let count = 0; count < 3_000; count++) fake.point({ work: 'w', root: 0, part: 0 });
  await fake.until(() => fake.waiting() === 0);
  go();
  await fake.done('w');
  worker.stop();
  await worker.ended;
  expect(takes).toBe(2);
});

withRedis('many things that are no pointers do not keep a worker from what is behind them', async () => {
  const { url, cli } = await startRedis();
  const foreign = new Queue(QUEUE, { connection: { url }, prefix: 'fw' });
  await foreign.addBulk(
    Array.from({ length: runs(500, 3_000) }, (_, at) => ({ name: 'part', data: { at } })),
  );
  await foreign.add('part', { work: 'w'.repeat(1_000_000), root: 0, part: 0 });
  for (const [at, id] of ['torn', 'gone', '../../x', 'a:b:c', '*'].entries()) {
    await foreign.add('part', offer(at).pointer, { jobId: id.replaceAll(':', '_') });
  }
  cli('hset', `fw:${QUEUE}:torn`, 'data', '{"work":');
  cli('del', `fw:${QUEUE}:gone`);
  await foreign.add('part', offer(7).pointer);
  await foreign.close();
  const taker = await takerOf(url);
  const roots: number[] = [];
  while (!roots.includes(7)) {
    const { pointer, done } = await taken(taker);
    roots.push(pointer.root);
    await done();
  }
  expect(roots).toEqual([2, 3, 4, 7]);
  expect(taker.said.length).toBeLessThanOrEqual(2);
});
