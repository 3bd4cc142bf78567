/**
 * What somebody may try over HTTP, with a key or without one: to take what is for all (connections, memory, uploads, the one
 * thread), to be slow, and to write texts that something else takes for its own. Each attack is a row with what it must end in.
 */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Connection, type Reply, Running } from '../../engine/asking/endpoints/exchange.ts';
import { eventSplitter } from '../../engine/asking/endpoints/sse.ts';
import { sockets } from '../../engine/asking/endpoints/wire.ts';
import { createPieces } from '../../engine/core/files/pieces.ts';
import { watchConnections } from '../../products/serve/connections.ts';
import { createRoom, readBody } from '../../products/serve/http-body.ts';
import { takeUpload } from '../../products/serve/uploads.ts';
import { folder } from '../fw.ts';
import { keyOf, MODEL, served } from './serving.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

async function tenants(options: Parameters<typeof served>[0] = {}) {
  const data = folder();
  const [alice, mallory] = [keyOf(data, 'alice'), keyOf(data, 'mallory')];
  const server = await served({ data, ...options });
  const as =
    (key: string) =>
    (path: string, init: RequestInit = {}) =>
      fetch(`${server.url}${path}`, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${key}` },
      });
  return { ...server, alice: as(alice), mallory: as(mallory), keys: { alice, mallory } };
}

/** A connection that the test writes itself; `said` is all that came on it until it was closed. */
function dial(url: string, text = ''): { socket: Socket; said: Promise<string> } {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text));
  onTestFinished(() => void socket.destroy());
  let came = '';
  socket
    .on('error', () => {})
    .on('data', data => {
      came += data;
    });
  return { socket, said: new Promise(resolve => socket.once('close', () => resolve(came))) };
}

/** `give` gets each byte of `text` in the same Buffer: who keeps that one has not copied it, and reads the last byte alone. */
function byByte(text: string, give: (piece: Buffer) => void): void {
  const one = Buffer.alloc(1);
  give(Buffer.from(text[0] as string));
  for (const byte of Buffer.from(text.slice(1))) {
    one[0] = byte;
    give(one);
  }
}

const LONG = `data: {"a":"${'0123456789'.repeat(5_000)}"}\n\n`;

test('what comes one byte at a time is not kept as one Buffer a byte', async () => {
  const request = Object.assign(new PassThrough(), { headers: {}, complete: false });
  const body = readBody(request as unknown as IncomingMessage, 1 << 20);
  byByte(LONG, piece => request.emit('data', piece));
  request.emit('end');
  expect((await body).toString()).toBe(LONG);

  const events: string[] = [];
  const splitter = eventSplitter(data => void events.push(data));
  byByte(LONG, piece => splitter.feed(piece));
  expect(events).toEqual([LONG.slice(6, -2)]);

  const connection = { client: { destroyed: false }, socket: null } as unknown as Connection;
  const reply = await new Promise<Reply | Error>(settle => {
    const running = new Running(connection, { giveBack() {}, discard() {} }, 1 << 20, {}, settle);
    running.onHeaders(200, [], () => {});
    byByte(LONG, piece => running.onData(piece));
    running.onComplete();
  });
  expect((reply as Reply).body.toString()).toBe(LONG);
});

test('pieces of any sizes come out as they went in', () => {
  for (const sizes of [[1], [1, 20_000], [16_383, 1, 16_384], [3, 70_000, 5]]) {
    const pieces = createPieces();
    const all: Buffer[] = [];
    for (let n = 0; n < 300; n++) all.push(Buffer.alloc(sizes[n % sizes.length] as number, n));
    for (const piece of all) pieces.add(piece);
    expect(pieces.bytes).toBe(Buffer.concat(all).length);
    expect(pieces.take().equals(Buffer.concat(all))).toBe(true);
    expect([pieces.bytes, pieces.take().length]).toEqual([0, 0]);
  }
});

/** What a connection of a stranger says, and goes on saying nothing. */
const STRANGERS: [string, string][] = [
  ['nothing', ''],
  ['half of a request line', 'GET /v1/fi'],
  ['headers without an end', 'GET /health HTTP/1.1\r\nHost: localhost\r\nX: '],
  ['a request without a key', 'GET /v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ['one that needs none', 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  [
    'a log-in without an end',
    'POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 900\r\n\r\nkey=',
  ],
];

test.each(STRANGERS)('connections of strangers that say %s give way', async (_name, text) => {
  const { alice, url } = await tenants();
  sockets.setMost(40); // as under a low ulimit -n; the start of a server sets what there is
  onTestFinished(() => sockets.setMost(Number.POSITIVE_INFINITY));
  const open = Array.from({ length: 60 }, () => dial(url, text));
  await Promise.all(open.map(({ socket }) => once(socket, 'connect')));
  const real = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => real() + 5_000);
  onTestFinished(() => clock.mockRestore());
  const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'x' }] });
  for (let n = 0; n < 3; n++) {
    const init = { method: 'POST', headers: { ...JSON_TYPE, connection: 'close' }, body };
    expect((await alice('/v1/chat/completions', init)).status).toBe(200);
  }
});

test('of a stranger no body is read, whatever the path', async () => {
  const { url } = await tenants();
  for (const path of [
    '/nothing',
    '/v1/files',
    '/v1/chat/completions',
    '/ui/nothing',
    '/metrics',
    '/health',
  ]) {
    const { socket } = dial(
      url,
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n{`,
    );
    const [said] = (await once(socket, 'data')) as [Buffer];
    expect(said.toString(), path).toMatch(/^HTTP\/1\.1 40[134] [\s\S]*connection: close\r\n/);
  }
});

