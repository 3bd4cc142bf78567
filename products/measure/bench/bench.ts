/**
 * A benchmark: each load in turn on each number of servers, as often as wanted, warmed up before; or a sweep, whose loads
 * follow from what the first two found.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { type Figures, figuresOf, type Goal, spreadOf } from './bench-figures.ts';
import { type Line, lineTo } from './bench-wire.ts';
import type { Workload } from './bench-workload.ts';
import { type ClientFacts, limitsOf, watchClient } from './client-health.ts';
import { type Driven, drive, type Extent, type Load } from './drive-load.ts';
import { type Live, liveOf } from './live-table.ts';
import { newSamples } from './samples.ts';
import { type ServerView, watchServers } from './server-view.ts';
import { sweep } from './sweep.ts';

export interface Plan {
  endpoints: readonly Endpoint[];
  workload: Workload;
  /** none: a sweep */
  loads: readonly Load[];
  extent: Extent;
  /** runs of each load */
  repeat: number;
  /** requests before each run; null: as many as are under way at once */
  warmUp: number | null;
  /** measure with one server, with two, … with all; load and requests grow with their number */
  isUpTo: boolean;
  goal: Goal | null;
  isDetailed: boolean;
  /** ms without a byte */
  patience: number;
  burstiness: number;
  seed: number;
}

export interface Run {
  load: Load;
  endpoints: readonly string[];
  /** from 1, and of how many */
  run: number;
  of: number;
  /** number of its first request */
  first: number;
  goal: Goal | null;
  driven: Driven;
  figures: Figures;
  client: ClientFacts;
  /** what the servers say of it */
  server: ServerView;
  /** servers that close connections behind their answers */
  closing: readonly string[];
  /** why the client is the limit; none where it is not */
  limits: readonly string[];
  /** prompts that were asked before in this benchmark: the server may have them in its cache */
  repeated: number;
  /** since 1970, ms */
  began: number;
}

export interface Host {
  signal: AbortSignal;
  /** what comes next */
  began(load: Load, servers: number, run: number): void;
  /** of each run, once it sends: each call looks anew */
  live?(look: () => Live): void;
  /** after each end */
  progress?(underWay: number, ended: number): void;
  ended(run: Run): void;
  /** once, of an endpoint whose GPUs cannot be seen */
  warn?(message: string): void;
}

const now = (): number => performance.now();

function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** Beyond this an open loop warms no more connections: it opens those that it needs. */
const OPEN_WARM_UP = 16;
/** Connections close 4 s after their last use; between two runs a server is given a moment, and no more. */
const REST_MS = 100;

