/** The routes of workers, over a desk that only notes: who is let in, what is taken, and what is refused before the desk sees it. */
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createAccess } from '../../products/serve/access.ts';
import { openKeys } from '../../products/serve/api-keys.ts';
import { createHttp } from '../../products/serve/http.ts';
import { ServerMetrics } from '../../products/serve/serve-metrics.ts';
import { addShards, type DeskOfRoutes } from '../../products/serve/shard-routes.ts';
import {
  Gone,
  Held,
  type Hello,
  NotYet,
  type Orders,
  type Result,
  type Task,
  TooMany,
  WrongResult,
} from '../../products/workers/protocol.ts';
import { folder } from '../fw.ts';
import { keyOf } from './serving.ts';

const HELLO: Hello = {
  ...{ worker: 'node7-4711-a1b2', host: 'node7', pid: 4711, version: '0.1.0', models: ['simulated-3b'] },
  endpoints: [{ url: 'http://127.0.0.1:8000/v1', isUp: true, inFlight: 3, limit: 8 }],
  ...{ places: 8, rate: 1.5, held: [{ work: 'batch_1', root: 0, part: 2, done: 3, lines: 200 }] },
  isStopping: false,
};
const ORDERS: Orders = { queues: ['q-any'], drop: [], sharing: {}, every: 5_000, lease: 60_000 };
const TASK: Task = {
  ...{
    label: 'batch_1',
    row: [{ stage: 'request', options: {} }],
    files: null,
    models: [],
    owner: 'loans',
    weight: 1,
  },
};
const RESULT: Result = {
  ...{ worker: 'node7-4711-a1b2', answered: [0, 1], model: 'simulated-3b', seconds: 1.25 },
  asked: { calls: 2, retries: 0, replayed: 0, promptTokens: 5, completionTokens: 7, cachedTokens: 0 },
};
const FILES = JSON.stringify({ files: { 'agents/risk.yaml': { base64: 'eA==' } } });
const NDJSON = 'application/x-ndjson';

/** A desk with one open work, `batch_1`, and one with files, `run_1`. */
async function listening(together?: number) {
  const data = folder();
  const keys = {
    worker: keyOf(data, 'gpus', ['worker']),
    batch: keyOf(data, 'loans', ['batch', 'chat', 'admin']),
    few: keyOf(data, 'few', ['worker'], { rpm: 2 }),
  };
  const asked: unknown[] = [];
  const of = (work: string): Task => {
    if (work === 'batch_1') return TASK;
    if (work === 'run_1') return { ...TASK, files: 'ab' };
    if (work === 'batch_9') throw new NotYet('This work is not open yet.');
    throw new Gone('This work is over.');
  };
  const desk: DeskOfRoutes = {
    hello(hello) {
      if (hello.worker === 'one more') throw new TooMany('Expected fewer workers.');
      asked.push(hello);
      return ORDERS;
    },
    task: of,
    files: () => Buffer.from(FILES),
    take(name, worker) {
      asked.push([name, worker]);
      if (name.part === 1) throw new Held('Another worker holds it.');
      of(name.work);
      return { isAlone: false, lines: Buffer.from('{"id":"a"}\n{"id":"b"}\n') };
    },
    put(name, result, lines) {
      asked.push([name, result, lines.toString()]);
      if (name.part === 4) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
      if (name.part === 3) throw new WrongResult('expected the id "a", found "b"');
      of(name.work);
      return 0;
    },
  };
  const said: string[] = [];
  const say = (message: string): void => void said.push(message);
  const access = createAccess(openKeys(data, say), Date.now);
  const metrics = new ServerMetrics(() => {
    throw new Error('there is no pool');
  });
  const app = createHttp({ access, metrics, mostBody: 1024 * 1024, say });
  addShards(app, desk, together);
  await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    app.server.closeAllConnections();
    await app.close();
  });
  const { port } = app.server.address() as AddressInfo;
  async function ask(method: string, path: string, body?: unknown, more: Record<string, string> = {}) {
    const isText = typeof body === 'string' || Buffer.isBuffer(body);
    const headers = {
      authorization: `Bearer ${keys.worker}`,
      ...(body !== undefined && { 'content-type': isText ? NDJSON : 'application/json' }),
      ...more,
    };
    const reply = await fetch(`http://127.0.0.1:${port}/shards${path}`, {
      ...{ method, headers },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    });
    const text = await reply.text();
    return { status: reply.status, headers: reply.headers, text };
  }
  return { keys, asked, said, port, ask };
}

