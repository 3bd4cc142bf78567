/** The Batches API by the official client, over simulated servers. */
import { readdirSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import type OpenAI from 'openai';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { begin, ENDPOINT, lineOf, linesIn, linesOf, put, reached } from './batching.ts';
import { keyOf, MODEL, served, simulated } from './serving.ts';

test('a batch from upload to download', async () => {
  const { client, data } = await served();
  const openai = client();
  const made = await begin(openai, linesOf(40), { metadata: { run: 'nightly' } });
  expect(made).toMatchObject({
    object: 'batch',
    status: 'validating',
    endpoint: ENDPOINT,
    completion_window: '24h',
    expires_at: made.created_at + 24 * 3600,
    request_counts: { total: 0, completed: 0, failed: 0 },
    metadata: { run: 'nightly' },
    output_file_id: null,
  });
  expect(made.id).toMatch(/^batch_[0-9a-f]{32}$/);
  const done = await reached(openai, made.id);
  expect(done).toMatchObject({
    status: 'completed',
    model: MODEL,
    errors: null,
    error_file_id: null,
    request_counts: { total: 40, completed: 40, failed: 0 },
  });
  for (const time of ['in_progress_at', 'finalizing_at', 'completed_at'] as const)
    expect(done[time]).toBeGreaterThanOrEqual(made.created_at);
  const lines = await linesIn(openai, done.output_file_id);
  expect(lines.map(({ custom_id }) => custom_id)).toEqual(Array.from({ length: 40 }, (_, n) => `r-${n}`));
  expect(lines[0]).toMatchObject({
    id: /^batch_req_/,
    response: { status_code: 200, body: { object: 'chat.completion' } },
    error: null,
  } as object);
  const tokens = lines.reduce((sum, { response }) => sum + (response?.body.usage?.total_tokens ?? 0), 0);
  expect(done.usage).toMatchObject({
    total_tokens: tokens,
    input_tokens_details: { cached_tokens: expect.any(Number) },
  });
  const file = await openai.files.retrieve(done.output_file_id as string);
  expect(file).toMatchObject({ purpose: 'batch_output', filename: `${made.id}_output.jsonl` });
  // what only a run needs is gone; its record stays
  expect(readdirSync(join(data, 'batches', made.id)).sort()).toEqual(['ledger', 'state.json']);
});

test('the input may be deleted as soon as the batch is made', async () => {
  const { client } = await served();
  const openai = client();
  const made = await begin(openai, linesOf(20));
  await openai.files.delete(made.input_file_id);
  expect(await reached(openai, made.id)).toMatchObject({
    status: 'completed',
    request_counts: { completed: 20 },
  });
});

test('a line that is no request fails the whole batch, and nothing is asked', async () => {
  const good = lineOf('good');
  const files: [string, string, object][] = [
    ['no JSON', `${good}\n{"custom_id":`, { line: 2, code: 'invalid_json_line' }],
    ['null', `${good}\nnull\n`, { line: 2, code: 'invalid_json_line' }],
    ['a list', '[]\n', { line: 1, code: 'invalid_json_line' }],
    ['no custom_id', '{"method":"POST"}\n', { line: 1, code: 'invalid_request', param: 'custom_id' }],
    [
      'no body',
      `{"custom_id":"a","method":"POST","url":"${ENDPOINT}"}\n`,
      { line: 1, code: 'invalid_request', param: 'body' },
    ],
    ['an id twice', `${good}\n${good}\n`, { line: 2, code: 'duplicate_custom_id', param: 'custom_id' }],
    [
      'another URL',
      `${lineOf('a', {}, '/v1/embeddings')}\n`,
      { line: 1, code: 'url_mismatch', param: 'url' },
    ],
    [
      'another method',
      `${good.replace('POST', 'GET')}\n`,
      { line: 1, code: 'invalid_method', param: 'method' },
    ],
    [
      'a stream',
      `${lineOf('a', { stream: true })}\n`,
      { line: 1, code: 'invalid_request', param: 'body.stream' },
    ],
    ...[-100, '-5', 0.5].map((priority): [string, string, object] => [
      `the priority ${JSON.stringify(priority)}`,
      `${good}\n${lineOf('a', { priority })}\n`,
      { line: 2, code: 'invalid_request', param: 'body.priority' },
    ]),
    [
      'no model',
      `${lineOf('a', { model: undefined })}\n`,
      { line: 1, code: 'missing_required_parameter', param: 'body.model' },
    ],
    [
      'a number that a double cannot hold',
      `${lineOf('a', { seed: 1 }).replace('"seed":1', '"seed":12345678901234567890')}\n`,
      { line: 1, code: 'invalid_json_line' },
    ],
    ['nothing', '', { line: null, code: 'empty_file' }],
    ['empty lines', '\n\n\r\n', { line: null, code: 'empty_file' }],
    ['too many lines', linesOf(51), { line: null, code: 'too_many_tasks' }],
    [
      'a line that is too long',
      `${good}\n${lineOf('a', { user: 'x'.repeat(5000) })}\n`,
      { line: 2, code: 'line_too_long' },
    ],
    ['deep brackets', `${good}\n${'['.repeat(2000)}\n`, { line: 2, code: 'invalid_json_line' }],
    [
      'no UTF-8',
      Buffer.concat([
        Buffer.from(`${good}\n{"custom_id":"`),
        Buffer.from([0xff]),
        Buffer.from('"}\n'),
      ]).toString('latin1'),
      { line: 2 },
    ],
  ];
  const { url, simulator } = await simulated();
  const { client } = await served({ endpoints: [url], limits: { lines: 50, line: 4096 } });
  const openai = client();
  for (const [what, text, expected] of files) {
    const failed = await reached(openai, (await begin(openai, text)).id);
    expect(failed, what).toMatchObject({
      ...{ status: 'failed', output_file_id: null, error_file_id: null },
      ...{ request_counts: { total: 0 }, failed_at: expect.any(Number) },
      errors: { object: 'list' },
    });
    expect(failed.errors?.data?.[0], what).toMatchObject(expected);
  }
  expect(simulator.counts().requests).toBe(0);
});

test('CRLF, a byte order mark and no newline at the end are taken', async () => {
  const { client } = await served();
  const openai = client();
  const text = `\ufeff${lineOf('a')}\r\n${lineOf('b')}`;
  const done = await reached(openai, (await begin(openai, text)).id);
  expect((await linesIn(openai, done.output_file_id)).map(line => line.custom_id)).toEqual(['a', 'b']);
});

test('requests that fail are in a file of their own, and the batch is completed', async () => {
  const { client } = await served();
  const openai = client();
  const text = [
    lineOf('fine'),
    lineOf('refused', { max_tokens: -1 }),
    lineOf('unserved', { model: 'other' }),
  ].join('\n');
  const done = await reached(openai, (await begin(openai, text)).id);
  expect(done).toMatchObject({
    status: 'completed',
    model: null,
    request_counts: { total: 3, completed: 1, failed: 2 },
  });
  expect((await linesIn(openai, done.output_file_id)).map(line => line.custom_id)).toEqual(['fine']);
  const [refused, unserved] = await linesIn(openai, done.error_file_id);
  expect(refused).toMatchObject({ custom_id: 'refused', response: { status_code: 400 }, error: null });
  expect(unserved).toMatchObject({ custom_id: 'unserved', response: null, error: { code: 'no-such-model' } });
  const none = await reached(openai, (await begin(openai, lineOf('a', { model: 'other' }))).id);
  expect(none).toMatchObject({
    status: 'completed',
    output_file_id: null,
    error_file_id: expect.any(String),
  });
});

test('cancel: what is done is kept, the rest is told so', async () => {
  const { url } = await simulated({ latency: '20ms' });
  const { client } = await served({ endpoints: [url], limit: 2 });
  const openai = client();
  const { id } = await begin(openai, linesOf(2000));
  await reached(openai, id, batch => (batch.request_counts?.completed ?? 0) >= 4);
  const cancelling = await openai.batches.cancel(id);
  expect(cancelling).toMatchObject({ status: 'cancelling', cancelling_at: expect.any(Number) });
  expect((await openai.batches.cancel(id)).id).toBe(id); // again, as a client that lost the answer does
  const done = await reached(openai, id);
  expect(done).toMatchObject({ status: 'cancelled', request_counts: { total: 2000 } });
  const [good, bad] = [await linesIn(openai, done.output_file_id), await linesIn(openai, done.error_file_id)];
  expect(good.length).toBeGreaterThanOrEqual(4);
  expect(good.length + bad.length).toBe(2000);
  expect([good.length, bad.length]).toEqual([done.request_counts?.completed, done.request_counts?.failed]);
  expect(new Set([...good, ...bad].map(line => line.custom_id)).size).toBe(2000);
  expect(new Set(bad.map(({ response, error }) => `${response} ${error?.code}`))).toEqual(
    new Set(['null batch_cancelled']),
  );
  expect(await openai.batches.cancel(id)).toMatchObject({ status: 'cancelled' });
  const other = await reached(openai, (await begin(openai, linesOf(1))).id);
  await expect(openai.batches.cancel(other.id)).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining("status 'completed'"),
  });
});

