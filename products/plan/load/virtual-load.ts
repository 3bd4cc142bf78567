/**
 * Requests against engines in virtual time, as fw bench asks a server: a closed loop keeps so many under way, an open loop
 * sends each when it is due. What is measured has the names that fw bench gives it.
 */
import { quantile } from '../../kit/agreement.ts';
import type { Goal } from '../../kit/goal.ts';
import { Engine } from '../../simulator/engine.ts';
import type { Preset } from '../../simulator/presets.ts';
import type { Handle } from '../../simulator/sequence.ts';
import type { Prompt } from '../../simulator/tokens.ts';

/** What the request of a number, from 0, is made of. */
export type Asking = (number: number) => { prompt: Prompt; output: number };

export interface VirtualLoad {
  preset: Preset;
  servers: number;
  asking: Asking;
  /** ms at which requests are due; or how many are kept under way, of how many, begun over `spread` ms */
  when: { due: Float64Array } | { concurrency: number; requests: number; spread: number };
  /** asked once each before, one token of answer: what the prefix cache has from earlier loads */
  warm?: readonly Prompt[];
}

/** NaN where there is no sample. */
export interface Spread {
  mean: number;
  p50: number;
  p90: number;
  p99: number;
}

export interface LoadFigures {
  requests: number;
  /** s, to the end of the last answer */
  duration: number;
  inputTokens: number;
  outputTokens: number;
  /** share of the prompts' tokens that the prefix cache had */
  cached: number;
  preemptions: number;
  /** requests a second of a closed loop, without the rounds in which it fills and drains; NaN of fewer than three */
  steady: number;
  /** in ms */
  ttft: Spread;
  tpot: Spread;
  itl: Spread;
  e2el: Spread;
  /** requests that meet all bounds; of those without a goal all */
  good: number;
  /** the most that were under way at once */
  peak: number;
  /** share of the time in which a server had something to do, and tokens of KV cache that it held at most */
  busy: number;
}

/** @throws RangeError where a request would never fit into the KV cache */
export function runLoad(load: VirtualLoad, goal: Goal = {}): LoadFigures {
  return new Run(load, goal).figures();
}

class Run {
  readonly #load: VirtualLoad;
  readonly #goal: Goal;
  readonly #engines: Engine[];
  readonly #open: number[];
  readonly #ttft: number[] = [];
  readonly #tpot: number[] = [];
  readonly #e2el: number[] = [];
  /** gaps between tokens: how long, and how many of them, in turn */
  readonly #gaps: number[] = [];
  readonly #ends: number[] = [];
  #from = 0;
  #now = 0;
  #asked = 0;
  #last = 0;
  #good = 0;
  #peak = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #cachedTokens = 0;

  constructor(load: VirtualLoad, goal: Goal) {
    this.#load = load;
    this.#goal = goal;
    this.#engines = Array.from({ length: load.servers }, () => new Engine(load.preset));
    this.#open = this.#engines.map(() => 0);
  }

