/**
 * The two ways to measure a server that was started here. `steady` keeps so many requests under way and looks at one block
 * of time after the other, without the beginning and the end of the load; `atRate` sends requests at a rate.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Line, lineTo } from '../bench/bench-wire.ts';
import type { Workload } from '../bench/bench-workload.ts';
import { type ClientFacts, watchClient } from '../bench/client-health.ts';
import { type Driven, type Driving, drive, type Load } from '../bench/drive-load.ts';
import { lateness, Samples } from '../bench/samples.ts';
import { type LoadWatcher, watchLoad } from '../bench/server-view.ts';
import { type Point, pointOf } from './point.ts';
import type { Bound } from './tune-file.ts';
import type { Server } from './tuned-server.ts';

const now = (): number => performance.now();

function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** ms without a byte after which a request has failed. */
const PATIENCE_MS = 600_000;

export interface Measuring {
  server: Server;
  workload: Workload;
  bounds: readonly Bound[];
  signal: AbortSignal;
}

const LOOK_MS = 100;
/** After a load a server is given so long to be idle; then the next one begins all the same. */
const IDLE_MS = 30_000;

/** A load that goes on, and the samples of it so far. */
interface Loaded {
  samples: () => Samples;
  driven: Promise<Driven>;
}

export class Meter {
  readonly bounds: readonly Bound[];
  readonly watcher: LoadWatcher;
  readonly #server: Server;
  readonly #workload: Workload;
  readonly #signal: AbortSignal;
  readonly #line: Line;
  /** requests that were sent, to measure and to warm up */
  #sent = 0;
  #warmed = 0;

  constructor({ server, workload, bounds, signal }: Measuring) {
    this.#server = server;
    this.#workload = workload;
    this.bounds = bounds;
    this.#signal = signal;
    this.#line = lineTo(server.endpoint, { now, keepText: false });
    this.watcher = watchLoad(server.endpoint);
  }

