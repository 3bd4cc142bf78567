/**
 * What a server says of its load at GET /metrics, in Prometheus' text format: `name value` or
 * `name{label="…",…} value`, a line each. A page is read every second and may be long, so it is searched for what is
 * wanted and never taken apart.
 */

/** Tokens read and written since a server began. TGI has them as sums of its histograms, once an answer is whole. */
export const PROMPT_TOKENS = [
  'vllm:prompt_tokens_total',
  'vllm:prompt_tokens',
  'sglang:prompt_tokens_total',
  'tgi_request_input_length_sum',
  'llamacpp:prompt_tokens_total',
] as const;
export const WRITTEN_TOKENS = [
  'vllm:generation_tokens_total',
  'vllm:generation_tokens',
  'sglang:generation_tokens_total',
  'tgi_request_generated_tokens_sum',
  'llamacpp:tokens_predicted_total',
] as const;

/**
 * A metric of an endpoint is a row here: the names of new and old vLLM, SGLang, TGI and llama.cpp, the first that has a
 * value counts; how the engines of one server (data parallel) are put together; and whether it is a level at this moment or
 * counts up. Only `running` has to be there.
 */
const LOAD = {
  /** requests in the batch */
  running: {
    names: [
      'vllm:num_requests_running',
      'sglang:num_running_reqs',
      'tgi_batch_current_size',
      'llamacpp:requests_processing',
    ],
    engines: 'sum',
    is: 'level',
  },
  /** requests that wait for a place in it */
  waiting: {
    names: [
      'vllm:num_requests_waiting',
      'sglang:num_queue_reqs',
      'tgi_queue_size',
      'llamacpp:requests_deferred',
    ],
    engines: 'sum',
    is: 'level',
  },
  /** share of the KV cache in use, 0 to 1 */
  kv: {
    names: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc', 'sglang:token_usage'],
    engines: 'largest',
    is: 'level',
  },
  /** since the server began */
  preemptions: {
    names: ['vllm:num_preemptions_total', 'vllm:num_preemptions', 'sglang:num_retracted_requests_total'],
    engines: 'sum',
    is: 'count',
  },
  /** tokens of prompts, those among them that were in the prefix cache, and tokens that were written */
  prompts: {
    names: PROMPT_TOKENS,
    engines: 'sum',
    is: 'count',
  },
  cached: {
    names: [
      'vllm:prefix_cache_hits_total',
      'vllm:prefix_cache_hits',
      'vllm:gpu_prefix_cache_hits_total',
      'vllm:gpu_prefix_cache_hits',
      'sglang:cached_tokens_total',
    ],
    engines: 'sum',
    is: 'count',
  },
  written: {
    names: WRITTEN_TOKENS,
    engines: 'sum',
    is: 'count',
  },
} as const;

/** Not every server says it, and then it is 0 in a `Load`. */
export const saysKv = (page: Page): boolean => largestOf(page, LOAD.kv.names) !== undefined;

const KEYS = Object.keys(LOAD) as (keyof typeof LOAD)[];

/** As of one page; 0 where the server does not say. */
export type Load = Record<keyof typeof LOAD, number>;

/** null where the page says nothing of running requests. */
export function readLoad(page: Page): Load | null {
  if (sumOf(page, LOAD.running.names) === undefined) return null;
  const load = loadOf(key => {
    const { names, engines } = LOAD[key];
    return (engines === 'sum' ? sumOf(page, names) : largestOf(page, names)) ?? 0;
  });
  return { ...load, kv: Math.min(1, load.kv) };
}

function loadOf(value: (key: keyof Load) => number): Load {
  return Object.fromEntries(KEYS.map(key => [key, value(key)])) as Load;
}

/** What a server said over some time: levels on average, counts in all. */
export interface Said extends Load {
  /** share of that time in which its batch was full: as many ran as ever did, and more were there than ever ran */
  full: number;
}

export interface LoadSum {
  ms: number;
  /** by how many ran: for how many ms, and the sum over them of those that ran or waited */
  crowds: Map<number, { ms: number; there: number }>;
  sum: Load;
  first: Load | null;
  last: Load | null;
}

export function noLoads(): LoadSum {
  return { ms: 0, crowds: new Map(), sum: loadOf(() => 0), first: null, last: null };
}

/** It said `load` for the last `ms`. */
export function noteLoad(all: LoadSum, load: Load, ms: number): void {
  const { first } = all;
  all.ms += ms;
  const { running, waiting } = load;
  const crowd = all.crowds.get(running) ?? { ms: 0, there: 0 };
  crowd.ms += ms;
  crowd.there += (running + waiting) * ms;
  if (all.crowds.size < MOST_CROWDS) all.crowds.set(running, crowd);
  for (const key of KEYS) all.sum[key] += load[key] * ms;
  // a server that began again counts from 0
  all.first = loadOf(key => Math.min(first?.[key] ?? load[key], load[key]));
  all.last = load;
}

