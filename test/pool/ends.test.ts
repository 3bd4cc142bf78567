/** How a pool ends: stopped, closed, given up because all is refused or nothing is there any more. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { manualClock } from './clock.ts';
import { type Ask, askUntil, callOf, deadUrl, echo, open, outcome, QUICK, serve, until } from './serving.ts';

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
  expect(codes.slice(20)).toEqual(Array(5).fill('interrupted'));
  expect(pool.verdict()).toMatchObject({
    exit: 69,
    message: expect.stringContaining('HTTP 404: "The model `m` does not exist."'),
  });
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
  // what is seen first: that it refuses, or, on a busy machine, that it broke off
  const isDown = `${dying.url} is down: `;
  expect(pool.warnings.find(text => text.startsWith(isDown))).toMatch(/; 1 of 2 endpoints remain$/);
  const back = await serve(echo, { port: dying.port });
  await askUntil(pool, () => back.asked > 0);
  expect(pool.warnings.at(-1)).toBe(`${dying.url} is up`);
});

test('of an endpoint that is down nothing is told that its metrics said before', async () => {
  const metrics = () => 'vllm:num_requests_running 7\nvllm:num_requests_waiting 134\n';
  const fake = await serve(echo, { metrics });
  const pool = await open([fake.url, (await serve(echo)).url]);
  await until(() => pool.stats().endpoints[0]?.load?.waiting === 134);
  await fake.close();
  await askUntil(pool, () => pool.stats().endpoints[0]?.state === 'down');
  expect(pool.stats().endpoints[0]?.load).toBe(null);
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
  let told = 0;
  const onGivenUp = () => void told++;
  const pool = await open([fake.url], { timing: { ...QUICK, giveUp: 30 }, onGivenUp });
  await fake.close();
  // the items of these calls come out with what they have: only the run ends
  expect(await Promise.all([outcome(pool), outcome(pool)])).toEqual(['interrupted', 'interrupted']);
  expect(await outcome(pool)).toBe('interrupted');
  expect(told).toBe(1);
  expect(pool.verdict()).toMatchObject({
    exit: 69,
    message: expect.stringContaining(`${fake.url} (`),
  });
});

test('a call that hangs at a server which is gone for all others does not hold up the end', async () => {
  const server = createServer((request, response) => {
    if (request.method === 'GET') return response.end('{"data":[{"id":"m"}]}');
    server.close(); // takes no further connection; the one of this call stays, and nothing comes over it
    request.resume();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => server.closeAllConnections());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const pool = await open([url], { timing: { ...QUICK, giveUp: 30 } });
  const hanging = outcome(pool);
  await until(() => !server.listening);
  expect(await outcome(pool)).toBe('interrupted');
  expect(await hanging).toBe('interrupted');
  expect(pool.verdict()?.exit).toBe(69);
});

test('an endpoint that comes back with another model stays out', async () => {
  const fake = await serve(echo);
  const dead = await deadUrl();
  const pool = await open([fake.url, dead]);
  await serve(echo, { port: Number(new URL(dead).port), models: ['other'] });
  await askUntil(pool, () => pool.stats().endpoints[1]?.state === 'unusable');
  expect(pool.warnings.at(-1)).toContain('it serves other, not m');
});