/** Runs until all loads are done, or the signal stops it; what was measured by then is returned. */
export async function bench(plan: Plan, host: Host): Promise<Run[]> {
  const { endpoints, isUpTo, repeat } = plan;
  const runs: Run[] = [];
  let number = 0;
  let warmed = 0;

  const lines = endpoints.map(endpoint => lineTo(endpoint, { now, keepText: plan.isDetailed }));

  const watch = watchServers(endpoints, { clock: systemClock, warn: message => host.warn?.(message) });
  let outputTokens = plan.workload.outputTokens;

  async function measure(load: Load, extent: Extent, servers: number, run: number): Promise<Run> {
    host.began(load, servers, run);
    const asked = lines.slice(0, servers);
    const latency = latencyOf(await warmUp(asked, load), outputTokens);
    const watched = await watch.begin(servers);
    const first = number;
    const began = Date.now();
    const watching = watchClient();
    const driven = await drive({
      lines: asked,
      load,
      extent,
      spread: spreadFor(load, extent, latency),
      requestAt: at => plan.workload.requestAt(first + at),
      samples(start) {
        const samples = newSamples({ start, isDetailed: plan.isDetailed });
        const underWay = (): number => asked.reduce((sum, line) => sum + line.busy, 0);
        host.live?.(liveOf({ samples, start, now, underWay, server: watched.now }));
        return samples;
      },
      now,
      after,
      patience: plan.patience,
      signal: host.signal,
      ...(host.progress && { progress: host.progress }),
    });
    const { samples, sent } = driven;
    const due = samples.of('due');
    const lateness = load.kind === 'open' ? samples.of('sent').map((at, i) => at - (due[i] as number)) : null;
    const client = watching.stop(lateness);
    const server = await watched.end();
    number += sent;
    const figures = figuresOf(driven, plan.goal);
    outputTokens ??= figures.output.n > 0 ? figures.output.mean : null;
    const { ttft } = figures.metrics;
    const done: Run = {
      load,
      endpoints: endpoints.slice(0, servers).map(({ url }) => url),
      run,
      of: repeat,
      first,
      goal: plan.goal,
      driven,
      figures,
      client,
      server,
      closing: endpoints.filter((_, at) => at < servers && lines[at]?.closes).map(({ url }) => url),
      limits: limitsOf(client, { medianTtft: ttft.at[50] as number, p99Ttft: ttft.at[99] as number }),
      repeated: repeatedIn(plan.workload.size, first, sent),
      began,
    };
    runs.push(done);
    host.ended(done);
    return done;
  }

  async function warmUp(asked: readonly Line[], load: Load): Promise<Driven | null> {
    const atOnce = load.kind === 'closed' ? load.concurrency : OPEN_WARM_UP * asked.length;
    const requests = plan.warmUp ?? atOnce;
    if (requests === 0 || host.signal.aborted) return null;
    const from = warmed;
    warmed += requests;
    const driven = await drive({
      lines: asked,
      load: { kind: 'closed', concurrency: atOnce },
      extent: { requests, ms: null },
      requestAt: at => plan.workload.warmUpAt(from + at),
      samples: start => newSamples({ start, isDetailed: false }),
      now,
      after,
      patience: plan.patience,
      signal: host.signal,
    });
    if (!host.signal.aborted) await wait(REST_MS, undefined, { signal: host.signal }).catch(() => {});
    return driven;
  }

  const steps = isUpTo ? endpoints.map((_, index) => index + 1) : [endpoints.length];
  try {
    for (let run = 1; run <= repeat; run++) {
      for (const servers of steps) {
        const scale = isUpTo ? servers : 1;
        const measureOne = async (load: Load, extent: Extent): Promise<Run | null> =>
          host.signal.aborted ? null : measure(scaled(load, scale), extentFor(extent, scale), servers, run);
        if (plan.loads.length > 0) for (const load of plan.loads) await measureOne(load, plan.extent);
        else await sweep(plan, measureOne);
      }
    }
  } finally {
    await Promise.all([watch.close(), ...lines.map(line => line.close())]);
  }
  return runs;
}

/** ms of an answer, as the warm-up tells, whose answers are short; 0 where it tells nothing. */
function latencyOf(warmUp: Driven | null, outputTokens: number | null): number {
  if (warmUp === null || warmUp.samples.completed === 0) return 0;
  const mean = (name: 'ttft' | 'tpot' | 'e2el'): number => spreadOf(warmUp.samples.of(name)).mean;
  const said = mean('ttft') + mean('tpot') * ((outputTokens ?? Number.NaN) - 1);
  return Number.isNaN(said) ? mean('e2el') : said;
}

/** A run of fewer answers for each place is mostly its start: then all begin at once. */
const FEWEST_ROUNDS = 3;

/**
 * A closed loop begins over one latency. All at once, its prompts would be computed together, and so would the next ones,
 * as their answers end together: no users do that.
 */
function spreadFor(load: Load, { requests, ms }: Extent, latency: number): number {
  if (load.kind !== 'closed' || load.concurrency === 1) return 0;
  const rounds = requests === null ? (ms ?? 0) / latency : requests / load.concurrency;
  return rounds >= FEWEST_ROUNDS ? latency : 0;
}

/** The same load for each server. */
function scaled(load: Load, servers: number): Load {
  return load.kind === 'closed'
    ? { ...load, concurrency: load.concurrency * servers }
    : { ...load, rate: load.rate * servers, ...(load.from && { from: load.from * servers }) };
}

function extentFor({ requests, ms }: Extent, servers: number): Extent {
  return { requests: requests === null ? null : requests * servers, ms };
}

/** How many of the requests from `first` on are another time of one before them. */
function repeatedIn(size: number | null, first: number, sent: number): number {
  return size === null ? 0 : Math.max(0, first + sent - Math.max(size, first));
}
