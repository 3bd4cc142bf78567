/**
 * Time as the pool sees it: a clock, which is injected so that tests decide when time passes; what the pool waits for;
 * how long recent answers took; and how long a try waits that follows a failed one.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks';

export interface Ticker {
  stop(): void;
  /** while held, the ticker keeps the process alive: calls that only wait have no socket that would */
  hold(on: boolean): void;
}

/** Of the times between looks at an event loop, in nanoseconds, as Node's IntervalHistogram has them. */
export interface Delays {
  readonly count: number;
  readonly mean: number;
  reset(): void;
  enable(): void;
  disable(): void;
}

export interface Clock {
  /** milliseconds; it never jumps back */
  now(): number;
  /** milliseconds since 1970, needed only to read a Retry-After that names a date */
  date(): number;
  every(ms: number, run: () => void): Ticker;
  /** runs once after `ms`; the returned function calls it off */
  after(ms: number, run: () => void): () => void;
  /** runs once at `when`, as near to it as can be, and never before it; left out where `after` is exact */
  at?(when: number, run: () => void): () => void;
  /** how late its turns are, by looks every `resolution` ms; left out where that is not known */
  delays?(resolution: number): Delays;
}

export const systemClock: Clock = {
  delays: resolution => monitorEventLoopDelay({ resolution }),
  now: () => performance.now(),
  date: () => Date.now(),
  every(ms, run) {
    const timer = setInterval(run, ms).unref();
    return {
      stop: () => clearInterval(timer),
      hold: on => void (on ? timer.ref() : timer.unref()),
    };
  },
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  at(when, run) {
    let callOff = () => {};
    // timers have whole milliseconds: the last part of one is waited for by turns of the event loop
    const wait = (): void => {
      const left = when - performance.now();
      if (left >= 1) {
        const timer = setTimeout(look, Math.floor(left));
        callOff = () => clearTimeout(timer);
      } else {
        const turn = setImmediate(look);
        callOff = () => clearImmediate(turn);
      }
    };
    const look = (): void => (performance.now() >= when ? run() : wait());
    wait();
    return () => callOff();
  },
};

/** What the pool waits for, in milliseconds unless said otherwise. */
export interface Timing {
  /** how often deadlines, pauses and sleeping calls are looked at */
  tick: number;
  /** a longer gap between two ticks means that this process was suspended, not that the servers were slow */
  stall: number;
  /** --timeout: a person has set what a try may take; null where it is found */
  timeout: number | null;
  /** an endpoint without a sign of work is silent after max(`timeoutFloor`, `timeoutFactor` x the median latency of such calls there) … */
  timeoutFloor: number;
  timeoutFactor: number;
  /** … before `answersToKnow` answers it is max(`timeoutBorrowed`, `timeoutFactor` x what the slowest other one needs) … */
  timeoutBorrowed: number;
  /** … and this much while no other one has answered such a call */
  timeoutUnknown: number;
  answersToKnow: number;
  /** an answer that has begun may pause so long, and has so long in all, and longer at this rate (bytes/s) */
  begunGap: number;
  leastRate: number;
  backoffBase: number;
  backoffCap: number;
  /** an endpoint that failed several times in a row rests this long, and twice as long each time, up to `restCap` */
  rest: number;
  restCap: number;
  /** the longest Retry-After that is obeyed */
  pauseCap: number;
  /** how often a server's metrics are read; of one that did not answer that; of one that has none */
  look: number;
  lookSoon: number;
  lookAgain: number;
  probeTimeout: number;
  /**
   * A dead endpoint is probed after `reprobeFirst`, then at doubling intervals up to `reprobeSoon` for a minute, since
   * one that flaps is back soon, and up to `reprobeLast` from then on.
   */
  reprobeFirst: number;
  reprobeSoon: number;
  reprobeLast: number;
  /** how long no endpoint may be usable before the run ends; --wait when that is longer */
  giveUp: number;
}

export const TIMING: Readonly<Timing> = {
  tick: 100,
  stall: 5_000,
  timeout: null,
  timeoutFloor: 30_000,
  timeoutFactor: 10,
  timeoutBorrowed: 20_000,
  timeoutUnknown: 600_000,
  answersToKnow: 20,
  begunGap: 30_000,
  leastRate: 500,
  backoffBase: 250,
  backoffCap: 15_000,
  rest: 250,
  restCap: 5_000,
  pauseCap: 600_000,
  look: 1_000,
  lookSoon: 5_000,
  lookAgain: 60_000,
  probeTimeout: 5_000,
  reprobeFirst: 250,
  reprobeSoon: 1_000,
  reprobeLast: 15_000,
  giveUp: 60_000,
};

/** Latencies kept for the median: enough to be steady, few enough to sort at every tick. */
const KEPT = 64;
/** Answers after which the median is taken anew, once as many as are kept have come: every choice asks for it. */
const RENEWED_AFTER = 16;

/** A ring of the last latencies. */
export interface Recent {
  readonly kept: Float64Array;
  /** all that were noted */
  count: number;
  /** the median, and how many had been noted when it was taken */
  median: number;
  medianAt: number;
}

export function noLatencies(): Recent {
  return { kept: new Float64Array(KEPT), count: 0, median: Number.NaN, medianAt: 0 };
}

export function noteLatency(recent: Recent, ms: number): void {
  recent.kept[recent.count++ % KEPT] = ms;
}

/** In milliseconds, NaN before the first. */
export function medianOf(recent: Recent): number {
  const since = recent.count - recent.medianAt;
  if (since >= RENEWED_AFTER || (since > 0 && recent.count <= KEPT)) {
    const sorted = recent.kept.slice(0, Math.min(KEPT, recent.count)).sort();
    recent.median = sorted[sorted.length >> 1] as number;
    recent.medianAt = recent.count;
  }
  return recent.median;
}

/** The longest of them in milliseconds, 0 before the first. */
export function slowestOf({ kept, count }: Recent): number {
  let slowest = 0;
  for (let i = Math.min(KEPT, count) - 1; i >= 0; i--) slowest = Math.max(slowest, kept[i] as number);
  return slowest;
}

/** Exponential with jitter between half and whole, so that calls which failed together do not return together. */
export function backoff(tries: number, base: number, cap: number, random: () => number): number {
  const full = Math.min(cap, base * 2 ** (tries - 1));
  return full * (0.5 + random() / 2);
}

/** Retry-After (RFC 9110 10.2.3: seconds or an HTTP date) in milliseconds, at most `cap`; undefined if unreadable. */
export function readRetryAfter(value: string | undefined, date: number, cap: number): number | undefined {
  if (value === undefined || value.length > 64) return undefined;
  const ms = /^\s*\d{1,12}(\.\d{1,6})?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - date;
  return Number.isNaN(ms) ? undefined : Math.min(cap, Math.max(0, ms));
}
