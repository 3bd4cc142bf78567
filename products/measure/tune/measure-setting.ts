/**
 * The two ways to measure a server that was started here. `steady` keeps so many requests under way and looks at one block
 * of time after the other, without the beginning and the end of the load; `atRate` sends requests at a rate.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Line, lineTo } from '../bench/bench-wire.ts';
import type { Workload } from '../bench/bench-workload.ts';
import { watchClient } from '../bench/client-health.ts';
import { type Driven, type Driving, drive, type Load } from '../bench/drive-load.ts';
import { Samples } from '../bench/samples.ts';
import { type Point, pointOf } from './point.ts';
import { type Watcher, watchServer } from './server-samples.ts';
import type { Bound } from './tune-file.ts';
import type { Server } from './tuned-server.ts';

const now = (): number => performance.now();

function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** ms without a byte after which a request has failed. */
const PATIENCE_MS = 600_000;

export interface Meter {
  /** Prompts that no measured request has, so that connections, CUDA graphs and compiled code are there. */
  warmUp(requests: number): Promise<void>;
  steady(concurrency: number, ramp: number, blockMs: number): Steady;
  atRate(rate: number, requests: number, seed: number): Promise<Point>;
  close(): Promise<void>;
}

export interface Steady {
  /** The next block; null where the load ended by itself, since the server is gone or refuses everything. */
  next(): Promise<Point | null>;
  /** why it ended by itself, in the words of the first failure */
  cause(): string;
  stop(): Promise<void>;
}

export interface Measuring {
  server: Server;
  workload: Workload;
  bounds: readonly Bound[];
  signal: AbortSignal;
}

const LOOK_MS = 100;
/** After a load a server is given so long to be idle; then the next one begins all the same. */
const IDLE_MS = 30_000;

export function meterOf({ server, workload, bounds, signal }: Measuring): Meter {
  const line: Line = lineTo(server.endpoint, { now, keepText: false });
  const watcher: Watcher = watchServer(server.endpoint);
  let number = 0;
  let warmed = 0;

  /** A load on this server; ends with the server, too. */
  function run(
    load: Load,
    more: Pick<Driving, 'extent' | 'requestAt'> & Partial<Pick<Driving, 'progress'>>,
    until: AbortSignal,
  ): { samples: () => Samples; driven: Promise<Driven> } {
    let samples: Samples | undefined;
    const stopping = new AbortController();
    const stop = (): void => stopping.abort();
    for (const each of [signal, until]) {
      if (each.aborted) stop();
      each.addEventListener('abort', stop, { once: true });
    }
    const look = setInterval(() => server.ended() !== null && stop(), LOOK_MS);
    const driven = drive({
      lines: [line],
      load,
      samples: start => {
        samples = new Samples({ start, isDetailed: false });
        return samples;
      },
      now,
      after,
      patience: PATIENCE_MS,
      signal: stopping.signal,
      ...more,
    }).finally(() => {
      clearInterval(look);
      for (const each of [signal, until]) each.removeEventListener('abort', stop);
    });
    return { samples: () => samples as Samples, driven };
  }

  const never = new AbortController().signal;

  async function becomeIdle(): Promise<void> {
    const end = now() + IDLE_MS;
    while (now() < end && !signal.aborted && server.ended() === null) {
      const busy = await watcher.busy();
      if (busy === 0 || busy === null) return;
      await wait(LOOK_MS);
    }
  }

  return {
    async warmUp(requests) {
      const from = warmed;
      warmed += requests;
      const load: Load = { kind: 'closed', concurrency: requests };
      const requestAt = (at: number) => workload.warmUpAt(from + at);
      await run(load, { extent: { requests, ms: null }, requestAt }, never).driven;
    },

    steady(concurrency, ramp, blockMs) {
      const stopping = new AbortController();
      const first = number;
      let isOver = false;
      let began = Number.NaN;
      let client = watchClient();
      const { samples, driven } = run(
        { kind: 'closed', concurrency },
        {
          extent: { requests: null, ms: PATIENCE_MS * 24 },
          requestAt: at => workload.requestAt(first + at),
          progress: (_, ended) => {
            if (ended < ramp || !Number.isNaN(began)) return;
            began = now();
            client.stop(null);
            client = watchClient();
          },
        },
        stopping.signal,
      );
      const over = driven.then(({ sent }) => {
        isOver = true;
        number += sent;
      });
      let blocks = 0;
      let failures = 0;
      return {
        async next() {
          // what an answer brought within a block is known once it has ended
          const isKnown = (): boolean => now() >= began + (blocks + 1) * blockMs + longestAnswer(samples());
          let facts: ReturnType<typeof client.stop> | null = null;
          while (!isOver && !isKnown()) {
            if (facts === null && now() >= began + (blocks + 1) * blockMs) {
              facts = client.stop(null);
              client = watchClient();
            }
            await Promise.race([over, wait(LOOK_MS)]);
          }
          if (isOver) return null;
          const from = began + blocks++ * blockMs;
          const to = from + blockMs;
          const all = samples();
          const end = all.of('end');
          const failed = all.failed - failures;
          failures = all.failed;
          return pointOf({
            weight: sharesWithin(all, from, to),
            isEnded: index => (end[index] as number) >= from && (end[index] as number) < to,
            failed,
            ms: blockMs,
            fromDue: false,
            samples: all,
            bounds,
            loads: watcher.samples(from, to),
            client: facts ?? client.stop(null),
            load: { kind: 'closed', concurrency },
          });
        },
        cause: () => samples().failures()[0]?.message ?? 'the load ended',
        async stop() {
          stopping.abort();
          await over;
          client.stop(null);
          await becomeIdle();
        },
      };
    },

    async atRate(rate, requests, seed) {
      const first = number;
      const client = watchClient();
      const from = now();
      const { driven } = run(
        { kind: 'open', rate, burstiness: 1, seed },
        { extent: { requests, ms: null }, requestAt: at => workload.requestAt(first + at) },
        never,
      );
      const done = await driven;
      number += done.sent;
      const { samples } = done;
      const due = samples.of('due');
      const facts = client.stop(samples.of('sent').map((at, index) => at - (due[index] as number)));
      const point = pointOf({
        weight: new Float64Array(samples.completed).fill(1),
        isEnded: () => true,
        failed: samples.failed + (requests - done.sent),
        ms: done.duration,
        fromDue: true,
        samples,
        bounds,
        loads: watcher.samples(from, now()),
        client: facts,
        load: { kind: 'open', rate, requests },
      });
      await becomeIdle();
      return point;
    },

    async close() {
      watcher.stop();
      await line.close();
    },
  };
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
