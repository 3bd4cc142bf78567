/** Endpoints that come and go while a pool works: nothing in flight is lost, and nothing new goes to what was taken out. */
import { expect, test } from 'vitest';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { type Ask, callOf, echo, errorOf, open, outcome, serve, until } from './serving.ts';

const setting = (url: string, limit?: number) => ({ url, limit: limit ?? 8, pinned: limit !== undefined });
const stateOf = (pool: EndpointPool, url: string) =>
  pool.stats().endpoints.find(one => one.url === url)?.state ?? 'gone';
const RAW = { raw: true as const, path: '/v1/chat/completions' };

test('one is added and another taken out: its calls finish, and then it is forgotten', async () => {
  const asks: Ask[] = [];
  const old = await serve(ask => void asks.push(ask));
  const next = await serve(echo);
  const pool = await open([{ url: old.url, limit: 1 }], { lasting: true });
  const first = outcome(pool);
  const waits = outcome(pool); // there is one place
  await old.reached(1);
  const changes = pool.setEndpoints([setting(next.url)]);
  expect(changes).toEqual([
    { url: next.url, what: 'added' },
    { url: old.url, what: 'removed' },
  ]);
  expect(await waits).toMatch(/^item/);
  expect([old.asked, next.asked]).toEqual([1, 1]);
  expect(stateOf(pool, old.url)).toBe('drained');
  (asks[0] as Ask).answer('late');
  expect(await first).toBe('late');
  await until(() => stateOf(pool, old.url) === 'gone');
  for (let n = 0; n < 20; n++) await outcome(pool);
  expect([old.asked, next.asked]).toEqual([1, 21]);
});

test('one that is named again before it is gone goes on; limits and keys change in their place', async () => {
  const asks: Ask[] = [];
  const server = await serve(ask => void asks.push(ask));
  const pool = await open([{ url: server.url, limit: 1 }], { lasting: true });
  const first = outcome(pool);
  await server.reached(1);
  pool.setEndpoints([]);
  const key = { name: '$OTHER', read: () => 'other' };
  expect(pool.setEndpoints([{ ...setting(server.url, 3), key }])).toEqual([
    { url: server.url, what: 'added' },
  ]);
  await until(() => stateOf(pool, server.url) === 'up');
  const more = [outcome(pool), outcome(pool)];
  await server.reached(3);
  expect(asks.map(({ headers }) => headers.authorization)).toEqual([
    undefined,
    'Bearer other',
    'Bearer other',
  ]);
  for (const ask of asks) ask.answer('x');
  expect(await Promise.all([first, ...more])).toEqual(['x', 'x', 'x']);
  expect(pool.setEndpoints([{ ...setting(server.url, 3), key }])).toEqual([]);
  expect(pool.setEndpoints([setting(server.url, 4)])).toEqual([
    { url: server.url, what: 'limit', limit: 4 },
    { url: server.url, what: 'key' },
  ]);
  pool.setEndpoints([{ ...setting(server.url, 3), key }]);
  expect(pool.setEndpoints([{ ...setting(server.url), key }])).toEqual([
    { url: server.url, what: 'limit', limit: null },
  ]);
});

test('a drained one gets nothing new until it is resumed, whatever it is named with meanwhile', async () => {
  const server = await serve(echo);
  const other = await serve(echo);
  const pool = await open([server.url, other.url], { lasting: true });
  expect(pool.drain(server.url, 'drained by alice')).toBe(true);
  expect(pool.drain('http://127.0.0.1:1/v1', 'x')).toBe(false);
  pool.setEndpoints([setting(server.url, 5), setting(other.url, 8)]);
  await Promise.all(Array.from({ length: 30 }, () => outcome(pool)));
  expect([server.asked, other.asked]).toEqual([0, 30]);
  expect(pool.stats().endpoints.find(({ url }) => url === server.url)?.cause).toBe('drained by alice');
  expect([pool.resume(other.url), pool.resume(server.url)]).toEqual([false, true]);
  await until(() => stateOf(pool, server.url) === 'up');
  await Promise.all(Array.from({ length: 30 }, () => outcome(pool)));
  expect(server.asked).toBeGreaterThan(0);
});

test('calls of a batch wait for a model whose endpoint was taken out; live calls are told at once', async () => {
  const old = await serve(echo, { models: ['m'] });
  const other = await serve(echo, { models: ['n'] });
  const pool = await open([old.url, other.url], { lasting: true, needsDefault: false });
  pool.setEndpoints([setting(other.url)]);
  expect([pool.wasServed('m'), pool.wasServed('n'), pool.wasServed('x')]).toEqual([true, false, false]);
  const live = { place: 1_000, firstByte: 1_000, answer: 1_000, stream: 1_000, tries: 1 };
  expect((await errorOf(pool.call(callOf({ ...RAW, live })))).message).toContain('(n), found "m"');
  expect((await errorOf(pool.call(callOf({ ...RAW, model: 'x' })))).message).toContain('(n), found "x"');
  const waits = pool.call(callOf(RAW));
  const back = await serve(echo, { models: ['m'] });
  pool.setEndpoints([setting(other.url), setting(back.url)]);
  expect((await waits).replayed).toBe(false);
  expect(back.asked).toBe(1);
  expect(pool.wasServed('m')).toBe(false);
});

test('places that are kept free for live calls change while it runs, at new endpoints too', async () => {
  const server = await serve(() => {});
  const other = await serve(() => {});
  const pool = await open([{ url: server.url, limit: 8 }], { lasting: true, reserve: 4 });
  const waits = Array.from({ length: 30 }, () => outcome(pool));
  await server.reached(4);
  pool.setLive(2, null);
  await server.reached(6);
  pool.setEndpoints([setting(server.url, 8), setting(other.url, 8)]);
  await other.reached(6);
  expect([server.maxInFlight, other.maxInFlight]).toEqual([6, 6]);
  pool.abort();
  await Promise.all(waits);
});

/** 32 bits, from a seed: mulberry32 */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test('whatever is added, taken out, drained and resumed, each call is answered once', async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  const random = randomOf(seed);
  const servers = await Promise.all(
    Array.from({ length: 5 }, () => serve(ask => void setImmediate(() => echo(ask)))),
  );
  const pool = await open([(servers[0] as { url: string }).url], { lasting: true, lasts: true });
  const calls: Promise<string>[] = [];
  for (let turn = 0; turn < 150; turn++) {
    const at = Math.floor(random() * servers.length);
    const { url } = servers[at] as { url: string };
    const what = random();
    if (what < 0.5)
      pool.setEndpoints(servers.filter(() => random() < 0.5).map(one => setting(one.url, 1 + (turn % 4))));
    else if (what < 0.7) pool.drain(url, 'x');
    else pool.resume(url);
    const row = random() < 0.5 ? { row: `row-${turn % 9}` } : {};
    for (let n = 0; n < 4; n++) calls.push(outcome(pool, callOf(row)));
    await new Promise(setImmediate);
  }
  pool.setEndpoints(servers.map(one => setting(one.url)));
  for (const { url } of servers) pool.resume(url);
  const texts = await Promise.all(calls);
  expect({ seed, unanswered: texts.filter(text => !text.startsWith('item')) }).toEqual({
    seed,
    unanswered: [],
  });
  await until(() => pool.stats().endpoints.length === servers.length);
  expect(pool.stats().inFlight).toBe(0);
});
