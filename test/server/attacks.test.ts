/**
 * What somebody with a key of their own may try: to reach what is not meant for them at the servers of models, what is
 * another owner's, and the parsers. Each attack is a row with what it must end in; what the server of models was asked is
 * looked at for all of them.
 */
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { keyOf, MODEL, served } from './serving.ts';

/** A server of a model that notes each request that is not a look at it. */
async function watched(): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const looks = new Set(['GET /v1/models', 'GET /metrics', 'GET /health']);
  const server = createServer((request, response) => {
    const line = `${request.method} ${request.url}`;
    if (!looks.has(line)) asked.push(line);
    if (line === 'GET /v1/models') return void response.end(JSON.stringify({ data: [{ id: MODEL }] }));
    if (request.method === 'GET') return void response.writeHead(404).end();
    request.resume().on('end', () => response.end('{"choices":[{"message":{"content":"{}"}}]}'));
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked };
}

async function two() {
  const data = folder();
  const [alice, mallory] = [keyOf(data, 'alice'), keyOf(data, 'mallory')];
  const model = await watched();
  const server = await served({ data, endpoints: [model.url] });
  const as =
    (key: string) =>
    (path: string, init: RequestInit = {}) =>
      fetch(`${server.url}${path}`, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${key}` },
      });
  return { ...server, model, alice: as(alice), mallory: as(mallory), key: mallory };
}

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

async function upload(ask: Ask, lines: readonly object[]): Promise<string> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([lines.map(line => JSON.stringify(line)).join('\n')]), 'in.jsonl');
  const reply = await ask('/v1/files', { method: 'POST', body: form });
  return ((await reply.json()) as { id: string }).id;
}

const lineTo = (url: string) => ({
  custom_id: 'one',
  method: 'POST',
  url,
  body: { model: MODEL, messages: [{ role: 'user', content: 'x' }] },
});

async function batch(
  ask: Ask,
  id: string,
  endpoint: string,
): Promise<{ status: number; body: { id: string } }> {
  const body = JSON.stringify({ input_file_id: id, endpoint, completion_window: '24h' });
  const headers = { 'content-type': 'application/json' };
  const reply = await ask('/v1/batches', { method: 'POST', headers, body });
  return { status: reply.status, body: (await reply.json()) as { id: string } };
}

async function ended(
  ask: Ask,
  id: string,
): Promise<{ status: string; errors?: { data: { code: string }[] } }> {
  for (;;) {
    const now = (await (await ask(`/v1/batches/${id}`)).json()) as { status: string };
    if (!['validating', 'in_progress', 'finalizing'].includes(now.status)) return now;
  }
}

const URLS = [
  ...[
    '//127.0.0.1/v1/chat/completions',
    '/\\127.0.0.1/x',
    'http://127.0.0.1:1/v1/chat/completions',
    'file:///etc/passwd',
  ],
  ...[
    '/v1/../admin',
    '/v1/chat/completions/../../sleep',
    '/v1/chat/%2e%2e/%2e%2e/sleep',
    '/./v1/chat/completions',
  ],
  ...[
    '/v1/load_lora_adapter',
    '/v1/unload_lora_adapter',
    '/sleep',
    '/wake_up',
    '/reset_prefix_cache',
    '/metrics',
    '/',
  ],
  ...[
    '/v1/chat/completions?x=1',
    '/v1/chat/completions#x',
    '/v1/chat/completions ',
    '/v1/chat/completions\r\nX: y',
  ],
  ...['/v1/chat/completions\u0000', '/V1/CHAT/COMPLETIONS', '', '@127.0.0.1', 'v1/chat/completions'],
];

test('a line of a batch reaches no other path or host', async () => {
  const { mallory, model } = await two();
  for (const url of every(4, URLS)) {
    const id = await upload(mallory, [lineTo(url)]);
    expect((await batch(mallory, id, url)).status, url).toBe(400);
    const made = await batch(mallory, id, '/v1/chat/completions');
    expect(made.status, url).toBe(200);
    const { status, errors } = await ended(mallory, made.body.id);
    expect([status, errors?.data.length], url).toEqual(['failed', 1]);
  }
  expect(model.asked).toEqual([]);
});

test("another owner's files and batches are not there", async () => {
  const { alice, mallory } = await two();
  const file = await upload(alice, [lineTo('/v1/chat/completions')]);
  const { body } = await batch(alice, file, '/v1/chat/completions');
  await ended(alice, body.id);
  const statuses = await Promise.all(
    [
      mallory(`/v1/files/${file}`),
      mallory(`/v1/files/${file}/content`),
      mallory(`/v1/files/${file}`, { method: 'DELETE' }),
      mallory(`/v1/batches/${body.id}`),
      mallory(`/v1/batches/${body.id}/cancel`, { method: 'POST' }),
      ...['../../keys.json', '..%2f..%2fkeys.json', '%00', 'file-../x', '.'.repeat(300)].map(id =>
        mallory(`/v1/files/${id}/content`),
      ),
    ].map(async reply => (await reply).status),
  );
  expect(statuses.filter(status => status !== 404 && status !== 400 && status !== 414)).toEqual([]);
  expect((await batch(mallory, file, '/v1/chat/completions')).status).toBeGreaterThanOrEqual(400);
  for (const path of [
    `/v1/files?after=${file}`,
    `/v1/batches?after=${body.id}`,
    '/v1/files',
    '/v1/batches',
  ]) {
    const reply = await mallory(path);
    const said = await reply.text();
    expect(reply.status >= 400 || (JSON.parse(said) as { data: unknown[] }).data.length === 0, path).toBe(
      true,
    );
    expect(said.replaceAll(file, '').includes('in.jsonl'), path).toBe(false);
  }
  expect((await alice(`/v1/files/${file}`)).status).toBe(200);
});

/** What is sent, with K for the key, and the status of each answer to it. */
const RAW: [string, string, number[]][] = [
  [
    'a length and chunks',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer K\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n',
    [400],
  ],
  [
    'two lengths',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nxxxx',
    [400],
  ],
  [
    'a length that is none',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: +4\r\n\r\nxxxx',
    [400],
  ],
  [
    'chunks of another coding',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    [400],
  ],
  [
    'a chunk that is longer than it says',
    'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer K\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}{}{}\r\n0\r\n\r\n',
    [400],
  ],
  [
    'space before the colon',
    'GET /v1/files HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer K\r\n\r\n',
    [400],
  ],
  [
    'a folded header',
    'GET /v1/files HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b: c\r\nConnection: close\r\n\r\n',
    [400, 401],
  ],
  ['no host', 'GET /v1/files HTTP/1.1\r\nAuthorization: Bearer K\r\nConnection: close\r\n\r\n', [400]],
  ['a null', 'GET /v1/files HTTP/1.1\r\nHost: localhost\r\nX: \u0000\r\n\r\n', [400]],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', [400]],
  [
    'two in a row, the second without a key',
    'GET /v1/files HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer K\r\n\r\nGET /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    [200, 401],
  ],
  [
    'an absolute address',
    'GET http://evil.example/v1/files HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer K\r\nConnection: close\r\n\r\n',
    [404, 400, 200],
  ],
  ['a tunnel', 'CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n', []],
  [
    'an upgrade',
    'GET /v1/files HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n',
    [401, 400],
  ],
  [
    '64 KB of headers',
    `GET /v1/files HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(65_536)}\r\n\r\n`,
    [431],
  ],
];

test.each(RAW)('bytes on a socket: %s', async (name, text, statuses) => {
  const { url, model, key } = await two();
  const { port } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => {});
  let said = '';
  const over = new Promise<void>(resolve => socket.once('close', () => resolve()));
  socket.on('data', chunk => {
    said += chunk;
  });
  socket.write(text.replace('Bearer K', `Bearer ${key}`));
  // what an attacker leaves open is not waited for
  socket.end();
  await over;
  const got = [...said.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
  if (name.startsWith('two in a row')) expect(got).toEqual(statuses);
  else {
    expect(got.length, said).toBeLessThanOrEqual(1);
    for (const status of got) expect(statuses, said).toContain(status);
  }
  expect(model.asked).toEqual([]);
});

/** What is a body of the API is handed on byte for byte: the server of the model judges its numbers. */
const BODIES: [string, string, number[]][] = [
  ['100,000 brackets', '['.repeat(100_000), [400]],
  ['an object 100,000 deep', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`, [400]],
  ['messages that nest', `{"model":"${MODEL}","messages":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, [400]],
  [
    'a number of 100,000 digits',
    `{"model":"${MODEL}","seed":${'9'.repeat(100_000)},"messages":[]}`,
    [200, 400],
  ],
  [
    '__proto__',
    `{"model":"${MODEL}","messages":[{"role":"user","content":"x"}],"__proto__":{"isAdmin":true}}`,
    [200, 400],
  ],
  ['a model of 100,000 characters', `{"model":"${'m'.repeat(100_000)}","messages":[]}`, [404, 400]],
  ['a model with a line break', `{"model":"a\\r\\nX-Evil: 1","messages":[]}`, [404, 400]],
  ['no JSON', '\u0000\u0001\u0002', [400]],
  ['a list', '[]', [400]],
  ['null', 'null', [400]],
];

test('bodies of the gateway: each gets one clear answer, and the server is there after it', async () => {
  const { mallory, url } = await two();
  for (const [name, body, statuses] of BODIES) {
    const headers = { 'content-type': 'application/json' };
    const reply = await mallory('/v1/chat/completions', { method: 'POST', headers, body });
    const said = await reply.text();
    expect(statuses, `${name}: ${said.slice(0, 300)}`).toContain(reply.status);
    expect(said.length, name).toBeLessThan(10_000);
    expect((await fetch(`${url}/health`)).status, name).toBe(200);
  }
  expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
});

test('forms: ten thousand fields, no file, no name, no end', async () => {
  const { mallory, url } = await two();
  const part = (name: string, value = 'x') =>
    `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const bodies = [
    `${Array.from({ length: 10_000 }, (_, n) => part(`f${n}`)).join('')}--b--\r\n`,
    `${part('purpose', 'batch')}--b--\r\n`,
    `${part('purpose', 'batch')}--b\r\nContent-Disposition: form-data; name="file"; filename="../../../etc/cron.d/x"\r\n\r\n`,
    '--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n',
    `${part('purpose', 'x'.repeat(2_000_000))}--b--\r\n`,
    '',
  ];
  for (const body of bodies) {
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const reply = await mallory('/v1/files', { method: 'POST', headers, body });
    expect([400, 413], `${body.slice(0, 200)}: ${await reply.text()}`).toContain(reply.status);
    expect((await fetch(`${url}/health`)).status).toBe(200);
  }
  const list = (await (await mallory('/v1/files')).json()) as { data: unknown[] };
  expect(list.data).toEqual([]);
});
