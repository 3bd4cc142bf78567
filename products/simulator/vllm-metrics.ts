/**
 * /metrics: Prometheus text under vLLM's names, with the numbers of this server. What its engine knows (queue, KV cache,
 * tokens) is read from it at the moment of asking; what is known of requests that have ended is kept here.
 */

import { madeIn, type Speculation } from './speculation.ts';
import type { Live, ReplyTimes } from './timing.ts';
import { BLOCK } from './tokens.ts';

// the buckets of vllm/v1/metrics/loggers.py
const TTFT_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const TOKEN_BUCKETS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
const REQUEST_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];

const FINISHED = ['stop', 'length', 'abort', 'error'] as const;
export type Finished = (typeof FINISHED)[number];

/** vLLM renamed some families; `old` is what servers before 0.10 say, and some routers still read. */
export const METRIC_NAMES = ['new', 'old', 'both'] as const;
export type MetricNames = (typeof METRIC_NAMES)[number];
const OLD_NAMES: { [current: string]: string } = {
  kv_cache_usage_perc: 'gpu_cache_usage_perc',
  prefix_cache_queries: 'gpu_prefix_cache_queries',
  prefix_cache_hits: 'gpu_prefix_cache_hits',
  inter_token_latency_seconds: 'time_per_output_token_seconds',
};

/** Why a request was not let in. */
export type Rejection = 'queued_reqs' | 'queued_tokens';

export interface Served {
  model: string;
  maxModelLength: number;
  names: MetricNames;
  /** blocks of the KV cache, where there is an engine */
  kvBlocks: number | undefined;
  speculation: Speculation | undefined;
}

interface Histogram {
  help: string;
  bounds: readonly number[];
  /** how many fell into each bucket, not yet summed up */
  buckets: number[];
  sum: number;
  count: number;
}

function histogram(help: string, bounds: readonly number[]): Histogram {
  return { help, bounds, buckets: bounds.map(() => 0), sum: 0, count: 0 };
}

/** Labels of its own, such as `reason="capacity"`, and what stands behind the name of its family. */
type Sample = [labels: string, value: number, ending?: string];

export class Metrics {
  readonly #served: Served;
  readonly #finished = { stop: 0, length: 0, abort: 0, error: 0 };
  readonly #rejections = { queued_reqs: 0, queued_tokens: 0 };
  readonly #times: { [name: string]: Histogram };

