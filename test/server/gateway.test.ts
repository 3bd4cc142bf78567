/** The gateway: what the official client gets through it, and what is kept of that. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { type Ask, nonceIn, serve } from '../pool/serving.ts';
import { keyOf, MODEL, served, simulated } from './serving.ts';

const ask = (content: string, more: object = {}) => ({
  model: MODEL,
  messages: [{ role: 'user' as const, content }],
  max_tokens: 20,
  ...more,
});

const post = (url: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

const errorIn = async (reply: Response): Promise<{ message: string; code: string | null }> =>
  ((await reply.json()) as { error: { message: string; code: string | null } }).error;

/** The call lines of the gateway's ledger, oldest first. */
function recorded(data: string): Record<string, unknown>[] {
  const folder = join(data, 'gateway');
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ndjson'))
    .flatMap(name => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    .map(line => JSON.parse(line))
    .filter(line => line.key !== undefined);
}

const event = (delta: object, finish: string | null = null, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'c-1', object: 'chat.completion.chunk', model: 'm', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`;

/** Writes a stream in pieces, each once the one before it has gone. */
async function stream({ response }: Ask, pieces: readonly string[]): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (const piece of pieces) await new Promise(resolve => response.write(piece, resolve));
  response.end();
}

test('chat, completions, embeddings and models by the official client, and each is on record', async () => {
  const { client, data, stop } = await served();
  const openai = client();
  const chat = await openai.chat.completions.create(ask('hello'));
  expect(chat.choices[0]?.message.role).toBe('assistant');
  expect(chat._request_id).toMatch(/^req_/);
  await openai.completions.create({ model: MODEL, prompt: 'hello', max_tokens: 5 });
  await openai.embeddings.create({ model: MODEL, input: 'hello' });
  expect((await openai.models.list()).data.map(({ id }) => id)).toEqual([MODEL]);
  await stop();
  expect(recorded(data).map(({ agent, outcome, caller, item }) => [agent, outcome, caller, item])).toEqual([
    ['/v1/chat/completions', 'answer', 'local', chat._request_id],
    ['/v1/completions', 'answer', 'local', expect.any(String)],
    ['/v1/embeddings', 'answer', 'local', expect.any(String)],
  ]);
});

test('a stream by the official client; its record is one completion with the time to its first token', async () => {
  const { client, data, stop } = await served();
  let text = '';
  const chunks = await client().chat.completions.create({
    ...ask('hello'),
    stream: true as const,
    stream_options: { include_usage: true },
  });
  for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? '';
  await stop();
  const [line] = recorded(data);
  const answer = JSON.parse(line?.answer as string);
  expect(text).not.toBe('');
  expect(answer).toMatchObject({ object: 'stream', choices: [{ message: { content: text } }] });
  expect([line?.outcome, typeof line?.ttft]).toEqual(['answer', 'number']);
  expect((line as { usage: { completion: number } }).usage.completion).toBe(answer.usage.completion);
});

test('what the server sends goes on byte for byte, in the chunks and with the comments that it sent', async () => {
  const sent = [
    ': a comment\n\n',
    event({ role: 'assistant', content: '' }),
    event({ content: 'héllo' }).replace('\n\n', '\r\n\r\n'),
    event({ content: '\u2028<script>' }),
    event({}, 'stop', { usage: { prompt_tokens: 3, completion_tokens: 2 } }),
    'data: [DONE]\n\n',
  ];
  const server = await serve(one => void stream(one, sent), { models: ['m'] });
  const { url } = await served({ endpoints: [server.url] });
  const reply = await post(url, { ...ask('x', { stream: true }), model: 'm' });
  expect(reply.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(await reply.text()).toBe(sent.join(''));
});

test('the body goes on as it came, numbers that JavaScript cannot hold among it', async () => {
  const bodies: string[] = [];
  const server = await serve(
    one => {
      bodies.push(one.body);
      one.answer('yes');
    },
    { models: ['m'] },
  );
  const { url } = await served({
    endpoints: [server.url],
    gateway: { models: { alias: 'm' } },
  });
  const body = (model: string) =>
    `{ "seed": 12345678901234567890, "model": "${model}", "messages": [{"role":"user","content":"\\u00e9"}] }`;
  const send = (text: string) =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
    });
  expect([(await send(body('m'))).status, (await send(body('alias'))).status]).toEqual([200, 200]);
  expect(bodies).toEqual([body('m'), body('m')]);
  const twice = await send('{"model":"alias","model":"alias","messages":[]}');
  expect(twice.status).toBe(400);
});

test('an alias of several models shares them out by weight, the same for the same user, on record', async () => {
  const servers = await Promise.all(
    ['a', 'b'].map(model => serve(one => one.answer(model), { models: [model] })),
  );
  const { client, data, stop } = await served({
    endpoints: servers.map(({ url }) => url),
    gateway: { models: { best: [{ model: 'a', weight: 3 }, { model: 'b' }] } },
  });
  const openai = client();
  const said = async (user: string): Promise<string | null | undefined> =>
    (await openai.chat.completions.create(ask('x', { model: 'best', user }))).choices[0]?.message.content;
  const first: (string | null | undefined)[] = [];
  for (let n = 0; n < 60; n++) first.push(await said(`user ${n}`));
  for (let n = 0; n < 5; n++) expect(await said(`user ${n}`)).toBe(first[n]);
  const ofA = first.filter(model => model === 'a').length;
  expect(ofA).toBeGreaterThan(30);
  expect(ofA).toBeLessThan(60);
  await stop();
  expect(
    recorded(data)
      .slice(0, 60)
      .map(({ arm }) => arm),
  ).toEqual(first);
});

test('what a server refuses comes back as its own words; what no server has is a 404', async () => {
  const server = await serve(
    one => one.send(400, { error: { message: 'no such option', type: 'BadRequestError', code: 400 } }),
    { models: ['m'] },
  );
  const { url, client } = await served({ endpoints: [server.url] });
  const refused = await post(url, { ...ask('x'), model: 'm' });
  expect([refused.status, (await errorIn(refused)).message]).toEqual([400, 'no such option']);
  await expect(client().chat.completions.create(ask('x', { model: 'other' }))).rejects.toMatchObject({
    status: 404,
    code: 'model_not_found',
  });
  for (const body of [{}, { model: 7 }, { model: 'm', stream: 'yes' }, { model: '' }])
    expect((await post(url, body)).status).toBe(400);
});

test('a server that refuses our own key is no fault of the client', async () => {
  const server = await serve(one => one.send(401, { error: 'Unauthorized' }), { models: ['m'] });
  const { url, said } = await served({ endpoints: [server.url] });
  for (let n = 0; n < 25; n++) expect((await post(url, { ...ask(`x ${n}`), model: 'm' })).status).toBe(502);
  expect(said.join('\n')).toContain('refuses the key');
});

test.each([204, 302])('HTTP %i of a server is no answer to a client', async status => {
  const server = await serve(one => one.send(status, {}), { models: ['m'] });
  const { url } = await served({ endpoints: [server.url] });
  for (const stream of [false, true]) {
    const reply = await post(url, { ...ask('x', { stream }), model: 'm' });
    expect([reply.status, await reply.json()]).toMatchObject([502, { error: { type: 'server_error' } }]);
  }
});

test('asked again elsewhere before the first byte, and never after it', async () => {
  const flaky = await serve(one => one.cut(), { models: ['m'] });
  const sent = [event({ content: 'one' }), event({ content: 'two' }, 'stop'), 'data: [DONE]\n\n'];
  const good = await serve(one => void stream(one, sent), { models: ['m'] });
  const { url } = await served({ endpoints: [flaky.url, good.url] });
  const body = { ...ask('x', { stream: true }), model: 'm' };
  for (let n = 0; n < 4; n++) expect(await (await post(url, body)).text()).toBe(sent.join(''));

  const broken = await serve(
    one =>
      one.reset(
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n${sent[0]}`,
      ),
    { models: ['m'] },
  );
  const other = await served({ endpoints: [broken.url] });
  const text = await (await post(other.url, body)).text();
  expect(text.startsWith(sent[0] as string)).toBe(true);
  expect(JSON.parse(text.slice((sent[0] as string).length + 'data: '.length)).error.code).toBe('call-failed');
  expect(broken.asked).toBe(1);
});

