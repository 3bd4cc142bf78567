/** What other tools call an option (vLLM and its bench, genai-perf, OpenAI's clients, LiteLLM, GuideLLM, lm-eval, xargs), for who is used to that. */
import type { OptionSchemas } from '../engine/flow/options.ts';

/** Their names, and what it is here: the first of these that the verb has. */
const OPTIONS: readonly [names: string, ours: readonly string[]][] = [
  [
    'base-url api-base api-url url urls host openai-api-base base-urls endpoints server-url',
    ['endpoint', 'host'],
  ],
  [
    'concurrency max-concurrency max-concurrent concurrent num-concurrent parallel parallelism max-parallel num-parallel max-parallel-requests workers num-workers max-workers threads num-threads jobs max-inflight batch-size max-num-seqs',
    ['concurrency', 'endpoint-limit', 'in-flight', 'max-num-seqs'],
  ],
  ['api-key key token openai-api-key', ['api-key-env']],
  ['model-name served-model-name model-id model-path', ['model']],
  ['retries max-retries num-retries max-attempts', ['attempts']],
  ['cache cache-dir cache-folder checkpoint checkpoint-dir db', ['ledger']],
  ['in infile input input-path inputs input-file', ['input-file', 'input']],
  [
    'out outfile output output-path output-dir out-file outputs output-file o',
    ['output', 'output-file', 'out'],
  ],
  [
    'max-samples num-samples num-prompts num-requests request-count max-requests max-rows rows n max-items',
    ['limit', 'requests', 'items'],
  ],
  ['num-repeats repeat repeats repetitions best-of', ['samples']],
  ['request-timeout api-timeout read-timeout timeout-seconds time-out', ['timeout']],
  ['max-errors max-failures maxfail max-fail fail-fast exit-first', ['max-failed']],
  ['random-seed', ['seed']],
  ['port', ['listen', 'endpoint']],
  ['request-rate rps qps', ['rate']],
  ['random-input-len input-len isl synthetic-input-tokens-mean prompt-tokens', ['input-tokens']],
  ['random-output-len output-len osl output-tokens-mean', ['output-tokens']],
  ['random-prefix-len prefix-len', ['prefix-tokens']],
  ['random-range-ratio range-ratio', ['spread']],
  ['num-warmups warmup-request-count warmup-requests', ['warmup']],
  ['max-seconds benchmark-duration measurement-interval', ['duration']],
  ['save-result result-filename result-dir profile-export-file', ['json']],
  ['save-detailed', ['detailed']],
  ['lora-modules', ['lora']],
];

const FILES = 'name input files after the options, without a flag';
const OUTPUT = 'redirect standard output: > FILE';
const SAMPLING = 'set it in the agent file, under sampling, or in the request itself';

/** What to do instead, for verbs that have the option `of` and none of the above: only fw bench has `rate`, fw tune `plan`, fw serve `config`. */
const WORDS: readonly [names: string, words: string, of: string][] = [
  ['in infile input input-path inputs input-file', FILES, 'max-line'],
  ['out outfile output output-path out-file outputs output-file o', OUTPUT, 'max-line'],
  [
    'temperature top-p top-k max-tokens max-completion-tokens stop frequency-penalty presence-penalty',
    SAMPLING,
    'endpoint',
  ],
  ['dataset dataset-path dataset-name custom-dataset-path', FILES, 'max-line'],
  [
    'backend endpoint-type streaming',
    'requests are always OpenAI requests, and answers are streamed',
    'rate',
  ],
  [
    'percentile-metrics metric-percentiles',
    'every latency is reported with mean, p50, p90, p95 and p99',
    'rate',
  ],
  ['tokenizer', 'not needed: the server counts the tokens', 'rate'],
  [
    'base-url api-base url host port endpoint model max-concurrency concurrency request-rate rate num-prompts input-tokens output-tokens goodput seed',
    'set it in the tune file: endpoint, load, slo, seed',
    'plan',
  ],
  ['retries max-retries num-retries', 'failed calls are retried without an option', 'endpoint'],
  ['request-rate rate rps qps', 'limit a key instead: fw keys add NAME --rpm N', 'config'],
  [
    'request-rate rate rps qps',
    'there is no rate limit: limit calls in flight with --endpoint-limit N',
    'endpoint-limit',
  ],
  [
    'num-prompts num-requests request-count max-requests max-items',
    'pipe in fewer lines: head -n N FILE | fw …',
    'max-line',
  ],
  [
    'base-url api-base url host port endpoint',
    'no server is asked: --endpoints N is how many to simulate, --calibrate URL measures one',
    'calibrate',
  ],
  ['resume restart continue', 'the same command again asks only what is missing', 'endpoint'],
];

const has = (names: string, flag: string): boolean => names.split(' ').includes(flag);

/** `; did you mean '--endpoint'?`, or what to do instead; null where no other tool calls anything so. */
export function habit(flag: string, options: OptionSchemas): string | null {
  const name = flag.toLowerCase().replaceAll('_', '-');
  const known = OPTIONS.filter(([names]) => has(names, name)).flatMap(([, ours]) => ours);
  const own = known.find(option => Object.hasOwn(options, option));
  if (own !== undefined) return `; did you mean '--${own}'?`;
  const words = WORDS.find(([names, , of]) => has(names, name) && Object.hasOwn(options, of));
  return words === undefined ? null : `; ${words[1]}`;
}
