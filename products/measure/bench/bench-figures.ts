/**
 * The figures of a run. Their names and formulas are those of vllm bench serve wherever it has them; FORMULAS says what
 * each word means here, for the same word means different things in different tools.
 */

import type { Goal } from '../../kit/goal.ts';
import { type Bounds, deviation, mean, percentile, percentileBounds, sorted } from './bench-statistics.ts';
import type { Driven } from './drive-load.ts';
import type { Samples } from './samples.ts';

export const FORMULAS: Readonly<Record<string, string>> = {
  ttft: 'first event with non-empty content - sent; ms. vllm bench serve takes the first event with choices: fw.first_event_ms',
  tpot: '(e2el - ttft) / (completion tokens - 1), tokens as the server counted them; requests of one token are left out; ms',
  itl: 'gaps between events with content, of all requests together; an event may have several tokens; ms',
  e2el: 'last event with content - sent; ms',
  e2el_due:
    'last event with content - due; in an open loop it has what a late server makes the next ones wait; ms',
  steady:
    'of a closed loop, which begins over the time of one answer: what ended between then and the last send / that time',
  server:
    'deltas of the counters and histograms of /metrics over the run, of all servers together; gap: ours - theirs, means',
  duration: 'end of the last answer - start of the run; s',
  percentiles: 'linear interpolation between ranks, as numpy; standard deviation with ddof 0',
  intervals:
    '95 %; of percentiles by order statistics, requests taken as independent; of means over windows of the run',
};

/** The metrics that have a block of their own, in the order in which vLLM prints them. */
export const METRICS = ['ttft', 'tpot', 'itl', 'e2el'] as const;
export type Metric = (typeof METRICS)[number];
export const PERCENTILES = [50, 90, 95, 99] as const;

/** NaN where there is no sample. */
export interface Spread {
  n: number;
  mean: number;
  std: number;
  min: number;
  max: number;
  /** by percentile: 50, 90, 95, 99 */
  at: Readonly<Record<number, number>>;
}

export function spreadOf(samples: ArrayLike<number>): Spread {
  const all = sorted(Array.prototype.filter.call(samples, (value: number) => !Number.isNaN(value)));
  return {
    n: all.length,
    mean: mean(all),
    std: deviation(all),
    min: all[0] ?? Number.NaN,
    max: all.at(-1) ?? Number.NaN,
    at: Object.fromEntries(PERCENTILES.map(p => [p, percentile(all, p)])),
  };
}

/** What a window of the run had, for the intervals of means; rates a second. */
export interface Windows {
  seconds: number;
  ttft: number[];
  tpot: number[];
  e2el: number[];
  requests: number[];
  tokens: number[];
}

export type Figures = ReturnType<typeof figuresOf>;

export function figuresOf({ samples, duration, start, steady }: Driven, goal: Goal | null) {
  const seconds = duration / 1000;
  const [ttft, tpot, e2el, end, due] = (['ttft', 'tpot', 'e2el', 'end', 'due'] as const).map(samples.of) as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const sent = samples.of('sent');
  const prompt = samples.of('prompt');
  const completion = samples.of('completion');
  const isUnknown = samples.completed > 0 && samples.uncounted >= samples.completed;
  const inputTokens = isUnknown ? Number.NaN : total(prompt);
  const outputTokens = isUnknown ? Number.NaN : total(completion);
  const rate = (count: number): number => (seconds > 0 ? count / seconds : 0);
  return {
    completed: samples.completed,
    failed: samples.failed,
    incomplete: samples.incomplete,
    /** s */
    duration: seconds,
    /** NaN where nobody counted any, and so is each rate of tokens */
    inputTokens,
    outputTokens,
    /** answers whose tokens nobody counted: they are in no total of tokens */
    uncounted: samples.uncounted,
    requestThroughput: rate(samples.completed),
    outputThroughput: rate(outputTokens),
    totalThroughput: rate(inputTokens + outputTokens),
    /** of a closed loop: between its beginning and its end; null where that is shorter than an answer takes */
    steady: steadyOf(steady, { end, e2el, completion }, isUnknown),
    /** requests that meet every bound, a second; null where there is none, NaN where TPOT is one and unknown */
    goodput:
      goal && (isUnknown && goal.tpot !== undefined ? Number.NaN : rate(goodOf({ ttft, tpot, e2el }, goal))),
    /** events with content in the fullest second */
    peakEvents: samples.perSecond().reduce((most, count) => Math.max(most, count), 0),
    peakConcurrency: peakOf(samples.spans),
    metrics: {
      ttft: spreadOf(ttft),
      tpot: spreadOf(tpot),
      itl: spreadOf(samples.gaps()),
      e2el: spreadOf(e2el),
    },
    firstEvent: spreadOf(samples.of('firstEvent')),
    firstAnswer: spreadOf(samples.of('firstAnswer')),
    /** from the due time: with what a late server makes others wait */
    e2elDue: spreadOf(e2el.map((ms, i) => ms + (sent[i] as number) - (due[i] as number))),
    input: spreadOf(prompt),
    output: spreadOf(completion),
    cachedShare: cachedShareOf(prompt, samples.of('cached')),
    /** events that came together with the one before them, as a share of all */
    coalescedShare: samples.events === 0 ? 0 : samples.coalesced / samples.events,
    /** by percentile; gaps of one answer depend on each other, so that itl has none */
    bounds: { ttft: boundsOf(ttft), tpot: boundsOf(tpot), e2el: boundsOf(e2el) },
    windows: windowsOf({ ttft, tpot, e2el, sent, end, completion }, start),
  };
}

