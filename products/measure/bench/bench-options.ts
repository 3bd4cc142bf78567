/** The flags of fw bench. */
import { ASK_OPTIONS } from '../../../engine/asking/agents/asking-options.ts';
import { usageError } from '../../../engine/core/item/failure.ts';
import { COMMON } from '../../../engine/flow/join.ts';
import { durationOf, type OptionsOf } from '../../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';
import type { Extent, Load } from './drive-load.ts';

export const OPTIONS = {
  'input-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description:
      'Tokens of each made-up prompt, chat template included. Default: 400, if --output-tokens is given.',
  },
  'output-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Tokens of each answer to a made-up prompt (ignore_eos). Default: 128, if --input-tokens is given.',
  },
  'prefix-tokens': {
    type: 'integer',
    minimum: 0,
    maximum: 10_000_000,
    default: 0,
    description:
      'Shared tokens at the start of all made-up prompts, part of --input-tokens: for a prefix cache.',
  },
  spread: {
    type: 'number',
    minimum: 0,
    maximum: 0.99,
    default: 0,
    description: 'Draw both lengths evenly from this share below to this share above. 0: all the same.',
  },
  ledger: {
    type: 'string',
    file: 'read-folder',
    description: 'Ledger of a run, whose prompt and answer lengths the made-up ones copy, in order.',
  },
  lora: {
    type: 'string',
    description: 'LoRA adapters to ask in turn, by the names that the servers list, e.g. a,b.',
  },
  concurrency: {
    type: 'string',
    description: 'Closed loop: requests in flight. A list, e.g. 1,10,40, is run one by one. Default: 1.',
  },
  rate: {
    type: 'string',
    description:
      'Open loop: requests per second, however long the answers take. A list, e.g. 2,5,inf; inf sends all at once.',
  },
  burstiness: {
    type: 'string',
    default: '1',
    description: 'Arrival pattern for --rate: 1 is Poisson, below 1 is burstier, inf is evenly spaced.',
  },
  ramp: {
    type: 'string',
    description: 'Open loop whose rate grows evenly: FROM:TO/TIME, requests per second, e.g. 1:20/60s.',
  },
  sweep: {
    type: 'boolean',
    description: 'Measure one request at a time, as many as the servers take, and rates between the two.',
  },
  requests: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description: 'Requests per run. Default: each request of the input once.',
  },
  duration: {
    type: 'string',
    description:
      'Send for this long in each run, e.g. 60s, then wait for what is in flight. Default: 60s for made-up prompts.',
  },
  warmup: {
    type: 'integer',
    minimum: 0,
    maximum: 100_000,
    description:
      'Warm-up requests, with other prompts, before each run. Default: as many as are in flight at once.',
  },
  'endpoints-up-to': {
    type: 'boolean',
    description: 'Measure with the first endpoint, with two, … with all. Load and requests are per endpoint.',
  },
  repeat: {
    type: 'integer',
    minimum: 1,
    maximum: 100,
    default: 1,
    description: 'Repeat every load this many times, interleaved. Confidence intervals need at least 2.',
  },
  goodput: {
    type: 'array',
    items: { type: 'string' },
    description: 'Count requests within these bounds, in ms, e.g. ttft:500,tpot:50,e2el:5000.',
  },
  agents: ASK_OPTIONS.agents,
  guided: ASK_OPTIONS.guided,
  seed: {
    type: 'integer',
    minimum: 0,
    maximum: 4_294_967_295,
    description:
      'Seed of made-up prompts and arrivals. Default: a new one each time, since a prefix cache may know earlier prompts.',
  },
  timeout: {
    type: 'string',
    default: '600s',
    description: 'Fail a request that gets no byte for this long.',
  },
  json: {
    type: 'string',
    file: 'write',
    description:
      "Write the figures under vllm bench serve's keys, and more under fw: an object, or a list for several runs.",
  },
  csv: {
    type: 'string',
    file: 'write',
    description: 'Write a table with one line per run.',
  },
  html: {
    type: 'string',
    file: 'write',
    description: 'Write a page with charts. It needs no network and no script.',
  },
  detailed: { type: 'boolean', description: 'Add the figures and text of each request to --json.' },
  label: { type: 'string', description: 'Text to put into --json.' },
  endpoint: POOL_OPTIONS.endpoint,
  pool: POOL_OPTIONS.pool,
  model: POOL_OPTIONS.model,
  'api-key-env': POOL_OPTIONS['api-key-env'],
  'max-line': COMMON['max-line'],
} as const;

/** The flags as they were given; the seed is drawn where none is named. */
export type Given = OptionsOf<typeof OPTIONS> & { seed: number };