  constructor(served: Served) {
    this.#served = served;
    const tokens = seriesUpTo(served.maxModelLength);
    this.#times = {
      time_to_first_token_seconds: histogram('Time to first token.', TTFT_BUCKETS),
      inter_token_latency_seconds: histogram('Time between two tokens.', TOKEN_BUCKETS),
      request_time_per_output_token_seconds: histogram(
        'Time of an output token, mean over a request.',
        TOKEN_BUCKETS,
      ),
      e2e_request_latency_seconds: histogram('End to end latency.', REQUEST_BUCKETS),
      request_queue_time_seconds: histogram('Time in the queue.', REQUEST_BUCKETS),
      request_inference_time_seconds: histogram('Time in execution.', REQUEST_BUCKETS),
      request_prefill_time_seconds: histogram('Time in prefill.', REQUEST_BUCKETS),
      request_decode_time_seconds: histogram('Time in decode.', REQUEST_BUCKETS),
      request_prompt_tokens: histogram('Prompt tokens of a request.', tokens),
      request_generation_tokens: histogram('Output tokens of a request.', tokens),
    };
  }

  /** An answer that was said to its end. */
  answered(how: Finished, tokens: { prompt: number; completion: number }, times: ReplyTimes): void {
    const { prompt, completion } = tokens;
    const { queued, firstToken, lastToken } = times;
    this.#finished[how]++;
    const decode = (lastToken - firstToken) / 1_000;
    this.#note('time_to_first_token_seconds', firstToken / 1_000);
    this.#note('e2e_request_latency_seconds', lastToken / 1_000);
    this.#note('request_queue_time_seconds', queued / 1_000);
    this.#note('request_inference_time_seconds', (lastToken - queued) / 1_000);
    this.#note('request_prefill_time_seconds', (firstToken - queued) / 1_000);
    this.#note('request_decode_time_seconds', decode);
    this.#note('request_prompt_tokens', prompt);
    this.#note('request_generation_tokens', completion);
    if (completion < 2) return;
    this.#note('request_time_per_output_token_seconds', decode / (completion - 1));
    // the mean of the request for each of its gaps: the sum is true, the spread within a request is not shown
    this.#note('inter_token_latency_seconds', decode / (completion - 1), completion - 1);
  }

  /** One that was not. */
  broken(how: Finished): void {
    this.#finished[how]++;
  }

  rejected(reason: Rejection): void {
    this.#rejections[reason]++;
  }

  /** Notes `times` samples of one value. */
  #note(name: string, value: number, times = 1): void {
    const into = this.#times[name]!;
    const index = into.bounds.findIndex(bound => value <= bound);
    if (index >= 0) into.buckets[index]! += times;
    into.sum += value * times;
    into.count += times;
  }

  text(live: Live): string {
    const { model, names, kvBlocks, speculation } = this.#served;
    const common = `engine="0",model_name="${escaped(model)}"`;
    const lines: string[] = [];
    const family = (kind: string, current: string, help: string, samples: readonly Sample[]) => {
      const old = OLD_NAMES[current] ?? current;
      for (const name of new Set(names === 'both' ? [current, old] : [names === 'old' ? old : current])) {
        lines.push(`# HELP vllm:${name} ${help}`, `# TYPE vllm:${name} ${kind}`);
        for (const [labels, value, ending = ''] of samples)
          lines.push(`vllm:${name}${ending}{${common}${labels && `,${labels}`}} ${value}`);
      }
    };
    const gauge = (name: string, help: string, ...samples: Sample[]) => family('gauge', name, help, samples);
    const counter = (name: string, help: string, values: number | { [labels: string]: number }) => {
      const each = Object.entries(typeof values === 'number' ? { '': values } : values);
      family(
        'counter',
        name,
        help,
        each.map(([labels, value]) => [labels, value, '_total']),
      );
    };
    gauge('num_requests_running', 'Requests in execution.', ['', live.running]);
    gauge('num_requests_waiting', 'Requests in the queue.', ['', live.waiting]);
    gauge(
      'num_requests_waiting_by_reason',
      'Requests in the queue, by reason.',
      ['reason="capacity"', live.waiting],
      ['reason="deferred"', 0],
    );
    gauge('kv_cache_usage_perc', 'Share of the KV cache in use, 0 to 1.', ['', live.kvUsage]);
    if (kvBlocks !== undefined)
      gauge('cache_config_info', 'The KV cache.', [`block_size="${BLOCK}",num_gpu_blocks="${kvBlocks}"`, 1]);
    counter('prefix_cache_queries', 'Prompt tokens looked up in the prefix cache.', live.prefixQueries);
    counter('prefix_cache_hits', 'Prompt tokens found in the prefix cache.', live.prefixHits);
    counter('num_preemptions', 'Requests preempted.', live.preemptions);
    counter('prompt_tokens', 'Prompt tokens processed.', live.promptTokens);
    counter('prompt_tokens_cached', 'Prompt tokens that were not computed.', live.prefixHits);
    counter('generation_tokens', 'Tokens generated.', live.outputTokens);
    if (speculation !== undefined) {
      counter('spec_decode_num_drafts', 'Drafts.', live.decodes);
      counter('spec_decode_num_draft_tokens', 'Tokens drafted.', live.decodes * speculation.drafted);
      const accepted = Math.floor(live.decodes * (madeIn(speculation) - 1));
      counter('spec_decode_num_accepted_tokens', 'Drafted tokens that were accepted.', accepted);
    }
    counter(
      'request_success',
      'Requests ended, by reason.',
      Object.fromEntries(FINISHED.map(how => [`finished_reason="${how}"`, this.#finished[how]])),
    );
    counter('admission_rejections', 'Requests that were not let in, by limit.', {
      'reason="max_num_queued_reqs"': this.#rejections.queued_reqs,
      'reason="max_num_queued_tokens"': this.#rejections.queued_tokens,
    });
    for (const [name, times] of Object.entries(this.#times))
      family('histogram', name, times.help, samplesOf(times));
    return `${lines.join('\n')}\n`;
  }
}

function samplesOf({ bounds, buckets, sum, count }: Histogram): Sample[] {
  let below = 0;
  const upTo = bounds.map((bound, index): Sample => {
    below += buckets[index]!;
    return [`le="${bound}"`, below, '_bucket'];
  });
  return [...upTo, ['le="+Inf"', count, '_bucket'], ['', sum, '_sum'], ['', count, '_count']];
}

const escaped = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

/** 1, 2, 5, 10, 20, 50, … up to `most`. */
function seriesUpTo(most: number): number[] {
  const series: number[] = [];
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) {
      if (digit * power > most) return series;
      series.push(digit * power);
    }
  }
}
