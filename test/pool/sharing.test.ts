/** Several clients at one server: each takes its part of what the server bears. */
import { expect, onTestFinished, test } from 'vitest';
import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import type { EndpointPool, PoolOptions } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import { type Ask, callOf, echo, open, outcome, serve } from './serving.ts';
import { callOf as questionOf, virtual } from './virtual.ts';

const limitOf = (pool: EndpointPool): number => pool.stats().endpoints[0]?.limit ?? 0;

test('a limit that a person has set is divided, and whole again for the last one', async () => {
  const held: Ask[] = [];
  const server = await serve(ask => void held.push(ask));
  const pools = [
    await open([{ url: server.url, limit: 9, pinned: true }]),
    await open([{ url: server.url, limit: 9, pinned: true }]),
  ] as const;
  for (const pool of pools) {
    pool.shareLimit('http://elsewhere/v1', 5);
    pool.shareLimit(server.url, 2);
  }
  expect(pools.map(limitOf)).toEqual([4, 4]);
  expect(pools.map(pool => pool.itemsInFlight)).toEqual([8, 8]);
  const asked = pools.flatMap((pool, at) =>
    Array.from({ length: 12 }, (_, n) => outcome(pool, callOf({ item: `${at}-${n}`, key: `${at}-${n}` }))),
  );
  await server.reached(8);
  expect(held).toHaveLength(8);
  pools[1].stop();
  const grown = new Promise<void>(resolve => pools[0].onRoom(resolve));
  pools[0].shareLimit(server.url, 1);
  await grown;
  expect(limitOf(pools[0])).toBe(9);
  await server.reached(13); // nine of the first, four of the other
  for (const ask of held.splice(0)) echo(ask);
  await server.reached(16);
  for (const ask of held.splice(0)) echo(ask);
  const outcomes = await Promise.all(asked);
  expect(outcomes.filter(text => text === 'interrupted')).toHaveLength(8);
});

test('of more clients than calls each may have one', async () => {
  const server = await serve(echo);
  const pool = await open([{ url: server.url, limit: 4, pinned: true }]);
  pool.shareLimit(server.url, 7);
  expect(limitOf(pool)).toBe(1);
});

/** Clients of one simulated engine in virtual time, with what they had in flight together at the end of each second. */
async function several(count: number, shares: boolean) {
  let more: Partial<PoolOptions> = {};
  const { clock, pool, servers } = await virtual({ count: 1 }, ({ openWire }) => {
    more = { openWire };
    return {};
  });
  const pools = [pool];
  for (let n = 1; n < count; n++)
    pools.push(
      await clock.until(
        createPool({
          endpoints: [{ url: servers[0]!.url, limit: FIRST_LIMIT, pinned: false }],
          clock,
          random: () => 0.5,
          retryBudget: 0.2,
          warn: () => {},
          ...more,
        }),
      ),
    );
  onTestFinished(() => Promise.all(pools.map(one => one.close())).then(() => {}));
  if (shares) for (const one of pools) one.shareLimit(servers[0]!.url, count);
  let most = 0;
  const look = clock.every(1_000, () => {
    most = Math.max(
      most,
      pools.map(one => one.stats().inFlight).reduce((sum, here) => sum + here, 0),
    );
  });
  const calls = 6_000 / count;
  const begun = clock.now();
  const work = async (one: EndpointPool, at: number): Promise<void> => {
    let asked = 0;
    const ask = async (): Promise<void> => {
      while (asked < calls) {
        asked += 1;
        await one.call(questionOf(at * 1e6 + asked, `question ${at} ${asked}`));
      }
    };
    await Promise.all(Array.from({ length: 600 }, ask));
  };
  await clock.until(Promise.all(pools.map(work)));
  look.stop();
  return { most, limits: pools.map(limitOf), seconds: (clock.now() - begun) / 1_000 };
}

test('several that learn have together what one alone would have, and are as fast', async () => {
  const alone = await several(1, false);
  const together = await several(3, true);
  const apart = await several(3, false);
  expect(together.most).toBeLessThan(1.3 * alone.most);
  expect(together.seconds).toBeLessThan(1.15 * alone.seconds);
  expect(apart.most).toBeGreaterThan(1.5 * together.most);
});