test('a window that is over: what is done is kept, the rest has expired', async () => {
  let late = 0;
  const { url } = await simulated({ latency: '20ms' });
  const { client } = await served({ endpoints: [url], limit: 2, now: () => Date.now() + late });
  const openai = client();
  const made = await begin(openai, linesOf(500), { completion_window: '1h' as '24h' });
  expect(made.expires_at).toBe(made.created_at + 3600);
  await reached(openai, made.id, batch => (batch.request_counts?.completed ?? 0) >= 4);
  late = 3_700_000;
  const done = await reached(openai, made.id);
  expect(done).toMatchObject({
    status: 'expired',
    request_counts: { total: 500 },
    expired_at: expect.any(Number),
  });
  const bad = await linesIn(openai, done.error_file_id);
  expect(bad.at(-1)?.error).toEqual({
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  });
  expect(bad.length + (await linesIn(openai, done.output_file_id)).length).toBe(500);
});

test('lists are paged by ids, newest first', async () => {
  const { client } = await served();
  const openai = client();
  const input_file_id = await put(openai, linesOf(1));
  const made: string[] = [];
  for (let n = 0; n < 5; n++)
    made.push(
      (await openai.batches.create({ input_file_id, endpoint: ENDPOINT, completion_window: '24h' })).id,
    );
  const seen: string[] = [];
  for await (const { id } of openai.batches.list({ limit: 2 })) seen.push(id);
  expect(seen).toEqual([...made].reverse());
  await expect(openai.batches.list({ limit: 101 })).rejects.toMatchObject({ status: 400, param: 'limit' });
});

