/**
 * A benchmark: each load in turn on each number of servers, as often as wanted, warmed up before; or a sweep, whose loads
 * follow from what the first two found.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Endpoint } from '../pool/state.ts';
import { type ClientFacts, limitsOf, watchClient } from './client.ts';
import { type Figures, figuresOf, type Goal } from './figures.ts';
import { type Line, lineTo } from './line.ts';
import { type Driven, drive, type Extent, type Load } from './load.ts';
import { newSamples } from './samples.ts';
import type { Workload } from './workload.ts';

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
  /** what comes next, and how far it is */
  began(load: Load, servers: number, run: number): void;
  progress(underWay: number, ended: number): void;
  ended(run: Run): void;
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

  async function measure(load: Load, servers: number, run: number): Promise<Run> {
    host.began(load, servers, run);
    const asked = lines.slice(0, servers);
    await warmUp(asked, load);
    const first = number;
    const began = Date.now();
    const watching = watchClient();
    const driven = await drive({
      lines: asked,
      load,
      extent: extentFor(plan.extent, isUpTo ? servers : 1),
      requestAt: at => plan.workload.requestAt(first + at),
      samples: start => newSamples({ start, isDetailed: plan.isDetailed }),
      now,
      after,
      patience: plan.patience,
      signal: host.signal,
      progress: host.progress,
    });
    const { samples, sent } = driven;
    const lateness =
      load.kind === 'open' ? samples.of('sent').map((at, i) => at - (samples.of('due')[i] as number)) : null;
    const client = watching.stop(lateness);
    number += sent;
    const figures = figuresOf(driven, plan.goal);
    const { ttft, itl } = figures.metrics;
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
      closing: endpoints.filter((_, at) => at < servers && lines[at]?.closes).map(({ url }) => url),
      limits: limitsOf(client, { medianTtft: ttft.at[50] as number, medianItl: itl.at[50] as number }),
      repeated: repeatedIn(plan.workload.size, first, sent),
      began,
    };
    runs.push(done);
    host.ended(done);
    return done;
  }

  async function warmUp(asked: readonly Line[], load: Load): Promise<void> {
    const atOnce = load.kind === 'closed' ? load.concurrency : OPEN_WARM_UP * asked.length;
    const requests = plan.warmUp ?? atOnce;
    if (requests === 0 || host.signal.aborted) return;
    const from = warmed;
    warmed += requests;
    await drive({
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
  }

  const steps = isUpTo ? endpoints.map((_, index) => index + 1) : [endpoints.length];
  try {
    for (let run = 1; run <= repeat; run++) {
      for (const servers of steps) {
        const scale = isUpTo ? servers : 1;
        const measureOne = async (load: Load): Promise<Run | null> =>
          host.signal.aborted ? null : measure(scaled(load, scale), servers, run);
        if (plan.loads.length > 0) for (const load of plan.loads) await measureOne(load);
        else await sweep(plan, measureOne);
      }
    }
  } finally {
    await Promise.all(lines.map(line => line.close()));
  }
  return runs;
}

/** The same load for each server. */
function scaled(load: Load, servers: number): Load {
  return load.kind === 'closed'
    ? { ...load, concurrency: load.concurrency * servers }
    : { ...load, rate: load.rate * servers };
}

function extentFor({ requests, ms }: Extent, servers: number): Extent {
  return { requests: requests === null ? null : requests * servers, ms };
}

/** How many of the requests from `first` on are another time of one before them. */
function repeatedIn(size: number | null, first: number, sent: number): number {
  return size === null ? 0 : Math.max(0, first + sent - Math.max(size, first));
}

/** guidellm's bound of a throughput run. */
const MOST_AT_ONCE = 512;
const RATES = 6;

/**
 * One request at a time, then as many as a server takes: between the two throughputs that they give, rates in equal ratios,
 * since what is of interest lies near the second. Ends behind the first rate at which the server falls behind.
 */
async function sweep(
  { burstiness, seed, extent }: Plan,
  measure: (load: Load) => Promise<Run | null>,
): Promise<void> {
  const alone = await measure({ kind: 'closed', concurrency: 1 });
  const full = await measure({
    kind: 'closed',
    concurrency: Math.min(MOST_AT_ONCE, extent.requests ?? MOST_AT_ONCE),
  });
  const least = alone?.figures.requestThroughput ?? 0;
  const most = full?.figures.requestThroughput ?? 0;
  if (!(least > 0 && most > least)) return;
  for (let step = 1; step <= RATES; step++) {
    const rate = Number((least * (most / least) ** (step / RATES)).toPrecision(3));
    const run = await measure({ kind: 'open', rate, burstiness, seed });
    if (run === null || fallsBehind(run)) return;
  }
}

/**
 * Whether requests wait longer and longer: TTFT grows with the time at which a request was sent, surely (t > 3 of the
 * regression) and by half of its mean over the run. A server that keeps up has a queue that comes and goes.
 */
export function fallsBehind({ driven: { samples } }: Pick<Run, 'driven'>): boolean {
  const x = samples.of('sent');
  const y = samples.of('ttft');
  const n = x.length;
  if (n < 20) return false;
  const middle = (list: Float64Array): number => list.reduce((sum, value) => sum + value, 0) / n;
  const [mx, my] = [middle(x), middle(y)];
  let [xx, xy, yy] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    const [dx, dy] = [(x[i] as number) - mx, (y[i] as number) - my];
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  if (!(xx > 0)) return false;
  const slope = xy / xx;
  const error = Math.sqrt(Math.max(0, yy - slope * xy) / (n - 2) / xx);
  const span = x.reduce((a, b) => Math.max(a, b)) - x.reduce((a, b) => Math.min(a, b));
  return slope > 3 * error && slope * span > 0.5 * my;
}
