/** The figures of a run: what it took, what it asked, and what the engines spent their time on. */

import type { PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import type { Account } from '../../engine/core/item/account.ts';
import type { EngineState } from '../simulator/engine.ts';
import type { Preset } from '../simulator/presets.ts';
import { computedIn, madeIn } from '../simulator/speculation.ts';
import { expertsMs } from '../simulator/steptime.ts';
import { meanBetween, type Series } from './series.ts';

/** Times are seconds of the servers' clock. */
export interface Figures {
  endpoints: number;
  items: number;
  failed: number;
  makespan: number;
  /** when the last item was begun: what follows is the tail */
  begun: number;
  calls: number;
  retries: number;
  tokens: { prompt: number; cached: number; completion: number };
  preemptions: number;
  /** GPUs that are held, times the makespan; one for each endpoint */
  gpuHours: number;
  /** share of the makespan in which the engines computed */
  busy: number;
  /** shares of that time, about: a step overlaps reading weights with computing */
  step: { cpu: number; weights: number; computing: number; kv: number };
  /** items that may be in flight at once */
  inFlight: number;
  /** calls that an endpoint may have at a time, at the end of the run; whether the pool file says so */
  limit: number;
  pinned: boolean;
  /** while the run was neither beginning nor ending, if it was long enough: shares, and sums over the endpoints */
  steady: { kv: number; running: number; waiting: number; queued: number; busy: number };
  /** items a second then */
  rate: number;
  series: Series;
  /** the run was of so many items, and all figures were stretched to `items` */
  simulated: number;
  /** how far runs are apart that should say the same, as a share of the makespan */
  spread: number;
}

export interface Ran {
  preset: Preset;
  account: Account;
  stats: PoolStats;
  states: readonly EngineState[];
  series: Series;
  /** when each item was done, in this order */
  ends: Float64Array;
  begun: number;
  inFlight: number;
}

export function figuresOf(ran: Ran): Figures {
  const { account, stats, states, series, ends, begun, inFlight } = ran;
  const makespan = ends[ends.length - 1] ?? 0;
  const steady = steadyPart(ends, inFlight, begun);
  const mean = (list: number[]) => meanBetween(list, series.every, steady.from, steady.to);
  const sum = (of: (state: EngineState) => number) => states.reduce((so, state) => so + of(state), 0);
  return {
    endpoints: states.length,
    items: ends.length,
    failed: account.rungs.failed,
    makespan,
    begun,
    calls: stats.calls,
    retries: stats.retries,
    tokens: stats.usage,
    preemptions: sum(({ preemptions }) => preemptions),
    gpuHours: (states.length * ran.preset.gpus * makespan) / 3600,
    busy: sum(({ busyMs }) => busyMs) / 1000 / states.length / makespan,
    step: sharesOf(ran, sum),
    inFlight,
    limit: stats.endpoints.reduce((so, { limit }) => so + limit, 0) / states.length,
    pinned: stats.endpoints.every(({ pinned }) => pinned),
    steady: {
      kv: mean(series.kv),
      running: mean(series.running),
      waiting: mean(series.waiting),
      queued: mean(series.queued),
      busy: mean(series.busy),
    },
    rate: steady.rate,
    series,
    simulated: ends.length,
    spread: 0,
  };
}

/**
 * Items that begin together stay together for a while, so a run is looked at in whole rounds of what is in flight: from
 * the end of the first to that of the last but one. A run too short for that is looked at until its last item was begun,
 * and one that begins them all at once as a whole.
 */
function steadyPart(
  ends: Float64Array,
  inFlight: number,
  begun: number,
): { from: number; to: number; rate: number } {
  const rounds = Math.floor(ends.length / inFlight) - 1;
  const end = ends[ends.length - 1] ?? 0;
  if (rounds < 2) return { from: 0, to: begun > 0 ? begun : end, rate: ends.length / end };
  const [first, last] = [inFlight - 1, rounds * inFlight - 1];
  const [from, to] = [ends[first] ?? 0, ends[last] ?? 0];
  return { from, to, rate: (last - first) / (to - from) };
}

/**
 * T = t0 + t_seq·B + √(W² + (c·n)²) + κ·KV, summed over all steps: the first and the last part are known exactly, and the
 * root is told apart by W·steps and c·tokens.
 */
function sharesOf({ preset }: Ran, sum: (of: (state: EngineState) => number) => number): Figures['step'] {
  const { t0, perSequence, weights, perToken, perKvToken } = preset.step;
  const all = sum(({ busyMs }) => busyMs);
  const [steps, made] = [sum(state => state.steps), sum(({ outputTokens }) => outputTokens)];
  const { speculation } = preset.limits;
  const decodes = sum(state => state.decodes);
  const inSteps = made - (madeIn(speculation) - 1) * decodes;
  const computed = made + (computedIn(speculation) - madeIn(speculation)) * decodes;
  const cpu = t0 * steps + perSequence * inSteps;
  const kv = perKvToken * sum(({ kvRead }) => kvRead);
  const experts = expertsMs(preset.step, steps === 0 ? 0 : computed / steps);
  const [w, c] = [
    (weights + experts) * steps,
    perToken * (computed + sum(state => state.promptTokens - state.prefixHits)),
  ];
  const root = Math.max(0, all - cpu - kv);
  return {
    cpu: cpu / all,
    kv: kv / all,
    weights: (root * w) / (w + c) / all,
    computing: (root * c) / (w + c) / all,
  };
}

/** The figures of `items` like those that were run: what lies between beginning and end takes longer, and nothing else. */
export function stretched(figures: Figures, items: number): Figures {
  if (items === figures.simulated) return figures;
  const more = (items - figures.simulated) / figures.rate;
  const times = items / figures.simulated;
  const scaled = (count: number) => Math.round(count * times);
  const makespan = figures.makespan + more;
  const { prompt, cached, completion } = figures.tokens;
  return {
    ...figures,
    items,
    makespan,
    begun: figures.begun + more,
    failed: scaled(figures.failed),
    calls: scaled(figures.calls),
    retries: scaled(figures.retries),
    tokens: { prompt: scaled(prompt), cached: scaled(cached), completion: scaled(completion) },
    preemptions: scaled(figures.preemptions),
    gpuHours: (figures.gpuHours * makespan) / figures.makespan,
    busy: (figures.busy * figures.makespan + figures.steady.busy * more) / makespan,
  };
}

/** The run in the middle of an odd number of them; how far another one is from it is how far it may be off. */
export function middleOf(runs: readonly Figures[]): Figures {
  const sorted = [...runs].sort((a, b) => a.makespan - b.makespan);
  const middle = sorted[sorted.length >> 1] as Figures;
  const offs = sorted.map(({ makespan }) => Math.abs(makespan - middle.makespan) / middle.makespan);
  return { ...middle, spread: Math.max(...offs) };
}

/** What two runs say together; how far they are apart is how far either may be off. */
export function together(one: Figures, other: Figures): Figures {
  const mean = (a: number, b: number): number => (a + b) / 2;
  const makespan = mean(one.makespan, other.makespan);
  const { prompt, cached, completion } = one.tokens;
  return {
    ...one,
    makespan,
    begun: mean(one.begun, other.begun),
    failed: Math.round(mean(one.failed, other.failed)),
    calls: Math.round(mean(one.calls, other.calls)),
    retries: Math.round(mean(one.retries, other.retries)),
    tokens: {
      prompt: Math.round(mean(prompt, other.tokens.prompt)),
      cached: Math.round(mean(cached, other.tokens.cached)),
      completion: Math.round(mean(completion, other.tokens.completion)),
    },
    preemptions: Math.round(mean(one.preemptions, other.preemptions)),
    gpuHours: mean(one.gpuHours, other.gpuHours),
    busy: mean(one.busy, other.busy),
    simulated: Math.min(one.items, one.simulated + other.simulated),
    spread: Math.abs(one.makespan - other.makespan) / makespan,
  };
}
