/** The flags of fw bench. */
import { ASK_OPTIONS } from '../../../engine/asking/agents/asking-options.ts';
import { usageError } from '../../../engine/core/item/failure.ts';
import { COMMON } from '../../../engine/flow/join.ts';
import { durationOf, type OptionsOf } from '../../../engine/flow/options.ts';
import { POOL_OPTIONS } from '../../../engine/running/open-pool.ts';
import type { Goal } from './bench-figures.ts';
import type { Extent, Load } from './drive-load.ts';

export const OPTIONS = {
  'input-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description:
      'Made-up prompts of so many tokens, the chat template included. Default: 400, if --output-tokens is given.',
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
      'Tokens that all made-up prompts begin with, of those of --input-tokens: for a prefix cache.',
  },
  spread: {
    type: 'number',
    minimum: 0,
    maximum: 0.99,
    default: 0,
    description: 'Draw both lengths evenly between this share below and above. 0: all are the same.',
  },
  ledger: {
    type: 'string',
    file: 'read-folder',
    description:
      'Ledger of a run: made-up prompts and answers have the lengths of its calls, in their order.',
  },
  lora: {
    type: 'string',
    description:
      'LoRA adapters by the names that the servers list, such as a,b: requests ask for them in turn.',
  },
  concurrency: {
    type: 'string',
    description:
      'Closed loop: so many requests under way at a time; a list, such as 1,10,40, is run one by one. Default: 1.',
  },
  rate: {
    type: 'string',
    description:
      'Open loop: requests a second, whatever the answers take; a list, such as 2,5,inf. inf sends all at once.',
  },
  burstiness: {
    type: 'string',
    default: '1',
    description: 'Of --rate: 1 are Poisson arrivals, less comes in bursts, inf comes evenly.',
  },
  ramp: {
    type: 'string',
    description: 'Open loop whose rate grows evenly: FROM:TO/TIME, requests a second, such as 1:20/60s.',
  },
  sweep: {
    type: 'boolean',
    description: 'From one request at a time to as many as the servers take, and rates between the two.',
  },
  requests: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000_000,
    description: 'Requests of each run. Default: those of the input, each once.',
  },
  duration: {
    type: 'string',
    description:
      'Send for so long in each run, such as 60s; what is under way then is waited for. Default: 60s for made-up prompts.',
  },
  warmup: {
    type: 'integer',
    minimum: 0,
    maximum: 100_000,
    description: 'Requests with other prompts before each run. Default: as many as are under way at once.',
  },
  'endpoints-up-to': {
    type: 'boolean',
    description:
      'Measure with the first endpoint, with two, … with all; load and requests are for each of them.',
  },
  repeat: {
    type: 'integer',
    minimum: 1,
    maximum: 100,
    default: 1,
    description: 'Run all loads so often, in turn: intervals of means need two or more.',
  },
  goodput: {
    type: 'array',
    items: { type: 'string' },
    description: 'Count requests that keep these bounds in ms: ttft:500,tpot:50,e2el:5000.',
  },
  agents: ASK_OPTIONS.agents,
  guided: ASK_OPTIONS.guided,
  seed: {
    type: 'integer',
    minimum: 0,
    maximum: 4_294_967_295,
    description:
      'Of made-up prompts and of arrivals. Default: another one each time, since a prefix cache may know the prompts of the last time.',
  },
  timeout: {
    type: 'string',
    default: '600s',
    description: 'A request that gets no byte for so long has failed.',
  },
  json: {
    type: 'string',
    file: 'write',
    description:
      "Write the figures in vllm bench serve's keys, and more under fw: an object, or a list of them where there are several runs.",
  },
  csv: {
    type: 'string',
    file: 'write',
    description: 'Write a table of all runs, a line each.',
  },
  html: {
    type: 'string',
    file: 'write',
    description: 'Write a page with charts, that needs no network and no script.',
  },
  detailed: { type: 'boolean', description: 'Of --json: also the figures and the text of each request.' },
  label: { type: 'string', description: 'Text that goes into --json.' },
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
      throw usageError('expected --ramp, which has its time, found --requests or --duration beside it');
    return { requests: null, ms: rampOf(ramp).ms };
  }
  if (requests !== undefined && duration !== undefined)
    throw usageError('expected --requests or --duration, found both');
  const isAtOnce = loads.some(load => load.kind === 'open' && load.rate === Number.POSITIVE_INFINITY);
  if (requests !== undefined || (duration === undefined && own !== null))
    return { requests: requests ?? own, ms: null };
  if (isAtOnce) throw usageError('--rate inf: expected --requests, how many are sent at once, found none');
  const ms = durationOf(duration ?? '60s', '--duration');
  if (ms < 1) throw usageError(`--duration: expected more than no time, found '${duration}'`);
  return { requests: null, ms };
}

/** `ttft:500,tpot:50,e2el:5000`, ms each; of vLLM's --goodput the same words. */
export function goalOf(texts: readonly string[] | undefined): Goal | null {
  if (texts === undefined) return null;
  const goal: Record<string, number> = {};
  for (const text of texts.flatMap(each => each.split(/[ ,]/)).filter(Boolean)) {
    const [, name, value] = /^(ttft|tpot|e2el):(\d{1,9}(?:\.\d{1,6})?)$/.exec(text) ?? [];
    if (name === undefined)
      throw usageError(
        `--goodput: expected ttft, tpot or e2el with milliseconds, such as ttft:500,tpot:50,e2el:5000, found '${text}'`,
      );
    if (Object.hasOwn(goal, name)) throw usageError(`--goodput: expected ${name} once, found it twice`);
    goal[name] = Number(value);
  }
  return goal;
}
