/** Several tenants at one gateway: whose turn it is, and what each may have. Orders and counts, no times. */
import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type KeyRecord, openKeys, readKeys, writeKeys } from '../../products/serve/api-keys.ts';
import { folder, shell } from '../fw.ts';
import { type Ask, nonceIn, serve } from '../pool/serving.ts';
import { begin, lineOf, linesIn, linesOf, reached } from './batching.ts';
import { configured } from './reloading.ts';
import { keyOf, MODEL, served, simulated } from './serving.ts';

const post = (url: string, key: string, content: string, more: object = {}) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }], max_tokens: 20, ...more }),
  });

const errorIn = async (reply: Response) =>
  ((await reply.json()) as { error: { message: string; code: string; type: string } }).error;

/** A server that answers when it is told to, in the order in which it was asked. */
async function patient() {
  const open: Ask[] = [];
  const order: string[] = [];
  const server = await serve(
    one => {
      open.push(one);
      order.push(nonceIn(one.body));
    },
    { models: ['m'] },
  );
  /** Answers what is open, until `count` were answered. */
  async function answer(count: number): Promise<void> {
    for (let done = 0; done < count; ) {
      const next = open.shift();
      if (next === undefined) await new Promise(setImmediate);
      else {
        next.answer('yes', { usage: { prompt_tokens: 5, completion_tokens: 5 } });
        done += 1;
      }
    }
  }
  return { ...server, order, answer };
}

test('keys take turns at the gateway: one with many requests at a time holds up nobody', async () => {
  const server = await patient();
  const { url, data } = await served({ endpoints: [server.url], limit: 4 });
  const [ann, bob] = [keyOf(data, 'ann'), keyOf(data, 'bob')];
  const many = Array.from({ length: 60 }, (_, n) => post(url, ann, `ann ${n}`));
  await server.reached(4);
  // all of ann's are known to the gateway before bob comes
  await waiting(url, keyOf(data, 'looks', ['metrics']), 56);
  const few = Array.from({ length: 5 }, (_, n) => post(url, bob, `bob ${n}`));
  await waiting(url, keyOf(data, 'looks', ['metrics']), 61);
  await server.answer(65);
  expect((await Promise.all([...many, ...few])).map(({ status }) => status)).toEqual(Array(65).fill(200));
  const places = server.order.flatMap((name, at) => (name.startsWith('bob') ? [at] : []));
  // every second one behind the four that were there, so long as he has any
  expect(places).toEqual([5, 7, 9, 11, 13]);
});

/** Until so many calls wait for a place. */
async function waiting(url: string, key: string, count: number): Promise<void> {
  for (;;) {
    const page = await (
      await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })
    ).text();
    if (Number(/^fw_calls_waiting (\d+)$/m.exec(page)?.[1]) >= count) return;
    await new Promise(setImmediate);
  }
}

test('a key with `parallel` has so many requests at a time, and is told when to come back', async () => {
  const server = await patient();
  const { url, data } = await served({ endpoints: [server.url] });
  const [ann, bob] = [keyOf(data, 'ann', ['chat'], { parallel: 2 }), keyOf(data, 'bob')];
  const first = [post(url, ann, 'a'), post(url, ann, 'b', { stream: false })];
  await server.reached(2);
  const third = await post(url, ann, 'c');
  expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1']);
  expect(await errorIn(third)).toMatchObject({ code: 'rate_limit_exceeded', type: 'requests' });
  const other = post(url, bob, 'd');
  await server.answer(3);
  await Promise.all([...first, other]);
  const again = post(url, ann, 'e');
  await server.answer(1);
  expect((await again).status).toBe(200);
});

const day = Date.UTC(2026, 5, 1);

