/** The limit is found from answers alone: chains in virtual time, against the same with the right limit set by hand. */
import { expect, test } from 'vitest';
import { runChains } from '../../bench/limits/run.ts';
import type { Beyond, Limited } from '../../bench/limits/server.ts';
import { run } from '../../bench/pool/run.ts';
import type { Reply } from '../../engine/asking/endpoints/exchange.ts';
import { TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import type { Load } from '../../engine/asking/endpoints/server-load.ts';
import { lookAtLoads } from '../../engine/asking/pool/limit.ts';
import type { Endpoint } from '../../engine/asking/pool/pool-state.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { every, runs, slow } from '../all.ts';
import { manualClock } from './clock.ts';
import { virtual } from './virtual.ts';

const RANDOM = [0, 0.01, 0.05];

async function share(server: Limited, chains: number): Promise<number> {
  const best = await runChains({ server, chains, limit: server.places });
  const own = await runChains({ server, chains });
  expect(own.failed).toBe(0);
  return best.makespan / own.makespan;
}

const small = [8, 64, 256].flatMap(places =>
  (['queue', 'share', 'refuse', 0.5] as Beyond[]).flatMap(beyond =>
    RANDOM.flatMap(random => [true, false].map(metrics => ({ places, beyond, random, metrics }))),
  ),
);
test.each(every(17, small))('a small server, 1,000 chains: %o', async server => {
  expect(await share(server, 1_000)).toBeGreaterThan(0.9);
});

const large = (['queue', 'share', 'refuse', 0.5] as Beyond[]).map(beyond => ({
  places: 1_024,
  beyond,
  random: 0.01,
  metrics: false,
}));
slow.each(large)('a large server, 20,000 chains: %o', async server => {
  expect(await share(server, 20_000)).toBeGreaterThan(server.beyond === 0.5 ? 0.88 : 0.95);
});

// the first rounds alone cost this much where a few calls too many make a server several times slower
test.each([
  [0.1, 0.9],
  [0.25, 0.9],
  [1, 0.75],
])('speed that falls by another power: %d', async (beyond, least) => {
  for (const places of every(2, [12, 100]))
    expect(await share({ places, beyond, random: 0.01, metrics: false }, 50 * places)).toBeGreaterThan(least);
});

test.each(every(2, [8, 64]))(
  'a server that queues is asked for little more than the %d it takes, in the end',
  async places => {
    const server: Limited = { places, beyond: 'queue', random: 0.01, metrics: false };
    const { limit } = await runChains({ server, chains: 150 * places });
    expect(limit).toBeLessThan(1.5 * places);
  },
);

test.each(every(2, [true, false]))(
  'a simulated vLLM does as much as with the usual 256 calls, metrics: %s',
  async metrics => {
    const items = runs(150, 600, 'ITEMS');
    const one = { items, speeds: [1], preset: presetNamed('3b-h100') };
    const usual = await run({ ...one, by: { limit: 256 } });
    const found = await run({ ...one, by: 'pool', metrics });
    // finding it costs a few rounds, which are more of a short run
    expect(found.makespan).toBeLessThan((1 + 18 / items) * usual.makespan);
  },
);

slow('a large --in-flight is found soon where it is right', async () => {
  const right: Limited = { places: 2_000, beyond: 'queue', random: 0, metrics: false };
  const best = await runChains({ server: right, chains: 10_000, limit: 2_000, inFlight: 2_000 });
  const own = await runChains({ server: right, chains: 10_000, inFlight: 2_000 });
  expect(own.makespan).toBeLessThan(1.15 * best.makespan);
});

test('a large --in-flight costs little where it is wrong', async () => {
  const wrong: Limited = { places: 8, beyond: 0.5, random: 0, metrics: false };
  const few = await runChains({ server: wrong, chains: 1_000, limit: 8 });
  const many = await runChains({ server: wrong, chains: 1_000, inFlight: 2_000 });
  expect(many.makespan).toBeLessThan(1.15 * few.makespan);
});

test('calls that are refused with 429 at random do not starve a healthy server', async () => {
  const server: Limited = { places: 10_000, beyond: 'queue', random: 0.002, metrics: false };
  const { limit } = await runChains({ server, chains: 10_000 });
  expect(limit).toBeGreaterThan(256);
});

test('a burst of 503 leaves no limit of 1', async () => {
  const { servers, clock, pool, ask } = await virtual({ count: 1 });
  const server = servers[0]!;
  const limits: number[] = [];
  const look = (): void => void limits.push(pool.stats().endpoints[0]!.limit);
  clock.after(4_000, () => {
    look();
    server.admits = 0;
  });
  clock.after(7_000, () => {
    server.admits = null;
  });
  clock.after(20_000, look);
  await ask(12_000, { atOnce: 1_000 });
  const [before = 0, after = 0] = limits;
  expect(before).toBeGreaterThan(100);
  expect(after).toBeGreaterThan(0.5 * before);
});

test('a look at the metrics that was missed is made up for a second later, and changes nothing', () => {
  const clock = manualClock();
  const page = Buffer.from('vllm:num_requests_running 5\n');
  let looks = 0;
  const send = (_: unknown, settle: (got: Reply | Error) => void) => {
    looks++;
    settle(looks === 3 ? new Error('reset') : { status: 200, retryAfter: undefined, body: page });
    return { received: null, overrun: null, abort: () => {} };
  };
  const endpoint = { state: 'up', prefix: '/v1', running: [], wire: { send } } as unknown as Endpoint;
  const loads: (Load | null)[] = [];
  const onLoad = (_: Endpoint, load: Load | null): void => void loads.push(load);
  const look = lookAtLoads({ endpoints: [endpoint], clock, timing: TIMING, onLoad });
  clock.every(100, () => look(clock.now()));
  clock.pass(10_000, 100);
  expect(looks).toBeGreaterThan(8);
  expect(loads).not.toContain(null);
});
