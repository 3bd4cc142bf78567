/** The start of a run: what is there, which model is meant, and what is said where nothing is. */
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { manualClock } from './clock.ts';
import { askUntil, callOf, deadUrl, errorOf, open, QUICK, serve } from './serving.ts';

const nothing = () => {};
const key = { name: '$FW_API_KEY', read: () => 'sk-secret' };

test('the model is what the endpoints agree on', async () => {
  const [a, b] = [await serve(nothing), await serve(nothing, { models: ['m', 'lora'] })];
  const pool = await open([a.url, b.url]);
  expect([pool.model, pool.maxModelLength, pool.itemsInFlight]).toEqual(['m', 4096, 32]);
  expect((await open([a.url], { inFlight: 5 })).itemsInFlight).toBe(5);
});

test('where they do not agree, a person must say; what is said must be served', async () => {
  const [a, b] = [
    await serve(nothing, { models: ['one', 'x'] }),
    await serve(nothing, { models: ['two', 'x', 'one'] }),
  ];
  const error = (await errorOf(open([a.url, b.url]))) as Fatal;
  expect(error.exit).toBe(64);
  for (const words of [`${a.url}: one, x`, `${b.url}: two, x, one`, '--model'])
    expect(error.message).toContain(words);

  const wrong = (await errorOf(open([a.url, b.url], { model: 'three' }))) as Fatal;
  expect(wrong.exit).toBe(64);
  expect(wrong.message).toContain('model three');
  expect(wrong.message).toContain(`${a.url}: one, x`);

  const pool = await open([a.url, b.url], { model: 'two' });
  expect(pool.stats().endpoints.map(({ state }) => state)).toEqual(['unusable', 'up']);
  expect(pool.warnings).toEqual([expect.stringContaining('it serves one, x, not two')]);
});

test('endpoints that are dead at the start are named once, and the rest goes on', async () => {
  const fake = await serve(ask => ask.answer('hi'));
  const dead = await deadUrl();
  const pool = await open([dead, fake.url]);
  expect(pool.warnings).toEqual([`continuing with 1 of 2 endpoints, without ${dead} (connection refused)`]);
  expect((await pool.call(callOf())).text).toBe('hi');
});

test('of many that are dead the first are named', async () => {
  const fake = await serve(ask => ask.answer('hi'));
  const dead = new URL(await deadUrl());
  const others = Array.from({ length: 40 }, (_, at) => `http://127.0.1.${at + 1}:${dead.port}/v1`);
  const { warnings } = await open([fake.url, ...others]);
  expect(warnings).toEqual([
    expect.stringMatching(/^continuing with 1 of 41 endpoints, without .+, and 32 more$/),
  ]);
  expect((await errorOf(open(others))).message).toContain('\n  and 20 more\n');
});

test('a dead endpoint that comes up later takes calls', async () => {
  const fake = await serve(ask => ask.answer('first'));
  const late = await serve(nothing);
  await late.close();
  const pool = await open([
    { url: fake.url, limit: 1 },
    { url: late.url, limit: 1 },
  ]);
  const back = await serve(ask => ask.answer('late'), { port: late.port });
  await askUntil(pool, () => back.asked > 0);
  expect(pool.warnings.at(-1)).toBe(`${late.url} is up`);
});