test('who does not read what it asked for is ended, and who reads is not', async () => {
  const server = createServer((_request, response) => void response.end(Buffer.alloc(64 << 20)));
  const { look } = watchConnections(server);
  const ended = new Map<number, Promise<unknown>>();
  const came = new Promise<void>(resolve => {
    server.on('connection', (socket: Socket) => {
      ended.set(socket.remotePort as number, once(socket, 'close'));
      if (ended.size === 2) resolve();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const ask = () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => {}).write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    return socket;
  };
  const [lazy, reader] = [ask(), ask()];
  await came;
  let got = 0;
  reader.on('data', data => {
    got += data.length;
  });
  await once(lazy, 'readable'); // it has begun to come, and is left where it is
  while (got < 64 << 20) await new Promise(setImmediate);
  look();
  look();
  await ended.get(lazy.localPort as number);
  expect(reader.destroyed).toBe(false);
});

test('one owner takes half of a room', () => {
  const room = createRoom(10);
  expect([room.take('m', 5), room.take('m', 1), room.take('a', 5), room.take('b', 1)]).toEqual([
    ...[true, false, true, false],
  ]);
  room.give('m', 5);
  expect([room.take('b', 5), room.take('m', 1)]).toEqual([true, false]);
  room.give('b', 5);
  expect(room.take('m', 5)).toBe(true);
});

test('bodies that never end keep nobody else from asking, and are forgotten with their connections', async () => {
  const { alice, mallory, keys, url } = await tenants({ limits: { body: 1_000 } });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.mallory}\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n`;
  const open = Array.from({ length: 64 }, () => dial(url, head + ' '.repeat(998)));
  const [first] = (await Promise.any(open.map(({ socket }) => once(socket, 'data')))) as [Buffer];
  expect(first.toString()).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: 1[\s\S]*overloaded/);
  const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'x'.repeat(800) }] });
  const init = { method: 'POST', headers: JSON_TYPE, body };
  expect((await mallory('/v1/chat/completions', init)).status).toBe(503);
  expect((await alice('/v1/chat/completions', init)).status).toBe(200);
  for (const { socket } of open) socket.destroy();
  while ((await mallory('/v1/chat/completions', init)).status !== 200);
});

test('uploads that never end take half of the places', async () => {
  const { alice, mallory, keys, url } = await tenants({ limits: { uploads: 4 } });
  const part =
    '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n';
  const head = `POST /v1/files HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.mallory}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 99999\r\n\r\n`;
  for (let n = 0; n < 2; n++) dial(url, head + part);
  const upload = (ask: typeof alice) =>
    ask('/v1/files', {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
      body: `${part}{}\r\n--b--\r\n`,
    });
  while ((await upload(mallory)).status !== 429);
  expect((await upload(alice)).status).toBe(200);
});

/** Forms whose bytes are in no part, so that no limit of a part holds them: what comes first, and what then without an end. */
const PART = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n';
const ENDLESS: [string, string, string][] = [
  ['before the first boundary', '', 'x'.repeat(1_000)],
  ['line ends before the first boundary', '', '\r\n'.repeat(500)],
  ['behind the last boundary', `${PART}--b--\r\n`, 'x'.repeat(1_000)],
  ['headers of a part', '--b\r\nX: ', 'x'.repeat(1_000)],
  ['headers of a part, each short', '--b\r\n', 'X: x\r\n'.repeat(200)],
  ['dashes', '', '-'.repeat(1_000)],
];

test.each(ENDLESS)('a form without an end: %s', async (_name, first, more) => {
  const headers = { 'content-type': 'multipart/form-data; boundary=b' };
  const request = Object.assign(new PassThrough(), { headers, complete: false });
  const path = join(folder(), 'spool');
  const taken = takeUpload(request as unknown as IncomingMessage, path, { file: 50_000, form: 10_000 }).then(
    () => 200,
    error => error.status,
  );
  let status: number | null = null;
  void taken.then(got => {
    status = got;
  });
  request.write(first);
  // more than what is taken; then the answer is waited for, as long as the disk needs for what was begun
  for (let n = 0; status === null; n++) {
    if (n < 1_000) request.write(more);
    await new Promise(setImmediate);
  }
  expect([400, 413]).toContain(status);
  expect(readdirSync(join(path, '..'))).toEqual([]);
});

const form = (type: string, body: string) => ({ method: 'POST', headers: { 'content-type': type }, body });
const file = (more: string) =>
  `--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; ${more}\r\n\r\n{}\r\n--b--\r\n`;
const FORMS: [string, RequestInit][] = [
  ['no boundary', form('multipart/form-data', file('name="file"; filename="x"'))],
  ['an empty boundary', form('multipart/form-data; boundary=', file('name="file"; filename="x"'))],
  ['another boundary', form('multipart/form-data; boundary=bb', file('name="file"; filename="x"'))],
  [
    'a boundary of 8,000',
    form(`multipart/form-data; boundary=${'b'.repeat(8_000)}`, file('name="file"; filename="x"')),
  ],
  [
    'a boundary that is a pattern',
    form('multipart/form-data; boundary="(.*)+"', file('name="file"; filename="x"')),
  ],
  ['no end', form('multipart/form-data; boundary=b', file('name="file"; filename="x"').slice(0, -8))],
  ['no file name', form('multipart/form-data; boundary=b', file('name="file"'))],
  ['a file of another name', form('multipart/form-data; boundary=b', file('name="__proto__"; filename="x"'))],
  [
    'two files',
    form('multipart/form-data; boundary=b', `${PART}${PART}${file('name="file"; filename="x"')}`),
  ],
  [
    'thousands of parts',
    form(
      'multipart/form-data; boundary=b',
      `${PART.replace('"file"; filename="x"', '"a"').repeat(5_000)}--b--\r\n`,
    ),
  ],
  [
    'a form in a form',
    form('multipart/form-data; boundary=b', file('name="file"\r\nContent-Type: multipart/mixed; boundary=b')),
  ],
  ['pairs', form('application/x-www-form-urlencoded', 'purpose=batch&file=x')],
  ['a million pairs', form('application/x-www-form-urlencoded', 'a=b&'.repeat(1_000_000))],
  ['JSON', form('application/json', '{"purpose":"batch","file":"x"}')],
  ['nothing', form('multipart/form-data; boundary=b', '')],
];

test('forms that are none keep nothing', async () => {
  const { mallory } = await tenants();
  for (const [name, init] of FORMS)
    expect([400, 413], name).toContain((await mallory('/v1/files', init)).status);
  const list = (await (await mallory('/v1/files')).json()) as { data: unknown[] };
  expect(list.data).toEqual([]);
});
