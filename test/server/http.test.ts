/** What holds for every route: errors, ids, keys, and bytes that are no request. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readKeys } from '../../products/serve/api-keys.ts';
import { runs } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { keyOf, served } from './serving.ts';

test('every answer has an id, and an error has the shape of OpenAI', async () => {
  const { url } = await served();
  const health = await fetch(`${url}/health`);
  expect(await health.json()).toEqual({ status: 'ok' });
  expect(health.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{24}$/);
  const none = await fetch(`${url}/v1/nothing?key=secret`);
  expect([none.status, await none.json()]).toEqual([
    404,
    {
      error: {
        message: 'Invalid URL (GET /v1/nothing)',
        type: 'invalid_request_error',
        param: null,
        code: 'unknown_url',
      },
    },
  ]);
});

test('it is ready while an endpoint is up, and says so to Prometheus', async () => {
  const { url } = await served({ endpoints: ['http://127.0.0.1:1/v1'] });
  const ready = await fetch(`${url}/ready`);
  expect([ready.status, await ready.json()]).toEqual([
    503,
    { status: 'no endpoint is up', disk: 'ok', endpoints_up: 0 },
  ]);
  expect((await fetch(`${url}/health`)).status).toBe(200);
  const page = await (await fetch(`${url}/metrics`)).text();
  expect(page).toContain('fw_endpoint_up{endpoint="http://127.0.0.1:1/v1"} 0');
  expect(page).toContain('fw_http_requests_total{route="/ready",status="503"} 1');
});

test('without keys it answers under names of this machine alone', async () => {
  const { url } = await served();
  const statusAs = (host: string): Promise<number | undefined> =>
    new Promise(resolve => {
      request(`${url}/metrics`, { headers: { host } }, reply => {
        reply.resume();
        resolve(reply.statusCode);
      }).end();
    });
  const hosts = ['localhost:8080', '127.0.0.1', '[::1]:80', 'evil.example', '127.0.0.1.evil.example'];
  expect(await Promise.all(hosts.map(statusAs))).toEqual([200, 200, 200, 403, 403]);
});

test('without keys no page of another site is answered', async () => {
  const { url } = await served();
  const statusFrom = async (origin: string): Promise<number> =>
    (await fetch(`${url}/v1/files`, { headers: { origin } })).status;
  const origins = ['http://localhost:3000', 'http://[::1]', 'https://evil.example', 'null', 'x'];
  expect(await Promise.all(origins.map(statusFrom))).toEqual([200, 200, 403, 403, 403]);
});

test('a key file that is gone, or is none any more, lets nobody in until it is there again', async () => {
  const data = join(folder(), 'data');
  await fw(`fw keys add first --data ${data}`);
  const key = keyOf(data, 'second');
  const path = join(data, 'keys.json');
  const kept = readFileSync(path);
  const { url, said } = await served({ data });
  const statuses = async (): Promise<number[]> => [
    (await fetch(`${url}/v1/files`)).status,
    (await fetch(`${url}/v1/files`, { headers: { authorization: `Bearer ${key}` } })).status,
  ];
  rmSync(path);
  expect(await statuses()).toEqual([401, 401]);
  expect(said.join()).toContain('found no file; no key is valid until that is fixed');
  for (const spoil of ['garbage', '{"keys":[{}]}']) {
    writeFileSync(path, spoil);
    expect(await statuses()).toEqual([401, 401]);
  }
  rmSync(path);
  mkdirSync(path);
  expect(await statuses()).toEqual([401, 401]);
  rmSync(path, { recursive: true });
  writeFileSync(path, kept);
  expect(await statuses()).toEqual([401, 200]);
});

test('a server that others reach needs keys', async () => {
  const data = join(folder(), 'data');
  const line = `fw serve --data ${data} --endpoint http://127.0.0.1:1/v1 --listen 0.0.0.0:0`;
  const { code, stderr } = await fw(line);
  expect([code, stderr]).toEqual([64, expect.stringContaining('fw keys add NAME')]);
});

test('keys that are made at the same time are all made', async () => {
  const data = folder();
  const names = Array.from({ length: runs(4, 10) }, (_, n) => `n${n}`);
  const made = await Promise.all(names.map(name => shell(`fw keys add ${name} --data ${data}`)));
  expect(made.map(({ code }) => code)).toEqual(names.map(() => 0));
  expect(
    readKeys(data)
      ?.map(({ name }) => name)
      .sort(),
  ).toEqual(names);
});

test('keys: made, listed, used, revoked while the server runs', async () => {
  const data = join(folder(), 'data');
  const { stdout, stderr } = await fw(`fw keys add watcher --scope metrics --data ${data}`);
  const key = stdout.trim();
  expect(key).toMatch(/^fw_[\w-]{43}$/);
  expect(statSync(join(data, 'keys.json')).mode & 0o777).toBe(0o600);
  const { url } = await served({ data });
  const statusWith = async (shown?: string): Promise<number> =>
    (
      await fetch(
        `${url}/metrics`,
        shown === undefined ? {} : { headers: { authorization: `Bearer ${shown}` } },
      )
    ).status;
  expect(await Promise.all([key, `${key}x`, 'wrong', undefined].map(statusWith))).toEqual([
    200, 401, 401, 401,
  ]);
  expect(await statusWith(keyOf(data, 'other', ['batch']))).toBe(403);
  const [id] = /key_[0-9a-f]+/.exec(stderr) ?? [];
  const listed = (await fw(`fw keys ls --data ${data}`)).stdout;
  expect(JSON.parse(listed.split('\n', 1)[0] as string)).toMatchObject({
    id,
    name: 'watcher',
    scopes: ['metrics'],
  });
  expect(listed).not.toContain('sha256');
  expect((await fw(`fw keys revoke ${id} --data ${data}`)).code).toBe(0);
  expect(await statusWith(key)).toBe(401);
});

test('a key that may ask twice a minute is told when to come back', async () => {
  let now = Date.UTC(2026, 0, 1);
  const data = join(folder(), 'data');
  await fw(`fw keys add first --scope metrics --data ${data}`);
  const key = keyOf(data, 'few', ['metrics'], { rpm: 2 });
  const { url } = await served({ data, now: () => now });
  const ask = () => fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } });
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200]);
  const refused = await ask();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30']);
  expect(await refused.json()).toMatchObject({ error: { type: 'requests', code: 'rate_limit_exceeded' } });
  now += 30_000;
  expect((await ask()).status).toBe(200);
  now -= 3_600_000; // a clock that is set back takes nothing away
  expect((await ask()).status).toBe(429);
  now += 30_000;
  expect((await ask()).status).toBe(200);
});

/** Sends `bytes` as they are; resolves to all that came back when the server has closed the connection. */
function raw(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    let said = '';
    socket.on('data', chunk => {
      said += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(said));
  });
}

