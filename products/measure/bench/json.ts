/**
 * A run as vllm bench serve writes it (--save-result; --detailed: --save-detailed), so that what reads that file reads this
 * one; what it does not have is under `fw`. schemas/bench.schema.json describes both.
 */
import { createHash } from 'node:crypto';
import type { Run } from './bench.ts';
import { FORMULAS, METRICS, type Metric, PERCENTILES, type Spread } from './bench-figures.ts';

import type { ServerFacts } from './bench-servers.ts';
import { meanInterval } from './bench-statistics.ts';
import type { Load } from './drive-load.ts';

/** What the file has of a benchmark, beside its runs. */
export interface About {
  version: string;
  model: string;
  label: string | null;
  source: string;
  /** what the endpoints say of themselves, in their order */
  servers: readonly ServerFacts[];
  /** of the first request, as it was sent */
  body: string;
  seed: number;
  isDetailed: boolean;
}

/**
 * A run as its file has it, as far as pages and comparisons read it. Null in what was read of a file, of what nobody measured;
 * the file has 0 there, as that of vLLM.
 */
export interface BenchResult extends Figures {
  date: string;
  label: string | null;
  model_id: string;
  num_prompts: number;
  duration: number;
  completed: number;
  failed: number;
  total_input_tokens: number | null;
  total_output_tokens: number | null;
  request_throughput: number;
  request_goodput: number | null;
  output_throughput: number | null;
  total_token_throughput: number | null;
  max_concurrent_requests: number;
  fw: Omit<ReturnType<typeof ownOf>, 'unknown'> & {
    /** keys whose 0 stands for what nobody measured; files of older versions do not say it */
    unknown?: string[];
  };
}
const FIGURES = ['mean', 'median', 'std', 'p90', 'p95', 'p99'] as const;
type Figures = { [key in `${(typeof FIGURES)[number]}_${Metric}_ms`]: number | null };

export const latencyKeys = (metric: Metric): (keyof Figures)[] =>
  FIGURES.map(figure => `${figure}_${metric}_ms` as const);

type Json = Record<string, unknown>;

const ms = (value: number | null | undefined): number | null =>
  value === null || value === undefined || Number.isNaN(value) ? null : Number(value.toFixed(6));

/** vLLM's keys have 0 where there is no sample; `fw.unknown` names those, since a 0 may be measured. */
const orZero = (value: number): number => ms(value) ?? 0;
const zeroed = (value: number): number => (Number.isNaN(value) ? 0 : value);

/** The keys whose 0 is none: of latencies that no request had, and of tokens that nobody counted. */
function unknownIn({ metrics, inputTokens, outputTokens }: Run['figures']): string[] {
  const latencies = METRICS.filter(metric => metrics[metric].n === 0).flatMap(metric => latencyKeys(metric));
  const tokens = [
    ...(Number.isNaN(inputTokens) ? ['total_input_tokens'] : []),
    ...(Number.isNaN(outputTokens) ? ['total_output_tokens', 'output_throughput'] : []),
    ...(Number.isNaN(inputTokens + outputTokens) ? ['total_token_throughput'] : []),
  ];
  return [...latencies, ...tokens];
}