const put = (result: unknown, lines: readonly string[]): string =>
  [JSON.stringify(result), ...lines].map(line => `${line}\n`).join('');
const LINES = ['{"id":"a"}', '{"id":"b","steps":[]}'];

test('hello, task, files, take and put reach the desk and its answers the worker', async () => {
  const { ask, asked } = await listening();
  const hello = await ask('POST', '/hello', { ...HELLO, gpus: ['of a newer version'] });
  expect([hello.status, JSON.parse(hello.text), asked[0]]).toEqual([200, ORDERS, HELLO]);
  const task = await ask('GET', '/batch_1/task');
  expect([task.status, JSON.parse(task.text)]).toEqual([200, TASK]);
  expect((await ask('GET', '/run_1/files')).text).toBe(FILES);
  expect((await ask('GET', '/batch_1/files')).status).toBe(404);
  const taken = await ask('POST', '/batch_1/7/0/take', { worker: HELLO.worker });
  expect([taken.status, taken.headers.get('content-type'), taken.text]).toEqual([
    200,
    NDJSON,
    '{"isAlone":false}\n{"id":"a"}\n{"id":"b"}\n',
  ]);
  const done = await ask('PUT', '/batch_1/7/0', put(RESULT, LINES));
  expect([done.status, JSON.parse(done.text)]).toEqual([200, { rest: 0 }]);
  const name = { work: 'batch_1', root: 7, part: 0 };
  expect(asked.slice(1)).toEqual([
    [name, HELLO.worker],
    [name, RESULT, `${LINES.join('\n')}\n`],
  ]);
  const none = await ask('PUT', '/batch_1/7/0', put({ ...RESULT, answered: [] }, []));
  expect(none.status).toBe(200);
});

test('what the desk refuses: 410 for what is over, 409 for what another holds, 400 for no answer to it, 503 for what is not open yet, 507 for a full disk', async () => {
  const { ask, said } = await listening();
  const worker = { worker: 'w' };
  const refused = [
    await ask('GET', '/batch_2/task'),
    await ask('GET', '/batch_2/files'),
    await ask('POST', '/batch_2/0/0/take', worker),
    await ask('PUT', '/batch_2/0/0', put(RESULT, LINES)),
    await ask('POST', '/batch_1/0/1/take', worker),
    await ask('PUT', '/batch_1/0/3', put(RESULT, LINES)),
    await ask('PUT', '/batch_9/0/0', put(RESULT, LINES)),
    await ask('PUT', '/batch_1/0/4', put(RESULT, LINES)),
    await ask('POST', '/hello', { ...HELLO, worker: 'one more' }),
  ];
  expect(refused.map(({ status, text }) => [status, JSON.parse(text).error.code])).toEqual([
    ...Array(4).fill([410, 'part_closed']),
    [409, 'part_held'],
    [400, 'wrong_result'],
    [503, 'not_yet'],
    [507, 'insufficient_storage'],
    [429, 'too_many_workers'],
  ]);
  const { error } = JSON.parse((refused[5] as { text: string }).text);
  expect(error).toEqual({
    ...{ message: 'expected the id "a", found "b"', type: 'invalid_request_error', param: 'lines' },
    code: 'wrong_result',
  });
  expect(said).toEqual([]);
});

test('names that no part can have are not there', async () => {
  const { ask, asked } = await listening();
  const paths = ['/batch_1/-1/0', '/batch_1/1e3/0', '/batch_1/0/x', '/batch_1/0/9999999999', '/a%2fb/0/0'];
  for (const path of paths) {
    expect((await ask('PUT', path, put(RESULT, LINES))).status, path).toBe(404);
    expect((await ask('POST', `${path}/take`, { worker: 'w' })).status, path).toBe(404);
  }
  expect((await ask('GET', `/${'x'.repeat(150)}/task`)).status).toBe(404);
  expect((await ask('GET', '/%00/task')).status).toBe(404);
  expect(asked).toEqual([]);
});