test('a create that is repeated after a lost answer makes one batch', async () => {
  const { client, url } = await served();
  const openai = client();
  const input_file_id = await put(openai, linesOf(3));
  const body = JSON.stringify({ input_file_id, endpoint: ENDPOINT, completion_window: '24h' });
  const post = async (headers: Record<string, string>, text = body) => {
    const reply = await fetch(`${url}/v1/batches`, {
      method: 'POST',
      body: text,
      headers: { 'content-type': 'application/json', ...headers },
    });
    return { status: reply.status, ...((await reply.json()) as { id: string; error?: { code: string } }) };
  };
  const first = await post({ 'x-stainless-retry-count': '0' });
  expect((await post({ 'x-stainless-retry-count': '1' })).id).toBe(first.id);
  expect((await post({ 'x-stainless-retry-count': '0' })).id).not.toBe(first.id);
  const named = await post({ 'idempotency-key': 'mine' });
  expect((await post({ 'idempotency-key': 'mine' })).id).toBe(named.id);
  const other = await post({ 'idempotency-key': 'mine' }, body.replace('24h', '12h'));
  expect([other.status, other.error?.code]).toEqual([400, 'idempotency_key_reused']);
  const longest = 'k'.repeat(255);
  expect((await post({ 'idempotency-key': longest })).id).toMatch(/^batch_/);
  for (const end of ['a', 'b']) expect((await post({ 'idempotency-key': longest + end })).status).toBe(400);
  expect((await openai.batches.list()).data).toHaveLength(4);
});