export function jsonOf(run: Run, about: About): BenchResult {
  const { figures, load, driven } = run;
  const { metrics } = figures;
  const sampled = driven.samples;
  const result: Json = {
    date: stampOf(run.began),
    endpoint_type: 'openai-chat',
    backend: 'openai-chat',
    label: about.label,
    model_id: about.model,
    tokenizer_id: about.model,
    num_prompts: driven.sent,
    request_rate: load.kind === 'open' && load.rate !== Number.POSITIVE_INFINITY ? load.rate : 'inf',
    burstiness:
      load.kind === 'open' ? (load.burstiness === Number.POSITIVE_INFINITY ? 'inf' : load.burstiness) : 1,
    max_concurrency: load.kind === 'closed' ? load.concurrency : null,
    ...(load.kind === 'open' &&
      load.from !== undefined && {
        ramp_up_strategy: 'linear',
        ramp_up_start_rps: load.from,
        ramp_up_end_rps: load.rate,
      }),
    duration: figures.duration,
    completed: figures.completed,
    failed: figures.failed,
    total_input_tokens: zeroed(figures.inputTokens),
    total_output_tokens: zeroed(figures.outputTokens),
    request_throughput: figures.requestThroughput,
    request_goodput: figures.goodput === null || Number.isNaN(figures.goodput) ? null : figures.goodput,
    output_throughput: zeroed(figures.outputThroughput),
    total_token_throughput: zeroed(figures.totalThroughput),
    max_output_tokens_per_s: figures.peakEvents,
    max_concurrent_requests: figures.peakConcurrency,
    rtfx: 0,
  };
  if (about.isDetailed) {
    const details = sampled.details;
    Object.assign(result, {
      input_lens: details.map(({ input }) => input),
      output_lens: details.map(({ output }) => output),
      ttfts: details.map(({ ttft }) => ttft),
      itls: details.map(({ itl }) => itl),
      latencies: details.map(({ latency }) => latency),
      start_times: details.map(({ start }) => start),
      queue_times: details.map(({ queue }) => queue),
      generated_texts: details.map(({ text }) => text),
      errors: details.map(({ error }) => error),
    });
  }
  for (const metric of METRICS) {
    const spread = metrics[metric];
    result[`mean_${metric}_ms`] = orZero(spread.mean);
    result[`median_${metric}_ms`] = orZero(spread.at[50] as number);
    result[`std_${metric}_ms`] = orZero(spread.std);
    for (const p of PERCENTILES) if (p !== 50) result[`p${p}_${metric}_ms`] = orZero(spread.at[p] as number);
  }
  result.fw = ownOf(run, about);
  return result as unknown as BenchResult;
}

function ownOf(run: Run, about: About) {
  const { figures, client, limits, driven } = run;
  return {
    bench: 1 as const,
    version: about.version,
    began: new Date(run.began).toISOString(),
    run: run.run,
    of: run.of,
    load: loadJson(run.load),
    endpoints: run.endpoints,
    goodput: run.goal,
    workload: {
      source: about.source,
      seed: about.seed,
      first_request: run.first,
      repeated: run.repeated,
      body: about.body,
      body_sha256: createHash('sha256').update(about.body).digest('hex'),
      input_tokens: spreadJson(figures.input),
      output_tokens: spreadJson(figures.output),
      cached_share: ms(figures.cachedShare),
      uncounted: figures.uncounted,
    },
    verdict: limits.length > 0 ? ('client-limited' as const) : ('ok' as const),
    client: {
      limits,
      loop_utilisation: ms(client.loopUtilisation),
      cores: ms(client.cores),
      waited: ms(client.waited),
      lag_mean_ms: ms(client.lagMean),
      lag_p99_ms: ms(client.lagP99),
      lateness_p50_ms: ms(client.latenessP50),
      lateness_p99_ms: ms(client.latenessP99),
      coalesced_share: ms(figures.coalescedShare),
    },
    servers: run.endpoints.map(url => factsJson(about.servers.find(each => each.url === url))),
    server: serverJson(run),
    steady: figures.steady && {
      seconds: figures.steady.seconds,
      request_throughput: figures.steady.requestThroughput,
      output_throughput: ms(figures.steady.outputThroughput),
    },
    incomplete: figures.incomplete,
    unknown: unknownIn(figures),
    failures: driven.samples.failures(),
    e2el_due_ms: spreadJson(figures.e2elDue),
    first_event_ms: spreadJson(figures.firstEvent),
    first_answer_ms: spreadJson(figures.firstAnswer),
    intervals: intervalsJson(run),
    windows: figures.windows,
    timeline: {
      events: driven.samples.perSecond(),
      under_way: underWayEachSecond(run.driven),
      running: run.server.timeline.running,
      waiting: run.server.timeline.waiting,
      kv: run.server.timeline.kv,
      gpu: run.server.timeline.gpu,
    },
    formulas: FORMULAS,
  };
}

function factsJson(facts: ServerFacts | undefined) {
  if (facts === undefined) return null;
  const { url, version, root, maxModelLength, settings } = facts;
  return { url, version, root, max_model_len: maxModelLength, settings };
}