test.each([
  ['10,000 headers', `GET /health HTTP/1.1\r\nhost: x\r\n${'a: b\r\n'.repeat(10_000)}\r\n`, '431'],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', '400'],
  [
    'two lengths',
    'POST /v1/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello',
    '400',
  ],
  [
    'a length and chunks',
    'POST /v1/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n',
    '400',
  ],
])('%s', async (_what, bytes, status) => {
  const { url } = await served();
  const said = await raw(url, bytes);
  expect(said.split(' ')[1]).toBe(status);
  expect(said).toMatch(/x-request-id: req_/);
  expect(said.match(/^HTTP\/1\.1/gm)).toHaveLength(1);
  expect(JSON.parse(said.slice(said.indexOf('{')))).toMatchObject({
    error: { type: 'invalid_request_error' },
  });
});

test('a folder has one server at a time', async () => {
  const { data } = await served();
  await expect(served({ data })).rejects.toThrow('is in use by process');
});

/** what the system allows at most; older ones and others than Linux may allow fewer */
const somaxconn = (): number => {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  } catch {
    return 0;
  }
};

test.skipIf(somaxconn() < 900)('900 who come at once are connected while it is busy', async () => {
  const { url } = await served();
  // this process stands still meanwhile: a connection that is not made now would be tried again, until the time is over
  const count = execFileSync(process.execPath, ['--input-type=module', '-e', COMERS, new URL(url).port], {
    timeout: 120_000,
  });
  expect(count.toString()).toBe('900');
  expect((await fetch(`${url}/health`)).status).toBe(200);
});

const COMERS = `
import { connect } from 'node:net';
const connected = () => ++count === 900 && process.stdout.write('900', () => process.exit());
let count = 0;
for (let n = 0; n < 900; n++) connect(Number(process.argv.at(-1)), '127.0.0.1', connected);
`;