test('only a key of scope worker is let in, and its rate holds', async () => {
  const { ask, keys, asked } = await listening();
  const routes = [
    ['POST', '/hello', HELLO],
    ['GET', '/batch_1/task'],
    ['GET', '/run_1/files'],
    ['POST', '/batch_1/0/0/take', { worker: 'w' }],
    ['PUT', '/batch_1/0/0', put(RESULT, LINES)],
  ] as const;
  for (const [method, path, body] of routes) {
    const as = async (authorization: string) => (await ask(method, path, body, { authorization })).status;
    expect([await as(''), await as('Bearer fw_wrong'), await as(`Bearer ${keys.batch}`)], path).toEqual([
      401, 401, 403,
    ]);
  }
  expect(asked).toEqual([]);
  const few = { authorization: `Bearer ${keys.few}` };
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await ask('GET', '/batch_1/task', undefined, few)).status);
  expect(statuses).toEqual([200, 200, 429]);
});

const held = (count: number) => Array(count).fill({ work: 'w', root: 0, part: 0, done: 0, lines: 1 });
const point = HELLO.endpoints[0];
test.each<[string, unknown, string]>([
  ['no worker', { ...HELLO, worker: undefined }, 'worker'],
  ['an empty name', { ...HELLO, worker: '' }, 'worker'],
  ['a long name', { ...HELLO, worker: 'x'.repeat(301) }, 'worker'],
  ['a number as host', { ...HELLO, host: 7 }, 'host'],
  ['a pid below 0', { ...HELLO, pid: -1 }, 'pid'],
  ['models that are one text', { ...HELLO, models: 'all' }, 'models'],
  ['too many models', { ...HELLO, models: Array(1001).fill('m') }, 'models'],
  ['a long model', { ...HELLO, models: ['m'.repeat(301)] }, 'models.0'],
  ['too many endpoints', { ...HELLO, endpoints: Array(1001).fill(point) }, 'endpoints'],
  [
    'an endpoint of a script',
    { ...HELLO, endpoints: [{ ...point, url: 'javascript:1' }] },
    'endpoints.0.url',
  ],
  ['an endpoint without a host', { ...HELLO, endpoints: [{ ...point, url: 'http://' }] }, 'endpoints.0.url'],
  ['half a call in flight', { ...HELLO, endpoints: [{ ...point, inFlight: 0.5 }] }, 'endpoints.0.inFlight'],
  ['places beyond all bounds', { ...HELLO, places: 1e300 }, 'places'],
  ['a rate below 0', { ...HELLO, rate: -1 }, 'rate'],
  ['too many parts', { ...HELLO, held: held(10_001) }, 'held'],
  ['a part of a path', { ...HELLO, held: [{ ...held(1)[0], work: '../x' }] }, 'held.0.work'],
  ['a part without lines', { ...HELLO, held: [{ work: 'w', root: 0, part: 0, done: 0 }] }, 'held.0.lines'],
  ['stopping by a word', { ...HELLO, isStopping: 'no' }, 'isStopping'],
])('a hello with %s is refused by name', async (_what, hello, param) => {
  const { ask, asked } = await listening();
  const { status, text } = await ask('POST', '/hello', hello);
  expect([status, JSON.parse(text).error.param, asked]).toEqual([400, param, []]);
});

test('bodies that are no JSON object, nest too deep or are too long are refused', async () => {
  const { ask, asked, said } = await listening();
  const json = { 'content-type': 'application/json' };
  const sent = [
    '[]',
    'null',
    '{',
    `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`,
    '"x"',
    Buffer.from([0xff, 0x7b]),
  ];
  for (const body of sent)
    for (const path of ['/hello', '/batch_1/0/0/take'])
      expect((await ask('POST', path, body, json)).status, `${path} ${body}`).toBe(400);
  const long = JSON.stringify({ ...HELLO, more: 'x'.repeat(1024 * 1024) });
  expect((await ask('POST', '/hello', long, json)).status).toBe(413);
  expect((await ask('POST', '/hello', JSON.stringify(HELLO), { 'content-type': 'text/plain' })).status).toBe(
    400,
  );
  expect([asked, said]).toEqual([[], []]);
});

