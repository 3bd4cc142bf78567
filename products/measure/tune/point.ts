/** What a measurement found: figures of requests, of the server and of the client, as a line of tune.ndjson has them. */

import { spreadOf } from '../bench/bench-figures.ts';
import { mean, ranksOf } from '../bench/bench-statistics.ts';
import { type ClientFacts, limitsOf } from '../bench/client-health.ts';
import type { Samples } from '../bench/samples.ts';
import { type LoadSample, type ServerView, viewOf } from './server-samples.ts';
import type { Bound, Goal } from './tune-file.ts';

export interface Latency {
  n: number;
  mean: number | null;
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
}

/** Requests that keep a bound, of all that were answered or failed. */
export interface Within {
  good: number;
  of: number;
}

export interface Point {
  load: { kind: 'closed'; concurrency: number } | { kind: 'open'; rate: number; requests: number };
  seconds: number;
  completed: number;
  failed: number;
  /** what the first failure said */
  failure: string | null;
  /** closed: answers that came in these seconds; open: the offered rate times the share that was answered */
  requests_per_s: number;
  output_tokens_per_s: number;
  /** requests that keep all bounds, and their tokens; null without slo */
  good_per_s: number | null;
  good_tokens_per_s: number | null;
  within: Record<string, Within>;
  ttft_ms: Latency;
  tpot_ms: Latency;
  e2el_ms: Latency;
  input_tokens: { mean: number | null; std: number | null };
  output_tokens: { mean: number | null; std: number | null };
  /** prompt and completion tokens of some of the requests: what the space is ranked by */
  lengths: (readonly [prompt: number, completion: number])[];
  /** of the prompt tokens, those that a prefix cache had; null where the server does not say */
  cached_share: number | null;
  /** answers without usage: their tokens are unknown */
  uncounted: number;
  server: ServerView | null;
  client: {
    verdict: 'ok' | 'client-limited';
    limits: string[];
    /** as fw bench has them: shares, cores, ms; null where it does not apply */
    facts: Record<string, number | null>;
  };
}

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
  load: Point['load'];
}

const MOST_LENGTHS = 200;

const figure = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : Number(value.toPrecision(8));

export function pointOf(answers: Answers): Point {
  const { samples, weight, isEnded, failed, ms, fromDue, bounds, load } = answers;
  const [sent, due, ttft, tpot, e2el] = (['sent', 'due', 'ttft', 'tpot', 'e2el'] as const).map(
    samples.of,
  ) as [Float64Array, Float64Array, Float64Array, Float64Array, Float64Array];
  const late = (index: number): number => (fromDue ? (sent[index] as number) - (due[index] as number) : 0);
  const of = {
    ttft: ttft.map((value, index) => value + late(index)),
    tpot,
    e2el: e2el.map((value, index) => value + late(index)),
  };
  const ended = Array.from(weight.keys()).filter(isEnded);
  const picked = (values: Float64Array): number[] => ended.map(index => values[index] as number);
  // an answer without that time (one token has no TPOT) does not break its bound
  const keeps = (index: number, { metric, ms: most }: Bound): boolean =>
    !((of[metric][index] as number) > most);
  const completion = samples.of('completion');
  let [requests, tokens, good, goodTokens] = [0, 0, 0, 0];
  for (const [index, share] of weight.entries()) {
    if (share === 0) continue;
    const made = share * (completion[index] || 0);
    requests += share;
    tokens += made;
    if (!bounds.every(bound => keeps(index, bound))) continue;
    good += share;
    goodTokens += made;
  }
  // an open loop offers a rate: of what was sent at it, the share that was answered, without the ends of the run
  const perSecond =
    load.kind === 'closed' ? 1000 / ms : ended.length === 0 ? 0 : load.rate / (ended.length + failed);

  const promptTokens = samples.of('prompt');
  const prompt = spreadOf(picked(promptTokens));
  const output = spreadOf(picked(completion));
  const latencies = {
    ttft: spreadOf(picked(of.ttft)),
    tpot: spreadOf(picked(tpot)),
    e2el: spreadOf(picked(of.e2el)),
  };
  const seen = {
    medianTtft: latencies.ttft.at[50] as number,
    p99Ttft: latencies.ttft.at[99] as number,
  };
  const limits = limitsOf(answers.client, seen);
  const latency = (name: keyof typeof latencies): Latency => {
    const { n, mean: middle, at } = latencies[name];
    return {
      n,
      mean: figure(middle),
      p50: figure(at[50]),
      p90: figure(at[90]),
      p95: figure(at[95]),
      p99: figure(at[99]),
    };
  };
  return {
    load,
    seconds: figure(ms / 1000) as number,
    completed: ended.length,
    failed,
    failure: failed === 0 ? null : (samples.failures()[0]?.message.slice(0, 300) ?? null),
    requests_per_s: figure(requests * perSecond) ?? 0,
    output_tokens_per_s: figure(tokens * perSecond) ?? 0,
    good_per_s: bounds.length === 0 ? null : (figure(good * perSecond) ?? 0),
    good_tokens_per_s: bounds.length === 0 ? null : (figure(goodTokens * perSecond) ?? 0),
    within: Object.fromEntries(
      bounds.map(bound => [
        bound.name,
        { good: ended.filter(index => keeps(index, bound)).length, of: ended.length + failed },
      ]),
    ),
    ttft_ms: latency('ttft'),
    tpot_ms: latency('tpot'),
    e2el_ms: latency('e2el'),
    input_tokens: { mean: figure(prompt.mean), std: figure(prompt.std) },
    output_tokens: { mean: figure(output.mean), std: figure(output.std) },
    lengths: ended
      .slice(0, MOST_LENGTHS)
      .map(index => [promptTokens[index] ?? 0, completion[index] ?? 0] as const)
      .filter(([tokensIn, tokensOut]) => tokensIn > 0 && tokensOut > 0),
    cached_share: cachedShare(picked(promptTokens), picked(samples.of('cached'))),
    uncounted: samples.uncounted,
    server: viewOf(answers.loads),
    client: {
      verdict: limits.length > 0 ? 'client-limited' : 'ok',
      limits,
      facts: Object.fromEntries(
        Object.entries(answers.client).map(([name, value]) => [name, figure(value ?? Number.NaN)]),
      ),
    },
  };
}

function cachedShare(prompt: readonly number[], cached: readonly number[]): number | null {
  let [all, known] = [0, 0];
  for (const [index, tokens] of cached.entries()) {
    if (Number.isNaN(tokens)) continue;
    all += prompt[index] as number;
    known += tokens;
  }
  return all > 0 ? figure(known / all) : null;
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
