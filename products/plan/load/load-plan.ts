/**
 * fw plan --rate and --concurrency: what fw bench would measure on servers of the preset, in virtual time. Prompts have the
 * lengths that are said; what groups share and what users have said before is found in the prefix cache.
 */
import { badOptions, usageError } from '../../../engine/core/item/failure.ts';
import { aligned, counted, number, percent } from '../../../engine/core/item/wording.ts';
import { durationOf, type OptionSchemas, type OptionsOf } from '../../../engine/flow/options.ts';
import { dueTimes } from '../../kit/arrivals.ts';
import { type Goal, goalOf } from '../../kit/goal.ts';
import type { Preset } from '../../simulator/presets.ts';
import { computedIn, madeIn } from '../../simulator/speculation.ts';
import { stepMs } from '../../simulator/steptime.ts';
import { limitsWords, serverJson } from '../server-words.ts';
import { promptLike } from './prompts.ts';
import { type Asking, type LoadFigures, runLoad } from './virtual-load.ts';

export const LOAD_OPTIONS = {
  rate: {
    type: 'string',
    description:
      'Instead of a pipeline: requests per second, a list such as 2,5,10. Shows what fw bench would measure.',
  },
  concurrency: {
    type: 'string',
    description: 'The same with so many requests in flight, a list such as 1,10,40.',
  },
  'input-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description: 'Tokens of a prompt. Default: 400.',
  },
  'prefix-tokens': {
    type: 'integer',
    minimum: 0,
    maximum: 1_000_000,
    description: 'How many of them begin all prompts of a group (a system prompt). Default: 0.',
  },
  groups: {
    type: 'integer',
    minimum: 1,
    maximum: 100_000,
    description: 'Different system prompts. Default: 1.',
  },
  users: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Users who ask in turn, each with a conversation of --turns. Default: every request has another.',
  },
  turns: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000,
    description:
      'Questions of a conversation; each is asked behind all before it and their answers. Needs --users. Default: 1.',
  },
  requests: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description: 'Requests of a load. Default: those of --duration.',
  },
  duration: { type: 'string', description: 'How long a load is, such as 10m. Default: 60s.' },
  burstiness: {
    type: 'number',
    minimum: 0.01,
    maximum: 1_000,
    description: 'Arrivals of --rate: 1 is Poisson, below 1 is burstier. Default: 1.',
  },
  goodput: {
    type: 'array',
    items: { type: 'string' },
    description: 'Count requests within these bounds, in ms, e.g. ttft:500,tpot:50,e2el:5000.',
  },
} as const satisfies OptionSchemas;

export type LoadGiven = Partial<OptionsOf<typeof LOAD_OPTIONS>> & {
  'output-tokens'?: number | undefined;
  endpoints?: number | undefined;
  seed?: number | undefined;
};

export interface Lengths {
  input: number;
  prefix: number;
  output: number;
  groups: number;
  users: number | null;
  turns: number;
}

export type Load =
  | { kind: 'open'; rate: number }
  /** `spread`: ms over which it begins; by default as fw bench has it */
  | { kind: 'closed'; concurrency: number; spread?: number };

export interface LoadPlan {
  preset: Preset;
  servers: number;
  lengths: Lengths;
  goal: Goal | null;
  rows: { load: Load; figures: LoadFigures }[];
}

const USUAL = { input: 400, output: 128, duration: '60s' };
/** requests a second, and requests in flight */
const MOST_LOAD = 100_000;
const MOST_REQUESTS = 1_000_000;
/** A closed loop of fewer answers for each place is mostly its start: then all begin at once, as in fw bench. */
const FEWEST_ROUNDS = 3;
/** … and its warm-up has answers of so many tokens. */
const WARM_UP_TOKENS = 16;

/** Exit 64 where the options make no load, or a request does not fit into the KV cache. */
export function planLoads(preset: Preset, given: LoadGiven): LoadPlan {
  const lengths = lengthsOf(given);
  const servers = given.endpoints ?? 1;
  const goal = goalOf(given.goodput);
  expectContext(preset, lengths);
  const rows = loadsOf(given).map(load => ({
    load,
    figures: runOne({ preset, servers, lengths, load, given, goal }),
  }));
  return { preset, servers, lengths, goal, rows };
}

export function lengthsOf(given: LoadGiven): Lengths {
  const { users = null, turns = 1, groups = 1 } = given;
  const input = given['input-tokens'] ?? USUAL.input;
  const prefix = given['prefix-tokens'] ?? 0;
  if (prefix > input)
    throw usageError(`--prefix-tokens: expected at most --input-tokens (${input}), found ${prefix}`);
  if (turns > 1 && users === null)
    throw usageError('expected --users with --turns, found none: whose conversations they are');
  return { input, prefix, output: given['output-tokens'] ?? USUAL.output, groups, users, turns };
}

