/**
 * One load on one or more servers, from the first request to the end of the last answer. A closed loop keeps so many
 * requests under way; an open loop sends each when it is due, however late the answers are.
 */
import type { Line, Request } from './bench-wire.ts';
import type { Samples } from './samples.ts';
import { dueTimes } from './schedule.ts';
import { Stopped } from './timed-answer.ts';

export type Load =
  | { kind: 'closed'; concurrency: number }
  /** `from`: a ramp, from that rate to `rate` over the time of the run */
  | { kind: 'open'; rate: number; burstiness: number; seed: number; from?: number };

/** A run ends with its requests or with its time: then nothing new is sent, and what is under way is waited for. */
export interface Extent {
  requests: number | null;
  ms: number | null;
}

export interface Driving {
  lines: readonly Line[];
  load: Load;
  extent: Extent;
  /** ms over which a closed loop begins; 0: all at once */
  spread?: number;
  /** the request of this number, from 0 */
  requestAt(number: number): Request;
  /** told each outcome; `start` of its own is the time of the first call of `now` */
  samples(start: number): Samples;
  now(): number;
  /** runs once after `ms`; the returned function calls it off */
  after(ms: number, run: () => void): () => void;
  /** ms without a byte after which a request is given up */
  patience: number;
  signal: AbortSignal;
  /** after each end: requests under way, and those that ended */
  progress?(underWay: number, ended: number): void;
}

export interface Driven {
  samples: Samples;
  /** ms from the beginning to the end of the last answer */
  duration: number;
  start: number;
  sent: number;
  /**
   * Of a closed loop that began over some time: when all of it was under way, and its first requests had had that time to
   * end; and when the last one was sent. In between as many are under way at any time.
   */
  steady: { from: number; to: number } | null;
}

const SWEEP_MS = 1_000;
/**
 * Failures without a single answer, or in a row without a connection, after which nothing more is sent: a server that is
 * gone refuses thousands a second.
 */
const HOPELESS = 200;

export function drive(driving: Driving): Promise<Driven> {
  const { lines, load, extent, now, after, signal } = driving;
  const start = now();
  const samples = driving.samples(start);
  const most = extent.requests ?? Number.POSITIVE_INFINITY;
  const until = extent.ms === null ? Number.POSITIVE_INFINITY : start + extent.ms;
  let sent = 0;
  let settled = 0;
  let isOver = false; // nothing more is sent
  let last = start;
  let turn = 0;
  let unsent = 0;
  const spread = load.kind === 'closed' ? (driving.spread ?? 0) : 0;
  let lastSent = start;

  return new Promise(resolve => {
    let callOffSweep = () => {};
    let callOffNext = () => {};
    const sweep = (): void => {
      callOffSweep = after(SWEEP_MS, () => {
        for (const line of lines) line.sweep(driving.patience);
        sweep();
      });
    };
    const finish = (): void => {
      if (!isOver || settled < sent) return;
      callOffSweep();
      signal.removeEventListener('abort', stop);
      const from = start + spread;
      const steady = spread > 0 && lastSent > from ? { from, to: lastSent } : null;
      resolve({ samples, duration: last - start, start, sent, steady });
    };
    const end = (): void => {
      isOver = true;
      callOffNext();
      finish();
    };
    const stop = (): void => {
      end();
      for (const line of lines) line.abort(new Stopped('stopped'));
    };

    /** The server with the fewest requests under way; of several the next in turn. */
    const lineOf = (): Line => {
      let found = lines[turn % lines.length] as Line;
      for (let i = 1; i < lines.length; i++) {
        const other = lines[(turn + i) % lines.length] as Line;
        if (other.busy < found.busy) found = other;
      }
      turn++;
      return found;
    };
    const send = (due: number, ended: () => void): void => {
      const request = driving.requestAt(sent++);
      lastSent = due;
      lineOf().send(request, due, ended, outcome => {
        settled++;
        last = Math.max(last, outcome.end);
        samples.add(outcome);
        driving.progress?.(sent - settled, settled);
        unsent = !outcome.ok && outcome.isUnsent ? unsent + 1 : 0;
        if (unsent >= HOPELESS || (samples.completed === 0 && samples.failed >= HOPELESS)) end();
        finish();
      });
    };

    const closed = (concurrency: number): void => {
      const next = (): void => {
        const at = now();
        if (isOver) return;
        if (sent >= most || at >= until) return end();
        send(at, next);
      };
      let begun = 0;
      const begin = (): void => {
        for (const at = now(); begun < concurrency && !isOver; begun++) {
          const due = start + (spread * begun) / concurrency;
          if (due > at) {
            callOffNext = after(due - at, begin);
            return;
          }
          next();
        }
        if (sent >= most) end();
      };
      begin();
    };

    const open = ({ rate, from = rate, burstiness, seed }: Load & { kind: 'open' }): void => {
      const mean = (from + rate) / 2;
      const count = extent.requests ?? Math.max(1, Math.round((mean * (extent.ms ?? 0)) / 1000));
      const due = dueTimes({ rate, from, burstiness, count, seed });
      // one timer for the next that is due; whatever is overdue then is sent at once
      const pump = (): void => {
        if (isOver) return;
        for (let at = now(); sent < count && start + (due[sent] as number) <= at; )
          send(start + (due[sent] as number), () => {});
        if (sent >= count) return end();
        callOffNext = after(Math.max(0, start + (due[sent] as number) - now()), pump);
      };
      pump();
    };

    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) return stop();
    sweep();
    if (load.kind === 'closed') closed(load.concurrency);
    else open(load);
  });
}
