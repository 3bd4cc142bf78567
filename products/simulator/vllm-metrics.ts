/**
 * /metrics: Prometheus text under vLLM's names, with the numbers of this server. What its engine knows (queue, KV cache,
 * tokens) is read from it at the moment of asking; what is known of requests that have ended is kept here.
 */

import { type Histogram, histogram, observe, prometheus } from './prometheus.ts';
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

/** vLLM renamed three families; `old` is what servers before 0.10 say, and some routers still read. */
export const METRIC_NAMES = ['new', 'old', 'both'] as const;
export type MetricNames = (typeof METRIC_NAMES)[number];

/** Why a request was not let in. */
export type Rejection = 'queued_reqs' | 'queued_tokens';

export interface Metrics {
  /** An answer that was said to its end. */
  answered(how: Finished, tokens: { prompt: number; completion: number }, told: ReplyTimes): void;
  /** One that was not. */
  broken(how: Finished): void;
  rejected(reason: Rejection): void;
  text(live: Live): string;
}

export interface Served {
  model: string;
  maxModelLength: number;
  names: MetricNames;
  /** blocks of the KV cache, where there is an engine */
  kvBlocks: number | undefined;
}

export function metricsOf({ model, maxModelLength, names, kvBlocks }: Served): Metrics {
  const finished = { stop: 0, length: 0, abort: 0, error: 0 };
  const rejections = { queued_reqs: 0, queued_tokens: 0 };
  const tokenBuckets = seriesUpTo(maxModelLength);
  const request = () => histogram(REQUEST_BUCKETS);
  const times: { [name: string]: [help: string, of: Histogram] } = {
    time_to_first_token_seconds: ['Time to first token.', histogram(TTFT_BUCKETS)],
    inter_token_latency_seconds: ['Time between two tokens.', histogram(TOKEN_BUCKETS)],
    request_time_per_output_token_seconds: [
      'Time of an output token, mean over a request.',
      histogram(TOKEN_BUCKETS),
    ],
    e2e_request_latency_seconds: ['End to end latency.', request()],
    request_queue_time_seconds: ['Time in the queue.', request()],
    request_inference_time_seconds: ['Time in execution.', request()],
    request_prefill_time_seconds: ['Time in prefill.', request()],
    request_decode_time_seconds: ['Time in decode.', request()],
    request_prompt_tokens: ['Prompt tokens of a request.', histogram(tokenBuckets)],
    request_generation_tokens: ['Output tokens of a request.', histogram(tokenBuckets)],
  };
  const note = (name: string, value: number, count = 1) => observe(times[name]![1], value, count);
  const namesOf = (current: string, old: string) =>
    names === 'both' ? [current, old] : [names === 'old' ? old : current];

  return {
    answered(how, { prompt, completion }, { queued, firstToken, lastToken }) {
      finished[how]++;
      const decode = (lastToken - firstToken) / 1_000;
      note('time_to_first_token_seconds', firstToken / 1_000);
      note('e2e_request_latency_seconds', lastToken / 1_000);
      note('request_queue_time_seconds', queued / 1_000);
      note('request_inference_time_seconds', (lastToken - queued) / 1_000);
      note('request_prefill_time_seconds', (firstToken - queued) / 1_000);
      note('request_decode_time_seconds', decode);
      note('request_prompt_tokens', prompt);
      note('request_generation_tokens', completion);
      if (completion < 2) return;
      note('request_time_per_output_token_seconds', decode / (completion - 1));
      // the mean of the request for each of its gaps: the sum is true, the spread within a request is not shown
      note('inter_token_latency_seconds', decode / (completion - 1), completion - 1);
    },
    broken: how => void finished[how]++,
    rejected: reason => void rejections[reason]++,
    text(live) {
      const write = prometheus('vllm:', { engine: '0', model_name: model });
      write.gauge('num_requests_running', 'Requests in execution.', live.running);
      write.gauge('num_requests_waiting', 'Requests in the queue.', live.waiting);
      write.labelled('num_requests_waiting_by_reason', 'gauge', 'Requests in the queue, by reason.', {
        'reason="capacity"': live.waiting,
        'reason="deferred"': 0,
      });
      for (const name of namesOf('kv_cache_usage_perc', 'gpu_cache_usage_perc')) {
        write.gauge(name, 'Share of the KV cache in use, 0 to 1.', live.kvUsage);
      }
      if (kvBlocks !== undefined) {
        const labels = `block_size="${BLOCK}",num_gpu_blocks="${kvBlocks}"`;
        write.gauge('cache_config_info', 'The KV cache.', 1, labels);
      }
      for (const name of namesOf('prefix_cache_queries', 'gpu_prefix_cache_queries')) {
        write.counter(name, 'Prompt tokens looked up in the prefix cache.', live.prefixQueries);
      }
      for (const name of namesOf('prefix_cache_hits', 'gpu_prefix_cache_hits')) {
        write.counter(name, 'Prompt tokens found in the prefix cache.', live.prefixHits);
      }
      write.counter('num_preemptions', 'Requests preempted.', live.preemptions);
      write.counter('prompt_tokens', 'Prompt tokens processed.', live.promptTokens);
      write.counter('prompt_tokens_cached', 'Prompt tokens that were not computed.', live.prefixHits);
      write.counter('generation_tokens', 'Tokens generated.', live.outputTokens);
      write.labelled(
        'request_success',
        'counter',
        'Requests ended, by reason.',
        Object.fromEntries(FINISHED.map(how => [`finished_reason="${how}"`, finished[how]])),
      );
      write.labelled('admission_rejections', 'counter', 'Requests that were not let in, by limit.', {
        'reason="max_num_queued_reqs"': rejections.queued_reqs,
        'reason="max_num_queued_tokens"': rejections.queued_tokens,
      });
      for (const [current, [help, of]] of Object.entries(times)) {
        const isRenamed = current === 'inter_token_latency_seconds';
        const all = isRenamed ? namesOf(current, 'time_per_output_token_seconds') : [current];
        for (const name of all) write.distribution(name, help, of);
      }
      return write.text();
    },
  };
}

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
