/**
 * The counts of one simulated server, and /metrics: Prometheus text under vLLM's current names. The numbers are those
 * of this process. The simulator has no queue, no KV cache and no preemption, so `waiting` and `preemptions` are a true 0,
 * and KV use is what the tokens in flight would take of a card that holds `SEQUENCES` contexts of full length.
 */

const TTFT_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const E2E_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
/** vLLM's default max_num_seqs on a card of 70 GiB or more. */
const SEQUENCES = 1_024;

const FINISHED = ['stop', 'length', 'abort', 'error'] as const;
export type Finished = (typeof FINISHED)[number];

interface Histogram {
  bounds: readonly number[];
  /** how many fell into each bucket, not yet summed up */
  buckets: number[];
  sum: number;
  count: number;
}

export interface Metrics {
  started: (promptTokens: number, cachedTokens: number) => void;
  /** seconds since arrival */
  firstToken: (seconds: number) => void;
  ended: (how: Finished, tokens: { prompt: number; completion: number }, seconds: number) => void;
  text: () => string;
}

export function metricsOf(model: string, maxModelLength: number): Metrics {
  const finished = { stop: 0, length: 0, abort: 0, error: 0 };
  const ttft = histogram(TTFT_BUCKETS);
  const e2e = histogram(E2E_BUCKETS);
  let running = 0;
  let tokensHeld = 0;
  let promptTokens = 0;
  let cachedTokens = 0;
  let generatedTokens = 0;
  const labels = `engine="0",model_name="${model.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;

  const family = (name: string, kind: string, help: string, samples: string[]) =>
    [`# HELP vllm:${name} ${help}`, `# TYPE vllm:${name} ${kind}`, ...samples].join('\n');
  const gauge = (name: string, help: string, value: number) =>
    family(name, 'gauge', help, [`vllm:${name}{${labels}} ${value}`]);
  const counter = (name: string, help: string, value: number) =>
    family(name, 'counter', help, [`vllm:${name}_total{${labels}} ${value}`]);
  const distribution = (name: string, help: string, { bounds, buckets, sum, count }: Histogram) => {
    let below = 0;
    const samples = bounds.map((bound, index) => {
      below += buckets[index]!;
      return `vllm:${name}_bucket{${labels},le="${bound}"} ${below}`;
    });
    samples.push(`vllm:${name}_bucket{${labels},le="+Inf"} ${count}`);
    samples.push(`vllm:${name}_sum{${labels}} ${sum}`, `vllm:${name}_count{${labels}} ${count}`);
    return family(name, 'histogram', help, samples);
  };

  return {
    started(prompt, cached) {
      running++;
      tokensHeld += prompt;
      promptTokens += prompt;
      cachedTokens += cached;
    },
    firstToken: seconds => observe(ttft, seconds),
    ended(how, { prompt, completion }, seconds) {
      running--;
      tokensHeld -= prompt;
      finished[how]++;
      generatedTokens += completion;
      if (how === 'stop' || how === 'length') observe(e2e, seconds);
    },
    text: () =>
      `${[
        gauge('num_requests_running', 'Requests in execution.', running),
        gauge('num_requests_waiting', 'Requests in the queue.', 0),
        gauge(
          'kv_cache_usage_perc',
          'Share of the KV cache in use, 0 to 1.',
          Math.min(1, tokensHeld / (SEQUENCES * maxModelLength)),
        ),
        counter('prefix_cache_queries', 'Prompt tokens looked up in the prefix cache.', promptTokens),
        counter('prefix_cache_hits', 'Prompt tokens found in the prefix cache.', cachedTokens),
        counter('num_preemptions', 'Requests preempted.', 0),
        counter('prompt_tokens', 'Prompt tokens processed.', promptTokens),
        counter('generation_tokens', 'Tokens generated.', generatedTokens),
        family(
          'request_success',
          'counter',
          'Requests ended, by reason.',
          FINISHED.map(
            how => `vllm:request_success_total{${labels},finished_reason="${how}"} ${finished[how]}`,
          ),
        ),
        distribution('time_to_first_token_seconds', 'Time to first token.', ttft),
        distribution('e2e_request_latency_seconds', 'End to end latency.', e2e),
      ].join('\n')}\n`,
  };
}

function histogram(bounds: readonly number[]): Histogram {
  return { bounds, buckets: bounds.map(() => 0), sum: 0, count: 0 };
}

function observe(into: Histogram, value: number): void {
  const index = into.bounds.findIndex(bound => value <= bound);
  if (index >= 0) into.buckets[index]!++;
  into.sum += value;
  into.count++;
}
