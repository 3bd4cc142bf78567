/** Chains of four calls on a server that takes so many at once, in virtual time, through the pool as it is. */

import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { lcg } from '../../products/simulator/random.ts';
import { virtualClock } from '../../products/simulator/virtual-clock.ts';
import { type Limited, limitedServer } from './server.ts';

export interface Chains {
  server: Limited;
  chains: number;
  /** calls at once, set by hand; undefined: nothing is set */
  limit?: number;
  inFlight?: number;
  /** sees how the limit moves: seconds, limit, calls at the server */
  watch?: (seconds: number, limit: number, here: number) => void;
}

export interface Ran {
  /** seconds until the last chain was done */
  makespan: number;
  /** where the limit stood at the end */
  limit: number;
  /** chains that failed, and requests beyond one a call */
  failed: number;
  extra: number;
}

const STEPS = 4;
const BODY = Buffer.from('{"model":"limited","messages":[]}');

export async function runChains({ server: setting, chains, limit, inFlight, watch }: Chains): Promise<Ran> {
  const clock = virtualClock();
  const server = limitedServer(clock, setting);
  const pinned = limit !== undefined;
  const pool = await clock.until(
    createPool({
      endpoints: [{ url: server.url, limit: limit ?? FIRST_LIMIT, pinned, meant: inFlight }],
      openWire: server.openWire,
      clock,
      random: lcg(7),
      retryBudget: 0.2,
      inFlight,
      warn: () => {},
    }),
  );
  const stopWatching =
    watch &&
    clock.every(100, () => {
      const { limit } = pool.stats().endpoints[0] as { limit: number };
      watch(clock.now() / 1000, limit, server.here());
    });
  let begun = 0;
  let open = 0;
  let failed = 0;
  let ended: () => void = () => {};
  const done = new Promise<void>(resolve => {
    ended = resolve;
  });
  const began = clock.now();
  const begin = (): void => {
    while (begun < chains && open < pool.itemsInFlight) void chain(begun++);
  };
  pool.onRoom(begin);
  async function chain(row: number): Promise<void> {
    open++;
    try {
      for (let step = 1; step <= STEPS; step++) await pool.call(callOf(row, step));
    } catch {
      failed++;
    }
    open--;
    if (begun === chains && open === 0) ended();
    begin();
  }
  begin();
  await clock.until(done);
  const makespan = (clock.now() - began) / 1000;
  stopWatching?.stop();
  const { endpoints, answered } = pool.stats();
  await pool.close();
  const tried = answered + server.sentAway();
  return { makespan, limit: endpoints[0]?.limit ?? 0, failed, extra: tried - STEPS * chains };
}

function callOf(row: number, step: number): Call {
  return {
    path: '/chat/completions',
    model: 'limited',
    body: BODY,
    head: '',
    tail: '',
    key: `${row}/${step}`,
    item: `row-${row}`,
    agent: `agent-${step}`,
    round: 0,
    attempt: 1,
  };
}
