/**
 * What the servers say of a run: deltas of their counters and histograms (GET /metrics) from its beginning to its end, and
 * their queue, KV cache and GPUs each second. What the client saw less what they say is the network, HTTP and the client.
 */

import {
  averageGpu,
  type Gpu,
  type GpuSum,
  lookAtGpus,
  noteGpu,
} from '../../../engine/asking/endpoints/gpu.ts';
import { type Clock, systemClock, TIMING, type Timing } from '../../../engine/asking/endpoints/pool-clock.ts';
import {
  type Load,
  metricsPath,
  type Page,
  PROMPT_TOKENS,
  pageOf,
  readLoad,
  saysKv,
  sumOf,
  WRITTEN_TOKENS,
} from '../../../engine/asking/endpoints/server-load.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { askingOf } from '../../../engine/asking/pool/probe.ts';

/** Histograms of vLLM, in seconds, by what they are called here. */
const TIMES = {
  ttft: 'vllm:time_to_first_token_seconds',
  tpot: 'vllm:request_time_per_output_token_seconds',
  e2el: 'vllm:e2e_request_latency_seconds',
  queue: 'vllm:request_queue_time_seconds',
  prefill: 'vllm:request_prefill_time_seconds',
  decode: 'vllm:request_decode_time_seconds',
} as const;
export type ServerTime = keyof typeof TIMES;

/** Names of new and old vLLM and of others; the first that has a value counts. */
const COUNTS = {
  promptTokens: PROMPT_TOKENS,
  outputTokens: WRITTEN_TOKENS,
  preemptions: ['vllm:num_preemptions_total', 'vllm:num_preemptions', 'sglang:num_retracted_requests_total'],
  prefixQueries: ['vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total'],
  prefixHits: ['vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total'],
} as const;
type Count = keyof typeof COUNTS;

/** What the servers say of a run. */
export type ServerView = ReturnType<typeof viewOf>;

/** Each second, in order. */
interface Timeline {
  /** requests in the batches and in the queues of all servers together */
  running: number[];
  waiting: number[];
  /** the largest share of the KV cache in use at any server, 0 to 1 */
  kv: number[];
  gpu: (number | null)[];
}

export interface Watched {
  /** as they said last; null where they say nothing */
  now(): { running: number; waiting: number; kv: number | null; gpu: number | null } | null;
  end(): Promise<ServerView>;
}

export interface ServerWatch {
  /** Begins to look at the first `servers`; the promise it returns is kept once all have been read. */
  begin(servers: number): Promise<Watched>;
  close(): Promise<void>;
}

export interface World {
  clock: Clock;
  timing?: Timing;
  warn(message: string): void;
}

const LOOK_MS = 1_000;

export function watchServers(
  endpoints: readonly Endpoint[],
  { clock, timing = TIMING, warn }: World,
): ServerWatch {
  const gpus = lookAtGpus({ endpoints, clock, timing, warn });

  const pageOfEndpoint = (endpoint: Endpoint): Promise<Page | null> =>
    pageFrom(endpoint, { clock, timing, until: clock.now() + timing.probeTimeout });

  async function begin(servers: number): Promise<Watched> {
    const asked = endpoints.slice(0, servers);
    const before = await Promise.all(asked.map(pageOfEndpoint));
    const seen = asked.filter((_, at) => before[at] !== null);
    const hasKv = before.some(page => page !== null && saysKv(page));
    const timeline: Timeline = { running: [], waiting: [], kv: [], gpu: [] };
    const gpuSum: GpuSum = { ms: 0, use: 0, memory: 0 };
    let isLooking = false;

    const note = (pages: readonly (Page | null)[]): void => {
      const loads = pages.flatMap(page => (page === null ? [] : (readLoad(page) ?? [])));
      const shown = asked.flatMap(({ gpu }) => gpu ?? []);
      for (const gpu of shown) noteGpu(gpuSum, gpu, LOOK_MS);
      if (loads.length === 0 && shown.length === 0) return;
      timeline.running.push(loads.reduce((sum, { running }) => sum + running, 0));
      timeline.waiting.push(loads.reduce((sum, { waiting }) => sum + waiting, 0));
      timeline.kv.push(loads.reduce((most, { kv }) => Math.max(most, kv), 0));
      timeline.gpu.push(
        shown.length === 0 ? null : shown.reduce((sum, { use }) => sum + use, 0) / shown.length,
      );
    };
    const look = async (): Promise<void> => {
      gpus.look(clock.now());
      // a server that is slow to say how it is must not be asked twice at a time
      if (isLooking) return;
      isLooking = true;
      note(await Promise.all(seen.map(pageOfEndpoint)));
      isLooking = false;
    };
    gpus.look(clock.now());
    const ticker = clock.every(LOOK_MS, () => void look());

    return {
      now() {
        const [running, waiting, kv] = [timeline.running, timeline.waiting, timeline.kv].map(list =>
          list.at(-1),
        );
        if (running === undefined || waiting === undefined || kv === undefined) return null;
        return { running, waiting, kv: hasKv ? kv : null, gpu: timeline.gpu.at(-1) ?? null };
      },
      async end() {
        ticker.stop();
        const after = await Promise.all(asked.map(pageOfEndpoint));
        if (timeline.running.length === 0) note(after);
        const pairs = asked.flatMap((_, at) => {
          const [first, last] = [before[at], after[at]];
          return first && last ? [{ first, last }] : [];
        });
        return viewOf(pairs, asked.length, timeline, averageGpu(gpuSum));
      },
    };
  }

  return { begin, close: async () => void (await gpus.close()) };
}