/** Exit 64 where a request is longer than the model's context. */
export function expectContext({ file }: Preset, { input, prefix, output, turns }: Lengths): void {
  const { max_model_len: most = Number.POSITIVE_INFINITY } = file;
  // the last question of a conversation stands behind all others
  const prompt = input + (turns - 1) * (input - prefix + output);
  if (prompt + output <= most) return;
  throw usageError(
    `expected a prompt and its answer of at most ${number(most)} tokens, the context of ${file.model}, found ${number(prompt)} and ${number(output)}: fewer ${turns > 1 ? '--turns, ' : ''}--input-tokens or --output-tokens`,
  );
}

function loadsOf({ rate, concurrency }: LoadGiven): Load[] {
  const list = (text: string | undefined, flag: string, kind: string, shape: RegExp): number[] =>
    (text === undefined ? [] : text.split(',')).map(part => {
      const value = Number(part);
      if (shape.test(part) && value > 0 && value <= MOST_LOAD) return value;
      throw usageError(
        `${flag}: expected ${kind} above 0 and up to ${number(MOST_LOAD)}, such as 1,10, found "${part.slice(0, 80)}"`,
      );
    });
  const decimal = /^\s*\d{1,6}(?:\.\d{1,6})?\s*$/;
  return [
    ...list(rate, '--rate', 'numbers', decimal).map((value): Load => ({ kind: 'open', rate: value })),
    ...list(concurrency, '--concurrency', 'whole numbers', /^\s*\d{1,6}\s*$/).map(
      (value): Load => ({ kind: 'closed', concurrency: value }),
    ),
  ];
}

interface One {
  preset: Preset;
  servers: number;
  lengths: Lengths;
  load: Load;
  given: Pick<LoadGiven, 'requests' | 'duration' | 'burstiness' | 'seed'>;
  goal: Goal | null;
}

export function runOne({ preset, servers, lengths, load, given, goal }: One): LoadFigures {
  const ms = durationOf(given.duration ?? USUAL.duration, '--duration');
  if (ms <= 0)
    throw usageError(`--duration: expected a duration above 0, such as 60s, found "${given.duration}"`);
  const asking = askingOf(lengths);
  const latency = latencyOf(preset, lengths);
  // a closed loop is as long as its answers say: by a first guess of how long one takes
  const foretold = load.kind === 'open' ? (load.rate * ms) / 1000 : (load.concurrency * ms) / latency;
  const requests = given.requests ?? Math.max(1, Math.round(foretold));
  if (requests > MOST_REQUESTS)
    throw usageError(
      `expected at most ${number(MOST_REQUESTS)} requests, found ${number(requests)}: a shorter --duration`,
    );
  try {
    return runLoad(
      {
        preset,
        servers,
        asking,
        when:
          load.kind === 'open'
            ? {
                due: dueTimes({
                  rate: load.rate,
                  burstiness: given.burstiness ?? 1,
                  count: requests,
                  seed: given.seed ?? 7,
                }),
              }
            : { spread: spreadFor({ preset, servers, lengths, load, requests }), ...load, requests },
      },
      goal ?? {},
    );
  } catch (error) {
    throw error instanceof RangeError ? badOptions(error) : error;
  }
}

interface Closed extends Pick<One, 'preset' | 'servers' | 'lengths'> {
  load: { concurrency: number };
  requests: number;
}

/**
 * ms over which a closed loop begins. All at once, answers of one length end together, and so the next prompts are computed
 * together: no users do that. fw bench takes what its warm-up tells of a latency, and so it is told here, by the same one.
 */
function spreadFor({ preset, servers, lengths, load: { concurrency }, requests }: Closed): number {
  if (concurrency === 1 || requests / concurrency < FEWEST_ROUNDS) return 0;
  const { output } = lengths;
  const short = askingOf({ ...lengths, output: Math.min(output, WARM_UP_TOKENS) });
  const when = { concurrency, requests: concurrency, spread: 0 };
  const { ttft, tpot, e2el } = runLoad({ preset, servers, asking: short, when });
  return output > 1 ? ttft.mean + tpot.mean * (output - 1) : e2el.mean;
}

/** ms that a request takes which is alone. */
export function latencyOf({ step, requestMs, limits }: Preset, { input, output }: Lengths): number {
  const { speculation } = limits;
  const steps = Math.ceil((output - 1) / madeIn(speculation));
  const first = stepMs(step, 1, input, input, 0);
  return requestMs + first + steps * stepMs(step, 1, computedIn(speculation), input, 0);
}