test('none usable: 69, each URL with its cause in words', async () => {
  const json = (status: number, body: string) => ({
    onModels: (response: import('node:http').ServerResponse) => void response.writeHead(status).end(body),
  });
  const lost = await serve(nothing, json(404, '{}'));
  const html = await serve(nothing, json(200, '<html>'));
  const other = await serve(nothing, json(200, '{"models":[]}'));
  const wrong = await serve(nothing, json(401, '{"error":"no such key sk-secret"}'));
  const loading = await serve(nothing, json(503, ''));
  const broken = await serve(nothing, json(500, '{"error":{"message":"worker sk-secret died"}}'));
  const bare = await serve(nothing, {
    prefix: '',
    onModels: (response, path) =>
      void (path === '/v1/models' ? response.end('{"data":[{"id":"m"}]}') : response.writeHead(404).end()),
  });
  const raw = createServer(socket => socket.end('SSH-2.0-OpenSSH\r\n'));
  await new Promise<void>(resolve => raw.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void raw.close());
  const ssh = `http://127.0.0.1:${(raw.address() as { port: number }).port}/v1`;
  const nowhere = 'http://nowhere.invalid/v1';
  const refused = await deadUrl(); // last, or its port is taken again by one of the others
  const urls = [refused, lost, html, other, wrong, loading, broken, bare].map(one =>
    typeof one === 'string' ? one : one.url,
  );

  // looking takes no time, or the message would say how long it was waited
  const clock = { ...systemClock, now: () => 0 };
  const error = (await errorOf(open([...urls, ssh, nowhere], { key, clock }))) as Fatal;
  expect(error.exit).toBe(69);
  const told = (url: string) => error.message.split('\n').find(line => line.startsWith(`  ${url}: `)) ?? '';
  expect(told(refused)).toContain('connection refused');
  expect(told(lost.url)).toContain(`HTTP 404 at ${lost.url}/models: is the path right?`);
  expect(told(html.url)).toContain('is an HTML page: is it the server, or a proxy or a login before it?');
  expect(told(other.url)).toContain('no OpenAI-style list');
  expect(told(wrong.url)).toContain('HTTP 401: the key of $FW_API_KEY was refused');
  expect(told(loading.url)).toContain('still loading');
  expect(told(broken.url)).toContain('HTTP 500');
  expect(told(broken.url)).toContain('worker *** died');
  expect(told(bare.url)).toContain(`did you mean ${bare.url}/v1?`);
  expect(told(ssh)).toContain('not HTTP');
  expect(told(nowhere)).toContain('no such host');
  expect(error.message).toContain('--wait 10m');
  expect(error.message).not.toContain('sk-secret');
});

test('a server that accepts and says nothing is given up after 5 s, a refused connection is not waited for', async () => {
  const clock = manualClock();
  let asked = nothing;
  const reached = new Promise<void>(resolve => {
    asked = resolve;
  });
  const silent = await serve(nothing, { onModels: () => asked() });
  const opening = errorOf(open([silent.url], { clock, timing: {} }));
  await reached;
  clock.pass(5_000);
  expect((await opening).message).toContain(`${silent.url}: no answer within 5 s`);
});

test('a server that puts the key into the names of its models does not get it shown', async () => {
  const key = { name: '$FW_API_KEY', read: () => 'sk-SECRET123' };
  const [a, b] = [await serve(nothing, { models: ['m-sk-SECRET123'] }), await serve(nothing)];
  const alone = (await errorOf(open([a.url], { key }))) as Fatal;
  expect(alone.message).toContain(`${a.url}: m-***`);
  const wrong = (await errorOf(open([a.url], { key, model: 'm' }))) as Fatal;
  expect(wrong.message).toContain(`${a.url}: m-***`);
  const pool = await open([a.url, b.url], { key, model: 'm' });
  expect(pool.warnings.join()).toContain('it serves m-***, not m');
  expect(alone.message + wrong.message + pool.warnings.join()).not.toContain('SECRET');
});

test('without a key, a server that wants one is understood', async () => {
  const fake = await serve(nothing, { onModels: response => void response.writeHead(401).end() });
  expect((await errorOf(open([fake.url]))).message).toContain('set FW_API_KEY');
});

test('--wait asks again until a server has loaded, says so once a minute, and stops at the end', async () => {
  // The pause between two looks is over at once, having taken its time; a probe takes none.
  const still = manualClock();
  const clock = {
    ...still,
    after(ms: number, run: () => void) {
      if (ms >= 5_000) return still.after(ms, run);
      const pause = setImmediate(() => {
        still.pass(ms, ms);
        run();
      });
      return () => clearImmediate(pause);
    },
  };
  let asked = 0;
  const fake = await serve(nothing, {
    onModels: response => {
      if (++asked <= 100) response.writeHead(503).end();
      else response.end('{"data":[{"id":"m"}]}');
    },
  });
  const pool = await open([fake.url], { clock, wait: 600_000 });
  expect(asked).toBe(101);
  expect(pool.warnings).toEqual([
    `waited 60 s of 600 s for an endpoint: ${fake.url}: HTTP 503: it is still loading, or overloaded`,
    `waited 120 s of 600 s for an endpoint: ${fake.url}: HTTP 503: it is still loading, or overloaded`,
  ]);

  asked = 0;
  const error = (await errorOf(open([fake.url], { clock, wait: 3_000 }))) as Fatal;
  expect([error.exit, asked]).toEqual([69, 3]);
  expect(error.message).toContain('after 3 s');
});

test('a stop ends the wait', async () => {
  const stopping = new AbortController();
  const opening = errorOf(open([await deadUrl()], { wait: 600_000, signal: stopping.signal, timing: QUICK }));
  stopping.abort();
  expect(await opening).toMatchObject({ code: 'interrupted' });
});
