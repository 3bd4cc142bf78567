/** The Files API, by the official client where it can say what is asked, and by bare sockets where it cannot. */
import { createReadStream, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type OpenAI from 'openai';
import { toFile } from 'openai';
import { describe, expect, test } from 'vitest';
import { folder, until } from '../fw.ts';
import { keyOf, served } from './serving.ts';

const LINES = '{"custom_id":"a"}\n{"custom_id":"b"}\n';
const upload = (client: OpenAI, text = LINES, name = 'in.jsonl') =>
  toFile(Buffer.from(text), name).then(file => client.files.create({ file, purpose: 'batch' }));

test('a file: uploaded, seen, listed, read, deleted', async () => {
  const { client, data } = await served();
  const openai = client();
  const made = await upload(openai);
  expect(made).toMatchObject({
    object: 'file',
    bytes: LINES.length,
    filename: 'in.jsonl',
    purpose: 'batch',
    status: 'processed',
  });
  expect(made.id).toMatch(/^file-[0-9A-Za-z]{24}$/);
  expect(made.expires_at).toBe(made.created_at + 30 * 24 * 3600);
  expect(await openai.files.retrieve(made.id)).toMatchObject({ id: made.id, bytes: LINES.length });
  expect((await openai.files.waitForProcessing(made.id)).status).toBe('processed');
  const reply = await openai.files.content(made.id);
  expect(await reply.text()).toBe(LINES);
  expect([reply.headers.get('content-type'), reply.headers.get('x-content-type-options')]).toEqual([
    'application/octet-stream',
    'nosniff',
  ]);
  expect(await openai.files.delete(made.id)).toEqual({ id: made.id, object: 'file', deleted: true });
  await expect(openai.files.retrieve(made.id)).rejects.toMatchObject({
    status: 404,
    type: 'invalid_request_error',
    param: 'id',
  });
  expect(readdirSync(join(data, 'files'))).toEqual([]);
});

test('a stream, a name of any letters, and a time of its own', async () => {
  const { client } = await served();
  const openai = client();
  const path = join(folder(), 'größe "1".jsonl');
  writeFileSync(path, LINES);
  const made = await openai.files.create({
    file: createReadStream(path), // sent before the fields, without a length
    purpose: 'batch',
    expires_after: { anchor: 'created_at', seconds: 3600 },
  });
  expect([made.filename, made.expires_at]).toEqual(['größe "1".jsonl', made.created_at + 3600]);
});

test('lists are paged by ids, newest first, also past a file that is gone', async () => {
  const { client, stop, data } = await served();
  const openai = client();
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push((await upload(openai)).id);
  const newest = [...made].reverse();
  const ids = async (query: OpenAI.FileListParams, from = openai) => {
    const seen: string[] = [];
    for await (const { id } of from.files.list(query)) seen.push(id);
    return seen;
  };
  expect(await ids({ limit: 2 })).toEqual(newest);
  expect(await ids({ limit: 2, order: 'asc' })).toEqual(made);
  const page = await openai.files.list({ limit: 2 });
  expect(page.has_more).toBe(true);
  await openai.files.delete(newest[1] as string);
  expect(await ids({ after: newest[1] as string })).toEqual(newest.slice(2));
  expect(await ids({ purpose: 'batch_output' })).toEqual([]);
  for (const query of [{ limit: 0 }, { limit: 10_001 }, { after: 'file-x' }, { order: 'up' }])
    await expect(openai.files.list(query as OpenAI.FileListParams)).rejects.toMatchObject({
      status: 400,
      param: Object.keys(query)[0],
    });
  await stop();
  const again = (await served({ data })).client();
  expect(await ids({}, again)).toEqual(newest.filter((_, at) => at !== 1));
});

test('a file ends when its time is over, and a start removes what a killed one left', async () => {
  let now = Date.UTC(2026, 0, 1);
  const { client, stop, data } = await served({ now: () => now });
  const openai = client();
  const { id } = await upload(openai);
  now += 31 * 24 * 3_600_000;
  await expect(openai.files.retrieve(id)).rejects.toMatchObject({ status: 404 });
  expect((await openai.files.list()).data).toEqual([]);
  await stop();
  for (const left of ['file-x.spool', 'file-x.data', 'file-x.json.1a2b.unfinished'])
    writeFileSync(join(data, 'files', left), 'x');
  writeFileSync(join(data, 'files', 'file-y.json'), '{"not":');
  const { said } = await served({ data, now: () => now });
  expect(readdirSync(join(data, 'files')).sort()).toEqual(['file-y.json', `${id}.data`, `${id}.json`].sort());
  expect(said.join()).toContain('file-y.json');
});

test("an owner's files are nobody else's", async () => {
  const data = join(folder(), 'data');
  const { client, url } = await served({ data });
  const [alice, second, bob, watcher] = [
    keyOf(data, 'alice'),
    keyOf(data, 'alice'),
    keyOf(data, 'bob'),
    keyOf(data, 'watcher', ['metrics']),
  ];
  const { id } = await upload(client(alice));
  expect(await client(second).files.retrieve(id)).toMatchObject({ id });
  const other = client(bob);
  for (const act of ['retrieve', 'content', 'delete'] as const)
    await expect(other.files[act](id)).rejects.toMatchObject({ status: 404 });
  expect((await other.files.list()).data).toEqual([]);
  await expect(client(watcher).files.list()).rejects.toMatchObject({ status: 403 });
  await expect(client('fw_wrong').files.list()).rejects.toMatchObject({
    status: 401,
    code: 'invalid_api_key',
  });
  const none = await fetch(`${url}/v1/files`);
  expect(none.status).toBe(401);
});

test('an id that is none leads nowhere', async () => {
  const { url } = await served();
  const none = `file-${'a'.repeat(24)}`;
  for (const id of ['../keys', '..%2f..%2fkeys.json', '%2e%2e', 'file-../../keys.json', `${none}%00`, none]) {
    for (const path of [id, `${id}/content`]) {
      const reply = await fetch(`${url}/v1/files/${path}`);
      expect([400, 404], path).toContain(reply.status);
      expect(await reply.json(), path).toHaveProperty('error.message');
    }
  }
});

test('a name is no path', async () => {
  const { client, data } = await served();
  const made = await upload(client(), LINES, '../../../../tmp/serve-evil.jsonl');
  expect(made.filename).toBe('serve-evil.jsonl');
  expect(readdirSync(join(data, 'files')).sort()).toEqual([`${made.id}.data`, `${made.id}.json`]);
  expect(existsSync('/tmp/serve-evil.jsonl')).toBe(false);
});

describe('what is refused leaves nothing', () => {
  const boundary = 'xyz';
  const part = (head: string, body: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; ${head}\r\n\r\n${body}\r\n`;
  const file = part('name="file"; filename="a.jsonl"', LINES);
  const purpose = part('name="purpose"', 'batch');
  const end = `--${boundary}--\r\n`;
  const post = async (url: string, body: string, type = `multipart/form-data; boundary=${boundary}`) => {
    const reply = await fetch(`${url}/v1/files`, { method: 'POST', body, headers: { 'content-type': type } });
    return [reply.status, ((await reply.json()) as { error: { param: string } }).error.param];
  };
  const forms: [string, string, unknown[]][] = [
    ['no purpose', file + end, [400, 'purpose']],
    ['another purpose', file + part('name="purpose"', 'vision') + end, [400, 'purpose']],
    ['no file', purpose + end, [400, 'file']],
    ['a file under another name', file.replace('name="file"', 'name="data"') + purpose + end, [400, 'file']],
    ['two files', file + file + purpose + end, [400, null]],
    ['no end', file + purpose, [400, null]],
    ['an end in the middle', file.slice(0, -10), [400, null]],
    [
      'many fields',
      file + Array.from({ length: 40 }, (_, n) => part(`name="f${n}"`, '1')).join('') + end,
      [400, null],
    ],
    ['a long field', file + part('name="purpose"', 'x'.repeat(5000)) + end, [400, null]],
    [
      'a time that is too short',
      `${file}${purpose}${part('name="expires_after[anchor]"', 'created_at')}${part('name="expires_after[seconds]"', '60')}${end}`,
      [400, 'expires_after.seconds'],
    ],
  ];
  test('forms', async () => {
    const { url, data } = await served();
    for (const [what, body, expected] of forms) {
      expect(await post(url, body), what).toEqual(expected);
      expect(readdirSync(join(data, 'files')), what).toEqual([]);
    }
  });
  test('other bodies', async () => {
    const { url } = await served();
    const types = [
      'application/json',
      'text/plain',
      'multipart/form-data',
      'application/x-www-form-urlencoded',
    ];
    for (const type of types) expect((await post(url, '{}', type))[0], type).toBe(400);
  });
});

test('a longer file than is taken is refused while it is sent, and not kept', async () => {
  const { client, data, url } = await served({ limits: { file: 1000 } });
  await expect(upload(client(), 'x'.repeat(200_000))).rejects.toMatchObject({
    status: 413,
    code: 'file_too_large',
  });
  expect((await upload(client(), 'x'.repeat(1000))).bytes).toBe(1000);
  expect(readdirSync(join(data, 'files'))).toHaveLength(2);
  // 10 GB are refused before the first of them is read
  const { hostname, port } = new URL(url);
  const said = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        'POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: multipart/form-data; boundary=x\r\ncontent-length: 10000000000\r\n\r\n',
      ),
    );
    socket.once('data', chunk => {
      resolve(chunk.toString());
      socket.destroy();
    });
    socket.on('error', reject);
  });
  expect(said).toMatch(/^HTTP\/1\.1 413 /);
  expect(said.toLowerCase()).toContain('connection: close');
});

test('an upload that is broken off leaves nothing', async () => {
  const { url, data, client } = await served();
  const { hostname, port } = new URL(url);
  await new Promise<void>(resolve => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(
        'POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: multipart/form-data; boundary=x\r\ncontent-length: 1000\r\n\r\n--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc',
        () => socket.destroy(),
      );
    });
    socket.on('close', () => resolve());
  });
  await upload(client());
  const spooled = () => readdirSync(join(data, 'files')).filter(name => name.endsWith('.spool'));
  await until(join(data, 'files'), () => spooled().length === 0);
  expect(readdirSync(join(data, 'files'))).toHaveLength(2);
});
