/** Places: never more than the limit, shared by load, all free at the end, whatever the servers do. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Ask, callOf, open, outcome, QUICK, serve } from './serving.ts';

const echo = (ask: Ask) => ask.answer(JSON.parse(ask.body).messages[0].content);

/** Treats requests after the next turn of the loop, so that they overlap. */
const soon = (treat: (ask: Ask) => void) => (ask: Ask) => void setImmediate(() => treat(ask));

test('never more than the limit in flight at an endpoint, and exactly as many when there is work', async () => {
  // Nothing is answered before both are full, so that the bound is reached and not only kept.
  const held: Ask[] = [];
  const hold = (ask: Ask) => {
    if (held.length < 8) held.push(ask);
    else return setImmediate(echo, ask);
    if (held.length === 8) for (const one of held) echo(one);
  };
  const [a, b] = [await serve(hold), await serve(hold)];
  const pool = await open([
    { url: a.url, limit: 3 },
    { url: b.url, limit: 5 },
  ]);
  const calls = Array.from({ length: 400 }, () => callOf());
  expect(await Promise.all(calls.map(call => outcome(pool, call)))).toEqual(calls.map(({ item }) => item));
  expect([a.maxInFlight, b.maxInFlight]).toEqual([3, 5]);
  expect(a.asked + b.asked).toBe(400);
});

test('a slow endpoint takes what it can, the other one the rest; calls leave in their order', async () => {
  const held: Ask[] = [];
  const order: string[] = [];
  const [slow, fast] = [
    await serve(ask => void held.push(ask)),
    await serve(ask => {
      order.push(JSON.parse(ask.body).messages[0].content);
      setImmediate(echo, ask);
    }),
  ];
  const pool = await open([
    { url: slow.url, limit: 2 },
    { url: fast.url, limit: 2 },
  ]);
  const calls = Array.from({ length: 50 }, () => callOf());
  const answers = calls.map(call => outcome(pool, call));
  await fast.reached(48);
  expect(slow.asked).toBe(2);
  const rank = order.map(item => calls.findIndex(call => call.item === item));
  // Two connections race to the server, so neighbours may swap.
  for (const [at, value] of rank.slice(2).entries()) expect(Math.abs(value - at - 4)).toBeLessThanOrEqual(1);
  for (const ask of held) echo(ask);
  await Promise.all(answers);
});

/** `interrupted` where servers that are always full end the run */
const ENDS = ['call-refused', 'call-failed', 'call-timeout', 'call-quarantined', 'interrupted', 'Fatal'];

test('after random faults every call has an outcome, no answer is mixed up and every place is free', async () => {
  const kinds: ((ask: Ask) => void)[] = [
    echo,
    echo,
    echo,
    echo,
    ask => ask.send(500, {}),
    ask => ask.send(503, {}),
    ask => ask.send(429, {}, { 'retry-after': '0.01' }),
    ask => ask.send(400, { error: { message: 'bad' } }),
    ask => ask.send(200, '<html>'),
    ask => ask.cut(),
    ask => ask.cut('HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"choices"'),
    ask => ask.response.writeHead(200, { connection: 'close' }).end('{"choices":[]}'),
    ask => ask.ignore(),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(kinds.length - 1), { minLength: 1, maxLength: 40 }),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 30 }),
      async (script, limits, count) => {
        const treat = soon(ask =>
          (kinds[script[ask.n % script.length] as number] as (ask: Ask) => void)(ask),
        );
        const fakes = await Promise.all(limits.map(() => serve(treat)));
        const timing = { ...QUICK, timeoutUnknown: 20, timeoutFloor: 20, timeoutFactor: 1, giveUp: 300 };
        const endpoints = fakes.map(({ url }, at) => ({ url, limit: limits[at] as number }));
        const pool = await open(endpoints, { timing });
        const calls = Array.from({ length: count }, () => callOf());
        const outcomes = await Promise.all(calls.map(call => outcome(pool, call)));
        for (const [at, text] of outcomes.entries()) {
          expect([calls[at]?.item, ...ENDS]).toContain(text.startsWith('Fatal') ? 'Fatal' : text);
        }
        const stats = pool.stats();
        expect(stats).toMatchObject({ calls: count, inFlight: 0, waiting: 0 });
        for (const [at, fake] of fakes.entries())
          expect(fake.maxInFlight).toBeLessThanOrEqual(limits[at] as number);
        pool.abort();
        await Promise.all([pool.close(), ...fakes.map(fake => fake.close())]);
      },
    ),
    { numRuns: 25 },
  );
});
