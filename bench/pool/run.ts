/** One run in virtual time: the chain as it is, on the pool as it is or on what scripts have in its place. */

import { chainOf } from '../../engine/asking/agents/ask-chain.ts';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { resolveOrderings } from '../../engine/asking/agents/orderings.ts';
import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { type Preset, presetNamed } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { type VirtualClock, virtualClock } from '../../products/simulator/virtual-clock.ts';
import { type VirtualServer, virtualServers } from '../../products/simulator/virtual-servers.ts';
import { scriptPool } from './scripts.ts';

export interface Run {
  items: number;
  /** of each server, as a share of the preset's */
  speeds: readonly number[];
  /** the pool finds its limits, or is given them by hand; or a script takes its place */
  by: 'pool' | 'turns' | 'shares' | { limit: number };
  metrics?: boolean;
  /** another GPU or model than PRESET */
  preset?: Preset;
  /** what happens to the servers while it runs */
  events?: (clock: VirtualClock, servers: readonly VirtualServer[]) => void;
}

export interface Ran {
  /** seconds until the last answer, and until there was no new item to begin */
  makespan: number;
  full: number;
  /** answers in each of them */
  answers: number;
  answersThen: number;
  failedItems: number;
  /** tries that a server has seen beyond the answers */
  extra: number;
  /** where the limits stand at the end; none where nobody moved them */
  limits: number[];
}

export const PRESET = presetNamed('3b-a6000');
const agents = loadAgents(packagedAgents());
const orderings = resolveOrderings('batch4', agents);
const WORDS = 'The applicant asks for a loan and states income, age, debts and purpose. '.repeat(26);

function itemOf(row: number): Item {
  const ordering = orderings[row % orderings.length] as string[];
  return { id: `row-${row}`, row, prompt: `Application ${row}. ${WORDS}`, ordering, input: {} };
}

export async function run({ items, speeds, by, metrics = true, preset = PRESET, events }: Run): Promise<Ran> {
  const clock = virtualClock();
  const settings = { preset, count: speeds.length, seed: 7, metrics };
  const { servers, openWire } = virtualServers(clock, settings);
  for (const [at, server] of servers.entries()) server.setSpeed(speeds[at] as number);
  events?.(clock, servers);

  const urls = servers.map(({ url }) => url);
  const scripted = by === 'turns' || by === 'shares' ? scriptPool({ urls, openWire, clock, by }) : null;
  const limit = typeof by === 'object' ? by.limit : FIRST_LIMIT;
  const endpoints = urls.map(url => ({ url, limit, pinned: typeof by === 'object' }));
  const warn = (): void => {};
  const own = scripted
    ? null
    : await clock.until(createPool({ endpoints, openWire, clock, random: lcg(1), retryBudget: 0.2, warn }));
  const pool = scripted ?? own;
  if (pool === null) throw new Error('there is a script or a pool');
  const answered = (): number => scripted?.answered() ?? own?.stats().answered ?? 0;

  const options = { attempts: 3, guided: 'on' as const, seed: 0, redact: [], onNothingToRedact: () => {} };
  const chain = chainOf(agents, pool, options);
  const ran: Ran = { makespan: 0, full: 0, answers: 0, answersThen: 0, failedItems: 0, extra: 0, limits: [] };
  let next = 0;
  let open = 0;
  let end = (): void => {};
  const ended = new Promise<void>(resolve => {
    end = resolve;
  });
  const begin = (): void => {
    while (next < items && open < pool.itemsInFlight) void work(itemOf(next++));
  };
  async function work(item: Item): Promise<void> {
    open++;
    if (next === items) {
      ran.full = clock.now() / 1000;
      ran.answersThen = answered();
    }
    try {
      await chain(item, item.ordering as string[], true);
    } catch {
      ran.failedItems += 1;
    }
    if (--open === 0 && next === items) end();
    begin();
  }
  pool.onRoom(begin);
  begin();
  await clock.until(ended);
  ran.makespan = clock.now() / 1000;
  ran.answers = answered();
  ran.extra = own?.stats().retries ?? 0;
  ran.limits = own?.stats().endpoints.map(endpoint => endpoint.limit) ?? [];
  await pool.close();
  return ran;
}