test('a client that goes away frees the server', async () => {
  const server = await serve(one => one.ignore(), { models: ['m'] });
  const { url } = await served({ endpoints: [server.url] });
  const gone = new AbortController();
  const reply = fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    signal: gone.signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...ask('x'), model: 'm' }),
  }).catch(error => (error as Error).name);
  await server.reached(1);
  gone.abort();
  expect(await reply).toBe('AbortError');
  await server.dropped(1);
});

test('a runaway stream is cut off, with the finish reason length, and the record says why', async () => {
  const words = 'again and again ';
  const pieces = Array.from({ length: 400 }, () => event({ content: words }));
  const server = await serve(one => void stream(one, pieces), { models: ['m'] });
  const { client, url, data, stop } = await served({
    endpoints: [server.url],
    gateway: { runaway: { repeats: true, blanks: 100 } },
  });
  let finish: string | null | undefined;
  let length = 0;
  const chunks = await client().chat.completions.create({ ...ask('x'), model: 'm', stream: true as const });
  for await (const { choices } of chunks) {
    finish = choices[0]?.finish_reason ?? finish;
    length += choices[0]?.delta.content?.length ?? 0;
  }
  expect(finish).toBe('length');
  expect(length).toBeLessThan(400 * words.length);
  const text = await (await post(url, { ...ask('x', { stream: true }), model: 'm' })).text();
  expect(text).toContain(': cut off: the same 16 characters');
  await stop();
  const [line] = recorded(data);
  expect([line?.outcome, line?.finish, JSON.parse(line?.answer as string).cut]).toEqual([
    'answer',
    'length',
    expect.stringContaining('16 characters'),
  ]);
});