test('what a create says wrong is named', async () => {
  const { client } = await served();
  const openai = client();
  const input_file_id = await put(openai, linesOf(1));
  const good = { input_file_id, endpoint: ENDPOINT, completion_window: '24h' };
  const refused = async (body: object): Promise<unknown[]> => {
    try {
      await openai.batches.create(body as OpenAI.BatchCreateParams);
      return [];
    } catch (error) {
      const { status, param } = error as InstanceType<typeof OpenAI.APIError>;
      return [status, param];
    }
  };
  expect(await refused({ ...good, input_file_id: undefined })).toEqual([400, 'input_file_id']);
  expect(await refused({ ...good, input_file_id: `file-${'0'.repeat(24)}` })).toEqual([404, 'input_file_id']);
  expect(await refused({ ...good, input_file_id: '../../keys' })).toEqual([404, 'input_file_id']);
  expect(await refused({ ...good, endpoint: '/v1/moderations' })).toEqual([400, 'endpoint']);
  expect(await refused({ ...good, completion_window: 'soon' })).toEqual([400, 'completion_window']);
  expect(await refused({ ...good, completion_window: '31d' })).toEqual([400, 'completion_window']);
  expect(await refused({ ...good, metadata: { a: 1 } })).toEqual([400, 'metadata.a']);
  expect(await refused({ ...good, metadata: { a: 'x'.repeat(513) } })).toEqual([400, 'metadata.a']);
  expect(await refused({ ...good, color: 'red' })).toEqual([400, 'color']);
  expect(await refused({ ...good, output_expires_after: { anchor: 'created_at', seconds: 1 } })).toEqual([
    400,
    'output_expires_after.seconds',
  ]);
  const kept = await openai.batches.create({
    ...good,
    output_expires_after: { anchor: 'created_at', seconds: 3600 },
  } as OpenAI.BatchCreateParams);
  const done = await reached(openai, kept.id);
  const file = await openai.files.retrieve(done.output_file_id as string);
  expect(file.expires_at).toBe(file.created_at + 3600);
});

test('a body that is no request', async () => {
  const { url } = await served();
  const deep = ['[', '{"a":'].map(opening => `{"a":${opening.repeat(100_000)}`);
  for (const body of ['{', '[]', 'null', '"x"', '\u0000', ...deep]) {
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(`${url}/v1/batches`, { method: 'POST', body, headers });
    expect(reply.status, body.slice(0, 20)).toBe(400);
    expect(await reply.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  }
});

test('the client of Python cancels with an empty JSON body', async () => {
  const { client, url } = await served({ endpoints: ['http://127.0.0.1:1/v1'] });
  const { id } = await begin(client(), linesOf(1));
  const headers = { 'content-type': 'application/json', 'content-length': '0' };
  const reply = await new Promise<IncomingMessage>(resolve => {
    request(`${url}/v1/batches/${id}/cancel`, { method: 'POST', headers }, resolve).end();
  });
  expect([reply.statusCode, await json(reply)]).toEqual([
    200,
    expect.objectContaining({ status: 'cancelling' }),
  ]);
  expect(await reached(client(), id)).toMatchObject({ status: 'cancelled' });
});

test("an owner's batches are nobody else's, nor its files", async () => {
  const data = join(folder(), 'data');
  const { client, said } = await served({ data });
  const secret = keyOf(data, 'alice');
  const [alice, bob, chat] = [client(secret), client(keyOf(data, 'bob')), client(keyOf(data, 'c', ['chat']))];
  const made = await begin(alice, linesOf(2));
  const done = await reached(alice, made.id);
  const theirs = { input_file_id: made.input_file_id, endpoint: ENDPOINT, completion_window: '24h' } as const;
  for (const act of [
    () => bob.batches.retrieve(made.id),
    () => bob.batches.cancel(made.id),
    () => bob.batches.create(theirs),
    () => bob.files.content(done.output_file_id as string),
  ])
    await expect(act()).rejects.toMatchObject({ status: 404 });
  expect((await bob.batches.list()).data).toEqual([]);
  expect((await bob.files.list()).data).toEqual([]);
  await expect(chat.batches.list()).rejects.toMatchObject({ status: 403 });
  // the key itself is nowhere: in no state, no ledger, no line to the operator
  const paths = readdirSync(data, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile());
  const kept = paths.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'));
  expect(kept.length).toBeGreaterThan(4);
  expect([...kept, ...said].filter(text => text.includes(secret.slice(3)))).toEqual([]);
});

test('a key that has used its tokens of the day makes no further batch', async () => {
  let now = Date.UTC(2026, 0, 1, 23, 59);
  const data = join(folder(), 'data');
  const { client } = await served({ data, now: () => now });
  const openai = client(keyOf(data, 'small', ['batch'], { tokens_per_day: 10 }));
  expect(await reached(openai, (await begin(openai, linesOf(2))).id)).toMatchObject({ status: 'completed' });
  const input_file_id = await put(openai, linesOf(1));
  const create = () => openai.batches.create({ input_file_id, endpoint: ENDPOINT, completion_window: '24h' });
  await expect(create()).rejects.toMatchObject({ status: 429, type: 'tokens', code: 'rate_limit_exceeded' });
  now += 60_000;
  expect((await create()).status).toBe('validating');
});
