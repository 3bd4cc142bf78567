/**
 * The pool of a run that asks nobody itself: its endpoints are those of the workers, its sums those of what came back. So
 * progress, the account and the verdict of such a run are those of any other.
 */

import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import type { EndpointStats, PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import type { AskedTotals } from '../../engine/core/item/account.ts';
import { CallFailure } from '../../engine/core/item/call.ts';
import type { Desk } from './desk.ts';
import type { KnownWorker } from './known-workers.ts';
import type { PlannedWork } from './shard-work.ts';

/** Endpoints of workers that progress and metrics name: two thousand workers may each say a thousand. */
const MOST_SHOWN = 10_000;

/** `work` is null until its lines have all come. */
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
