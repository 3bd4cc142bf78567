/** Models whose endpoints are away, and what a server remembers of its endpoints. */
import { expect, test } from 'vitest';
import { type Ask, callOf, echo, errorOf, open, outcome, QUICK, serve, until } from './serving.ts';

test('calls of a model whose endpoints stay away end, while another model goes on', async () => {
  const [dying, other] = [await serve(echo, { models: ['a'] }), await serve(echo, { models: ['b'] })];
  const pool = await open([dying.url, other.url], {
    ...{ needsDefault: false, models: ['a', 'b'] },
    timing: { ...QUICK, giveUp: 200 },
  });
  expect(await outcome(pool, callOf({ model: 'a' }))).toMatch(/^item-/);
  await dying.close();
  const error = await errorOf(pool.call(callOf({ model: 'a' })));
  expect(error).toMatchObject({ code: 'call-failed', message: expect.stringContaining('"a"') });
  expect(await outcome(pool, callOf({ model: 'b' }))).toMatch(/^item-/);
});

test('a server that is back within that time has its calls', async () => {
  const [dying, other] = [await serve(echo, { models: ['a'] }), await serve(echo, { models: ['b'] })];
  const pool = await open([dying.url, other.url], { needsDefault: false, models: ['a', 'b'] });
  await dying.close();
  const asked = outcome(pool, callOf({ model: 'a' }));
  await serve(echo, { models: ['a'], port: dying.port });
  expect(await asked).toMatch(/^item-/);
});

test('a server begins with the limits and models that it knew', async () => {
  const up = await serve(echo, { models: ['a'] });
  const gone = 'http://127.0.0.1:1/v1';
  const pool = await open(
    [
      { url: up.url, limit: 32, pinned: false },
      { url: gone, limit: 32, pinned: false },
    ],
    { lasting: true, needsDefault: false },
  );
  expect(pool.kept()).toEqual([
    { url: up.url, limit: null, models: ['a'] },
    { url: gone, limit: null, models: [] },
  ]);
  pool.recall([
    { url: up.url, limit: 100, models: ['old'] },
    { url: gone, limit: 7, models: ['b'] },
    { url: 'http://elsewhere/v1', limit: 9, models: [] },
  ]);
  expect(pool.kept()).toEqual([
    { url: up.url, limit: 100, models: ['a'] },
    { url: gone, limit: 7, models: ['b'] },
  ]);
  expect(pool.stats().endpoints.map(({ limit }) => limit)).toEqual([100, 7]);
});

test('a limit of an earlier run holds up no live call, and rises with them', async () => {
  const held: Ask[] = [];
  const up = await serve(ask => void held.push(ask));
  const pool = await open([{ url: up.url, limit: 32, pinned: false }], { lasting: true });
  pool.recall([{ url: up.url, limit: 3, models: ['m'] }]);
  const live = { place: 60_000, firstByte: 60_000, answer: 600_000, stream: 600_000, tries: 3 };
  const all = Array.from({ length: 20 }, () => outcome(pool, callOf({ live })));
  await until(() => up.asked >= 20);
  expect(pool.stats().endpoints[0]!.limit).toBeGreaterThanOrEqual(20);
  for (const ask of held) echo(ask);
  await Promise.all(all);
});
