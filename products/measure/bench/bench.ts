/**
 * A benchmark: each load in turn on each number of servers, as often as wanted, warmed up before; or a sweep, whose loads
 * follow from what the first two found.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import type { Goal } from '../../kit/goal.ts';
import { type Figures, figuresOf, spreadOf } from './bench-figures.ts';
import { type Line, lineTo } from './bench-wire.ts';
import type { Workload } from './bench-workload.ts';
import { type ClientFacts, limitsOf, watchClient } from './client-health.ts';
import { type Driven, type Driving, drive, type Extent, type Load } from './drive-load.ts';
import { type Live, lateness, liveOf, Samples } from './samples.ts';
import { type ServerView, type ServerWatch, type Watched, watchServers } from './server-view.ts';
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
  live(look: () => Live): void;
  ended(run: Run): void;
  /** once, of an endpoint whose GPUs cannot be seen */
  warn(message: string): void;
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
  const benchmark = new Benchmark(plan, host);
  try {
    await benchmark.all();
  } finally {
    await benchmark.close();
  }
  return benchmark.runs;
}

class Benchmark {
  readonly runs: Run[] = [];
  readonly #plan: Plan;
  readonly #host: Host;
  readonly #lines: readonly Line[];
  readonly #watch: ServerWatch;
  /** requests that were sent, to measure and to warm up */
  #sent = 0;
  #warmed = 0;
  #outputTokens: number | null;

  constructor(plan: Plan, host: Host) {
    this.#plan = plan;
    this.#host = host;
    this.#lines = plan.endpoints.map(endpoint => lineTo(endpoint, { now, keepText: plan.isDetailed }));
    this.#watch = watchServers(plan.endpoints, { clock: systemClock, warn: host.warn });
    this.#outputTokens = plan.workload.outputTokens;
  }

  async all(): Promise<void> {
    const { endpoints, isUpTo, repeat, loads, extent } = this.#plan;
    const steps = isUpTo ? endpoints.map((_, index) => index + 1) : [endpoints.length];
    for (let run = 1; run <= repeat; run++)
      for (const servers of steps) {
        const scale = isUpTo ? servers : 1;
        const measureOne = async (load: Load, each: Extent): Promise<Run | null> =>
          this.#host.signal.aborted
            ? null
            : this.#measure(scaled(load, scale), extentFor(each, scale), servers, run);
        if (loads.length > 0) for (const load of loads) await measureOne(load, extent);
        else await sweep(this.#plan, measureOne);
      }
  }

  async close(): Promise<void> {
    await Promise.all([this.#watch.close(), ...this.#lines.map(line => line.close())]);
  }

  async #measure(load: Load, extent: Extent, servers: number, run: number): Promise<Run> {
    const { workload, goal, repeat } = this.#plan;
    this.#host.began(load, servers, run);
    const lines = this.#lines.slice(0, servers);
    const endpoints = this.#plan.endpoints.slice(0, servers);
    const latency = latencyOf(await this.#warmUp(lines, load), this.#outputTokens);
    const watched = await this.#watch.begin(servers);
    const first = this.#sent;
    const began = Date.now();
    const watching = watchClient();
    const driven = await this.#drive(lines, load, {
      extent,
      spread: spreadFor(load, extent, latency),
      requestAt: at => workload.requestAt(first + at),
      samples: start => this.#samples(start, lines, watched),
    });
    const client = watching.stop(load.kind === 'open' ? lateness(driven.samples) : null);
    const server = await watched.end();
    this.#sent += driven.sent;
    const figures = figuresOf(driven, goal);
    this.#outputTokens ??= figures.output.n > 0 ? figures.output.mean : null;
    const { ttft } = figures.metrics;
    const done: Run = {
      ...{ load, run, of: repeat, first, goal, driven, figures, client, server, began },
      endpoints: endpoints.map(({ url }) => url),
      closing: endpoints.filter((_, at) => lines[at]?.closes).map(({ url }) => url),
      limits: limitsOf(client, { medianTtft: ttft.at[50] as number, p99Ttft: ttft.at[99] as number }),
      repeated: repeatedIn(workload.size, first, driven.sent),
    };
    this.runs.push(done);
    this.#host.ended(done);
    return done;
  }

  #drive(lines: readonly Line[], load: Load, more: Omit<Driving, 'lines' | 'load' | Same>): Promise<Driven> {
    return drive({
      lines,
      load,
      now,
      after,
      patience: this.#plan.patience,
      signal: this.#host.signal,
      ...more,
    });
  }

  #samples(start: number, lines: readonly Line[], watched: Watched): Samples {
    const samples = new Samples({ start, isDetailed: this.#plan.isDetailed });
    const underWay = (): number => lines.reduce((sum, line) => sum + line.busy, 0);
    this.#host.live(liveOf({ samples, start, now, underWay, server: watched.now }));
    return samples;
  }

  async #warmUp(lines: readonly Line[], load: Load): Promise<Driven | null> {
    const { warmUp, workload } = this.#plan;
    const { signal } = this.#host;
    const concurrency = load.kind === 'closed' ? load.concurrency : OPEN_WARM_UP * lines.length;
    const requests = warmUp ?? concurrency;
    if (requests === 0 || signal.aborted) return null;
    const from = this.#warmed;
    this.#warmed += requests;
    const driven = await this.#drive(
      lines,
      { kind: 'closed', concurrency },
      {
        extent: { requests, ms: null },
        requestAt: at => workload.warmUpAt(from + at),
        samples: start => new Samples({ start, isDetailed: false }),
      },
    );
    if (!signal.aborted) await wait(REST_MS, undefined, { signal }).catch(() => {});
    return driven;
  }
}

type Same = 'now' | 'after' | 'patience' | 'signal';

/** ms of an answer, as the warm-up tells, whose answers are short; 0 where it tells nothing. */
function latencyOf(warmUp: Driven | null, outputTokens: number | null): number {
  if (warmUp === null || warmUp.samples.completed === 0) return 0;
  const mean = (name: 'ttft' | 'tpot' | 'e2el'): number => spreadOf(warmUp.samples.of(name)).mean;
  const foretold = mean('ttft') + mean('tpot') * ((outputTokens ?? Number.NaN) - 1);
  return Number.isNaN(foretold) ? mean('e2el') : foretold;
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
