/**
 * What a tenant may write, and what of other owners it may use: JSON that is made to hurt, names that something else takes
 * for its own, and ids, cursors and keys of others. Each attack is a row with what it must end in.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createSessions } from '../../products/serve/page/sessions.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { keyOf, MODEL, served } from './serving.ts';

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

async function tenants(options: Parameters<typeof served>[0] = {}) {
  const data = folder();
  const as =
    (key: string): Ask =>
    (path, init = {}) =>
      fetch(`${server.url}${path}`, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${key}` },
      });
  const keys = [keyOf(data, 'alice'), keyOf(data, 'mallory'), keyOf(data, 'root', ['admin', 'metrics'])];
  const server = await served({ data, ...options });
  const [alice, mallory, root] = keys.map(as) as [Ask, Ask, Ask];
  return { ...server, alice, mallory, root };
}

const posted = (body: string, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body,
});

async function upload(ask: Ask, text: string, name = 'in.jsonl'): Promise<{ id: string; filename: string }> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([text]), name);
  return (await ask('/v1/files', { method: 'POST', body: form })).json() as never;
}

const line = (id: string, content: unknown = 'x') =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: MODEL, messages: [{ role: 'user', content }] },
  });

interface Batch {
  id: string;
  status: string;
  metadata: object | null;
  output_file_id: string;
  errors: { data: { code: string; message: string }[] } | null;
}

const create = (ask: Ask, file: string, more: object = {}, headers: Record<string, string> = {}) =>
  ask(
    '/v1/batches',
    posted(
      JSON.stringify({
        ...{ input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' },
        ...more,
      }),
      headers,
    ),
  );

async function ended(ask: Ask, id: string): Promise<Batch> {
  for (;;) {
    const now = (await (await ask(`/v1/batches/${id}`)).json()) as Batch;
    if (!['validating', 'in_progress', 'finalizing'].includes(now.status)) return now;
  }
}

/** What takes long to read, in the place of the messages of a request. */
const BOMBS: [string, string][] = [
  ['a million lists', `[${'[],'.repeat(1_000_000)}0]`],
  ['a million objects', `[${'{},'.repeat(1_000_000)}0]`],
  ['lists of 60 levels', `[${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(20_000)}0]`],
  ['half a million keys', `{${Array.from({ length: 500_000 }, (_, n) => `"${n}":0`).join(',')}}`],
  ['one key a million times', `{"b":0${',"a":0'.repeat(1_000_000)}}`],
];

test('JSON that takes long to read is refused before it is read, in a request and in a line of a batch', async () => {
  const { mallory } = await tenants();
  for (const [name, bomb] of every(2, BOMBS)) {
    const reply = await mallory('/v1/chat/completions', posted(`{"model":"${MODEL}","messages":${bomb}}`));
    const { error } = (await reply.json()) as { error: { message: string } };
    const words = /^Expected JSON of at most [12]00000 (objects and lists|keys), found more\.$/;
    expect([reply.status, words.test(error.message)], `${name}: ${error.message}`).toEqual([400, true]);
    const file = await upload(mallory, line('a', '?').replace('"?"', bomb));
    const made = (await (await create(mallory, file.id)).json()) as Batch;
    const { status, errors } = await ended(mallory, made.id);
    expect([status, errors?.data[0]?.code], name).toEqual(['failed', 'invalid_request']);
    expect(words.test(errors?.data[0]?.message ?? ''), name).toBe(true);
  }
});

const NAMES = [
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'length'],
  ...['a\r\nX-Evil: 1', '\u001b[2J\u009b31m', '<img src=x onerror=alert(1)>', '"><script>alert(1)</script>'],
  ...[
    '\u202egnp.exe',
    '\u0000',
    '\ud800',
    '{{7*7}}',
    '#{7*7}',
    "'; drop table x; --",
    '../../keys.json',
    'NaN',
  ],
];

test('names of any kind are names: of lines, of metadata, of models, of files', async () => {
  const { mallory, root, data, said } = await tenants();
  const ids = NAMES.filter(name => name !== '\ud800'); // half of a pair cannot be sent as UTF-8
  const file = await upload(mallory, ids.map(id => line(id)).join('\n'));
  // sixteen pairs at the most
  const metadata = Object.fromEntries(ids.slice(0, 16).map(name => [name.slice(0, 64), name]));
  const created = await create(mallory, file.id, { metadata });
  expect(created.status).toBe(200);
  const batch = await ended(mallory, ((await created.json()) as Batch).id);
  expect([batch.status, batch.metadata]).toEqual(['completed', metadata]);
  const out = await (await mallory(`/v1/files/${batch.output_file_id}/content`)).text();
  const got = out
    .trim()
    .split('\n')
    .map(one => JSON.parse(one).custom_id);
  expect(got).toEqual(ids);

  for (const name of NAMES) {
    const body = JSON.stringify({ model: name, messages: [] });
    for (const stream of [true, false]) {
      const reply = await mallory('/v1/chat/completions', posted(body.replace('{', `{"stream":${stream},`)));
      expect(reply.status, name).toBe(404);
      expect([...reply.headers.keys()].includes('x-evil'), name).toBe(false);
    }
    const { filename } = await upload(mallory, '{}', name);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a name that is shown has none
    expect(/[\u0000-\u001f\u007f-\u009f/\\]/.test(filename), name).toBe(false);
  }
  const page = await (await root('/metrics')).text();
  for (const name of ['__proto__', 'mallory', 'Evil', file.id]) expect(page.includes(name), name).toBe(false);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what steers a terminal
  expect(said.filter(words => /[\u0000-\u001f\u007f-\u009f]/.test(words))).toEqual([]);
  expect(JSON.parse(readFileSync(join(data, 'keys.json'), 'utf8')).keys).toHaveLength(3);
});

