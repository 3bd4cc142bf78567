/**
 * The stage that stands for stages which workers run: it takes all items, plans them as shards, and gives out what comes
 * back, a shard at a time, in the order in which shards are done. And the pool of such a run, which asks nobody itself.
 */

import { beginsOf } from '../../engine/asking/agents/raw-request.ts';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import type { EndpointStats, PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import type { ByteInput } from '../../engine/core/files/input-files.ts';
import { letGo, originOf } from '../../engine/core/files/origin.ts';
import type { AskedTotals } from '../../engine/core/item/account.ts';
import { CallFailure } from '../../engine/core/item/call.ts';
import { type Item, saysEnd } from '../../engine/core/item/item.ts';
import { afterwards } from '../../engine/flow/afterwards.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { type Stage, stage } from '../../engine/flow/stage.ts';
import type { Desk } from './desk.ts';
import type { KnownWorker } from './known-workers.ts';
import { newPlanner } from './shard-plan.ts';
import type { PlannedWork, Work } from './shard-work.ts';

export interface ShardingOptions {
  desk: Desk;
  /** the work, and its folder, given the SHA-256 of its lines: the same lines go on where they were */
  workOf(sha256: string): Work & { folder: string };
  /** a path on the disk of that folder, for the lines until all are here */
  spool: string;
  /** The model whose workers may take a line; unless given all lines are for the same workers. */
  modelOf?(item: Item): string;
  /** What is to be known of the lines once all have come, and before they are given out. */
  settle?(): Promise<void>;
  /** told once the work is open */
  onOpen?(work: PlannedWork): void;
}

export const NAME = 'sharding';

/** bytes: an answer makes a line longer than the input may have, and what workers hand in was bounded when it came */
const WHOLE = Number.MAX_SAFE_INTEGER;

export function sharding({ desk, workOf, spool, modelOf, settle, onOpen }: ShardingOptions): Stage {
  return stage({
    name: NAME,
    summary: 'Let workers ask.',
    asks: 'always',
    options: { 'max-line': COMMON['max-line'] },
    async through(_options, tools) {
      const { signal, account } = tools;
      await tools.pool({ stage: NAME, agents: {}, options: {} });
      const planner = newPlanner(spool);
      let own: (Work & { folder: string }) | undefined;
      /** that the input is not whole is no work: it is passed on behind the others */
      const ends: Buffer[] = [];

      function take(item: Item): void {
        if (saysEnd(item)) ends.push(bytesOf(item));
        else planner.add(bytesOf(item), beginsOf(item)?.texts(), modelOf?.(item));
        letGo(item);
      }

      async function opened(): Promise<ByteInput> {
        await settle?.().catch(error => {
          if (!signal.aborted) throw error;
        });
        if (signal.aborted) {
          planner.drop(); // a plan is always of the whole
          return inputOf(async () => null);
        }
        const plan = planner.finish(sha256 => {
          own = workOf(sha256);
          return own.folder;
        });
        const work = desk.open(own as Work, plan);
        account.workloads.push(work.workload);
        onOpen?.(work);
        signal.addEventListener('abort', () => work.close(), { once: true });
        return inputOf(async () => {
          const lines = await work.next();
          if (lines !== null) return lines;
          // what is only stopped goes on another time: workers keep what they have, and may still hand it in
          if (signal.aborted) return null;
          desk.drop(work.id);
          return ends.shift() ?? null;
        });
      }
      return afterwards(take, opened, { stage: NAME, maxLine: WHOLE, stopped: () => false });
    },
  });
}

/** As it would go through a pipe. */
function bytesOf(item: Item): Buffer {
  const origin = originOf(item);
  if (origin === undefined) return Buffer.from(`${JSON.stringify(item)}\n`);
  const { block, from, to } = origin;
  const bytes = block.subarray(from, to);
  return bytes.at(-1) === 0x0a ? bytes : Buffer.concat([bytes, Buffer.from('\n')]);
}

function inputOf(next: () => Promise<Buffer | null>): ByteInput {
  return {
    name: 'the workers',
    regular: true,
    async read(rest) {
      const block = await next();
      if (block === null || rest === null || rest.length === 0) return block;
      return Buffer.concat([rest, block]);
    },
    close() {},
  };
}

/** Endpoints of workers that progress and metrics name: two thousand workers may each say a thousand. */
const MOST_SHOWN = 10_000;

/**
 * The pool of a run that asks nobody itself: its endpoints are those of the workers, its sums those of what came back. So
 * progress, the account and the verdict of such a run are those of any other. `work` is null until its lines have all come.
 */
export function remotePool(desk: Desk, work: () => PlannedWork | null): EndpointPool {
  const begun = performance.now();
  const notHere = (): never => {
    throw new Error('a run whose lines are done by workers asks nobody itself');
  };
  const stats = (): PoolStats => statsOf(desk, work(), performance.now() - begun);
  return {
    get model() {
      return work()?.model ?? 'unknown';
    },
    get itemsInFlight() {
      return desk.stats().here.reduce((sum, { places }) => sum + places, 0);
    },
    maxModelLength: undefined,
    onRoom() {},
    call: async () => {
      throw new CallFailure('interrupted', 'Workers ask, and not this process.');
    },
    ask: notHere,
    judge() {},
    asksWith() {},
    giveUp() {},
    verdict: () => undefined,
    stats,
    part: notHere,
    shareLimit() {},
    recall() {},
    kept: () => [],
    stop() {},
    abort() {},
    async close() {},
    tell: notHere,
    setEndpoints: () => [],
    setLive() {},
    drain: () => false,
    resume: () => false,
    wasServed: () => false,
    lookAtModels: async () => {},
  };
}

function statsOf(desk: Desk, work: PlannedWork | null, since: number): PoolStats {
  const { here, works } = desk.stats();
  const asked: AskedTotals | undefined = work?.asked;
  const endpoints: EndpointStats[] = [];
  for (const worker of here) {
    if (endpoints.length >= MOST_SHOWN) break;
    endpoints.push(...endpointsOf(worker));
  }
  endpoints.splice(MOST_SHOWN);
  return {
    calls: asked?.calls ?? 0,
    replayed: asked?.replayed ?? 0, // never null: what came back is on disk
    answered: asked?.calls ?? 0,
    failed: {},
    retries: asked?.retries ?? 0,
    usage: {
      prompt: asked?.promptTokens ?? 0,
      completion: asked?.completionTokens ?? 0,
      cached: asked?.cachedTokens ?? 0,
    },
    times: { waiting: 0, asking: 0, retrying: 0, writing: 0, mending: 0 },
    ledger: 0,
    waiting: 0,
    endpoints,
    inFlight: here.reduce(
      (sum, one) => sum + one.endpoints.reduce((all, { inFlight }) => all + inFlight, 0),
      0,
    ),
    since,
    saturatedMs: 0,
    noEndpointMs: 0,
    suspendedMs: 0,
    elsewhere: { items: works.find(({ id }) => id === work?.id)?.running ?? 0, told: [] },
  };
}

/** What a worker says of its endpoints; their counts are its own, and not known here. */
function endpointsOf({ host, models, endpoints }: KnownWorker): EndpointStats[] {
  return endpoints.map(({ url, isUp, inFlight, limit }) => ({
    ...{ answered: 0, checked: 0, unchecked: 0, otherModel: 0, retries: 0, busy: 0, places: 0 },
    ...{ failed: {}, usage: { prompt: 0, completion: 0, cached: 0 } },
    url: namesHost(url, host) ? url : `${url} (${host})`,
    state: isUp ? 'up' : 'down',
    cause: isUp ? '' : 'its worker does not reach it',
    models,
    pausedFor: 0,
    inFlight,
    limit,
    ...{ pinned: false, oldest: null, load: null, said: null, gpu: null, gpuOverall: null, levels: [] },
    medianLatency: null,
  }));
}

const namesHost = (url: string, host: string): boolean => URL.canParse(url) && new URL(url).hostname === host;
