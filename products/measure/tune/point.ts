/** What a measurement found: figures of requests, of the server and of the client, as a line of tune.ndjson has them. */

import type { Interval } from '../../kit/statistics.ts';
import { cachedShareOf, type Spread, spreadOf } from '../bench/bench-figures.ts';
import { mean, ranksOf } from '../bench/bench-statistics.ts';
import { type ClientFacts, limitsOf } from '../bench/client-health.ts';
import { lateness, type Samples } from '../bench/samples.ts';
import type { LoadSample } from '../bench/server-view.ts';
import { findsRate } from './rank.ts';
import type { Bound, Goal, Setting, Study } from './tune-file.ts';
import type { Failure } from './tuned-server.ts';

/** Requests that keep a bound, of all that were answered or failed. */
export interface Within {
  good: number;
  of: number;
}

/** What the server said of itself over a measurement: means and peaks. */
export interface LoadView {
  running: number;
  running_max: number;
  waiting: number;
  waiting_max: number;
  /** share of the KV cache in use */
  kv: number;
  kv_max: number;
  preemptions: number;
}

/** A line of tune.ndjson has it, and tune.json. */
export type Point = ReturnType<typeof pointOf>;

/** Answers of a run, a number each; `weight` is the share of an answer that belongs to what is measured. */
export interface Answers {
  weight: Float64Array;
  /** the requests that ended in it: their latencies count */
  isEnded: (index: number) => boolean;
  failed: number;
  /** ms of it */
  ms: number;
  /** an open loop: times from when a request was due */
  fromDue: boolean;
  samples: Samples;
  bounds: readonly Bound[];
  loads: readonly LoadSample[];
  client: ClientFacts;
  load: { kind: 'closed'; concurrency: number } | { kind: 'open'; rate: number; requests: number };
}

const MOST_LENGTHS = 200;

const figure = (value: number | null | undefined): number | null =>
  value === null || value === undefined || !Number.isFinite(value) ? null : Number(value.toPrecision(8));

export function pointOf(answers: Answers) {
  const { samples, isEnded, weight, failed, ms, bounds, load } = answers;
  const times = timesOf(answers);
  const ended = Array.from(weight.keys()).filter(isEnded);
  const picked = (values: Float64Array): Float64Array => Float64Array.from(ended, at => values[at] as number);
  const [prompt, completion] = [samples.of('prompt'), samples.of('completion')];
  const latencies = {
    ttft: spreadOf(picked(times.ttft)),
    tpot: spreadOf(picked(times.tpot)),
    e2el: spreadOf(picked(times.e2el)),
  };
  // an answer without that time (one token has no TPOT) does not break its bound
  const keeps = (index: number, { metric, ms: most }: Bound): boolean =>
    !((times[metric][index] as number) > most);
  const of = ended.length + failed;
  const within = bounds.map(
    bound => [bound.name, { good: ended.filter(index => keeps(index, bound)).length, of }] as const,
  );
  return {
    load,
    seconds: figure(ms / 1000) as number,
    completed: ended.length,
    failed,
    /** what the first one said */
    failure: failed === 0 ? null : (samples.failures()[0]?.message.slice(0, 300) ?? null),
    ...ratesOf(answers, ended.length, index => bounds.every(bound => keeps(index, bound))),
    within: Object.fromEntries(within) as Record<string, Within>,
    ttft_ms: latencyOf(latencies.ttft),
    tpot_ms: latencyOf(latencies.tpot),
    e2el_ms: latencyOf(latencies.e2el),
    input_tokens: meanAndStd(picked(prompt)),
    output_tokens: meanAndStd(picked(completion)),
    /** prompt and completion tokens of some of the requests: what the space is ranked by */
    lengths: ended
      .slice(0, MOST_LENGTHS)
      .map(index => [prompt[index] ?? 0, completion[index] ?? 0] as const)
      .filter(([tokensIn, tokensOut]) => tokensIn > 0 && tokensOut > 0),
    /** of the prompt tokens, those that a prefix cache had; null where the server does not say */
    cached_share: figure(cachedShareOf(picked(prompt), picked(samples.of('cached')))),
    /** answers without usage: their tokens are unknown */
    uncounted: samples.uncounted,
    server: viewOf(answers.loads),
    client: clientOf(answers.client, latencies.ttft),
  };
}

/** Latencies by request; those of an open loop count from when it was due. */
function timesOf({ samples, fromDue }: Answers): Record<Bound['metric'], Float64Array> {
  const [ttft, e2el] = [samples.of('ttft'), samples.of('e2el')];
  const late = fromDue ? lateness(samples) : null;
  const since = (values: Float64Array): Float64Array =>
    late === null ? values : values.map((value, index) => value + (late[index] as number));
  return { ttft: since(ttft), tpot: samples.of('tpot'), e2el: since(e2el) };
}

/** Requests and tokens a second, of all answers and of those that are good. */
function ratesOf(
  { samples, weight, failed, ms, bounds, load }: Answers,
  ended: number,
  isGood: (index: number) => boolean,
) {
  const completion = samples.of('completion');
  let [requests, tokens, good, goodTokens] = [0, 0, 0, 0];
  for (const [index, share] of weight.entries()) {
    if (share === 0) continue;
    const made = share * (completion[index] || 0);
    requests += share;
    tokens += made;
    if (!isGood(index)) continue;
    good += share;
    goodTokens += made;
  }
  // an open loop offers a rate: of what was sent at it, the share that was answered, without the ends of the run
  const perSecond = load.kind === 'closed' ? 1000 / ms : ended === 0 ? 0 : load.rate / (ended + failed);
  const rate = (count: number): number => figure(count * perSecond) ?? 0;
  return {
    /** closed: answers that came in these seconds; open: the offered rate times the share that was answered */
    requests_per_s: rate(requests),
    output_tokens_per_s: rate(tokens),
    /** requests that keep all bounds, and their tokens; null without slo */
    good_per_s: bounds.length === 0 ? null : rate(good),
    good_tokens_per_s: bounds.length === 0 ? null : rate(goodTokens),
  };
}