test('scopes, spent tokens, and no key in the ledger', async () => {
  const { url } = await simulated();
  const server = await served({ endpoints: [url] });
  const chat = keyOf(server.data, 'ann', ['chat'], { tokens_per_day: 1 });
  const batch = keyOf(server.data, 'bob', ['batch']);
  const statusOf = async (key: string) =>
    (await post(server.url, ask('x'), { authorization: `Bearer ${key}` })).status;
  expect([
    await statusOf(batch),
    await statusOf(chat),
    await statusOf(chat),
    await statusOf('fw_none'),
  ]).toEqual([403, 200, 429, 401]);
  await server.stop();
  const all = JSON.stringify(recorded(server.data));
  expect(all).toContain('"caller":"ann"');
  expect(all.includes(chat) || all.includes(batch)).toBe(false);
});

test('while no server is up or none has a place it says so, and when to ask again', async () => {
  const limits = { place: 50, firstByte: 60_000, answer: 60_000, stream: 60_000, tries: 3 };
  const none = await served({ endpoints: ['http://127.0.0.1:1/v1'], gateway: { limits } });
  const away = await post(none.url, ask('x'));
  expect([away.status, away.headers.get('retry-after')]).toEqual([503, '5']);

  const full = await serve(one => one.ignore(), { models: ['m'] });
  const { url } = await served({ endpoints: [full.url], limit: 1, gateway: { limits } });
  const first = post(url, { ...ask('x'), model: 'm' }).catch(() => null);
  await full.reached(1);
  const second = await post(url, { ...ask('y'), model: 'm' });
  expect([second.status, (await errorIn(second)).code]).toEqual([503, 'overloaded']);
  void first;
});

test('a day has a file of its own', async () => {
  let now = Date.parse('2026-11-22T23:59:59Z');
  const { url, data, stop } = await served({ now: () => now });
  await (await post(url, ask('before'))).text();
  now += 2_000;
  await (await post(url, ask('after'))).text();
  await stop();
  expect(readdirSync(join(data, 'gateway')).sort()).toEqual(['2026-11-22', '2026-11-23']);
  const bodies = recorded(data).map(({ request }) =>
    nonceIn(JSON.stringify((request as { body: object }).body)),
  );
  expect(bodies).toEqual(['before', 'after']);
});

test('while nothing can be put on record nothing is asked; when it can again, it is', async () => {
  const { url } = await simulated();
  const { url: gateway, data, said } = await served({ endpoints: [url] });
  const path = join(data, 'gateway');
  rmSync(path, { recursive: true, force: true });
  writeFileSync(path, 'no folder');
  for (let n = 0; n < 2; n++) {
    const reply = await post(gateway, ask('x'));
    expect([reply.status, (await errorIn(reply)).code]).toEqual([507, 'insufficient_storage']);
  }
  expect(said.filter(line => line.includes('until it can be recorded'))).toHaveLength(1);
  rmSync(path);
  await expect.poll(async () => (await post(gateway, ask('x'))).status).toBe(200);
  expect(recorded(data)).toHaveLength(1);
});