  /** A load on this server of requests that none had before it; ends with the server, too. */
  run(load: Load, more: Pick<Driving, 'extent'> & Partial<Driving>, until?: AbortSignal): Loaded {
    const first = this.#sent;
    let samples: Samples | undefined;
    const gone = new AbortController();
    const look = setInterval(() => this.#server.ended() !== null && gone.abort(), LOOK_MS);
    const driven = drive({
      lines: [this.#line],
      load,
      samples(start) {
        samples = new Samples({ start, isDetailed: false });
        return samples;
      },
      now,
      after,
      patience: PATIENCE_MS,
      requestAt: at => this.#workload.requestAt(first + at),
      signal: AbortSignal.any([this.#signal, gone.signal, ...(until ? [until] : [])]),
      ...more,
    }).finally(() => clearInterval(look));
    return { samples: () => samples as Samples, driven };
  }

  /** Of a load that was measured: the next one begins behind it, once the server is idle. */
  async settle(sent: number): Promise<void> {
    this.#sent += sent;
    const end = now() + IDLE_MS;
    while (now() < end && !this.#signal.aborted && this.#server.ended() === null) {
      const busy = await this.watcher.busy();
      if (busy === 0 || busy === null) return;
      await wait(LOOK_MS);
    }
  }

  /** Prompts that no measured request has, so that connections, CUDA graphs and compiled code are there. */
  async warmUp(requests: number): Promise<void> {
    const from = this.#warmed;
    this.#warmed += requests;
    const requestAt = (at: number) => this.#workload.warmUpAt(from + at);
    await this.run({ kind: 'closed', concurrency: requests }, { extent: { requests, ms: null }, requestAt })
      .driven;
  }

  async atRate(rate: number, requests: number, seed: number): Promise<Point> {
    const client = watchClient();
    const from = now();
    const load: Load = { kind: 'open', rate, burstiness: 1, seed };
    const { samples, sent, duration } = await this.run(load, { extent: { requests, ms: null } }).driven;
    const point = pointOf({
      weight: new Float64Array(samples.completed).fill(1),
      isEnded: () => true,
      failed: samples.failed + (requests - sent),
      ms: duration,
      fromDue: true,
      samples,
      bounds: this.bounds,
      loads: this.watcher.samples(from, now()),
      client: client.stop(lateness(samples)),
      load: { kind: 'open', rate, requests },
    });
    await this.settle(sent);
    return point;
  }

  async close(): Promise<void> {
    this.watcher.stop();
    await this.#line.close();
  }
}

/** So many requests under way, from which one block of time after the other is looked at. */
export class Steady {
  readonly #meter: Meter;
  readonly #concurrency: number;
  readonly #blockMs: number;
  readonly #stopping = new AbortController();
  readonly #samples: () => Samples;
  readonly #over: Promise<number>;
  #isOver = false;
  /** when as many had ended as are needed to be at each part of their way */
  #began = Number.NaN;
  #client = watchClient();
  #blocks = 0;
  /** in the blocks so far */
  #failures = 0;

  constructor(meter: Meter, concurrency: number, ramp: number, blockMs: number) {
    this.#meter = meter;
    this.#concurrency = concurrency;
    this.#blockMs = blockMs;
    const { samples, driven } = meter.run(
      { kind: 'closed', concurrency },
      {
        extent: { requests: null, ms: PATIENCE_MS * 24 },
        progress: (_, ended) => {
          if (ended < ramp || !Number.isNaN(this.#began)) return;
          this.#began = now();
          this.#lookAgain();
        },
      },
      this.#stopping.signal,
    );
    this.#samples = samples;
    this.#over = driven.then(({ sent }) => {
      this.#isOver = true;
      return sent;
    });
  }

  #lookAgain(): ClientFacts {
    const facts = this.#client.stop(null);
    this.#client = watchClient();
    return facts;
  }

  /** The next block; null where the load ended by itself, since the server is gone or refuses everything. */
  async next(): Promise<Point | null> {
    const isPast = (ms: number): boolean => now() >= this.#began + (this.#blocks + 1) * this.#blockMs + ms;
    let client: ClientFacts | null = null;
    // what an answer brought within a block is known once it has ended
    while (!this.#isOver && !isPast(longestAnswer(this.#samples()))) {
      if (isPast(0)) client ??= this.#lookAgain();
      await Promise.race([this.#over, wait(LOOK_MS)]);
    }
    if (this.#isOver) return null;
    const from = this.#began + this.#blocks++ * this.#blockMs;
    const to = from + this.#blockMs;
    const samples = this.#samples();
    const end = samples.of('end');
    const failed = samples.failed - this.#failures;
    this.#failures = samples.failed;
    return pointOf({
      weight: sharesWithin(samples, from, to),
      isEnded: index => (end[index] as number) >= from && (end[index] as number) < to,
      failed,
      ms: this.#blockMs,
      fromDue: false,
      samples,
      bounds: this.#meter.bounds,
      loads: this.#meter.watcher.samples(from, to),
      client: client ?? this.#client.stop(null),
      load: { kind: 'closed', concurrency: this.#concurrency },
    });
  }

  /** Why it ended by itself, in the words of the first failure. */
  cause(): string {
    return this.#samples().failures()[0]?.message ?? 'the load ended';
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const sent = await this.#over;
    this.#client.stop(null);
    await this.#meter.settle(sent);
  }
}

/** ms from the first to the last token, of the longest answer so far. */
function longestAnswer(samples: Samples): number {
  const ttft = samples.of('ttft');
  return samples.of('e2el').reduce((most, ms, index) => Math.max(most, ms - (ttft[index] || 0)), 0);
}

/** Of each answer the share that came between two times: so that one which ends just behind counts for what it brought. */
export function sharesWithin(samples: Pick<Samples, 'of'>, from: number, to: number): Float64Array {
  const [sent, ttft, e2el] = (['sent', 'ttft', 'e2el'] as const).map(samples.of) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  return sent.map((at, index) => {
    const end = at + (e2el[index] as number);
    // what was not streamed came at its end
    const first = Number.isNaN(ttft[index]) ? end : at + (ttft[index] as number);
    if (!(end > first)) return end >= from && end < to ? 1 : 0;
    return Math.max(0, Math.min(end, to) - Math.max(first, from)) / (end - first);
  });
}