/** /metrics of a server; null where it has none, or says nothing of its load. */
async function pageFrom(
  endpoint: Endpoint,
  { clock, timing, until }: { clock: Clock; timing: Timing; until: number },
): Promise<Page | null> {
  const heard = await askingOf(endpoint, { clock, timing }, until).get(metricsPath(endpoint.prefix));
  if (heard instanceof Error || heard.status !== 200) return null;
  const page = pageOf(heard.body);
  return readLoad(page) === null ? null : page;
}

export interface LoadSample extends Load {
  /** performance.now() */
  at: number;
}

export interface LoadWatcher {
  samples(from: number, to: number): LoadSample[];
  /** the requests that run or wait at this moment; null where the server does not say */
  busy(): Promise<number | null>;
  stop(): void;
}

/** What one server says of its load, each second until it is stopped: parts of that time can be looked at. */
export function watchLoad(endpoint: Endpoint): LoadWatcher {
  const world = { clock: systemClock, timing: TIMING, until: Number.POSITIVE_INFINITY };
  const all: LoadSample[] = [];
  const look = async (): Promise<Load | null> => {
    const page = await pageFrom(endpoint, world);
    return page === null ? null : readLoad(page);
  };
  let isLooking = false;
  const timer = setInterval(async () => {
    if (isLooking) return; // it is late: two looks at once would say no more
    isLooking = true;
    const load = await look();
    if (load !== null) all.push({ ...load, at: performance.now() });
    isLooking = false;
  }, LOOK_MS);
  return {
    samples: (from, to) => all.filter(({ at }) => at >= from && at <= to),
    async busy() {
      const load = await look();
      return load && load.running + load.waiting;
    },
    stop: () => clearInterval(timer),
  };
}

interface Pair {
  first: Page;
  last: Page;
}

/** From the pages before and after a run, of each server that has both. A number that no server said is null. */
export function viewOf(all: readonly Pair[], of: number, timeline: Timeline, gpu: Gpu | null) {
  const beganAgain = ({ first, last }: Pair): boolean =>
    Object.values(COUNTS).some(names => (sumOf(last, names) ?? 0) < (sumOf(first, names) ?? 0));
  const pairs = all.filter(pair => !beganAgain(pair));
  /** null where no server has it */
  const delta = (names: readonly string[]): number | null => {
    const each = pairs.flatMap(({ first, last }) => {
      const to = sumOf(last, names);
      return to === undefined ? [] : [to - (sumOf(first, names) ?? 0)];
    });
    return each.length === 0 ? null : each.reduce((sum, value) => sum + value, 0);
  };
  const counts = Object.fromEntries(
    Object.entries(COUNTS).map(([name, names]) => [name, delta(names)]),
  ) as Record<Count, number | null>;
  const mean = Object.fromEntries(
    Object.entries(TIMES).map(([name, family]) => {
      const [sum, count] = [delta([`${family}_sum`]), delta([`${family}_count`])];
      return [name, sum === null || !count ? null : (1000 * sum) / count];
    }),
  ) as Record<ServerTime, number | null>;
  const { prefixQueries, prefixHits, ...tokens } = counts;
  const level = (list: readonly number[]): { mean: number | null; max: number | null } =>
    pairs.length === 0 || list.length === 0
      ? { mean: null, max: null }
      : {
          mean: list.reduce((sum, value) => sum + value, 0) / list.length,
          max: list.reduce((most, value) => Math.max(most, value), 0),
        };
  const [running, waiting, kv] = [level(timeline.running), level(timeline.waiting), level(timeline.kv)];
  return {
    /** servers that have metrics, of those that were asked */
    seen: pairs.length,
    of,
    /** one of them began again in the run: what it counts is left out */
    restarted: pairs.length < all.length,
    /** of which they counted the end */
    requests: delta([`${TIMES.e2el}_count`]),
    /** over those requests, ms */
    mean,
    ...tokens,
    /** tokens found in the prefix cache / tokens looked up */
    prefixHits: prefixHits === null || !prefixQueries ? null : prefixHits / prefixQueries,
    kvMax: pairs.some(({ last }) => saysKv(last)) ? kv.max : null,
    runningMean: running.mean,
    runningMax: running.max,
    waitingMean: waiting.mean,
    waitingMax: waiting.max,
    gpu,
    timeline,
  };
}
