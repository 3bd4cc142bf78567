/** What the server says of itself while it is measured, once a second: /metrics of vLLM, under its newer or older names. */
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { type Load, metricsPath, pageOf, readLoad } from '../../../engine/asking/endpoints/server-load.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { askingOf } from '../../../engine/asking/pool/probe.ts';

export interface LoadSample extends Load {
  /** performance.now() */
  at: number;
}

/** Means and peaks over a measurement. */
export interface ServerView {
  running: number;
  running_max: number;
  waiting: number;
  waiting_max: number;
  /** share of the KV cache in use */
  kv: number;
  kv_max: number;
  preemptions: number;
}

const EVERY_MS = 1_000;

export interface Watcher {
  samples(from: number, to: number): LoadSample[];
  /** the requests that run or wait at this moment; null where the server does not say */
  busy(): Promise<number | null>;
  stop(): void;
}

export function watchServer(endpoint: Endpoint): Watcher {
  const asking = askingOf(endpoint, { clock: systemClock, timing: TIMING }, Number.POSITIVE_INFINITY);
  const all: LoadSample[] = [];
  const look = async (): Promise<Load | null> => {
    const page = await asking.get(metricsPath(endpoint.prefix));
    return page instanceof Error || page.status !== 200 ? null : readLoad(pageOf(page.body));
  };
  let isLooking = false;
  const timer = setInterval(async () => {
    if (isLooking) return; // it is late: two looks at once would say no more
    isLooking = true;
    const load = await look();
    if (load !== null) all.push({ ...load, at: performance.now() });
    isLooking = false;
  }, EVERY_MS);
  return {
    samples: (from, to) => all.filter(({ at }) => at >= from && at <= to),
    async busy() {
      const load = await look();
      return load && load.running + load.waiting;
    },
    stop: () => clearInterval(timer),
  };
}

/** null where the server said nothing. */
export function viewOf(samples: readonly LoadSample[]): ServerView | null {
  const [first] = samples;
  const last = samples.at(-1);
  if (first === undefined || last === undefined) return null;
  const middle = (of: (sample: LoadSample) => number): number =>
    Number((samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length).toPrecision(6));
  const most = (of: (sample: LoadSample) => number): number => Math.max(...samples.map(of));
  return {
    running: middle(({ running }) => running),
    running_max: most(({ running }) => running),
    waiting: middle(({ waiting }) => waiting),
    waiting_max: most(({ waiting }) => waiting),
    kv: middle(({ kv }) => kv),
    kv_max: most(({ kv }) => kv),
    preemptions: Math.max(0, last.preemptions - first.preemptions),
  };
}
