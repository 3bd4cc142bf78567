/** The counts and sums of time that progress and the account show: per endpoint, and over all of them. */
import type { Usage } from '../../core/item/item.ts';
import { averageGpu, type Gpu, type GpuSum, noteGpu } from '../endpoints/gpu.ts';
import { medianOf } from '../endpoints/pool-clock.ts';
import {
  averageOf,
  type Load,
  type LoadSum,
  noLoads,
  noteLoad,
  type Said,
} from '../endpoints/server-load.ts';
import { isForOthers } from './choose.ts';
import { isUsable } from './health.ts';
import type { BatchShareState, Endpoint, EndpointCounts, Sums, Ticket } from './pool-state.ts';
import type { Spending } from './spending.ts';

export interface EndpointStats extends EndpointCounts {
  url: string;
  state: Endpoint['state'] | 'paused';
  /** why it is not up, in words */
  cause: string;
  /** it is taken out, and goes once its calls have ended */
  leaving?: true;
  /** those that it serves, as it said last; empty while it was never seen up, and of one that leaves */
  models: string[];
  /** ms until a paused one is asked again */
  pausedFor: number;
  inFlight: number;
  limit: number;
  /** a person has set the limit */
  pinned: boolean;
  /** what batches have of it beside live calls; left out where there are none */
  share?: BatchShareState;
  /** ms that the oldest call has been there; null where there is none */
  oldest: number | null;
  /** what its metrics said last; null where it has none */
  load: Load | null;
  /** … and on average over the time in which it said it, but preemptions in all */
  said: Said | null;
  /** how busy its GPUs are, as was said last, and on average over the time in which it was said; null where it is not */
  gpu: Gpu | null;
  gpuOverall: Gpu | null;
  /** its answers by how many calls were there before them: 1, 2 and 3, 4 to 7, … ; those without any are left out */
  levels: ConcurrencyLevel[];
  /** of the recent answers, in ms; null before the first */
  medianLatency: number | null;
  /** what it was seen to lack; left out where that is nothing */
  lacks?: Lacks;
}

export interface Lacks {
  /** it says nothing of its load and its tokens at /metrics */
  metrics: boolean;
  /** tries that went without the form of their answers, which it does not know */
  formless: number;
}

/** Sums over answers. */
export interface ConcurrencyLevel {
  answers: number;
  /** calls there when the answered one was sent, itself among them */
  calls: number;
  ms: number;
  /** of the answers; 0 where the server does not say */
  tokens: number;
}

/** It is reached, though it may throttle calls, or rest from those that failed: what is up follows no load. */
export const isThere = ({ state }: Pick<EndpointStats, 'state'>): boolean =>
  state === 'up' || state === 'paused';

/** Nobody waits for it to say what it serves. */
export const isSettled = ({ state }: Pick<EndpointStats, 'state'>): boolean =>
  state === 'unusable' || state === 'drained';

export interface PoolStats extends Sums {
  endpoints: EndpointStats[];
  inFlight: number;
  waiting: number;
  /** ms since the pool was made; of it, those in which calls waited for a place, and in which no endpoint was available */
  since: number;
  saturatedMs: number;
  noEndpointMs: number;
  /** ms of it in which this process was suspended; what calls took of them is in none of the other sums */
  suspendedMs: number;
  /** what a run has spent, where something has a price or a bound */
  spent?: ReturnType<Spending['sum']>;
  /** where other processes ask: the items that they have now, and what they did, in words for the end */
  elsewhere?: { items: number; told: readonly string[] };
}