test('tokens a minute and a day: headers and 429 as OpenAI has them, for chat, streams and embeddings', async () => {
  let now = day + 12 * 3_600_000;
  const server = await serve(
    one => one.answer('yes', { usage: { prompt_tokens: 40, completion_tokens: 20 } }),
    { models: ['m'] },
  );
  const { url, data } = await served({ endpoints: [server.url], now: () => now });
  const minute = keyOf(data, 'ann', ['chat'], { rpm: 10, tpm: 100 });
  const first = await post(url, minute, 'x');
  const headersOf = (reply: Response) =>
    Object.fromEntries([...reply.headers].filter(([name]) => name.startsWith('x-ratelimit')));
  expect(first.status).toBe(200);
  expect(headersOf(first)).toMatchObject({
    'x-ratelimit-limit-requests': '10',
    'x-ratelimit-remaining-requests': '9',
    'x-ratelimit-reset-requests': '6s',
    'x-ratelimit-limit-tokens': '100',
  });
  expect((await post(url, minute, 'x')).status).toBe(200); // 120 of 100 are used
  const refused = await post(url, minute, 'x');
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '13']);
  expect(await errorIn(refused)).toMatchObject({ code: 'rate_limit_exceeded', type: 'tokens' });
  expect(headersOf(refused)).toMatchObject({
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-remaining-requests': '7',
  });
  now += 13_000;
  expect((await post(url, minute, 'x')).status).toBe(200);

  const ofDay = keyOf(data, 'bob', ['chat'], { tokens_per_day: 100 });
  expect((await post(url, ofDay, 'x')).headers.get('x-ratelimit-reset-tokens')).toBe('11h59m47s');
  expect((await post(url, ofDay, 'x')).status).toBe(200);
  const spent = await post(url, ofDay, 'x');
  expect([spent.status, spent.headers.get('retry-after')]).toEqual([429, String(12 * 3600 - 13)]);
  now = day + 24 * 3_600_000;
  expect((await post(url, ofDay, 'x')).status).toBe(200);
});

test('what calls in flight may need is reserved: others are told to come back, and what was not needed is given back', async () => {
  const server = await patient();
  const { url, data } = await served({ endpoints: [server.url] });
  const ann = keyOf(data, 'ann', ['chat'], { tokens_per_day: 60 });
  const first = post(url, ann, 'x', { max_tokens: 50 });
  await server.reached(1);
  const second = await post(url, ann, 'y');
  expect([second.status, second.headers.get('retry-after')]).toEqual([429, '1']);
  await server.answer(1);
  expect((await first).status).toBe(200);
  const third = post(url, ann, 'z');
  await server.answer(1);
  expect((await third).status).toBe(200);
});

test('a stream without usage is charged for its prompt, as its record says', async () => {
  const { client, data, stop } = await served();
  const ann = keyOf(data, 'ann', ['chat'], { tokens_per_day: 30 });
  const openai = client(ann);
  const ask = {
    model: MODEL,
    messages: [{ role: 'user' as const, content: 'x'.repeat(400) }],
    max_tokens: 5,
  };
  for await (const _chunk of await openai.chat.completions.create({ ...ask, stream: true })) {
    // to its end
  }
  await expect(openai.chat.completions.create(ask)).rejects.toMatchObject({ status: 429, type: 'tokens' });
  await stop();
});

test('a batch ends where its key has used the tokens of its day: each other line says so', async () => {
  const { client, data, said } = await served({ limit: 4 });
  const openai = client(keyOf(data, 'small', ['batch'], { tokens_per_day: 200 }));
  const done = await reached(openai, (await begin(openai, linesOf(400))).id);
  expect(done.status).toBe('completed');
  const { completed = 0, failed = 0 } = done.request_counts ?? {};
  expect(completed).toBeGreaterThan(0);
  expect(completed + failed).toBe(400);
  const lines = [
    ...(await linesIn(openai, done.output_file_id)),
    ...(await linesIn(openai, done.error_file_id)),
  ];
  expect(new Set(lines.map(one => one.custom_id)).size).toBe(400);
  const codes = new Set(lines.slice(completed).map(({ error }) => error?.code));
  expect([...codes]).toEqual(['rate_limit_exceeded']);
  // a line reserves what it may need, so that one alone is in flight at the end
  const most = Math.max(...lines.slice(0, completed).map(one => one.response?.body.usage?.total_tokens ?? 0));
  const used = done.usage?.total_tokens ?? 0;
  expect(used).toBeGreaterThanOrEqual(200);
  expect(used).toBeLessThan(200 + most);
  expect(said.join()).toContain(`${done.id} ends: its key has used the tokens of its day`);
});

