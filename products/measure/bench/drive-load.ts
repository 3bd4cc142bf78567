/**
 * One load on one or more servers, from the first request to the end of the last answer. A closed loop keeps so many
 * requests under way; an open loop sends each when it is due, however late the answers are.
 */

import { seeded } from '../../kit/permute.ts';
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

// When requests are due in an open loop: all times before the first is sent, from a seed, so that a run can be repeated.

export interface Arrivals {
  /** requests a second; Infinity: all at once */
  rate: number;
  /** of a ramp: the rate at its beginning, which grows evenly in time to `rate` */
  from?: number;
  /** shape of the gamma distribution of the gaps: 1 is Poisson, less comes in bursts, Infinity is constant */
  burstiness: number;
  count: number;
  seed: number;
}

/**
 * Milliseconds from the start, ascending. The gaps, that before the first among them, are Gamma(b, 1 / (rate b)), and all
 * are stretched so that the last request is due at count / rate: as vllm bench serve does, so that two runs of one rate
 * have that rate, and not the one that was drawn. Of a ramp the last one is due at its end, 2 count / (from + rate).
 */
export function dueTimes({ rate, from = rate, burstiness, count, seed }: Arrivals): Float64Array {
  const due = new Float64Array(count);
  if (rate === Number.POSITIVE_INFINITY) return due;
  const random = seeded(seed);
  let at = 0;
  for (let i = 0; i < count; i++) {
    at += burstiness === Number.POSITIVE_INFINITY ? 1 : gamma(burstiness, random);
    due[i] = at;
  }
  // arrivals of rate 1 in their own time; what has come by a time t of a ramp is from t + (rate - from) t² / 2T
  const end = (2 * count) / (from + rate);
  const curve = (rate - from) / end / 2;
  for (let i = 0; i < count; i++) {
    const share = ((due[i] as number) / at) * count;
    due[i] = (1000 * 2 * share) / (from + Math.sqrt(from * from + 4 * curve * share));
  }
  return due;
}

/** Marsaglia and Tsang (2000); below 1 by the power of a uniform number, as they say. Scale 1. */
function gamma(shape: number, random: () => number): number {
  if (shape < 1) return gamma(shape + 1, random) * (1 - random()) ** (1 / shape);
  if (shape === 1) return -Math.log(1 - random());
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    // Box and Muller
    const x = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}