export function createTally(endpoints: readonly Endpoint[], madeAt: number) {
  let saturatedMs = 0;
  let noEndpointMs = 0;
  let suspendedMs = 0;
  // of a server they come and go
  const byEndpoint = new WeakMap<Endpoint, Seen>();
  function seenOf(endpoint: Endpoint): Seen {
    const seen = byEndpoint.get(endpoint) ?? {
      levels: [],
      loads: noLoads(),
      gpus: { ms: 0, use: 0, memory: 0 },
    };
    byEndpoint.set(endpoint, seen);
    return seen;
  }
  /** It leaves all that it serves to others: its places are none that this work has. */
  const isLeftOut = (endpoint: Endpoint, now: number): boolean =>
    endpoint.helps !== null &&
    [...endpoint.models].every(model => isForOthers(endpoint, { model }, { all: endpoints, now }));
  return {
    /** `ticket` was answered at `now`, by the try that is under way. */
    answered({ sentAt, among }: Ticket, endpoint: Endpoint, { completion }: Usage, now: number): void {
      noteLevel(seenOf(endpoint).levels, among, now - sentAt, completion);
    },
    /** `ms` have passed since the last tick, with so many calls in the pool and of these waiting for a place. */
    tick(ms: number, now: number, calls: number, waiting: number): void {
      let anyUsable = false;
      for (const endpoint of endpoints) {
        const isThere = isUsable(endpoint, now) && !isLeftOut(endpoint, now);
        anyUsable ||= isThere || endpoint.isShut;
        // calls that run where the limit was cut, or that outlast a rest, have places too
        endpoint.counts.places +=
          ms * Math.max(isThere ? Math.floor(endpoint.limit) : 0, endpoint.running.length);
        const seen = seenOf(endpoint);
        if (endpoint.load !== null) noteLoad(seen.loads, endpoint.load, ms);
        if (endpoint.gpu !== null) noteGpu(seen.gpus, endpoint.gpu, ms);
      }
      if (anyUsable) saturatedMs += waiting > 0 ? ms : 0;
      else noEndpointMs += calls > 0 ? ms : 0;
    },
    /** This process was suspended for `ms`. */
    suspended(ms: number): void {
      suspendedMs += ms;
    },
    /** A copy, free to keep: of the whole pool, with the sums of one part of it. */
    stats(
      sums: Sums,
      waiting: number,
      now: number,
      spending: Pick<Spending, 'sum'> | null = null,
    ): PoolStats {
      const each = endpoints.map(endpoint => endpointStats(endpoint, seenOf(endpoint), now));
      return {
        ...sums,
        waiting,
        endpoints: each,
        inFlight: each.reduce((total, { inFlight }) => total + inFlight, 0),
        since: now - madeAt,
        saturatedMs,
        noEndpointMs,
        suspendedMs,
        ...(spending && { spent: spending.sum(now) }),
      };
    },
  };
}

export type Tally = ReturnType<typeof createTally>;

interface Seen {
  levels: ConcurrencyLevel[];
  loads: LoadSum;
  gpus: GpuSum;
}

function noteLevel(levels: ConcurrencyLevel[], calls: number, ms: number, tokens: number): void {
  const at = 31 - Math.clz32(calls);
  for (let empty = levels.length; empty <= at; empty++)
    levels.push({ answers: 0, calls: 0, ms: 0, tokens: 0 });
  const level = levels[at] as ConcurrencyLevel;
  level.answers += 1;
  level.calls += calls;
  level.ms += ms;
  level.tokens += tokens;
}

function endpointStats(endpoint: Endpoint, { levels, loads, gpus }: Seen, now: number): EndpointStats {
  const { url, state, cause, models, running, limit, pinned, load, gpu, latencies, counts, lacks } = endpoint;
  const share = endpoint.share?.state();
  let oldest: number | null = null;
  for (const { sentAt } of running) oldest = Math.max(oldest ?? 0, now - sentAt);
  return {
    ...counts,
    failed: { ...counts.failed },
    usage: { ...counts.usage },
    url,
    state: state === 'up' && endpoint.pausedUntil > now ? 'paused' : state,
    cause,
    ...(endpoint.leaving && { leaving: true as const }),
    models: endpoint.leaving ? [] : [...models],
    pausedFor: Math.max(0, endpoint.pausedUntil - now),
    inFlight: running.length,
    limit: Math.floor(limit),
    pinned,
    ...(share && { share }),
    oldest,
    load: load && { ...load },
    said: averageOf(loads),
    gpu: gpu && { ...gpu },
    gpuOverall: averageGpu(gpus),
    levels: levels.filter(level => level.answers > 0).map(level => ({ ...level })),
    medianLatency: latencies.count === 0 ? null : medianOf(latencies),
    ...((lacks.metrics || lacks.formless > 0) && {
      lacks: { metrics: lacks.metrics === true, formless: lacks.formless },
    }),
  };
}