/** Null where no server has metrics, and no GPU was seen. */
function serverJson({ server, figures }: Run) {
  if (server.seen === 0 && server.gpu === null) return null;
  const { ttft, tpot, e2el } = figures.metrics;
  const gap = (ours: number, theirs: number | null): number | null =>
    theirs === null ? null : ms(ours - theirs);
  const { mean } = server;
  return {
    seen: server.seen,
    restarted: server.restarted,
    requests: server.requests,
    ...(Object.fromEntries(
      Object.entries(mean).map(([name, value]) => [`mean_${name}_ms`, ms(value)]),
    ) as Record<`mean_${keyof typeof mean}_ms`, number | null>),
    gap_ttft_ms: gap(ttft.mean, mean.ttft),
    gap_tpot_ms: gap(tpot.mean, mean.tpot),
    gap_e2el_ms: gap(e2el.mean, mean.e2el),
    prompt_tokens: server.promptTokens,
    output_tokens: server.outputTokens,
    preemptions: server.preemptions,
    prefix_hits: ms(server.prefixHits),
    kv_max: ms(server.kvMax),
    running_mean: ms(server.runningMean),
    running_max: server.runningMax,
    waiting_mean: ms(server.waitingMean),
    waiting_max: server.waitingMax,
    gpu_use: ms(server.gpu?.use),
    gpu_memory: ms(server.gpu?.memory),
  };
}

/** A load as JSON can say it, which has no infinity. */
function loadJson(load: Load) {
  if (load.kind === 'closed') return { kind: 'closed' as const, concurrency: load.concurrency };
  const number = (value: number): number | 'inf' => (value === Number.POSITIVE_INFINITY ? 'inf' : value);
  const { rate, burstiness, from } = load;
  return {
    kind: 'open' as const,
    rate: number(rate),
    burstiness: number(burstiness),
    ...(from !== undefined && { from }),
  };
}

function spreadJson({ n, mean, std, min, max, at }: Spread) {
  const percentiles = Object.fromEntries(PERCENTILES.map(p => [`p${p}`, ms(at[p])])) as Record<
    `p${(typeof PERCENTILES)[number]}`,
    number | null
  >;
  return { n, mean: ms(mean), std: ms(std), min: ms(min), max: ms(max), ...percentiles };
}

/** Requests under way in the middle of each second. */
function underWayEachSecond({ samples, start, duration }: Run['driven']): number[] {
  const changes = new Array<number>(Math.ceil(duration / 1000) + 1).fill(0);
  const at = (ms: number): number =>
    Math.min(changes.length - 1, Math.max(0, Math.ceil((ms - start) / 1000 - 0.5)));
  for (const [sent, end] of samples.spans) {
    changes[at(sent)] = (changes[at(sent)] as number) + 1;
    changes[at(end)] = (changes[at(end)] as number) - 1;
  }
  let now = 0;
  return changes.slice(0, -1).map(change => {
    now += change;
    return now;
  });
}

/** 95 %; null for an end that the sample is too small to have. */
function intervalsJson({ figures: { bounds, windows, outputTokens } }: Run) {
  const all: Record<string, [number | null, number | null] | null> = {};
  for (const metric of ['ttft', 'tpot', 'e2el'] as const) {
    const whole = windows && meanInterval(windows[metric]);
    all[`mean_${metric}_ms`] = whole && [ms(whole.low), ms(whole.high)];
    for (const p of PERCENTILES) {
      const { low = null, high = null } = bounds[metric][p] ?? {};
      all[`${p === 50 ? 'median' : `p${p}`}_${metric}_ms`] = [ms(low), ms(high)];
    }
  }
  for (const [name, list] of [
    ['request_throughput', windows?.requests],
    ['output_throughput', Number.isNaN(outputTokens) ? null : windows?.tokens],
  ] as const) {
    const whole = list && meanInterval(list);
    all[name] = whole ? [ms(whole.low), ms(whole.high)] : null;
  }
  return all;
}

/** YYYYMMDD-HHMMSS in local time, as vLLM. */
function stampOf(began: number): string {
  const at = new Date(began);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${at.getFullYear()}${two(at.getMonth() + 1)}${two(at.getDate())}-${two(at.getHours())}${two(at.getMinutes())}${two(at.getSeconds())}`;
}