/** A megabyte in a place where a few letters are expected. */
const LONG = 'x'.repeat(1 << 20);
const PLACES: [string, (ask: Ask, file: string) => Promise<Response>][] = [
  ['a key of metadata', (ask, file) => create(ask, file, { metadata: { [LONG]: 'x' } })],
  ['a value of metadata', (ask, file) => create(ask, file, { metadata: { x: LONG } })],
  ['a field that is unknown', (ask, file) => create(ask, file, { [LONG]: 1 })],
  ['an endpoint', (ask, file) => create(ask, file, { endpoint: LONG })],
  ['a window', (ask, file) => create(ask, file, { completion_window: `${LONG}h` })],
  ['the id of a file', ask => create(ask, LONG)],
  ['a model', ask => ask('/v1/chat/completions', posted(JSON.stringify({ model: LONG, messages: [] })))],
  [
    'an adapter without the scope',
    ask => ask('/v1/load_lora_adapter', posted(JSON.stringify({ lora_name: LONG, lora_path: LONG }))),
  ],
  ['a limit', ask => ask(`/v1/files?limit=${'9'.repeat(8_000)}`)],
  ['a cursor', ask => ask(`/v1/files?after=${'x'.repeat(8_000)}`)],
  ['a path', ask => ask(`/v1/${'x'.repeat(8_000)}`)],
  ['many query fields', ask => ask(`/v1/files?order=x&${'a=b&'.repeat(3_000)}`)],
];

test('a megabyte where a few letters are expected is not said back', async () => {
  const { mallory } = await tenants();
  const { id } = await upload(mallory, line('a'));
  for (const [name, how] of PLACES) {
    const reply = await how(mallory, id);
    const said = await reply.text();
    expect([400, 403, 404, 414], `${name}: ${said.slice(0, 300)}`).toContain(reply.status);
    expect(said.length, name).toBeLessThan(1_000);
  }
});

test('an Idempotency-Key, a retry and a cursor of another owner find nothing', async () => {
  const { alice, mallory } = await tenants();
  const key = { 'idempotency-key': 'the same' };
  const retry = { 'x-stainless-retry-count': '1' };
  const own = await upload(alice, line('a'));
  const hers = (await (await create(alice, own.id, {}, key)).json()) as Batch;
  expect(((await (await create(alice, own.id, {}, key)).json()) as Batch).id).toBe(hers.id);
  // her file is not there for others, not even with the key that made a batch of it
  expect((await create(mallory, own.id, {}, key)).status).toBe(404);
  expect((await create(mallory, own.id, {}, retry)).status).toBe(404);
  const other = await upload(mallory, line('a'));
  const theirs = (await (await create(mallory, other.id, {}, key)).json()) as Batch;
  expect(theirs.id).not.toBe(hers.id);
  for (const path of ['/v1/batches', `/v1/batches?after=${hers.id}`, `/v1/batches?limit=100`]) {
    const { data } = (await (await mallory(path)).json()) as { data: { id: string }[] };
    expect(
      data.filter(({ id }) => id !== theirs.id),
      path,
    ).toEqual([]);
  }
  // whether an id of another owner is there or not is not to be seen
  const miss = (path: string) => mallory(path).then(async reply => [reply.status, await reply.text()]);
  for (const path of ['/v1/batches/ID', '/v1/files/ID', '/v1/files/ID/content', '/v1/batches/ID/cancel']) {
    const [there, free] = path.includes('files')
      ? [own.id, `file-${'0'.repeat(24)}`]
      : [hers.id, `batch_${'0'.repeat(32)}`];
    const [status, text] = await miss(path.replace('ID', there));
    const [expected, words] = await miss(path.replace('ID', free));
    expect([status, String(text).replaceAll(there, 'ID')], path).toEqual([
      ...[expected, String(words).replaceAll(free, 'ID')],
    ]);
  }
});

test('the cache answers no other owner, path, or bytes', async () => {
  const { alice, mallory } = await tenants({ gateway: { cacheFor: 3_600_000 } });
  const asked = (more: object, space = '') =>
    posted(
      `${JSON.stringify({ model: MODEL, temperature: 0, max_tokens: 5, messages: [{ role: 'user', content: 'x' }], ...more })}${space}`,
    );
  const hit = async (ask: Ask, init: RequestInit, path = '/v1/chat/completions') => {
    const reply = await ask(path, init);
    await reply.text();
    return reply.headers.get('x-fw-cache');
  };
  expect(await hit(alice, asked({}))).toBe(null);
  while ((await hit(alice, asked({}))) === null); // it is on record some ms later
  expect(await hit(mallory, asked({}))).toBe(null);
  expect(await hit(alice, asked({}, ' '))).toBe(null);
  expect(await hit(alice, asked({ user: 'alice"\n/v1/chat/completions\n0' }))).toBe(null);
  expect(await hit(alice, asked({ prompt: 'x' }), '/v1/completions')).toBe(null);
  expect(await hit(alice, asked({ stream: true }))).toBe(null);
});

test('who logs in a thousand times logs nobody else out', () => {
  const sessions = createSessions(() => 0);
  const at = { port: 1, isSecure: false };
  const cookieOf = (key: string): string => sessions.begin(key, at).split(';', 1)[0] as string;
  const alice = cookieOf('alice');
  const first = cookieOf('mallory');
  let last = '';
  for (let n = 0; n < 2_000; n++) last = cookieOf('mallory');
  expect([alice, first, last].map(cookie => sessions.keyIn(cookie, 1))).toEqual(['alice', null, 'mallory']);
});