const latencyOf = ({ n, mean: middle, at }: Spread) => ({
  n,
  mean: figure(middle),
  p50: figure(at[50]),
  p90: figure(at[90]),
  p95: figure(at[95]),
  p99: figure(at[99]),
});

function meanAndStd(tokens: Float64Array) {
  const { mean: middle, std } = spreadOf(tokens);
  return { mean: figure(middle), std: figure(std) };
}

function clientOf(client: ClientFacts, { at }: Spread) {
  const limits = limitsOf(client, { medianTtft: at[50] as number, p99Ttft: at[99] as number });
  return {
    verdict: limits.length > 0 ? ('client-limited' as const) : ('ok' as const),
    limits,
    /** as fw bench has them: shares, cores, ms; null where it does not apply */
    facts: Object.fromEntries(Object.entries(client).map(([name, value]) => [name, figure(value)])),
  };
}

/** null where the server said nothing. */
export function viewOf(samples: readonly LoadSample[]): LoadView | null {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return null;
  return meanView(
    samples.map(({ running, waiting, kv }) => ({
      ...{ running, waiting, kv, running_max: running, waiting_max: waiting, kv_max: kv },
      preemptions: 0,
    })),
    Math.max(0, last.preemptions - first.preemptions),
  );
}

/** Means of views, and their peaks; there is one at least. */
export function meanView(views: readonly LoadView[], preemptions: number): LoadView {
  const middle = (of: (view: LoadView) => number): number => Number(mean(views.map(of)).toPrecision(6));
  const most = (of: (view: LoadView) => number): number => Math.max(...views.map(of));
  return {
    running: middle(({ running }) => running),
    running_max: most(({ running_max }) => running_max),
    waiting: middle(({ waiting }) => waiting),
    waiting_max: most(({ waiting_max }) => waiting_max),
    kv: middle(({ kv }) => kv),
    kv_max: most(({ kv_max }) => kv_max),
    preemptions,
  };
}

/** What there should be most of. Of a cost, tokens for a unit of money: `hourly` is what the server costs an hour. */
export function goalValue(point: Point, goal: Goal, hourly = 1): number {
  const tokens = point.good_tokens_per_s ?? point.output_tokens_per_s;
  switch (goal) {
    case 'tokens':
      return tokens;
    case 'cost':
      return (tokens * 3600) / hourly;
    case 'requests':
    case 'goodput':
      return point.good_per_s ?? point.requests_per_s;
  }
}

/**
 * Whether bounds are kept, over all of these points: of the requests, the share of its percentile has to. Not `sure`
 * where so few requests do not tell: a bound lies within the 95 % interval of the percentile.
 */
export function keptBy(points: readonly Point[], bounds: readonly Bound[]): { kept: boolean; sure: boolean } {
  let [kept, sure] = [true, true];
  for (const { name, percentile } of bounds) {
    const good = points.reduce((sum, { within }) => sum + (within[name]?.good ?? 0), 0);
    const of = points.reduce((sum, { within }) => sum + (within[name]?.of ?? 0), 0);
    if (of === 0) return { kept: false, sure: true };
    const [low, high] = ranksOf(of, percentile / 100);
    if (good < (percentile / 100) * of) kept = false;
    if (good >= (low ?? 0) && good < (high ?? of)) sure = false;
  }
  return { kept, sure };
}

/** Requests of a point, so that its percentiles have an interval. */
export function requestsFor(bounds: readonly Bound[]): number {
  const most = Math.max(0, ...bounds.map(({ percentile }) => percentile));
  return most === 99 ? 400 : most === 95 ? 100 : 40;
}

export const meanOf = (values: readonly number[]): number => mean(values);

/** What is known of a setting that was started. */
export interface Entry {
  setting: Setting;
  /** `broken`: it does not keep the bounds of the load, at no rate that was tried */
  state: 'measured' | 'behind' | 'broken' | 'failed';
  failure: Failure | null;
  blocks: Point[];
  /** of the goal, over blocks at full load */
  full: Interval | null;
  /** the rates that were tried, in their order */
  rates: { rate: number; kept: boolean; points: Point[] }[];
  /** the highest of them that was kept */
  rate: number | null;
  /** of the goal: at full load, or at that rate */
  value: number | null;
}

export const UNITS: { [goal in Study['goal']]: string } = {
  tokens: 'output tokens/s',
  requests: 'requests/s',
  goodput: 'good requests/s',
  cost: 'output tokens for a unit of money',
};

export function entryWords(study: Study, { state, failure, value, rate, rates, full }: Entry): string {
  if (failure !== null) return `${failure.kind}: ${failure.message}`;
  const unit = findsRate(study) ? 'requests/s' : UNITS[study.goal];
  const at = full === null ? '' : `${figureOf(full.value)} ${unit} at full load`;
  if (state === 'broken')
    return `${at}; the bounds are not kept${rates.length > 0 ? ` at ${rates.map(each => each.rate).join(', ')} requests/s` : ''}`;
  if (state === 'behind') return `${at}; not better than the best`;
  return rate === null
    ? at
    : `${at}; ${rate} requests/s within the bounds, ${figureOf(value)} ${UNITS[study.goal]}`;
}

export function figureOf(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  return Math.abs(value) >= 1000 ? String(Math.round(value)) : value.toPrecision(4);
}
