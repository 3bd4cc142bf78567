/** Long answers beside short ones: what is healthy is waited for, what hangs is not. In virtual time. */
import { expect, test } from 'vitest';
import { presetNamed } from '../../products/simulator/presets.ts';
import type { VirtualServers, VirtualSettings } from '../../products/simulator/virtual-servers.ts';
import { ALL, slow } from '../all.ts';
import { answersLong, type Long, longCall } from './long.ts';
import { type Virtual, virtual } from './virtual.ts';

const TICK = { timing: { tick: 1_000 } };

const opened = (
  settings: Partial<VirtualSettings> & { count: number },
  more: Parameters<typeof virtual>[1] = TICK,
) => virtual({ answer: answersLong, preset: presetNamed('8b-h100'), context: 32_768, ...settings }, more);

/** places: enough for a run of a minute */
const SMALL = { maxNumSeqs: 16 };

/** What became of all calls, and tries that failed, by their kind. */
async function all(run: Virtual, calls: readonly Long[], atOnce = 512) {
  const outcomes = await run.ask(calls.length, { atOnce, call: n => longCall(n, calls[n] as Long) });
  const failed = run.pool.stats().endpoints.map(endpoint => endpoint.failed);
  return { lost: calls.filter((_, n) => outcomes.get(`item-${n}`) !== 'answered').length, failed };
}

const mixed = (count: number, isLong: (n: number) => boolean, long: number, short: number): Long[] =>
  Array.from({ length: count }, (_, n) => {
    const writes = isLong(n) ? long : short;
    return { writes, max: writes };
  });

/** From 5 to 16,000 tokens, each length as often as twice that length */
const spread = (count: number): Long[] =>
  Array.from({ length: count }, (_, n) => {
    const writes = Math.round(5 * 3_200 ** (((n * 7_919) % count) / (count - 1)));
    return { writes, max: writes };
  });

const MIXES: [name: string, metrics: boolean, calls: Long[]][] = [
  ['20 of 1,500', true, mixed(1_500, n => n % 75 === 37, 6_000, 12)],
  ['15 of 900', false, mixed(900, n => n % 60 === 37, 6_000, 12)],
  ['the long ones last', true, mixed(300, n => n >= 290, 8_000, 5)],
  ['the request does not say how long', false, spread(100).map(({ writes }) => ({ writes }))],
  ['the long ones last', false, mixed(400, n => n >= 390, 16_000, 5)],
  ['the long ones first', false, mixed(400, n => n < 10, 16_000, 5)],
  ['the request does not say how long', true, spread(200).map(({ writes }) => ({ writes }))],
];

test.each(MIXES.slice(0, ALL ? undefined : 4))(
  'long answers are waited for: %s, with metrics: %s',
  async (_, metrics, calls) => {
    const run = await opened({ count: 1, metrics });
    expect(await all(run, calls)).toEqual({ lost: 0, failed: [{}] });
  },
);

slow.each([true, false])(
  '4,000 lines of 5 to 16,000 tokens at two servers of 32 places, with metrics: %s',
  async metrics => {
    const run = await opened({ count: 2, metrics, limits: { maxNumSeqs: 32 } });
    expect(await all(run, spread(4_000))).toEqual({ lost: 0, failed: [{}, {}] });
  },
);

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** so slow that it is none */
const STILL = 1e-9;

test('a server that is slow for ten minutes is waited for, and is not called down', async () => {
  const run = await opened({ count: 1, limits: SMALL });
  run.clock.after(20 * SECOND, () => run.servers[0]!.setSpeed(0.005));
  run.clock.after(20 * SECOND + 10 * MINUTE, () => run.servers[0]!.setSpeed(1));
  expect(
    await all(
      run,
      mixed(1_500, n => n % 75 === 37, 2_000, 300),
    ),
  ).toEqual({ lost: 0, failed: [{}] });
  expect(run.warnings).toEqual([]);
  expect(run.clock.now()).toBeGreaterThan(10 * MINUTE);
});