test('lines wait for their minute, and the batch goes on; a cancel and a stop end them, too', async () => {
  let now = day;
  const { client, data, stop } = await served({ now: () => now });
  const secret = keyOf(data, 'ann', ['batch'], { tpm: 100 });
  const openai = client(secret);
  const { id } = await begin(openai, linesOf(30));
  const some = await reached(openai, id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
  expect(some.status).toBe('in_progress');
  for (let done = some; done.status !== 'completed'; done = await openai.batches.retrieve(id)) now += 60_000;
  const other = await begin(openai, linesOf(30, 100));
  await reached(openai, other.id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
  await openai.batches.cancel(other.id);
  expect((await reached(openai, other.id)).status).toBe('cancelled');
  now += 60_000;
  const last = await begin(openai, linesOf(30, 200));
  await reached(openai, last.id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
  await stop();
  now += 3_600_000;
  const again = (await served({ data, now: () => now })).client(secret);
  const held = await again.batches.retrieve(last.id);
  expect([held.status, held.request_counts?.total]).toEqual(['in_progress', 30]);
});

test('a revoked key stops its batches; one that cannot be read stops none', async () => {
  const { simulator, url } = await simulated({ latency: '20ms' });
  const { client, data, said } = await served({ endpoints: [url], limit: 2 });
  const [ann, looks] = [client(keyOf(data, 'ann')), client(keyOf(data, 'ann'))];
  const { id } = await begin(ann, linesOf(500));
  await reached(ann, id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
  const keys = readKeys(data) ?? [];
  rmSync(join(data, 'keys.json'));
  const answers = simulator.counts().answers;
  while (simulator.counts().answers < answers + 20) await new Promise(resolve => setTimeout(resolve, 5));
  writeKeys(data, keys);
  expect((await looks.batches.retrieve(id)).status).toBe('in_progress');
  writeKeys(
    data,
    keys.map((one, at) => (at === 0 ? { ...one, revoked: Math.floor(Date.now() / 1000) } : one)),
  );
  expect(await reached(looks, id)).toMatchObject({ status: 'cancelled' });
  expect(said.join()).toContain(`${id} is cancelled: its key ${keys[0]?.id}`);
});

test('models and an end of a key, by the command', async () => {
  let now = Date.now();
  const { url, data, client } = await served({ now: () => now });
  const made = await shell(
    `fw keys add ann --models ${MODEL},other --expires 2d --tpm 5000 --parallel 3 --data ${data}`,
  );
  const key = made.stdout.trim();
  const none = keyOf(data, 'bob', ['chat', 'batch'], { models: ['other'] });
  expect((await post(url, key, 'x', { model: MODEL })).status).toBe(200);
  const refused = await post(url, none, 'x', { model: MODEL });
  expect([refused.status, (await errorIn(refused)).code]).toEqual([404, 'model_not_found']);
  expect((await client(none).models.list()).data).toEqual([]);
  expect(await client(key).models.retrieve(MODEL)).toMatchObject({ id: MODEL, object: 'model' });
  for (const [who, name] of [
    [none, MODEL],
    [key, 'a/b'],
  ] as const)
    await expect(client(who).models.retrieve(name)).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  expect((await client(key).models.list()).data.map(({ id }) => id)).toEqual([MODEL]);
  const failed = await reached(client(none), (await begin(client(none), `${lineOf('a')}\n`)).id);
  expect(failed).toMatchObject({
    status: 'failed',
    errors: { data: [{ code: 'model_not_found', line: 1 }] },
  });
  now += 2 * 24 * 3_600_000 + 600_000;
  expect((await post(url, key, 'x', { model: MODEL })).status).toBe(401);
  expect((await shell(`fw keys add x --expires yesterday --data ${data}`)).code).toBe(64);
  expect((await shell(`fw keys add x --expires 2020-01-01 --data ${data}`)).code).toBe(64);
});

test('budgets outlive a restart, a torn line of their file, and its loss', async () => {
  const { url } = await simulated();
  const data = folder();
  const key = keyOf(data, 'ann', ['chat'], { tokens_per_day: 20 });
  const first = await served({ endpoints: [url], data });
  const ask = (at: string) => post(at, key, 'x', { model: MODEL });
  while ((await ask(first.url)).status === 200);
  await first.stop();
  for (const harm of [
    () => {},
    () => appendFileSync(join(data, 'budgets.jsonl'), '\n{"mark":null,"keys":{"key_'),
    () => rmSync(join(data, 'budgets.jsonl')),
  ]) {
    harm();
    const again = await served({ endpoints: [url], data });
    expect((await ask(again.url)).status).toBe(429);
    await again.stop();
  }
});

test('who spent what: the export names owner, arm and time to the first token; cost by key, model and day; /metrics', async () => {
  const { url } = await simulated();
  const {
    client,
    data,
    url: at,
    stop,
  } = await served({
    endpoints: [url],
    gateway: {
      models: {
        best: [
          { model: MODEL, weight: 1 },
          { model: 'none', weight: 0 },
        ],
      },
    },
  });
  const [ann, bob] = [client(keyOf(data, 'ann')), client(keyOf(data, 'bob'))];
  const ask = { model: 'best', messages: [{ role: 'user' as const, content: 'x' }], max_tokens: 5 };
  for await (const _chunk of await ann.chat.completions.create({ ...ask, stream: true }));
  await ann.embeddings.create({ model: MODEL, input: 'x' });
  const batch = await reached(bob, (await begin(bob, linesOf(7))).id);
  const headers = { authorization: `Bearer ${keyOf(data, 'looks', ['metrics'])}` };
  const page = await (await fetch(`${at}/metrics`, { headers })).text();
  const value = (name: string): number =>
    Number(
      page
        .split('\n')
        .find(line => line.startsWith(`${name} `))
        ?.split(' ')[1],
    );
  const where = `endpoint="${url}",model="${MODEL}"`;
  expect([
    value(`fw_calls_total{${where},kind="live",outcome="answer"}`),
    value(`fw_calls_total{${where},kind="batch",outcome="answer"}`),
    value(`fw_call_seconds_count{${where},kind="batch"}`),
    value(`fw_tokens_total{model="${MODEL}",kind="batch",direction="completion"}`),
  ]).toEqual([2, 7, 7, batch.usage?.output_tokens]);
  expect(page).not.toMatch(/ann|bob|key_/);
  await stop();
  const exported = (await shell(`fw ledger export --ledger ${data}/gateway`)).stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(exported[0]).toMatchObject({ owner: 'ann', arm: MODEL, ttft_ms: expect.any(Number) });
  const cost = async (args: string) =>
    JSON.parse((await shell(`fw ledger cost --json --ledger ${data} ${args}`)).stdout);
  const { groups, total } = await cost(`--by key,model,day --price ${MODEL}=1000000/2000000`);
  const day = new Date().toISOString().slice(0, 10);
  expect(groups).toMatchObject([
    { key: 'ann', model: MODEL, day, tries: 2 },
    {
      key: 'bob',
      model: MODEL,
      day,
      tries: 7,
      in: batch.usage?.input_tokens,
      out: batch.usage?.output_tokens,
    },
  ]);
  expect(total.cost).toBe(total.in + 2 * total.out);
  const table = (await shell(`fw ledger cost --ledger ${data} --by key --price other=1/2`)).stdout;
  expect(table).toContain(`without a price, and in no cost: ${MODEL}`);
  for (const wrong of ['--by keys', '--by key,key', '--price x', '--by key --price m=1'])
    expect((await shell(`fw ledger cost --ledger ${data} ${wrong}`)).code).toBe(64);
});

test('what calls cost is in /metrics, by the price of each endpoint, and follows the file', async () => {
  const [token, hour] = [await simulated(), await simulated({ model: 'other' })];
  const poolOf = (price: string): string =>
    `pool: { endpoints: [{ url: "${token.url}", price: ${price} }, { url: "${hour.url}", price: 2.5 }] }\n`;
  const server = await configured(poolOf('1000000/2000000'));
  const page = async (): Promise<string> => (await fetch(`${server.url}/metrics`)).text();
  const ask = async (model: string): Promise<{ prompt_tokens: number; completion_tokens: number }> => {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }], max_tokens: 5 });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers, body });
    return ((await answer.json()) as { usage: { prompt_tokens: number; completion_tokens: number } }).usage;
  };
  expect(await page()).not.toContain('fw_cost_total{');
  const one = await ask(MODEL);
  await ask('other');
  const where = `fw_cost_total{endpoint="${token.url}",model="${MODEL}",kind="live"}`;
  let cost = one.prompt_tokens + 2 * one.completion_tokens;
  expect(await page()).toContain(`${where} ${cost}\n`);
  expect(await page()).toContain(`fw_endpoint_hour_price{endpoint="${hour.url}"} 2.5\n`);
  expect(await page()).not.toContain(`fw_cost_total{endpoint="${hour.url}"`);
  await server.again(poolOf('3000000/2000000'));
  const two = await ask(MODEL);
  cost += 3 * two.prompt_tokens + 2 * two.completion_tokens;
  expect(await page()).toContain(`${where} ${cost}\n`);
});

