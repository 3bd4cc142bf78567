/**
 * The pool in virtual time: the pool and the chain as they are, on simulated engines, against what could be had of the
 * same servers. Prints a table; the same numbers on every machine.
 *
 *   make bench-pool
 */

import { type VirtualClock, virtualClock } from '../bin/virtual/clock.ts';
import { type VirtualServer, type VirtualSettings, virtualServers } from '../bin/virtual/servers.ts';
import { chainOf } from '../engine/agents/chain.ts';
import { loadAgents, packagedAgents } from '../engine/agents/load.ts';
import { resolveOrderings } from '../engine/agents/orderings.ts';
import type { Item } from '../engine/flow/item.ts';
import type { PoolOptions } from '../engine/pool/contract.ts';
import { createPool } from '../engine/pool/pool.ts';
import { presetNamed } from '../engine/simulator/presets.ts';

interface Case extends Partial<VirtualSettings> {
  items: number;
  speeds?: number[];
  /** pinned limits; absent: the pool finds them */
  places?: number[];
  inFlight?: number;
  pool?: Partial<PoolOptions>;
  script?: (clock: VirtualClock, servers: VirtualServer[]) => void;
}

export interface Result {
  /** seconds from the first call to the last answer, and until there was no new item to begin */
  makespan: number;
  full: number;
  /** answers until then */
  answersThen: number;
  calls: number;
  failed: number;
  retries: number;
  outputTokens: number;
  cachedShare: number;
  preemptions: number;
  limits: number[];
  busy: number[];
  share: number[];
}

const agents = loadAgents(packagedAgents());
const orderings = resolveOrderings('batch4', agents);
const preset = presetNamed(process.env.PRESET ?? '3b-a6000');

/** Prompts of about 500 tokens, no two alike. */
function itemOf(row: number): Item {
  const ordering = orderings[row % orderings.length] as string[];
  const prompt = `Application ${row}. ${'The applicant asks for a loan and states income, age, debts and purpose. '.repeat(26)}`;
  return { id: `row-${row}`, row, prompt, ordering, input: {} };
}

export async function run(one: Case): Promise<Result> {
  const clock = virtualClock();
  const count = one.speeds?.length ?? one.count ?? 3;
  const { servers, openWire } = virtualServers(clock, { preset, count, seed: 7, ...one });
  for (const [at, speed] of (one.speeds ?? []).entries()) servers[at]?.setSpeed(speed);
  const endpoints = servers.map(({ url }, at) => {
    const limit = one.places?.[at % one.places.length];
    return { url, limit: limit ?? 256, pinned: limit !== undefined };
  });
  let seed = 1;
  const random = (): number => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  const settings = { endpoints, openWire, clock, random, retryBudget: 0.2, warn: say, ...one.pool };
  const made = await clock.until(createPool(settings));
  one.script?.(clock, servers);
  const chain = chainOf(agents, made, {
    attempts: 3,
    guided: true,
    seed: 0,
    redact: [],
    onNothingToRedact: () => {},
  });
  let next = 0;
  let failed = 0;
  let full = 0;
  let answersThen = 0;
  const began = clock.now();
  const work = async (): Promise<void> => {
    while (next < one.items) {
      const item = itemOf(next++);
      if (next === one.items) {
        full = (clock.now() - began) / 1000;
        answersThen = made.stats().answered;
      }
      try {
        await chain.decision(await chain.steps(item, item.ordering as string[]));
      } catch (error) {
        if (process.env.DEBUG) console.error(String(error));
        failed++;
      }
    }
  };
  const workers = Array.from({ length: one.inFlight ?? made.itemsInFlight }, work);
  await clock.until(Promise.all(workers));
  const makespan = (clock.now() - began) / 1000;
  const stats = made.stats();
  await made.close();
  const states = servers.map(server => server.state());
  return {
    makespan,
    full,
    answersThen,
    calls: stats.calls,
    failed,
    retries: stats.retries,
    outputTokens: stats.usage.completion,
    cachedShare: stats.usage.cached / stats.usage.prompt,
    preemptions: states.reduce((sum, { preemptions }) => sum + preemptions, 0),
    limits: stats.endpoints.map(({ limit }) => limit),
    busy: states.map(({ busyMs }) => busyMs / 1000 / makespan),
    share: stats.endpoints.map(({ answered }) => answered / stats.answered),
  };
}

function say(message: string): void {
  if (process.env.DEBUG) console.error(message);
}

export function show(name: string, result: Result): void {
  const { makespan, calls, failed, retries, outputTokens, cachedShare, preemptions, limits, busy, share } =
    result;
  const list = (values: number[], digits = 2) => values.map(value => value.toFixed(digits)).join(' ');
  console.log(
    `${name.padEnd(34)} ${makespan.toFixed(1).padStart(8)} s ${(calls / makespan).toFixed(1).padStart(7)} calls/s ` +
      `${(outputTokens / makespan).toFixed(0).padStart(6)} tok/s  cached ${cachedShare.toFixed(2)} retries ${retries} failed ${failed} ` +
      `preempted ${preemptions} limits ${limits.join(' ')} busy ${list(busy)} share ${list(share)}`,
  );
}