test('with cache, a request that is always answered alike is asked once; each one is on record', async () => {
  let now = Date.now();
  const server = await serve(one => one.answer(`answer ${one.n}`), { models: ['m'] });
  const options = { endpoints: [server.url], gateway: { cacheFor: 60_000 }, now: () => now };
  const { url, data, stop } = await served(options);
  const said = async (more: object) => {
    const reply = await post(url, { ...ask('x'), model: 'm', ...more });
    const { choices } = (await reply.json()) as { choices: { message: { content: string } }[] };
    return [choices[0]?.message.content, reply.headers.get('x-fw-cache'), reply.headers.get('age')];
  };
  expect(await said({ temperature: 0 })).toEqual(['answer 1', null, null]);
  now += 5_000;
  expect(await said({ temperature: 0 })).toEqual(['answer 1', 'hit', '5']);
  expect(await said({ temperature: 0.7 })).toEqual(['answer 2', null, null]);
  expect(await said({ temperature: 0.7 })).toEqual(['answer 3', null, null]);
  expect(await said({ temperature: 0, max_tokens: 3 })).toEqual(['answer 4', null, null]);
  now += 60_000;
  expect(await said({ temperature: 0 })).toEqual(['answer 5', null, null]);
  await stop();
  const lines = recorded(data);
  expect(lines.map(({ endpoint }) => endpoint === 'cache')).toEqual([
    false,
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(lines[1]?.usage).toEqual({ prompt: 0, completion: 0 });
});

test('an answer in the cache is of the owner that asked', async () => {
  const server = await serve(one => one.answer(`answer ${one.n}`), { models: ['m'] });
  const data = folder();
  const [ann, annToo, bob] = [keyOf(data, 'ann'), keyOf(data, 'ann'), keyOf(data, 'bob')];
  const { url } = await served({ data, endpoints: [server.url], gateway: { cacheFor: 60_000 } });
  const hits: (string | null)[] = [];
  for (const key of [ann, annToo, bob]) {
    const reply = await post(url, { ...ask('x'), model: 'm', seed: 1 }, { authorization: `Bearer ${key}` });
    await reply.text();
    hits.push(reply.headers.get('x-fw-cache'));
  }
  expect(hits).toEqual([null, 'hit', null]);
});

test('nobody goes before the others by a priority', async () => {
  const server = await serve(one => one.answer('yes'), { models: ['m'] });
  const { url } = await served({ endpoints: [server.url] });
  const statusOf = async (priority: string): Promise<number> => {
    const text = JSON.stringify({ ...ask('x'), model: 'm' });
    const body = `${text.slice(0, -1)},"priority":${priority}}`;
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).status;
  };
  for (const wrong of ['-1', '"-5"', '"5"', '-0.5', '-1e400', '[-1]', 'true', '18446744073709551615'])
    expect(await statusOf(wrong), wrong).toBe(400);
  for (const fine of ['0', '7', 'null']) expect(await statusOf(fine), fine).toBe(200);
});

test('nothing of a client but the body reaches a server: no header, no second request in a body', async () => {
  const seen: Ask[] = [];
  const server = await serve(
    one => {
      seen.push(one);
      one.answer('yes');
    },
    { models: ['m'] },
  );
  const { url, data } = await served({ endpoints: [server.url] });
  const key = keyOf(data, 'ann', ['chat']);
  const body = JSON.stringify({ ...ask('x'), model: 'm' });
  /** What is said until it is all that was to be said, or this server ends it: a connection is kept for some seconds. */
  const sent = (head: string, rest: string, all: RegExp): Promise<string> =>
    new Promise(resolve => {
      const { port, hostname } = new URL(url);
      let said = '';
      const socket = connect(Number(port), hostname, () =>
        socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n${head}\r\n\r\n${rest}`),
      );
      socket.on('data', chunk => {
        said += chunk;
        if (all.test(said)) socket.destroy();
      });
      socket.on('close', () => resolve(said));
    });
  const own = `authorization: Bearer ${key}\r\ncontent-type: application/json\r\nx-evil: 1\r\ncookie: a=b`;
  const second = 'POST /v1/load_lora_adapter HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n';
  const length = (more: number): string => `content-length: ${Buffer.byteLength(body) + more}`;
  // a body that is longer than it says is another request to this server, which has no key
  const two = /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 401 /;
  expect(await sent(`${own}\r\n${length(0)}`, body + second, two)).toMatch(two);
  const refused = /^HTTP\/1\.1 400 /;
  for (const head of [
    `${own}\r\n${length(0)}\r\ntransfer-encoding: chunked`,
    `${own}\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity`,
    `${own}\r\n${length(0)}\r\n${length(1)}`,
    `${own}\r\ntransfer-encoding : chunked`,
    `${own}\r\ncontent-length: +5`,
  ])
    expect(await sent(head, `0\r\n\r\n${second}`, refused)).toMatch(refused);
  expect(seen.map(one => one.body)).toEqual([body]);
  expect(Object.keys(seen[0]?.headers ?? {}).sort()).toEqual([
    'connection',
    'content-length',
    'content-type',
    'host',
    'x-request-id',
  ]);
});