/** A server runs some thousand sequences at most; one that says anything must not fill the memory. */
const MOST_CROWDS = 10_000;
/** Of the largest batch: sequences that may be missing where it is full, since they ended in the last step … */
const JUST_ENDED = 0.03;
/** … and requests beyond it from which on some have no place in it. */
const BEYOND = 1.05;

/** null where it said nothing. */
export function averageOf({ ms, crowds, sum, first, last }: LoadSum): Said | null {
  if (ms === 0 || first === null || last === null) return null;
  const load = loadOf(key => (LOAD[key].is === 'level' ? sum[key] / ms : last[key] - first[key]));
  const most = Math.max(0, ...crowds.keys());
  let full = 0;
  for (const [running, crowd] of crowds) {
    const isFull =
      running >= most - Math.max(1, JUST_ENDED * most) && crowd.there >= BEYOND * most * crowd.ms;
    if (isFull && running > 0) full += crowd.ms;
  }
  return { ...load, full: full / ms };
}

/** vLLM has its metrics beside /v1, not below it. */
export function metricsPath(prefix: string): string {
  return `${prefix.replace(/\/v1$/, '')}/metrics`;
}

/** The text of a page, with a line break before its first line. */
export type Page = string;

/** Series of one name that are read. A server of ours has fewer. */
const MAX_SERIES = 256;
/** A label value beyond this is not one of the numbers and words that are asked for. */
const MAX_LABEL_LENGTH = 200;
const MAX_LABELS = 64;

export function pageOf(body: Buffer): Page {
  return `\n${body.toString('latin1')}`;
}

/** Over all series (engines, models) of the first of these names that has any; undefined where none has. */
export function sumOf(page: Page, names: readonly string[]): number | undefined {
  return firstNamed(page, names)?.reduce((sum, value) => Math.min(Number.MAX_SAFE_INTEGER, sum + value), 0);
}

export function largestOf(page: Page, names: readonly string[]): number | undefined {
  const values = firstNamed(page, names);
  return values && Math.max(...values);
}

/** … and their mean. */
export function meanOf(page: Page, names: readonly string[]): number | undefined {
  const values = firstNamed(page, names);
  return values?.reduce((sum, value) => sum + value / values.length, 0);
}

/** The values of a label, one for each series that has it. */
export function labelsOf(page: Page, name: string, label: string): string[] {
  return seriesOf(page, name).flatMap(line => labelOf(line, label) ?? []);
}

/** The values of the series of `name` that have one of `ids` in one of `labels`; of all series where no id is given. */
export function labelledOf(
  page: Page,
  name: string,
  labels: readonly string[],
  ids: readonly string[],
): number[] {
  return seriesOf(page, name)
    .filter(line => ids.length === 0 || labels.some(label => ids.includes(labelOf(line, label) ?? '')))
    .map(numberAfterLabels)
    .filter(value => Number.isFinite(value) && value >= 0);
}

/** Labels of the first series of `name`, by their names; at most 64, and none with a long value. */
export function labelSetOf(page: Page, name: string): Record<string, string> {
  const [line = ''] = seriesOf(page, name);
  const labels: Record<string, string> = {};
  for (const [, label = '', value = ''] of line.matchAll(
    /([A-Za-z_][A-Za-z0-9_]{0,99})="([^"\\\n]{0,200})"/g,
  ))
    if (Object.keys(labels).length < MAX_LABELS) labels[label] = value;
  return labels;
}

/** Whether the name of any series begins so. */
export function hasSeries(page: Page, prefix: string): boolean {
  return page.includes(`\n${prefix}`);
}

function firstNamed(page: Page, names: readonly string[]): number[] | undefined {
  for (const name of names) {
    const values = seriesOf(page, name)
      .map(numberAfterLabels)
      .filter(value => Number.isFinite(value) && value >= 0);
    if (values.length > 0) return values;
  }
  return undefined;
}

/** What follows the name, in each line that begins with it. */
function seriesOf(page: Page, name: string): string[] {
  const lines: string[] = [];
  const begin = `\n${name}`;
  for (let at = page.indexOf(begin); at >= 0 && lines.length < MAX_SERIES; at = page.indexOf(begin, at + 1)) {
    const after = at + begin.length;
    if (page[after] !== '{' && page[after] !== ' ') continue;
    const end = page.indexOf('\n', after);
    lines.push(page.slice(after, end < 0 ? undefined : end));
  }
  return lines;
}

/** The number after the labels; a timestamp may follow it. */
function numberAfterLabels(line: string): number {
  const word = line
    .slice(line.lastIndexOf('}') + 1)
    .trim()
    .split(' ', 1)[0];
  return word ? Number(word) : Number.NaN;
}

/** A quote inside of a value is escaped, so `name="` after a brace or a comma begins a label. */
function labelOf(line: string, label: string): string | undefined {
  const opening = `${label}="`;
  let at = line.indexOf(opening);
  while (at > 0 && !'{, '.includes(line[at - 1] as string)) at = line.indexOf(opening, at + 1);
  if (at < 0) return undefined;
  const from = at + opening.length;
  const end = line.indexOf('"', from);
  return end < 0 || end - from > MAX_LABEL_LENGTH ? undefined : line.slice(from, end);
}