function steadyOf(
  steady: Driven['steady'],
  { end, e2el, completion }: Record<'end' | 'e2el' | 'completion', Float64Array>,
  isUnknown: boolean,
): { seconds: number; requestThroughput: number; outputThroughput: number } | null {
  if (steady === null || !(steady.to - steady.from >= mean(e2el))) return null;
  const seconds = (steady.to - steady.from) / 1000;
  let [requests, tokens] = [0, 0];
  for (const [i, at] of end.entries()) {
    if (at < steady.from || at >= steady.to) continue;
    requests++;
    tokens += completion[i] || 0;
  }
  const outputThroughput = isUnknown ? Number.NaN : tokens / seconds;
  return { seconds, requestThroughput: requests / seconds, outputThroughput };
}

function total(values: Float64Array): number {
  let sum = 0;
  for (const value of values) if (!Number.isNaN(value)) sum += value;
  return sum;
}

/** Of the requests whose answer says it: cached tokens / prompt tokens. */
export function cachedShareOf(prompt: Float64Array, cached: Float64Array): number | null {
  let [all, known] = [0, 0];
  for (const [i, tokens] of cached.entries()) {
    if (Number.isNaN(tokens)) continue;
    all += prompt[i] as number;
    known += tokens;
  }
  return all > 0 ? known / all : null;
}

/** Requests that meet all bounds. One that has no TTFT or TPOT (an answer of one token) meets that bound. */
function goodOf(samples: Record<'ttft' | 'tpot' | 'e2el', Float64Array>, goal: Goal): number {
  const bounds = Object.entries(goal) as ['ttft' | 'tpot' | 'e2el', number][];
  let good = 0;
  for (let i = 0; i < samples.e2el.length; i++)
    if (bounds.every(([name, most]) => !((samples[name][i] as number) > most))) good++;
  return good;
}

function boundsOf(samples: Float64Array): Record<number, Bounds> {
  const all = sorted(samples.filter(value => !Number.isNaN(value)));
  return Object.fromEntries(PERCENTILES.map(p => [p, percentileBounds(all, p)]));
}

/** The most requests that were under way at one time; one that ends when another is sent is not. */
export function peakOf(spans: Samples['spans']): number {
  const starts = sorted(spans.map(([sent]) => sent));
  const ends = sorted(spans.map(([, end]) => end));
  let [now, most, ended] = [0, 0, 0];
  for (const at of starts) {
    for (; ended < ends.length && (ends[ended] as number) <= at; ended++) now--;
    most = Math.max(most, ++now);
  }
  return most;
}

const FEWEST_WINDOWS = 10;
const MOST_WINDOWS = 20;

/**
 * Means over windows of the run. Requests of one window depend on each other, since they share batches; windows of two
 * mean latencies nearly do not. Null where fewer than ten of them fit between the first and the last request.
 */
function windowsOf(
  of: Record<'ttft' | 'tpot' | 'e2el' | 'sent' | 'end' | 'completion', Float64Array>,
  start: number,
): Windows | null {
  const last = of.sent.reduce((latest, at) => Math.max(latest, at), start);
  const count = Math.min(MOST_WINDOWS, Math.floor((last - start) / (2 * mean(of.e2el))));
  if (!(count >= FEWEST_WINDOWS)) return null;
  const length = (last - start) / count;
  const lists = Array.from(
    { length: count },
    () => ({ ttft: [], tpot: [], e2el: [], ended: 0, tokens: 0 }) as Window,
  );
  for (let i = 0; i < of.sent.length; i++) {
    const began = lists[Math.min(count - 1, Math.floor(((of.sent[i] as number) - start) / length))] as Window;
    for (const name of ['ttft', 'tpot', 'e2el'] as const) {
      const value = of[name][i] as number;
      if (!Number.isNaN(value)) began[name].push(value);
    }
    const over = lists[Math.floor(((of.end[i] as number) - start) / length)];
    if (over === undefined) continue;
    over.ended++;
    over.tokens += of.completion[i] || 0;
  }
  // the first one has the ramp: servers are empty, and nothing has ended yet
  const steady = lists.slice(1);
  const means = (name: 'ttft' | 'tpot' | 'e2el'): number[] =>
    steady.flatMap(window => (window[name].length === 0 ? [] : mean(window[name])));
  return {
    seconds: length / 1000,
    ttft: means('ttft'),
    tpot: means('tpot'),
    e2el: means('e2el'),
    requests: steady.map(({ ended }) => (ended / length) * 1000),
    tokens: steady.map(({ tokens }) => (tokens / length) * 1000),
  };
}

interface Window {
  ttft: number[];
  tpot: number[];
  e2el: number[];
  ended: number;
  tokens: number;
}
