/** Places: never more than the limit, shared by load, all free at the end, whatever the servers do. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { manualClock } from './clock.ts';
import { type Ask, callOf, echo, open, outcome, serve } from './serving.ts';

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

test.each([
  ['answered at once', () => true],
  ['broken off and asked again', (ask: Ask) => ask.n % 2 === 0],
])('what is over is kept by nobody: calls %s', async (_, isWell) => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const clock = manualClock();
  const fake = await serve(ask => (isWell(ask) ? echo(ask) : ask.cut()));
  const places = 4;
  const pool = await open([{ url: fake.url, limit: places }], { clock });
  const bodies: WeakRef<object>[] = [];
  const askOne = async (): Promise<void> => {
    const call = callOf();
    bodies.push(new WeakRef(call.body));
    await outcome(pool, call);
  };
  await clock.turning(Promise.all(Array.from({ length: 200 }, askOne)));
  clock.pass(10_000);
  await new Promise(setImmediate);
  gc();
  // a connection may know its last request
  expect(bodies.filter(body => body.deref()).length).toBeLessThanOrEqual(places);
});
