/** The sums of time that the closing lines are made of: each ms of a call in exactly one of them. */
import { expect, test } from 'vitest';
import { manualClock } from './clock.ts';
import { type Ask, callOf, open, outcome, QUICK, serve, until } from './serving.ts';

test('waiting for a place, a try that failed, and the answer are told apart, to the ms', async () => {
  const clock = manualClock();
  const held: Ask[] = [];
  const fake = await serve(ask => void held.push(ask));
  const pool = await open([{ url: fake.url, limit: 1 }], { clock, random: () => 0 });
  const calls = [outcome(pool), outcome(pool)];
  await fake.reached(1);
  clock.pass(700);
  held[0]?.answer('a');
  expect(await calls[0]).toBe('a');
  expect(pool.stats().times).toMatchObject({ asking: 700, waiting: 0, retrying: 0 });
  expect(pool.stats().endpoints[0]).toMatchObject({ busy: 700, places: 700, oldest: 0 });

  await fake.reached(2); // the second had waited for the place of the first
  clock.pass(200);
  expect(pool.stats().endpoints[0]?.oldest).toBe(200);
  held[1]?.send(500, {});
  await until(() => pool.stats().endpoints[0]?.failed['HTTP 500'] === 1);
  clock.pass(40, 2); // it sleeps, and is sent again after 1 ms or the tick that comes behind it
  await fake.reached(3);
  clock.pass(300);
  held[2]?.answer('b');
  expect(await calls[1]).toBe('b');
  const { times, since, noEndpointMs, endpoints } = pool.stats();
  expect(times).toMatchObject({ waiting: 700, writing: 0, mending: 0 });
  expect(times.asking + times.retrying).toBe(700 + 200 + 40 + 300);
  expect(times.retrying).toBeGreaterThan(200);
  expect(times.retrying).toBeLessThanOrEqual(204);
  expect(endpoints[0]).toMatchObject({ busy: 700 + 200 + (times.asking - 700), places: since });
  expect(noEndpointMs).toBe(0);
});

test('a call that fails has all since its first try in retries; time without an endpoint is counted', async () => {
  const clock = manualClock();
  const fake = await serve(ask => ask.ignore());
  const pool = await open([{ url: fake.url, limit: 1 }], { clock, timing: { ...QUICK, tick: 100 } });
  const calls = [outcome(pool), outcome(pool)];
  await fake.reached(1);
  clock.pass(500, 100);
  const gone = fake.close();
  await until(() => pool.stats().inFlight === 0);
  await gone;
  await until(() => {
    clock.pass(100, 100);
    return pool.stats().endpoints[0]?.state === 'down';
  });
  const before = pool.stats().noEndpointMs;
  clock.pass(3_000, 100);
  expect(pool.stats().noEndpointMs).toBe(before + 3_000);
  const { since } = pool.stats();
  pool.abort();
  expect(await Promise.all(calls)).toEqual(['interrupted', 'interrupted']);
  const { times } = pool.stats();
  // the second took the place that the first had lost, to find nobody there
  expect(times).toMatchObject({ asking: 0, waiting: 500, retrying: since + (since - 500) });
});

test('a call that a stop finds at a server was being asked', async () => {
  const clock = manualClock();
  const fake = await serve(() => {});
  const pool = await open([{ url: fake.url, limit: 1 }], { clock });
  const call = outcome(pool);
  await fake.reached(1);
  clock.pass(900);
  pool.abort();
  expect(await call).toBe('interrupted');
  expect(pool.stats().times).toMatchObject({ asking: 900, retrying: 0 });
});

test('calls that sleep until they are tried again wait for no place', async () => {
  const clock = manualClock();
  const fake = await serve(ask => (ask.n <= 4 ? ask.send(500, {}) : void held.push(ask)));
  const held: Ask[] = [];
  const timing = { ...QUICK, tick: 100, backoffBase: 4_000, backoffCap: 4_000, rest: 0, restCap: 0 };
  const pool = await open([{ url: fake.url, limit: 8 }], { clock, timing });
  const calls = Array.from({ length: 4 }, () => outcome(pool));
  await until(() => pool.stats().waiting === 4);
  clock.pass(1_500, 100);
  expect(pool.stats()).toMatchObject({ waiting: 4, saturatedMs: 0, noEndpointMs: 0 });
  clock.pass(4_000, 100);
  await fake.reached(8);
  for (const ask of held) ask.answer('late');
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['late']));
});

test('an endpoint is never more than 100 % busy, though its limit is cut and it rests while calls run', async () => {
  const clock = manualClock();
  const held: Ask[] = [];
  const fake = await serve(ask => (ask.n <= 4 ? ask.send(429, {}, { 'retry-after': '30' }) : held.push(ask)));
  const pool = await open([{ url: fake.url, limit: 8, pinned: false }], { clock, wait: 60_000 });
  const calls = Array.from({ length: 8 }, () => outcome(pool));
  await fake.reached(8);
  await until(() => pool.stats().endpoints[0]?.state === 'paused');
  clock.pass(20_000, 100);
  for (const ask of held.splice(0)) ask.answer('at last');
  await until(() => pool.stats().answered === 4);
  const { busy = 0, places = 0 } = pool.stats().endpoints[0] ?? {};
  expect(busy).toBe(4 * 20_000);
  expect(places).toBe(busy);
  clock.pass(15_000, 100);
  await fake.reached(12);
  for (const ask of held) ask.answer('too');
  await Promise.all(calls);
});

test('what an asker says of its own time is added up', async () => {
  const pool = await open([(await serve(ask => ask.answer('x'))).url]);
  pool.judge(callOf().key, 'clean', undefined, 2);
  pool.judge(callOf().key, 'failed', 'no-valid-answer', 0.5);
  expect(pool.stats().times.mending).toBe(2.5);
});

test('time in which this process stood still is no part of what a call took', async () => {
  const clock = manualClock();
  const held: Ask[] = [];
  const fake = await serve(ask => void held.push(ask));
  const pool = await open([{ url: fake.url, limit: 1 }], { clock });
  const call = outcome(pool);
  await fake.reached(1);
  clock.pass(400);
  clock.pass(20_000, 20_000); // one step: no tick in between
  clock.pass(600);
  held[0]?.answer('a');
  expect(await call).toBe('a');
  expect(pool.stats().times).toMatchObject({ asking: 1_000, waiting: 0, retrying: 0 });
  expect(pool.stats()).toMatchObject({ since: 21_000, suspendedMs: 20_000 });
  expect(pool.stats().endpoints[0]).toMatchObject({ busy: 1_000, places: 1_000 });
});
