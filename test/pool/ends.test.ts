/** How a pool ends: stopped, closed, given up because all is refused or nothing is there any more. */
import { expect, test } from 'vitest';
import type { Fatal } from '../../engine/flow/failure.ts';
import { manualClock } from './clock.ts';
import {
  type Ask,
  askUntil,
  callOf,
  deadUrl,
  errorOf,
  open,
  outcome,
  QUICK,
  serve,
  until,
} from './serving.ts';

const echo = (ask: Ask) => ask.answer(JSON.parse(ask.body).messages[0].content);

test('a stop: new and waiting calls are interrupted, what a server works on may finish', async () => {
  const asks: Ask[] = [];
  const fake = await serve(ask => void asks.push(ask));
  const stopping = new AbortController();
  const pool = await open([{ url: fake.url, limit: 1 }], { signal: stopping.signal });
  const call = callOf();
  const [running, waiting] = [outcome(pool, call), outcome(pool)];
  await fake.reached(1);
  stopping.abort();
  expect(await waiting).toBe('interrupted');
  expect(await outcome(pool)).toBe('interrupted');
  echo(asks[0] as Ask);
  expect(await running).toBe(call.item);
  expect(fake.asked).toBe(1);
});

test('an abort drops what is in flight, and the server sees it', async () => {
  const fake = await serve(() => {});
  const pool = await open([fake.url]);
  const calls = Array.from({ length: 5 }, () => outcome(pool));
  await fake.reached(5);
  pool.abort();
  expect(await Promise.all(calls)).toEqual(Array(5).fill('interrupted'));
  await fake.dropped(5);
  expect(pool.stats()).toMatchObject({ inFlight: 0, waiting: 0, failed: { interrupted: 5 } });
});

test('after a stop a call that failed is not asked again', async () => {
  const asks: Ask[] = [];
  const fake = await serve(ask => void asks.push(ask));
  const pool = await open([fake.url]);
  const running = outcome(pool);
  await fake.reached(1);
  pool.stop();
  asks[0]?.send(500, {});
  expect(await running).toBe('interrupted');
});

test('the ticker keeps the process alive only while calls are out', async () => {
  const clock = manualClock();
  const asks: Ask[] = [];
  const fake = await serve(ask => void asks.push(ask));
  const pool = await open([fake.url], { clock });
  const call = outcome(pool);
  expect(clock.held).toBe(true);
  await fake.reached(1);
  echo(asks[0] as Ask);
  await call;
  expect(clock.held).toBe(false);
  await pool.close();
  expect(clock.timers).toBe(0);
  expect(await outcome(pool)).toBe('interrupted');
});

test('every call refused and none answered: the run ends with 69, in the words of the server', async () => {
  const fake = await serve(ask => ask.send(404, { error: { message: 'The model `m` does not exist.' } }));
  const pool = await open([fake.url]);
  const codes: string[] = [];
  for (let i = 0; i < 25; i++) codes.push(await outcome(pool));
  expect(codes.slice(0, 20)).toEqual(Array(20).fill('call-refused'));
  expect(fake.asked).toBe(20);
  const fatal = (await errorOf(pool.call(callOf()))) as Fatal;
  expect(fatal.exit).toBe(69);
  expect(fatal.message).toContain('HTTP 404: "The model `m` does not exist."');
  expect(pool.verdict()?.exit).toBe(69);
});

test('a small input that was refused altogether ends with 69 too; one answer is enough not to', async () => {
  let refusing = true;
  const fake = await serve(ask => (refusing ? ask.send(403, { error: 'Forbidden' }) : echo(ask)));
  const pool = await open([fake.url]);
  expect(pool.verdict()).toBe(undefined);
  await Promise.all([outcome(pool), outcome(pool)]);
  expect(pool.verdict()).toMatchObject({ exit: 69, message: expect.stringContaining('wants a key') });
  refusing = false;
  await outcome(pool);
  expect(pool.verdict()).toBe(undefined);
});

test('refusals that only come back first do not end a run that is being answered', async () => {
  const slow: Ask[] = [];
  const fake = await serve(ask => (ask.n <= 30 ? ask.send(422, { error: 'bad row' }) : slow.push(ask)));
  const pool = await open([{ url: fake.url, limit: 100 }]);
  const calls = Array.from({ length: 100 }, () => outcome(pool));
  await fake.reached(100);
  await until(() => (pool.stats().failed['call-refused'] ?? 0) >= 30);
  for (const ask of slow) echo(ask);
  const codes = await Promise.all(calls);
  expect(codes.filter(code => code === 'call-refused')).toHaveLength(30);
  expect(codes.filter(code => code.startsWith('item-'))).toHaveLength(70);
  const later = outcome(pool);
  await fake.reached(101);
  echo(slow[70] as Ask);
  expect(await later).toMatch(/^item-/);
});

test('an endpoint that dies during the run is taken out; no call is lost, and it is put back when it returns', async () => {
  const dying = await serve(echo);
  const other = await serve(echo);
  const pool = await open([dying.url, other.url]);
  await Promise.all(Array.from({ length: 16 }, () => outcome(pool)));
  await dying.close();
  const calls = Array.from({ length: 200 }, () => callOf());
  expect(await Promise.all(calls.map(call => outcome(pool, call)))).toEqual(calls.map(({ item }) => item));
  expect(pool.warnings).toContain(`${dying.url} is down: connection refused; 1 of 2 endpoints go on`);
  const back = await serve(echo, { port: dying.port });
  await askUntil(pool, () => back.asked > 0);
  expect(pool.warnings.at(-1)).toBe(`${dying.url} is up`);
});

test('while every endpoint is away calls wait and lose no try; they are answered when one returns', async () => {
  const fake = await serve(echo);
  const pool = await open([fake.url]);
  await fake.close();
  const calls = Array.from({ length: 20 }, () => callOf());
  const answers = calls.map(call => outcome(pool, call));
  await until(() => pool.stats().endpoints[0]?.state === 'down' && pool.stats().inFlight === 0);
  await serve(echo, { port: fake.port });
  expect(await Promise.all(answers)).toEqual(calls.map(({ item }) => item));
});

test('when that lasts too long the run ends with 69, and says which endpoints are gone', async () => {
  const fake = await serve(echo);
  const pool = await open([fake.url], { timing: { ...QUICK, giveUp: 30 } });
  await fake.close();
  const error = (await errorOf(pool.call(callOf()))) as Fatal;
  expect(error.exit).toBe(69);
  expect(error.message).toContain(`${fake.url} (connection refused)`);
  expect(((await errorOf(pool.call(callOf()))) as Fatal).exit).toBe(69);
});

test('an endpoint that comes back with another model stays out', async () => {
  const fake = await serve(echo);
  const dead = await deadUrl();
  const pool = await open([fake.url, dead]);
  await serve(echo, { port: Number(new URL(dead).port), models: ['other'] });
  await askUntil(pool, () => pool.stats().endpoints[1]?.state === 'unfit');
  expect(pool.warnings.at(-1)).toContain('it serves other, not m');
});
