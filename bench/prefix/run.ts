/** Requests of chat on simulated servers in virtual time, through the stage, the look-ahead and the pool as they are. */
import { poolSettings } from '../../engine/asking/endpoints/settings.ts';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { drain, openRow } from '../../engine/flow/join.ts';
import { given } from '../../engine/flow/pull.ts';
import type { Tools } from '../../engine/flow/stage.ts';
import { type Preset, readPreset } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { virtualClock } from '../../products/simulator/virtual-clock.ts';
import {
  VIRTUAL_MODEL,
  type VirtualServer,
  virtualServers,
} from '../../products/simulator/virtual-servers.ts';
import request from '../../stages/request.ts';

export interface Asked {
  texts: readonly string[];
  servers: number;
  /** tokens of an answer */
  output?: number;
  /** 1: as they come */
  lookAhead?: number;
  /** a pipe, of which a window is read ahead, where it is no file */
  pipe?: boolean;
  preset?: Preset;
  /** at a time, at each server; absent: as the pool finds it */
  limit?: number;
  /** is given the servers, to break them */
  onOpen?: (servers: VirtualServer[], after: (ms: number, act: () => void) => void) => void;
}

export interface Came {
  /** seconds */
  makespan: number;
  /** of the prompt tokens, the share that came from a cache */
  cached: number;
  failed: number;
  stats: PoolStats;
  /** ids in the order in which they were answered */
  ids: string[];
}

export async function ask(asked: Asked): Promise<Came> {
  const { clock, pool } = await opened(asked);
  const began = clock.now();
  const { account, ids, done } = await flowing(pool, asked);
  await clock.until(done);
  const makespan = (clock.now() - began) / 1000;
  const stats = pool.stats();
  await pool.close();
  const { prompt, cached = 0 } = stats.usage;
  return { makespan, cached: cached / prompt, failed: account.rungs.failed, stats, ids };
}

/** Two batches of two owners at once: of what was answered until one of them was through, the share of the first. */
export async function askBoth(
  texts: readonly [readonly string[], readonly string[]],
  more: Omit<Asked, 'texts'>,
): Promise<{ firstHalf: number }> {
  const { clock, pool } = await opened({ ...more, texts: [] });
  const own = pool.part({ share: { owner: 'own', batch: 'own', weight: 1 } });
  const other = pool.part({ share: { owner: 'other', batch: 'other', weight: 1 } });
  const first = await flowing(own, { ...more, texts: texts[0] });
  const second = await flowing(other, { ...more, texts: texts[1] });
  await clock.until(Promise.race([first.done, second.done]));
  const firstHalf = first.ids.length / (first.ids.length + second.ids.length);
  await clock.until(Promise.all([first.done, second.done]));
  await clock.until(pool.close());
  return { firstHalf };
}

async function opened(asked: Asked) {
  const { servers: count, preset = readPreset('8b-a100-80g') } = asked;
  const clock = virtualClock();
  const { servers, openWire } = virtualServers(clock, { preset, count, seed: 1 });
  asked.onOpen?.(servers, (ms, act) => void clock.after(ms, act));
  const { limit } = asked;
  const endpoints = servers.map(({ url }) => ({ url, ...(limit && { limit }) }));
  const settings = poolSettings({ pool: { endpoints, model: VIRTUAL_MODEL } }, {});
  const pool = await clock.until(
    createPool({ ...settings, openWire, clock, random: lcg(1), models: [], warn: () => {} }),
  );
  return { clock, pool };
}

/** The lines flow through the stage; `done` once all are answered. */
async function flowing(pool: EndpointPool, { texts, output = 64, lookAhead, pipe }: Asked) {
  const account = newAccount('prefix');
  const never = new AbortController().signal;
  const tools: Tools = {
    ...{ base: '.', files: [], signal: never, asking: never, account, started: new Date(0) },
    warn: () => {},
    pool: async () => pool,
  };
  const options = { ...(lookAhead && { 'look-ahead': lookAhead }) };
  const flow = await openRow([{ stage: request, options, tools }], pipe !== true);
  let next = 0;
  const source = (): Item | null => {
    const text = texts[next];
    if (text === undefined) return null;
    const messages = [{ role: 'user', content: text }];
    const body = { model: VIRTUAL_MODEL, messages, max_tokens: output, min_tokens: output, ignore_eos: true };
    return { id: `r${next++}`, request: { method: 'POST', url: '/v1/chat/completions', body } } as Item;
  };
  const ids: string[] = [];
  const out = {
    write: (item: Item) => ids.push(item.id as string) > 0,
    ready: (act: () => void) => act(),
    pass: () => true,
    end: async () => {},
  };
  return { account, ids, done: drain(flow(given(source)), out, account) };
}