test.each([true, false])('a server that hangs is noticed, with metrics: %s', async metrics => {
  const run = await opened({ count: 2, metrics, limits: SMALL });
  const [hung] = run.servers;
  const at = 10 * SECOND;
  let held = 0;
  const noticed: number[] = [];
  const seen = (): number => run.pool.stats().endpoints[0]!.failed.timeout ?? 0;
  run.clock.after(at, () => {
    held = run.pool.stats().endpoints[0]!.inFlight;
    hung!.setSpeed(STILL);
    for (let s = 1; s < 60; s++) run.clock.after(s * SECOND, () => noticed.push(seen()));
  });
  const { lost } = await all(
    run,
    mixed(2_000, n => n % 100 === 7, 600, 100),
  );
  expect(lost).toBe(0);
  // none before 30 s of silence, and all of them soon after
  expect(noticed.slice(0, 28)).toEqual(Array(28).fill(0));
  expect(noticed[metrics ? 33 : 55]).toBeGreaterThanOrEqual(held);
  expect(run.warnings.join('\n')).toMatch(/virtual-1:8000\/v1 fails: no answer within [\d.]+ s/);
});

test('a server that hangs and goes on is used again', async () => {
  const run = await opened({ count: 1, limits: SMALL }, { ...TICK, wait: 10 * MINUTE });
  run.clock.after(10 * SECOND, () => run.servers[0]!.setSpeed(STILL));
  run.clock.after(3 * MINUTE, () => run.servers[0]!.setSpeed(1));
  expect(
    (
      await all(
        run,
        mixed(1_500, () => false, 0, 100),
      )
    ).lost,
  ).toBe(0);
});

test('a run without any server that works ends with 69', async () => {
  const run = await opened({ count: 1, limits: SMALL });
  run.clock.after(10 * SECOND, () => run.servers[0]!.setSpeed(STILL));
  const { lost } = await all(
    run,
    mixed(3_000, () => false, 0, 100),
  );
  expect(lost).toBeGreaterThan(0);
  expect(run.pool.verdict()).toMatchObject({ exit: 69 });
});

test('a server that begins again has its calls sent again at once', async () => {
  const run = await opened({ count: 2, limits: SMALL });
  run.clock.after(10 * SECOND, () => run.servers[0]!.kill());
  run.clock.after(12 * SECOND, () => run.servers[0]!.start());
  const { lost, failed } = await all(
    run,
    mixed(1_500, n => n % 75 === 37, 2_000, 50),
  );
  expect(lost).toBe(0);
  expect(failed.flatMap(kinds => Object.keys(kinds)).sort()).toEqual(['not connected', 'transport']);
});

/** Servers that never answer the first request with `word` in it, and do not know that they have it. */
const losing =
  (word: string) =>
  ({ openWire }: VirtualServers) => {
    let isLost = false;
    return {
      ...TICK,
      openWire: (...at: Parameters<typeof openWire>) => {
        const wire = openWire(...at);
        const send: typeof wire.send = (request, settle) => {
          if (isLost || !request.body?.includes(word)) return wire.send(request, settle);
          isLost = true;
          return { received: null, overrun: null, abort: settle };
        };
        return { ...wire, send };
      },
    };
  };

test('a call that is lost while its server works is sent again, and the server is not called down', async () => {
  const run = await opened({ count: 1, limits: SMALL }, losing('"lose"'));
  const calls = mixed(1_200, () => false, 0, 200).map((call, n) =>
    n === 300 ? { ...call, more: { lose: true } } : call,
  );
  expect(await all(run, calls)).toEqual({ lost: 0, failed: [{ timeout: 1 }] });
  expect(run.warnings.join('\n')).toMatch(
    /left a call unanswered: no answer within [\d.]+ s; it may write 200 tokens, at \d+ ms each here \(--timeout allows more\); it is sent again/,
  );
});