test('a stream whose client goes away is charged for what came of it', async () => {
  const server = await serve(
    ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const delta = { content: 'word ' };
      const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
      response.write(event.repeat(30));
    },
    { models: ['m'] },
  );
  const { url, data, stop } = await served({ endpoints: [server.url] });
  const ann = keyOf(data, 'ann', ['chat'], { tokens_per_day: 60 });
  const gone = new AbortController();
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${ann}` },
    body: JSON.stringify({
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content: 'x'.repeat(200) }],
    }),
    signal: gone.signal,
  });
  let text = '';
  for await (const chunk of reply.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    if (text.split('data:').length > 30) break;
  }
  gone.abort();
  await server.dropped(1);
  for (;;) {
    const next = await post(url, ann, 'y', { stream: true });
    if (next.status === 429 && next.headers.get('retry-after') !== '1') break; // the day is spent
    await next.body?.cancel();
  }
  await stop();
  const { stdout } = await shell(`fw ledger export --ledger ${data}/gateway --outcome interrupted`);
  expect(JSON.parse(stdout.split('\n', 1)[0] as string).tokens).toMatchObject({ out: 30 });
});

test('lines of a batch name aliases: each is asked of the model that a chat with it would be', async () => {
  const servers = await Promise.all(
    ['a', 'b'].map(model => serve(one => one.answer(JSON.parse(one.body).model), { models: [model] })),
  );
  const { client } = await served({
    endpoints: servers.map(({ url }) => url),
    gateway: { models: { best: [{ model: 'a' }, { model: 'b' }], one: 'a' } },
  });
  const openai = client();
  const users = Array.from({ length: 30 }, (_, n) => `user ${n}`);
  const lines = users.map(user => lineOf(user, { model: 'best', user }));
  const text = `${[...lines, lineOf('one', { model: 'one' }), lineOf('b', { model: 'b' })].join('\n')}\n`;
  const done = await reached(openai, (await begin(openai, text)).id);
  expect(done).toMatchObject({
    status: 'completed',
    model: null,
    request_counts: { completed: 32, failed: 0 },
  });
  const said = (await linesIn(openai, done.output_file_id)).map(
    ({ response }) => response?.body.choices[0]?.message.content,
  );
  expect(new Set(said.slice(0, 30))).toEqual(new Set(['a', 'b']));
  expect(said.slice(30)).toEqual(['a', 'b']);
  for (const [n, user] of users.slice(0, 5).entries()) {
    const messages = [{ role: 'user' as const, content: 'x' }];
    const chat = await openai.chat.completions.create({ model: 'best', user, messages });
    expect(chat.choices[0]?.message.content).toBe(said[n]);
  }
});

test('while the key file cannot be read no key is valid, and what it limited holds; one that was taken out by hand has ended', async () => {
  const data = folder();
  keyOf(data, 'ann', ['batch'], { rpm: 5 });
  keyOf(data, 'bob', ['batch'], { rpm: 7 });
  const ring = openKeys(data, () => {});
  const path = join(data, 'keys.json');
  const [ann, bob] = readKeys(data) as KeyRecord[] as [KeyRecord, KeyRecord];
  expect(ring.withId(ann.id)?.rpm).toBe(5);
  const nextTurn = () => new Promise(setImmediate);
  const whole = readFileSync(path, 'utf8');
  for (const spoil of [() => writeFileSync(path, '{"keys": ['), () => rmSync(path)]) {
    spoil();
    await nextTurn();
    expect([ring.withId(ann.id), ring.lastKnown(ann.id)?.rpm, ring.endOf(ann.id)]).toEqual([null, 5, null]);
  }
  const { keys, ...rest } = JSON.parse(whole);
  writeFileSync(
    path,
    JSON.stringify({ ...rest, keys: keys.filter(({ id }: { id: string }) => id !== ann.id) }),
  );
  await nextTurn();
  expect([ring.endOf(ann.id), ring.endOf(bob.id), ring.withId(bob.id)?.rpm]).toEqual([0, null, 7]);
});

test('a key that is limited in a way that only a newer version knows is not read as if it had no limit', () => {
  const data = folder();
  keyOf(data, 'ann', ['batch']);
  const path = join(data, 'keys.json');
  const [ann] = readKeys(data) as KeyRecord[] as [KeyRecord];
  const write = (key: object) => writeFileSync(path, JSON.stringify({ keys: [key] }));
  write({ ...ann, calls_per_week: 5 });
  expect(() => readKeys(data)).toThrow(
    `found "calls_per_week" at ${ann.id} of ann, which a newer one may have written: serve this folder with that one`,
  );
  const said: string[] = [];
  expect(openKeys(data, words => said.push(words)).withId(ann.id)).toBe(null);
  expect(said[0]).toContain('no key is valid');
  write({ ...ann, calls_per_week: 5, revoked: 1 });
  expect(readKeys(data)).toHaveLength(1);
});