const ascending = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
test.each<[string, string | Buffer]>([
  ['nothing', ''],
  ['no newline', JSON.stringify(RESULT)],
  ['a first line that is no JSON', `result\n${LINES.join('\n')}\n`],
  ['a first line that is a list', `[]\n${LINES.join('\n')}\n`],
  ['a first line of another encoding', Buffer.from([0xff, 0xfe, 0x0a])],
  ['a first line that nests deep', `${'['.repeat(1000)}\n`],
  ['a first line beyond its bound', `${JSON.stringify({ ...RESULT, x: 'x'.repeat(1024 * 1024) })}\n`],
  ['no list of lines', put({ ...RESULT, answered: 2 }, LINES)],
  ['a line before the first', put({ ...RESULT, answered: [-1, 0] }, LINES)],
  ['half a line', put({ ...RESULT, answered: [0.5, 1] }, LINES)],
  ['more lines than a part can have', put({ ...RESULT, answered: ascending(100_001) }, LINES)],
  ['costs that are no numbers', put({ ...RESULT, asked: { ...RESULT.asked, calls: '2' } }, LINES)],
  ['costs below 0', put({ ...RESULT, asked: { ...RESULT.asked, promptTokens: -5 } }, LINES)],
  ['costs that are missing', put({ ...RESULT, asked: {} }, LINES)],
  ['no time', put({ ...RESULT, seconds: null }, LINES)],
  ['a long reason', put({ ...RESULT, broken: 'x'.repeat(10_001) }, LINES)],
  ['a line too few', put(RESULT, LINES.slice(1))],
  ['a line too many', put(RESULT, [...LINES, '{}'])],
  ['an unfinished line', put(RESULT, LINES).slice(0, -1)],
])('a result with %s is refused, and the desk is not asked', async (_what, body) => {
  const { ask, asked, said } = await listening();
  const { status, text } = await ask('PUT', '/batch_1/0/0', body);
  expect([status, JSON.parse(text).error.type, asked, said]).toEqual([400, 'invalid_request_error', [], []]);
});

test('a result of another content-type is refused; so is one that is too long, before it is read', async () => {
  const { ask, port, keys } = await listening();
  const json = { 'content-type': 'application/json' };
  expect((await ask('PUT', '/batch_1/0/0', put(RESULT, LINES), json)).status).toBe(400);
  expect(await begun(port, keys.worker, 256 * 1024 * 1024 + 1).status).toBe(413);
});

test('results that are read at a time are bounded together, by what has come of them', async () => {
  const MOST = 10_000;
  const { ask, port, keys } = await listening(MOST);
  const honest = () => ask('PUT', '/batch_1/0/0', put(RESULT, LINES));
  // what is only announced keeps nobody away
  for (let count = 0; count < 3; count++) begun(port, keys.worker, 256 * 1024 * 1024);
  expect((await honest()).status).toBe(200);
  const large = begun(port, keys.worker, MOST, ' '.repeat(MOST - 100));
  let busy = await honest();
  // until it has reached the server
  while (busy.status === 200) busy = await honest();
  expect([busy.status, busy.headers.get('retry-after')]).toEqual([503, '2']);
  large.drop();
  let free = busy;
  while (free.status === 503) free = await honest();
  expect(free.status).toBe(200);
});

/** A PUT that says a length and sends its beginning: the status that it gets, if it gets one. */
function begun(port: number, key: string, length: number, beginning = '{') {
  const headers = { authorization: `Bearer ${key}`, 'content-type': NDJSON, 'content-length': length };
  const sending = request(`http://127.0.0.1:${port}/shards/batch_1/0/0`, { method: 'PUT', headers });
  const status = new Promise<number | undefined>(resolve => {
    sending.on('response', reply => resolve(reply.resume().statusCode));
    sending.on('error', () => resolve(undefined));
  });
  sending.write(beginning);
  const drop = (): void => void sending.destroy();
  onTestFinished(drop);
  return { status, drop };
}
