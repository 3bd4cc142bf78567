/**
 * One load on one or more servers, from the first request to the end of the last answer. A closed loop keeps so many
 * requests under way; an open loop sends each when it is due, however late the answers are.
 */

import { dueTimes } from '../../kit/arrivals.ts';
import type { Line, Request } from './bench-wire.ts';
import type { Samples } from './samples.ts';
import { type Outcome, Stopped } from './timed-answer.ts';

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
  return new Promise(resolve => new Drive(driving, resolve).begin());
}

class Drive {
  readonly #driving: Driving;
  readonly #resolve: (driven: Driven) => void;
  readonly #start: number;
  readonly #until: number;
  readonly #samples: Samples;
  readonly #spread: number;
  #sent = 0;
  #settled = 0;
  /** nothing more is sent */
  #isOver = false;
  /** the end of the last answer */
  #last: number;
  #lastSent: number;
  #turn = 0;
  /** in a row, for want of a connection */
  #unsent = 0;
  #callOffSweep = (): void => {};
  #callOffNext = (): void => {};

  constructor(driving: Driving, resolve: (driven: Driven) => void) {
    const { load, extent, spread = 0 } = driving;
    this.#driving = driving;
    this.#resolve = resolve;
    this.#start = driving.now();
    this.#samples = driving.samples(this.#start);
    this.#until = extent.ms === null ? Number.POSITIVE_INFINITY : this.#start + extent.ms;
    this.#spread = load.kind === 'closed' ? spread : 0;
    this.#last = this.#start;
    this.#lastSent = this.#start;
  }

  begin(): void {
    const { signal, load } = this.#driving;
    signal.addEventListener('abort', this.#stop, { once: true });
    if (signal.aborted) return this.#stop();
    this.#sweep();
    if (load.kind === 'closed') this.#beginClosed(load.concurrency, 0);
    else this.#pump(this.#dueTimes(load));
  }

  #sweep(): void {
    const { lines, after, patience } = this.#driving;
    this.#callOffSweep = after(SWEEP_MS, () => {
      for (const line of lines) line.sweep(patience);
      this.#sweep();
    });
  }

  #end(): void {
    this.#isOver = true;
    this.#callOffNext();
    this.#finish();
  }

  #finish(): void {
    if (!this.#isOver || this.#settled < this.#sent) return;
    this.#callOffSweep();
    this.#driving.signal.removeEventListener('abort', this.#stop);
    const [start, from] = [this.#start, this.#start + this.#spread];
    const steady = this.#spread > 0 && this.#lastSent > from ? { from, to: this.#lastSent } : null;
    const duration = this.#last - start;
    this.#resolve({ samples: this.#samples, duration, start, sent: this.#sent, steady });
  }

  readonly #stop = (): void => {
    this.#end();
    for (const line of this.#driving.lines) line.abort(new Stopped('stopped'));
  };

  /** The server with the fewest requests under way; of several the next in turn. */
  #line(): Line {
    const { lines } = this.#driving;
    const at = (i: number): Line => lines[(this.#turn + i) % lines.length] as Line;
    let least = at(0);
    for (let i = 1; i < lines.length; i++) if (at(i).busy < least.busy) least = at(i);
    this.#turn++;
    return least;
  }

  #send(due: number, ended: () => void): void {
    const request = this.#driving.requestAt(this.#sent++);
    this.#lastSent = due;
    this.#line().send(request, due, ended, outcome => this.#settle(outcome));
  }

  #settle(outcome: Outcome): void {
    const samples = this.#samples;
    this.#settled++;
    this.#last = Math.max(this.#last, outcome.end);
    samples.add(outcome);
    this.#driving.progress?.(this.#sent - this.#settled, this.#settled);
    this.#unsent = !outcome.ok && outcome.isUnsent ? this.#unsent + 1 : 0;
    const isHopeless = samples.completed === 0 && samples.failed >= HOPELESS;
    if (this.#unsent >= HOPELESS || isHopeless) this.#end();
    this.#finish();
  }

  get #hasAll(): boolean {
    const { requests } = this.#driving.extent;
    return requests !== null && this.#sent >= requests;
  }

  /** Of a closed loop those that are due by now, from number `begun` on; each is followed by the next once it has ended. */
  #beginClosed(concurrency: number, begun: number): void {
    const at = this.#driving.now();
    for (let number = begun; number < concurrency && !this.#isOver; number++) {
      const due = this.#start + (this.#spread * number) / concurrency;
      if (due > at) {
        this.#callOffNext = this.#driving.after(due - at, () => this.#beginClosed(concurrency, number));
        return;
      }
      this.#next();
    }
    if (this.#hasAll) this.#end();
  }

  readonly #next = (): void => {
    const at = this.#driving.now();
    if (this.#isOver) return;
    if (this.#hasAll || at >= this.#until) return this.#end();
    this.#send(at, this.#next);
  };

  #dueTimes({ rate, from = rate, burstiness, seed }: Load & { kind: 'open' }): Float64Array {
    const { requests, ms } = this.#driving.extent;
    const mean = (from + rate) / 2;
    const count = requests ?? Math.max(1, Math.round((mean * (ms ?? 0)) / 1000));
    return dueTimes({ rate, from, burstiness, count, seed });
  }

  /** One timer for the next that is due; whatever is overdue then is sent at once. */
  #pump(due: Float64Array): void {
    const { now, after } = this.#driving;
    if (this.#isOver) return;
    const next = (): number => this.#start + (due[this.#sent] as number);
    for (let at = now(); this.#sent < due.length && next() <= at; ) this.#send(next(), () => {});
    if (this.#sent >= due.length) return this.#end();
    this.#callOffNext = after(Math.max(0, next() - now()), () => this.#pump(due));
  }
}