  figures(): LoadFigures {
    this.#warmUp();
    const before = this.#engines.map(engine => engine.state(this.#now));
    for (const engine of this.#engines)
      engine.onSteps = (decoding, steps, ms) => {
        if (decoding > 0) this.#gaps.push(ms / steps, decoding * steps);
      };
    const { when } = this.#load;
    if ('due' in when) this.#openLoop(when.due);
    else this.#closedLoop(when);
    const after = this.#engines.map(engine => engine.state(this.#now));
    const grew = (of: 'preemptions' | 'busyMs'): number =>
      after.reduce((sum, state, at) => sum + state[of] - (before[at]?.[of] ?? 0), 0);
    const duration = (this.#last - this.#from) / 1000;
    return {
      requests: this.#e2el.length,
      duration,
      inputTokens: this.#inputTokens,
      outputTokens: this.#outputTokens,
      cached: this.#cachedTokens / this.#inputTokens,
      preemptions: grew('preemptions'),
      steady: 'due' in when ? Number.NaN : steadyRate(this.#ends, when.concurrency, this.#from + when.spread),
      ttft: spreadOf(this.#ttft),
      tpot: spreadOf(this.#tpot),
      itl: spreadOfGaps(this.#gaps),
      e2el: spreadOf(this.#e2el),
      good: this.#good,
      peak: this.#peak,
      busy: grew('busyMs') / 1000 / duration / this.#engines.length,
    };
  }

  #warmUp(): void {
    const { warm = [] } = this.#load;
    for (const engine of this.#engines)
      for (const prompt of warm) engine.add({ prompt, output: 1, done: this.#passed }, 0);
    this.#drain();
    this.#from = this.#now;
    this.#last = this.#now;
  }

  readonly #passed = (at: number): void => {
    this.#now = at;
  };

  #openLoop(due: Float64Array): void {
    for (const at of due) {
      this.#advance(this.#from + at);
      this.#ask(this.#from + at, () => {});
    }
    this.#drain();
  }

  #closedLoop({
    concurrency,
    requests,
    spread,
  }: {
    concurrency: number;
    requests: number;
    spread: number;
  }): void {
    const next = (at: number): void => {
      if (this.#asked < requests) this.#ask(at, next);
    };
    for (let number = 0; number < Math.min(concurrency, requests); number++) {
      const at = this.#from + (spread * number) / concurrency;
      this.#advance(at);
      next(at);
    }
    this.#drain();
  }

  #ask(at: number, ended: (at: number) => void): void {
    const { prompt, output } = this.#load.asking(this.#asked++);
    let server = 0;
    for (let other = 1; other < this.#open.length; other++)
      if ((this.#open[other] as number) < (this.#open[server] as number)) server = other;
    (this.#open[server] as number)++;
    this.#peak = Math.max(
      this.#peak,
      this.#open.reduce((sum, count) => sum + count, 0),
    );
    (this.#engines[server] as Engine).add(
      {
        prompt,
        output,
        done: (end, told) => {
          (this.#open[server] as number)--;
          this.#settle(prompt, output, end, told);
          ended(end);
        },
      },
      at,
    );
  }

  #settle(prompt: Prompt, output: number, end: number, { arrived, firstToken, cachedTokens }: Handle): void {
    const ttft = firstToken - arrived;
    const e2el = end - arrived;
    const tpot = output > 1 ? (e2el - ttft) / (output - 1) : Number.NaN;
    this.#ttft.push(ttft);
    this.#e2el.push(e2el);
    if (output > 1) this.#tpot.push(tpot);
    this.#inputTokens += prompt.tokens;
    this.#outputTokens += output;
    this.#cachedTokens += cachedTokens;
    this.#last = Math.max(this.#last, end);
    this.#ends.push(end);
    const bounds: readonly (readonly [value: number, most: number | undefined])[] = [
      [ttft, this.#goal.ttft],
      [tpot, this.#goal.tpot],
      [e2el, this.#goal.e2el],
    ];
    if (bounds.every(([value, most]) => most === undefined || !(value > most))) this.#good++;
  }

  /** All that is due before `to`, in order over the engines. */
  #advance(to: number): void {
    for (;;) {
      let first: Engine | null = null;
      let at = to;
      for (const engine of this.#engines) {
        const due = engine.due();
        if (due !== null && due < at) [first, at] = [engine, due];
      }
      if (first === null) break;
      this.#now = at;
      first.advance(at);
    }
    if (Number.isFinite(to)) this.#now = to;
  }

  #drain(): void {
    this.#advance(Number.POSITIVE_INFINITY);
  }
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const at = (q: number): number => quantile(sorted, q);
  return { mean: meanOf(sorted), p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

/**
 * From the last end of the first round, or the first after `begun`, when all have begun, to one that is before the last round.
 * Answers that are as long end in waves, a round each, so that only between the same places of two waves there is a whole
 * number of periods.
 */
function steadyRate(ends: readonly number[], concurrency: number, begun: number): number {
  const sorted = Float64Array.from(ends).sort();
  const from = Math.max(
    concurrency - 1,
    sorted.findIndex(end => end >= begun),
  );
  const rounds = Math.floor((sorted.length - 1 - concurrency - from) / concurrency);
  if (rounds < 1) return Number.NaN;
  const to = from + rounds * concurrency;
  return (1000 * (to - from)) / ((sorted[to] as number) - (sorted[from] as number));
}

function meanOf(values: Float64Array): number {
  return values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Of values that stand for many: the value below which so large a share of them lies. */
function spreadOfGaps(gaps: readonly number[]): Spread {
  const order = Array.from({ length: gaps.length / 2 }, (_, at) => 2 * at).sort(
    (a, b) => (gaps[a] as number) - (gaps[b] as number),
  );
  let [count, sum] = [0, 0];
  for (const at of order) {
    count += gaps[at + 1] as number;
    sum += (gaps[at] as number) * (gaps[at + 1] as number);
  }
  const quantileOf = (q: number): number => {
    let below = 0;
    for (const at of order) {
      below += gaps[at + 1] as number;
      if (below >= q * count) return gaps[at] as number;
    }
    return Number.NaN;
  };
  return { mean: sum / count, p50: quantileOf(0.5), p90: quantileOf(0.9), p99: quantileOf(0.99) };
}
