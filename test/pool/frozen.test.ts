/** Servers that freeze, with their connections open: what is asked of them is asked elsewhere. In virtual time. */
import { expect, test } from 'vitest';
import type { Call } from '../../engine/core/item/call.ts';
import { answersLong, longCall } from './long.ts';
import { type Virtual, virtual } from './virtual.ts';

const SECOND = 1_000;
const LIVE = {
  ...{ place: 30 * SECOND, firstByte: 120 * SECOND, answer: 570 * SECOND, stream: 3_600 * SECOND, tries: 3 },
};

const opened = (settings: { count: number; metrics: boolean }): Promise<Virtual> =>
  virtual({ ...settings, answer: answersLong }, { lasting: true });

const live = (n: number, writes = 20): Call => ({ ...longCall(n, { writes, max: writes }), live: LIVE });
const batch = (n: number): Call => longCall(n, { writes: 20, max: 20 });

/** When each of the calls ended, in seconds, and how. */
async function times({ clock, pool }: Virtual, calls: readonly Call[]) {
  const from = clock.now();
  const all = calls.map(async call => {
    const how = await pool.call(call).then(
      () => 'answered',
      error => String(error.code),
    );
    return { how, took: (clock.now() - from) / SECOND };
  });
  return clock.until(Promise.all(all));
}

const passing = ({ clock }: Virtual, ms: number): Promise<void> =>
  clock.until(new Promise(resolve => void clock.after(ms, resolve)));

const states = ({ pool }: Virtual) => pool.stats().endpoints.map(({ state }) => state);

const many = (count: number, make: (n: number) => Call, from = 0): Call[] =>
  Array.from({ length: count }, (_, n) => make(from + n));

test.each([
  ['live calls', 10, true, live],
  ['live calls', 100, true, live],
  ['live calls', 10, false, live],
  ['calls of a batch', 10, true, batch],
  ['calls of a batch', 100, false, batch],
])('of two servers one freezes: %s after %d others, with metrics: %s', async (_, warm, metrics, make) => {
  const run = await opened({ count: 2, metrics });
  for (let asked = 0; asked < warm; asked += 10) await times(run, many(10, live, asked));
  run.servers[1]!.freeze();
  const caught = await times(run, many(20, make, 1_000));
  expect(caught.map(({ how }) => how)).toEqual(caught.map(() => 'answered'));
  expect(Math.max(...caught.map(({ took }) => took))).toBeLessThan(50);
  expect(caught.some(({ took }) => took > 20)).toBe(true);
  // from then on it has no call
  await passing(run, 20 * SECOND);
  expect(states(run)).toEqual(['up', 'down']);
  expect(run.warnings.join('\n')).toMatch(/virtual-2:8000\/v1 is down: it has answered nothing for 3\d/);
  const later = await times(run, many(20, make, 2_000));
  expect(later.every(({ how, took }) => how === 'answered' && took < 5)).toBe(true);

  run.servers[1]!.thaw();
  await passing(run, 30 * SECOND);
  expect(states(run)).toEqual(['up', 'up']);
  const before = run.pool.stats().endpoints[1]!.answered;
  await times(run, many(40, make, 3_000));
  expect(run.pool.stats().endpoints[1]!.answered).toBeGreaterThan(before);
});

test('a call that freezes servers ends, and those that were there with it are answered', async () => {
  const run = await virtual(
    {
      ...{ count: 3, answer: answersLong },
      onRequest(body, server) {
        if (body.includes('"poison"')) server.freeze();
      },
    },
    { lasting: true, retryBudget: 0 },
  );
  await times(run, many(60, batch));
  const thaws = run.clock.every(60 * SECOND, () => {
    // somebody starts them again
    for (const server of run.servers) {
      server.kill();
      server.thaw();
      server.start();
    }
  });
  const poison = longCall(999, { writes: 20, max: 20, more: { poison: true } });
  const [first, ...others] = await times(run, [poison, ...many(100, batch, 1_000)]);
  thaws.stop();
  expect(first?.how).toMatch(/^call-/);
  expect([...new Set(others.map(({ how }) => how))]).toEqual(['answered']);
});

test('a server whose engine hangs, and that answers a GET, keeps no live call that another one could take', async () => {
  const run = await opened({ count: 2, metrics: true });
  for (let asked = 0; asked < 100; asked += 20) await times(run, many(20, live, asked));
  run.servers[1]!.setSpeed(1e-9);
  const caught = await times(run, many(20, live, 1_000));
  expect(caught.map(({ how }) => how)).toEqual(caught.map(() => 'answered'));
  expect(Math.max(...caught.map(({ took }) => took))).toBeLessThan(150);
});

test('the only server freezes: its live calls end within a minute or so, and say why', async () => {
  const run = await opened({ count: 1, metrics: true });
  await times(run, many(10, live));
  run.servers[0]!.freeze();
  const failed = run.pool.call(live(1_000)).catch((error: Error) => error.message);
  expect(await run.clock.until(failed)).toMatch(
    /no server had a place in time: it has answered nothing for 30\.\d s, GET \/v1\/models neither/,
  );
  expect(run.clock.now()).toBeLessThan(100 * SECOND);
});

// without metrics nobody sees that a server has become slow but by its answers
test.each([
  [true, 0.05, 1_000],
  [false, 0.5, 10_000],
])('long answers are waited for, with metrics: %s', async (metrics, speed, tokens) => {
  const run = await opened({ count: 2, metrics });
  await times(
    run,
    many(100, n => live(n, 5)),
  );
  // minutes each, while nothing else is answered
  for (const server of run.servers) server.setSpeed(speed);
  const long = await times(
    run,
    many(8, n => live(n, tokens), 1_000),
  );
  expect(long.map(({ how }) => how)).toEqual(long.map(() => 'answered'));
  expect(Math.min(...long.map(({ took }) => took))).toBeGreaterThan(100);
  expect(run.pool.stats().endpoints.map(({ failed }) => failed)).toEqual([{}, {}]);
});

test.each([
  [10, 2, true, 1],
  [10, 2, false, 1],
  [100, 2, false, 1],
  [100, 3, false, 2],
  [10, 3, true, 2],
  [0, 2, false, 1],
  [0, 3, false, 2],
])(
  'within a quarter of the time of a live call: %s calls before, %s servers, metrics: %s, %s freeze',
  async (warm, count, metrics, frozen) => {
    const run = await opened({ count, metrics });
    for (let asked = 0; asked < warm; asked += 10) await times(run, many(10, live, asked));
    for (const server of run.servers.slice(0, frozen)) server.freeze();
    // nothing says how much it may write
    const short = (n: number): Call => ({
      ...longCall(n, { writes: 20 }),
      live: { ...LIVE, place: 5 * SECOND, answer: 60 * SECOND },
    });
    const waves: number[] = [];
    for (let wave = 0; wave < 6; wave++) {
      const all = await times(run, many(3, short, 1_000 + wave * 20));
      expect(all.map(({ how }) => how)).toEqual(all.map(() => 'answered'));
      waves.push(Math.max(...all.map(({ took }) => took)));
    }
    // each server that freezes is found once, by calls that were at it at the same time
    expect(Math.max(...waves)).toBeLessThan(16);
    expect(Math.max(...waves.slice(2))).toBeLessThan(1);
  },
);
