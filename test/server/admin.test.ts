/** What admins do over the API: keys, batches of all, endpoints, and who asked what; and that nobody else does. */
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readKeys } from '../../products/serve/api-keys.ts';
import { folder, shell } from '../fw.ts';
import { echo, serve } from '../pool/serving.ts';
import { begin, lineOf, reached } from './batching.ts';
import { configured } from './reloading.ts';
import { keyOf, served, simulated } from './serving.ts';

interface Place {
  url: string;
  data: string;
}

async function as(key: string, { url }: Place, method: string, path: string, body?: unknown) {
  const reply = await fetch(`${url}/v1/admin/${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await reply.text();
  return {
    status: reply.status,
    text,
    body: text !== '' && reply.headers.get('content-type')?.includes('/json') ? JSON.parse(text) : null,
  };
}
const chat = async ({ url }: Place, key: string, model = 'm') =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'the secret question' }] }),
  });
const actsIn = ({ data }: Place) =>
  readFileSync(join(data, 'audit.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));

test('keys are made, limited and revoked while the server runs, by fw keys’ own file', async () => {
  const model = await serve(echo);
  const data = folder();
  const admin = keyOf(data, 'root', ['admin']);
  const server = await served({ data, endpoints: [model.url] });
  const made = await as(admin, server, 'POST', 'keys', {
    name: 'bob',
    scopes: ['chat'],
    rpm: 100,
    models: ['m'],
    expires: '30d',
  });
  expect(made.body).toMatchObject({ name: 'bob', scopes: ['chat'], rpm: 100, models: ['m'] });
  const { id, key } = made.body;
  expect((await chat(server, key)).status).toBe(200);
  const limited = await as(admin, server, 'POST', `keys/${id}`, {
    rpm: null,
    models: ['other'],
    storage: '1GB',
  });
  expect(limited.body).toMatchObject({ models: ['other'], storage: 1_000_000_000 });
  expect('rpm' in limited.body).toBe(false);
  expect((await chat(server, key)).status).toBe(404);
  expect((await as(admin, server, 'DELETE', `keys/${id}`)).body.revoked).toBeGreaterThan(0);
  expect((await chat(server, key)).status).toBe(401);
  expect((await as(admin, server, 'DELETE', `keys/${id}`)).status).toBe(404);
  const list = await as(admin, server, 'GET', 'keys');
  expect(list.body.data.map((one: { name: string }) => one.name)).toEqual(['root', 'bob']);
  expect(list.text).not.toMatch(/sha256|fw_/);
  const { stdout } = await shell(`fw keys ls --data ${data}`);
  expect(stdout).toContain(id);
  const acts = actsIn(server);
  expect(acts.map(({ act, by, target }) => [act, by, target])).toEqual([
    ['key.made', 'root', id],
    ['key.limited', 'root', id],
    ['key.revoked', 'root', id],
  ]);
  expect(JSON.stringify([acts, server.said])).not.toContain(key);
  expect(server.said.filter(line => line.startsWith('admin root (key_'))).toHaveLength(3);
});

test('what does not fit is refused by its field, and nothing is written', async () => {
  const data = folder();
  const admin = keyOf(data, 'root', ['admin']);
  const server = await served({ data, endpoints: [(await simulated()).url] });
  const before = readFileSync(join(data, 'keys.json'), 'utf8');
  const wrong: [unknown, string][] = [
    [{}, 'name'],
    [{ name: '<script>alert(1)</script>' }, 'name'],
    [{ name: 'a\nb' }, 'name'],
    [{ name: 'a\u0000' }, 'name'],
    [{ name: 'x'.repeat(65) }, 'name'],
    [{ name: 'bob', scopes: [] }, 'scopes'],
    [{ name: 'bob', scopes: ['root'] }, 'scopes'],
    [{ name: 'bob', scopes: 'admin' }, 'scopes'],
    [{ name: 'bob', rpm: 0 }, 'rpm'],
    [{ name: 'bob', rpm: 1e300 }, 'rpm'],
    [{ name: 'bob', models: ['a\u0007'] }, 'models'],
    [{ name: 'bob', storage: '-1GB' }, 'storage'],
    [{ name: 'bob', expires: '2001-01-01' }, 'expires'],
    [{ name: 'bob', expires: 5 }, 'expires'],
    [{ name: 'bob', expires: 9_000_000_000_000 }, 'expires'],
    [{ name: 'bob', expires: 253_402_300_800 }, 'expires'],
    [{ name: 'bob', expires: '9998-02-30' }, 'expires'],
    [{ name: 'bob', expires: '9998-13-01' }, 'expires'],
    [{ name: 'bob', sha256: 'x' }, 'sha256'],
    ['{"name": "bob", "__proto__": {"rpm": 1}}', '__proto__'],
  ];
  for (const [body, param] of wrong) {
    const { status, body: said } = await as(admin, server, 'POST', 'keys', body);
    expect([status, said?.error?.param]).toEqual([400, param]);
  }
  expect(readFileSync(join(data, 'keys.json'), 'utf8')).toBe(before);
  const last = { name: 'bob', expires: 253_402_300_799 };
  expect((await as(admin, server, 'POST', 'keys', last)).body).toMatchObject(last);
});

test('two admins at once: each change is kept', async () => {
  const data = folder();
  const admins = [keyOf(data, 'ann', ['admin']), keyOf(data, 'bob', ['admin'])];
  const server = await served({ data, endpoints: [(await simulated()).url] });
  const made = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      as(admins[n % 2] as string, server, 'POST', 'keys', { name: `k${n}` }),
    ),
  );
  expect(new Set(made.map(({ status }) => status))).toEqual(new Set([200]));
  const target = made[0]?.body.id;
  const both = await Promise.all(admins.map(key => as(key, server, 'DELETE', `keys/${target}`)));
  expect(both.map(({ status }) => status).sort()).toEqual([200, 404]);
  expect(readKeys(data)).toHaveLength(26);
  expect(actsIn(server)).toHaveLength(25);
});

test('no other scope reaches a route of admins, and the first key of a server is one of them', async () => {
  const open = await served({ endpoints: [(await simulated()).url] });
  const first = await as('none', open, 'POST', 'keys', { name: 'bob' });
  expect([first.status, first.body.error.param]).toEqual([400, 'scopes']);
  const data = folder();
  const keys = (['batch', 'chat', 'metrics', 'worker'] as const).map(scope => keyOf(data, scope, [scope]));
  const server = await served({ data, endpoints: [(await simulated()).url] });
  const routes: [string, string, unknown?][] = [
    ['GET', 'keys'],
    ['POST', 'keys', { name: 'evil', scopes: ['admin'] }],
    ['POST', 'keys/key_1', { rpm: null }],
    ['DELETE', 'keys/key_1'],
    ['GET', 'batches'],
    ['GET', 'batches/batch_1'],
    ['POST', 'batches/batch_1/cancel', {}],
    ['DELETE', 'batches/batch_1'],
    ['GET', 'endpoints'],
    ['POST', 'endpoints/drain', { url: 'x' }],
    ['POST', 'endpoints/resume', { url: 'x' }],
    ['GET', 'audit'],
    ['HEAD', 'keys'],
  ];
  for (const key of keys)
    for (const [method, path, body] of routes)
      expect([path, (await as(key, server, method, path, body)).status]).toEqual([path, 403]);
  for (const [method, path, body] of routes)
    expect((await as('none', server, method, path, body)).status).toBe(401);
  expect(readKeys(data)).toHaveLength(4);
});

test('batches of all owners are seen, cancelled and deleted', async () => {
  const model = await serve(() => {});
  const data = folder();
  const [admin, bob] = [keyOf(data, 'root', ['admin']), keyOf(data, 'bob')];
  const server = await served({ data, endpoints: [model.url] });
  const made = await begin(server.client(bob), `${lineOf('a', { model: 'm' })}\n`);
  const list = await as(admin, server, 'GET', 'batches?owner=bob');
  expect(list.body.data.map((one: { id: string; owner: string }) => [one.id, one.owner])).toEqual([
    [made.id, 'bob'],
  ]);
  expect((await as(admin, server, 'GET', 'batches?owner=ann')).body.data).toEqual([]);
  expect((await as(admin, server, 'GET', 'batches?status=nope')).body.error.param).toBe('status');
  expect((await as(admin, server, 'GET', `batches/${made.id}`)).body.owner).toBe('bob');
  expect((await as(admin, server, 'POST', `batches/${made.id}/cancel`, {})).body.status).toBe('cancelling');
  const ended = await reached(server.client(bob), made.id);
  expect(ended.status).toBe('cancelled');
  const gone = await as(admin, server, 'DELETE', `batches/${made.id}`);
  expect(gone.body).toMatchObject({ id: made.id, deleted: true, files: expect.any(Array) });
  expect((await as(admin, server, 'GET', `batches/${made.id}`)).status).toBe(404);
  await expect(server.client(bob).batches.retrieve(made.id)).rejects.toMatchObject({ status: 404 });
  const open = await begin(server.client(bob), `${lineOf('a', { model: 'm' })}\n`);
  expect((await as(admin, server, 'DELETE', `batches/${open.id}`)).status).toBe(400);
  expect(actsIn(server)).toMatchObject([
    { act: 'batch.cancelled', owner: 'bob', target: made.id },
    { act: 'batch.deleted', owner: 'bob', target: made.id },
  ]);
});

test('a drain is kept over reloads and restarts; without another endpoint live calls are told why', async () => {
  const model = await serve(echo, { models: ['m'] });
  const other = await serve(echo, { models: ['n'] });
  const data = folder();
  const admin = keyOf(data, 'root', ['admin', 'chat']);
  const config = `pool: { endpoints: [${model.url}, ${other.url}] }\ninteractive_wait: 50ms\n`;
  let server = await configured(config, data);
  const turn = (act: string, url = model.url) => as(admin, server, 'POST', `endpoints/${act}`, { url });
  // what cannot be kept is not so
  mkdirSync(join(data, 'drained.json'));
  expect((await turn('drain')).status).toBeGreaterThanOrEqual(500);
  expect((await chat(server, admin)).status).toBe(200);
  rmdirSync(join(data, 'drained.json'));
  expect((await turn('drain')).body).toMatchObject({ state: 'drained', drained: { by: 'root' } });
  expect((await turn('drain')).status).toBe(400);
  expect((await turn('drain', 'http://evil.example/v1')).status).toBe(404);
  const refused = await chat(server, admin);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('5');
  expect(await refused.text()).toContain('that serves `m` is up (drained by root)');
  await server.again(`${config}keep: 3\n`);
  expect((await chat(server, admin)).status).toBe(503);
  await turn('drain', other.url);
  const ready = await fetch(`${server.url}/ready`);
  expect(ready.status).toBe(503);
  await server.stop();
  server = await configured(config, data);
  expect(server.said).toContain(
    `endpoint ${model.url} stays drained (by root): it is asked nothing until it is resumed`,
  );
  expect((await chat(server, admin)).status).toBe(503);
  expect((await turn('resume')).status).toBe(200);
  await expect.poll(async () => (await chat(server, admin)).status).toBe(200);
  expect((await turn('resume')).status).toBe(400);
  // one that is taken out is drained no more: another server may have its address later
  await server.again(`pool: { endpoints: [${model.url}] }\n`);
  await server.again(config);
  await expect.poll(async () => (await chat(server, admin, 'n')).status).toBe(200);
});

test('the audit finds who asked what when, without texts unless they are asked for', async () => {
  const model = await serve(echo, { models: ['m'] });
  const data = folder();
  const [admin, ann, bob] = [keyOf(data, 'root', ['admin']), keyOf(data, 'ann'), keyOf(data, 'bob')];
  const server = await served({ data, endpoints: [model.url] });
  const ids: (string | null)[] = [];
  for (const key of [ann, bob, ann]) ids.push((await chat(server, key)).headers.get('x-request-id'));
  await begin(server.client(bob), `${lineOf('a', { model: 'm' })}\n`);
  await as(admin, server, 'POST', 'keys', { name: 'new' });
  const search = async (query: string) => {
    const { text } = await as(admin, server, 'GET', `audit?${query}`);
    const lines = text
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line));
    return { lines: lines.slice(0, -1), end: lines.at(-1), text };
  };
  await expect.poll(async () => (await search('of=calls')).lines.length).toBe(3);
  const all = await search('');
  expect(all.lines.map(({ kind, owner }) => [kind, owner])).toEqual([
    ['act', 'new'],
    ['batch', 'bob'],
    ['call', 'ann'],
    ['call', 'bob'],
    ['call', 'ann'],
  ]);
  expect(all.end).toMatchObject({ end: 'all', found: 5 });
  expect(all.text).not.toContain('secret question');
  expect((await search('of=calls&owner=bob')).lines.map(one => one.request_id)).toEqual([ids[1]]);
  expect((await search(`request_id=${ids[2]}`)).lines).toMatchObject([
    { kind: 'call', owner: 'ann', outcome: 'answer', model: 'm' },
  ]);
  expect((await search('of=calls&status=failed')).lines).toEqual([]);
  expect((await search('of=calls&model=x')).lines).toEqual([]);
  expect((await search('of=calls&since=2100-01-01')).lines).toEqual([]);
  expect((await search('of=calls&until=2001-01-01T00:00:00Z')).lines).toEqual([]);
  expect((await search('of=calls&limit=2')).end).toMatchObject({ end: 'limit', found: 2 });
  expect((await search(`of=calls&owner=bob&prompts=true`)).text).toContain('secret question');
  expect((await search('of=acts')).lines.map(({ act }) => act)).toEqual(['key.made', 'audit.read']);
  for (const query of [
    'limit=0',
    'limit=999999',
    'since=yesterday',
    'of=x',
    'owner=a&owner=b',
    'nope=1',
    'prompts=1',
  ])
    expect([query, (await as(admin, server, 'GET', `audit?${query}`)).status]).toEqual([query, 400]);
});