const MOST_AT_ONCE = 16_384;
const MOST_LOADS = 100;

/** The loads in the order in which they are named, closed loops first; none for a sweep. One at a time where none is named. */
export function loadsOf({ concurrency, rate, sweep, seed, ramp, ...flags }: Given): Load[] {
  const burstiness = shapeOf(flags.burstiness);
  if (ramp !== undefined) {
    if (concurrency !== undefined || rate !== undefined || sweep)
      throw usageError('expected --ramp, or --concurrency, --rate or --sweep, found both');
    const { from, to } = rampOf(ramp);
    return [{ kind: 'open', rate: to, from, burstiness, seed }];
  }
  if (sweep) {
    if (concurrency !== undefined || rate !== undefined)
      throw usageError(
        'expected --sweep, or --concurrency and --rate, found both: a sweep finds its own loads',
      );
    return [];
  }
  const closed = listOf(concurrency, '--concurrency').map((text): Load => {
    const value = Number(text);
    if (!/^\d{1,6}$/.test(text) || value < 1 || value > MOST_AT_ONCE)
      throw usageError(
        `--concurrency: expected whole numbers from 1 to ${MOST_AT_ONCE}, such as 1,10,40, found '${text}'`,
      );
    return { kind: 'closed', concurrency: value };
  });
  const open = listOf(rate, '--rate').map((text): Load => {
    const value = text === 'inf' ? Number.POSITIVE_INFINITY : Number(text);
    if (text !== 'inf' && (!/^\d{1,6}(?:\.\d{1,6})?$/.test(text) || value <= 0 || value > 100_000))
      throw usageError(`--rate: expected requests a second, such as 0.5,2,inf, found '${text}'`);
    return { kind: 'open', rate: value, burstiness, seed };
  });
  const all = [...closed, ...open];
  if (all.length > MOST_LOADS) throw usageError(`expected at most ${MOST_LOADS} loads, found ${all.length}`);
  return all.length > 0 ? all : [{ kind: 'closed', concurrency: 1 }];
}

/** `1:20/60s` */
function rampOf(text: string): { from: number; to: number; ms: number } {
  const [, from, to, time] = /^(\d{1,6}(?:\.\d{1,6})?):(\d{1,6}(?:\.\d{1,6})?)\/(\w{1,20})$/.exec(text) ?? [];
  const ramp = {
    from: Number(from),
    to: Number(to),
    ms: time === undefined ? 0 : durationOf(time, '--ramp'),
  };
  if (!(ramp.from > 0 && ramp.to > 0 && ramp.to <= 100_000 && ramp.from <= 100_000 && ramp.ms > 0))
    throw usageError(`--ramp: expected FROM:TO/TIME, requests a second, such as 1:20/60s, found '${text}'`);
  return ramp;
}

function listOf(text: string | undefined, flag: string): string[] {
  if (text === undefined) return [];
  const list = text.split(',').map(each => each.trim());
  const twice = list.find((each, at) => list.indexOf(each) < at);
  if (twice !== undefined)
    throw usageError(`${flag}: expected different loads, found '${twice}' twice; --repeat runs each again`);
  return list;
}

function shapeOf(text: string): number {
  if (text === 'inf') return Number.POSITIVE_INFINITY;
  const value = Number(text);
  if (/^\d{1,4}(?:\.\d{1,6})?$/.test(text) && value >= 0.01 && value <= 1000) return value;
  throw usageError(`--burstiness: expected 0.01 to 1000 (1: Poisson), or inf for even gaps, found '${text}'`);
}

/** A minute where nothing is said and prompts are made up; `own` is the number of the user's requests. */
export function extentOf(
  { requests, duration, ramp }: Pick<Given, 'requests' | 'duration' | 'ramp'>,
  loads: readonly Load[],
  own: number | null,
): Extent {
  if (ramp !== undefined) {
    if (requests !== undefined || duration !== undefined)
      throw usageError(
        'expected --ramp alone, which sets its own duration, found --requests or --duration with it',
      );
    return { requests: null, ms: rampOf(ramp).ms };
  }
  if (requests !== undefined && duration !== undefined)
    throw usageError('expected --requests or --duration, found both');
  const isAtOnce = loads.some(load => load.kind === 'open' && load.rate === Number.POSITIVE_INFINITY);
  if (requests !== undefined || (duration === undefined && own !== null))
    return { requests: requests ?? own, ms: null };
  if (isAtOnce) throw usageError('--rate inf: expected --requests, how many are sent at once, found none');
  const ms = durationOf(duration ?? '60s', '--duration');
  if (ms < 1) throw usageError(`--duration: expected more than 0s, found '${duration}'`);
  return { requests: null, ms };
}
