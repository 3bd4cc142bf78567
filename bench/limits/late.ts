/**
 * A client that is late itself, in virtual time: what it is told waits in line, each answer takes some of its time, and now
 * and then it does nothing at all. Its servers are fast and never full, so that what they seem to take is its own time.
 */

import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import type { OpenWire } from '../../engine/asking/endpoints/wire.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { lcg } from '../../products/simulator/random.ts';
import { type VirtualClock, virtualClock } from '../../products/simulator/virtual-clock.ts';
import { limitedServer } from './server.ts';

/** idle; in loops by phases of its own; always in loops; stopped for 2 s (SIGSTOP) every 7 s */
export const BUSY = ['never', 'by turns', 'always', 'stopped'] as const;
export type Busy = (typeof BUSY)[number];

export interface Late {
  busy: Busy;
  /** ms of the client that an answer takes */
  cost: number;
  /** set by hand; undefined: learned */
  limit?: number;
  seed?: number;
  /** seconds: not counted at first, and counted */
  warm?: number;
  seconds?: number;
  watch?: (seconds: number, limits: number[]) => void;
}

const SERVERS = ['http://a:8000', 'http://b:8000'];
const OUT = 1_200;
const LATENCY = 40;
const BODY = Buffer.from('{"model":"limited","messages":[]}');

/** Answers a second, and the limits in the end. */
export async function runLate({ busy, cost, limit, seed = 1, warm = 20, seconds = 20, watch }: Late) {
  const clock = virtualClock();
  const loop = eventLoop(clock);
  const servers = SERVERS.map((_, n) =>
    limitedServer(clock, {
      ...{ places: 100_000, beyond: 'queue', metrics: false, random: 0 },
      ...{ answer: LATENCY, spread: 0.02, seed: seed + n },
    }),
  );
  const openWire: OpenWire = (origin, ...rest) => {
    const wire = servers[SERVERS.indexOf(origin)]?.openWire(origin, ...rest);
    if (wire === undefined) throw new Error(`expected one of ${SERVERS.join(', ')}, found ${origin}`);
    return {
      ...wire,
      send: (request, settle) =>
        wire.send(request, outcome => loop.run(request.method === 'POST' ? cost : 0, () => settle(outcome))),
    };
  };
  const pool = await clock.until(
    createPool({
      endpoints: SERVERS.map(url => ({
        url: `${url}/v1`,
        limit: limit ?? FIRST_LIMIT,
        pinned: limit !== undefined,
      })),
      ...{ openWire, clock: loop.clock, random: lcg(seed), retryBudget: 0.2, warn: () => {} },
    }),
  );
  beBusy(busy, loop.stop, clock, lcg(seed + 7));
  let answers = 0;
  let asked = 0;
  const ask = async (): Promise<void> => {
    for (;;) {
      await pool.call(callOf(asked++));
      answers++;
    }
  };
  for (let n = 0; n < OUT; n++) void ask();
  const limits = (): number[] => pool.stats().endpoints.map(endpoint => endpoint.limit);
  if (watch) clock.every(1_000, () => watch(clock.now() / 1_000, limits()));
  const after = (s: number): Promise<void> => new Promise(resolve => void clock.after(s * 1_000, resolve));
  await clock.until(after(warm));
  const before = answers;
  await clock.until(after(seconds));
  return { rate: (answers - before) / seconds, limits: limits() };
}

/** One thing after the other, and nothing while it is stopped. */
function eventLoop(clock: VirtualClock) {
  const line: { cost: number; act: () => void }[] = [];
  let first = 0;
  let isAtWork = false;
  let stoppedUntil = 0;
  function next(): void {
    const job = line[first];
    if (isAtWork || job === undefined) return;
    isAtWork = true;
    clock.at(Math.max(clock.now(), stoppedUntil) + job.cost, end);
  }
  function end(): void {
    if (clock.now() < stoppedUntil) return void clock.at(stoppedUntil, end);
    const { act } = line[first++] as { act: () => void };
    if (first > 4_096) line.splice(0, first);
    if (first > 4_096) first = 0;
    isAtWork = false;
    act();
    next();
  }
  const run = (cost: number, act: () => void): void => {
    line.push({ cost, act });
    next();
  };
  const own: Clock = {
    delays(resolution) {
      let [count, sum, at] = [0, 0, clock.now()];
      const look = (): void => {
        sum += clock.now() - at;
        count++;
        at = clock.now();
      };
      const reset = (): void => {
        count = 0;
        sum = 0;
      };
      own.every(resolution, look);
      return {
        get count() {
          return count;
        },
        get mean() {
          return (1e6 * sum) / count;
        },
        ...{ reset, enable: () => {}, disable: () => {} },
      };
    },
    now: clock.now,
    date: clock.date,
    after(ms, act) {
      let isOff = false;
      const callOff = clock.after(ms, () => run(0, () => isOff || act()));
      return () => {
        isOff = true;
        callOff();
      };
    },
    every(ms, act) {
      let callOff = own.after(ms, tick);
      function tick(): void {
        callOff = own.after(ms, tick);
        act();
      }
      return { stop: () => callOff(), hold: () => {} };
    },
  };
  const stop = (ms: number): void => {
    stoppedUntil = Math.max(stoppedUntil, clock.now() + ms);
  };
  return { clock: own, run, stop };
}

function beBusy(busy: Busy, stop: (ms: number) => void, clock: VirtualClock, random: () => number): void {
  if (busy === 'stopped') clock.every(7_000, () => stop(2_000));
  if (busy !== 'by turns' && busy !== 'always') return;
  const phase = (): void => {
    const until = clock.now() + 500 + 3_000 * random();
    const turn = (): void => {
      if (clock.now() >= until)
        return void clock.after(busy === 'always' ? 0 : 500 + 3_000 * random(), phase);
      const ms = 10 + 40 * random();
      stop(ms);
      clock.after(ms + 20 * random(), turn);
    };
    turn();
  };
  phase();
}

const callOf = (n: number): Call => ({
  ...{ path: '/chat/completions', model: 'limited', body: BODY, head: '', tail: '' },
  ...{ key: `${n}`, item: `row-${n}`, agent: 'agent', round: 0, attempt: 1 },
});
