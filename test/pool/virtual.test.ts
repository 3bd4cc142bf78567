import { expect, test } from 'vitest';
import { presetNamed } from '../../products/simulator/presets.ts';
import { virtual } from './virtual.ts';

const all = (outcomes: Map<string, string>) => [...new Set(outcomes.values())];

test('a limit follows the batch: up where nothing waits, down where a queue stands', async () => {
  const large = await virtual({ count: 1, preset: presetNamed('3b-h100') });
  large.servers[0]!.setSpeed(0.1);
  let limit = 0;
  large.clock.after(30_000, () => {
    limit = large.pool.stats().endpoints[0]!.limit;
  });
  expect(all(await large.ask(8_000, { atOnce: 3_000 }))).toEqual(['answered']);
  // it takes 1,024 sequences, and yields a few percent more with them than with the usual 256
  expect(limit).toBeGreaterThan(200);
  expect(limit).toBeLessThan(1_400);

  const small = await virtual({ count: 1, limits: { maxNumSeqs: 32 } });
  expect(all(await small.ask(3_000))).toEqual(['answered']);
  expect(small.pool.stats().endpoints[0]!.limit).toBeLessThan(48);
});

test('a limit that a person has set stays', async () => {
  const { pool, servers, clock, ask } = await virtual(
    { count: 1, limits: { maxNumSeqs: 32 } },
    { endpoints: [{ url: 'http://virtual-1:8000/v1', limit: 100, pinned: true }] },
  );
  clock.after(5_000, () => {
    expect(servers[0]!.state().running + servers[0]!.state().waiting).toBe(100);
  });
  await ask(1_000);
  expect(pool.stats().endpoints[0]!.limit).toBe(100);
});

test('servers that admit little are not drowned, and every call is answered', async () => {
  const { servers, pool, ask } = await virtual({ count: 2 });
  for (const server of servers) server.admits = 40;
  expect(all(await ask(4_000, { atOnce: 1_000 }))).toEqual(['answered']);
  const { answered, retries } = pool.stats();
  expect(answered).toBe(4_000);
  expect(retries).toBeLessThanOrEqual(0.2 * answered);
});

test('without metrics a limit is found too, is cut where calls are refused with 429 or 503, and comes back', async () => {
  const { servers, clock, pool, ask } = await virtual({ count: 1, metrics: false });
  servers[0]!.setSpeed(0.3);
  const limits: number[] = [];
  const look = (): void => void limits.push(pool.stats().endpoints[0]!.limit);
  clock.after(10_000, () => {
    look();
    servers[0]!.admits = 60;
  });
  clock.after(30_000, () => {
    look();
    servers[0]!.admits = null;
  });
  clock.after(70_000, look);
  await ask(8_000);
  expect(limits[0]).toBeGreaterThan(100);
  expect(limits[1]).toBeLessThan(70);
  expect(limits[2]).toBeGreaterThan(100);
});

test('unequal servers get work as they can do it', async () => {
  const { servers, pool, ask } = await virtual({ count: 3 });
  for (const [at, speed] of [1, 2, 4].entries()) servers[at]!.setSpeed(speed);
  await ask(12_000, { atOnce: 2_000 });
  const [one, two, four] = pool.stats().endpoints.map(({ answered }) => answered / 12_000);
  expect(one).toBeLessThan(0.2);
  expect(two! / one!).toBeGreaterThan(1.4);
  expect(four! / two!).toBeGreaterThan(1.4);
});

test('an endpoint that dies and comes back loses no call, and the budget of retries nothing', async () => {
  const { servers, clock, pool, warnings, ask } = await virtual({ count: 2 }, { retryBudget: 0 });
  for (let minute = 1; minute < 6; minute++) {
    clock.after(minute * 20_000, () => servers[1]!.kill());
    clock.after(minute * 20_000 + 5_000, () => servers[1]!.start());
  }
  expect(all(await ask(6_000))).toEqual(['answered']);
  expect(pool.stats().endpoints[1]!.answered).toBeGreaterThan(500);
  // told once a minute
  expect(warnings.filter(text => text.includes('is down')).length).toBeLessThanOrEqual(2);
});

test('a call that kills servers is quarantined, and those that were there with it are answered', async () => {
  const killers = new Map<string, number>();
  const { servers, clock, ask } = await virtual({
    count: 3,
    onRequest(body, server) {
      if (!body.includes('poison')) return;
      killers.set(server.url, (killers.get(server.url) ?? 0) + 1);
      server.kill();
      clock.after(3_000, () => server.start());
    },
  });
  const outcomes = await ask(600, { atOnce: 200, prompt: n => (n === 100 ? 'poison' : `question ${n}`) });
  expect(outcomes.get('item-100')).toBe('call-quarantined');
  outcomes.delete('item-100');
  expect(all(outcomes)).toEqual(['answered']);
  expect([...killers.values()].reduce((sum, times) => sum + times, 0)).toBe(3);
  expect(servers).toHaveLength(3);
});

test('calls go to the endpoints that serve their model', async () => {
  const { pool, ask } = await virtual({ count: 2 });
  await ask(10);
  const other = { ...callOfModel('another'), model: 'another' };
  const asked = pool.call(other).catch(error => error.code);
  const turn = new Promise(resolve => setImmediate(resolve, 'it waits: nobody serves it'));
  expect(await Promise.race([asked, turn])).toBe('it waits: nobody serves it');
  pool.abort();
});

function callOfModel(model: string) {
  const body = Buffer.from(`{"model":"${model}","messages":[]}`);
  return {
    path: '/chat/completions',
    body,
    head: '',
    tail: '',
    key: model,
    item: model,
    agent: 'a',
    round: 0,
    attempt: 1,
  };
}