/** Users ask in turn; with their last question answered, another conversation begins. */
function askingOf({ input, prefix, output, groups, users, turns }: Lengths): Asking {
  return count => {
    const user = users === null ? count : count % users;
    const round = users === null ? 0 : Math.floor(count / users);
    const turn = round % turns;
    const own = user + (users ?? 0) * Math.floor(round / turns);
    const tokens = input + turn * (input - prefix + output);
    return { prompt: promptLike({ tokens, shared: prefix, group: user % groups, own }), output };
  };
}

const METRICS = [
  ['TTFT', 'ttft'],
  ['TPOT', 'tpot'],
  ['ITL', 'itl'],
  ['E2EL', 'e2el'],
] as const;

const loadWords = (load: Load): string =>
  load.kind === 'open' ? `${load.rate} requests/s` : `${load.concurrency} in flight`;

export function renderLoads({ preset, servers, lengths, goal, rows }: LoadPlan): string {
  const { midLoad, nearSaturation } = preset.error;
  const { input, prefix, output, users, turns, groups } = lengths;
  const told = [
    `${number(input)} tokens in`,
    ...(prefix > 0 ? [`${number(prefix)} of them shared in ${counted(groups, 'group')}`] : []),
    `${number(output)} out`,
    ...(users === null ? [] : [`${counted(users, 'user')} with conversations of ${counted(turns, 'turn')}`]),
  ];
  const lines = [
    `preset   ${preset.name}: ${preset.file.model} on ${preset.file.gpu}; nothing was measured`,
    `server   ${limitsWords(preset)}`,
    `error    ±${percent(midLoad)} at mid load, ±${percent(nearSaturation)} near saturation`,
    `asked    ${told.join(', ')}; ${counted(servers, 'server')}`,
  ];
  for (const { load, figures } of rows) {
    const good =
      goal === null
        ? ''
        : `; goodput ${(figures.good / figures.duration).toFixed(2)} req/s (${percent(figures.good / figures.requests)})`;
    const table = METRICS.map(([name, metric]) => {
      const { mean, p50, p90, p99 } = figures[metric];
      return [
        `${name} ms`,
        ...[mean, p50, p90, p99].map(value => (Number.isNaN(value) ? '–' : value.toFixed(2))),
      ];
    });
    lines.push(
      '',
      `${loadWords(load)}: ${counted(figures.requests, 'request')} in ${figures.duration.toFixed(1)} s, ${(figures.requests / figures.duration).toFixed(2)} req/s, ${number(Math.round(figures.outputTokens / figures.duration))} tok/s out, ${number(Math.round((figures.inputTokens + figures.outputTokens) / figures.duration))} in all${good}`,
      `  ${percent(figures.cached)} of the prompts from the prefix cache; busy ${percent(Math.min(1, figures.busy))}; at most ${number(figures.peak)} in flight; ${counted(figures.preemptions, 'preemption')}`,
      ...aligned([['', 'mean', 'P50', 'P90', 'P99'], ...table], [1, 2, 3, 4]),
    );
  }
  return `${lines.join('\n')}\n`;
}

/** With the keys of fw bench --json, so that both are read by the same programs. */
export function loadsJson({ preset, servers, lengths, rows }: LoadPlan) {
  return rows.map(({ load, figures }) => ({
    model_id: preset.file.model,
    request_rate: load.kind === 'open' ? load.rate : 'inf',
    max_concurrency: load.kind === 'closed' ? load.concurrency : null,
    duration: figures.duration,
    completed: figures.requests,
    total_input_tokens: figures.inputTokens,
    total_output_tokens: figures.outputTokens,
    request_throughput: figures.requests / figures.duration,
    request_goodput: figures.good / figures.duration,
    output_throughput: figures.outputTokens / figures.duration,
    total_token_throughput: (figures.inputTokens + figures.outputTokens) / figures.duration,
    ...Object.fromEntries(
      METRICS.flatMap(([, metric]) => {
        const { mean, p50, p90, p99 } = figures[metric];
        const none = (value: number): number | null => (Number.isNaN(value) ? null : value);
        return [
          [`mean_${metric}_ms`, none(mean)],
          [`median_${metric}_ms`, none(p50)],
          [`p90_${metric}_ms`, none(p90)],
          [`p99_${metric}_ms`, none(p99)],
        ];
      }),
    ),
    plan: {
      preset: preset.name,
      error: preset.error,
      server: serverJson(preset),
      servers,
      lengths,
      cached: figures.cached,
      busy: figures.busy,
    },
  }));
}
