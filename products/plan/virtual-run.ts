/**
 * One run in virtual time: the stages that ask, the pool and the chain as they are, on simulated engines. The same
 * items and settings give the same figures on every machine.
 */

import { type PoolFile, poolSettings } from '../../engine/asking/endpoints/settings.ts';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import { type Account, newAccount } from '../../engine/core/item/account.ts';
import type { Answer, AsksWith, Call, Pool } from '../../engine/core/item/call.ts';
import { dataError, usageError } from '../../engine/core/item/failure.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { drain, openRow } from '../../engine/flow/join.ts';
import { given } from '../../engine/flow/pull.ts';
import type { Tools } from '../../engine/flow/stage.ts';
import type { Pipeline } from '../../engine/running/pipeline.ts';
import type { Preset } from '../simulator/presets.ts';
import { lcg } from '../simulator/random.ts';
import { type VirtualClock, virtualClock } from '../simulator/virtual-clock.ts';
import { type Answering, type VirtualServer, virtualServers } from '../simulator/virtual-servers.ts';
import type { Lengths } from './lengths.ts';
import { type Figures, figuresOf } from './plan-figures.ts';
import { type AnswerSettings, PlannedAnswers } from './ready-answers.ts';
import type { Sample } from './sample.ts';
import { record } from './series.ts';

export interface PlanInput {
  /** from the first stage that asks to the last */
  row: Pipeline['row'];
  base: string;
  /** the `pool:` of the pipeline file: its limits, its items in flight and its budget of retries hold here too */
  pool: PoolFile | undefined;
  /** what requests name where an agent names nothing else */
  model: string;
  /** the models that raw requests name */
  models: readonly string[];
  preset: Preset;
  lengths: Lengths;
  seed: number;
}

export interface Simulating {
  /** sees the calls that the simulator answers, and what it says */
  onSimulated?: AnswerSettings['onSimulated'];
  /** above 0 answers come a little late, each by another share of its time, and by others for another number */
  noise?: number;
}

export async function simulate(
  world: PlanInput,
  endpoints: number,
  sample: Sample,
  { onSimulated, noise = 0 }: Simulating = {},
): Promise<Figures> {
  const { preset, lengths, seed, model } = world;
  const clock = virtualClock();
  const answers = new PlannedAnswers({
    seed,
    lengths,
    model,
    maxModelLength: Math.min(MAX_MODEL_LENGTH, preset.limits.kvTokens),
    items: sample.size,
    shared: sample.shared,
    onSimulated,
  });
  let opening: Promise<Opened> | null = null;
  /** when an item was asked about for the first time, of all the last */
  let begun = 0;
  const never = new AbortController().signal;
  const account = newAccount('plan');
  const tools: Tools = {
    base: world.base,
    files: [],
    signal: never,
    asking: never,
    account,
    started: new Date(0),
    warn: () => {},
    async pool(asksWith): Promise<Pool> {
      opening ??= openPool({ ...world, endpoints, noise }, clock, answers, asksWith as AsksWith);
      const own = answers.through((await opening).pool);
      const call = (asked: Call): Promise<Answer> => {
        if (asked.begins || asked.raw) begun = clock.now();
        return own.call(asked);
      };
      return Object.assign(Object.create(own) as Pool, { call });
    },
  };
  const flow = await clock.until(
    openRow(
      world.row.map(placed => ({ ...placed, tools })),
      true,
    ),
  );
  const opened = (): Promise<Opened> => {
    if (opening === null) {
      throw usageError(
        'expected a stage that asks about every item, such as chain, found only one that asks where a decision is missing',
      );
    }
    return opening;
  };
  const { pool, servers } = await clock.until(opened());
  const states = () => servers.map(server => server.state());
  const recorder = record(clock, states, () => pool.stats().waiting);
  const began = clock.now();
  const ends = new Float64Array(sample.size);
  let next = 0;
  let ended = 0;
  const source = (): Item | null => (next >= sample.size ? null : sample.at(next++));
  const output = {
    write() {
      ends[ended++] = (clock.now() - began) / 1000;
      return true;
    },
    ready: (act: () => void) => act(),
    pass: () => true,
    end: async () => {},
  };
  await clock.until(drain(flow(given(source)), output, account));
  const series = recorder.end();
  const stats = pool.stats();
  const verdict = pool.verdict();
  await pool.close();
  if (stats.calls > 0 && (verdict !== undefined || stats.answered === 0)) throw unanswered(account, verdict);
  return figuresOf({
    preset,
    account,
    stats,
    states: states(),
    series,
    ends,
    begun: Math.max(0, begun - began) / 1000,
    inFlight: pool.itemsInFlight,
  });
}

/** A run that was given up has no figures: the servers of the preset are too slow, or too small, for what is asked. */
function unanswered(account: Account, verdict: Error | undefined): Error {
  const [first] = [...account.failures.values()].map(failure => failure.first);
  const why = verdict?.message.split(';', 1)[0] ?? first;
  return dataError(`expected servers of this --preset to answer what they would be asked: ${why}`);
}

/** Tokens of a prompt and its answer, where the KV cache holds more. */
const MAX_MODEL_LENGTH = 131_072;

interface Opened {
  pool: EndpointPool;
  servers: VirtualServer[];
}

/** Of the time of an answer: steps and networks are not more regular than that. */
const NOISE = 0.05;

type Opening = PlanInput & { endpoints: number; noise: number };

async function openPool(
  { preset, seed, model, models: raw, pool: file, endpoints, noise }: Opening,
  clock: VirtualClock,
  answers: PlannedAnswers,
  { agents }: AsksWith,
): Promise<Opened> {
  const named = Object.values(agents).map(agent => agent.model);
  const models = [...new Set(named.filter(name => name !== undefined))];
  const answer: Answering = body => answers.answer(body);
  const draw = lcg(seed + noise);
  const late = noise > 0 ? { late: (took: number) => NOISE * took * draw() } : {};
  const served = { ...late, preset, count: endpoints, seed, models: [model, ...models, ...raw], answer };
  const { servers, openWire } = virtualServers(clock, served);
  const { api_key_env: _, ...settled } = file ?? {};
  const own = servers.map(({ url }, at) => ({ ...file?.endpoints[at % file.endpoints.length], url }));
  const settings = poolSettings({ pool: { ...settled, endpoints: own, model } }, {});
  const needsDefault = named.includes(undefined);
  const random = lcg(1);
  const warn = (): void => {};
  const pool = await createPool({ ...settings, openWire, clock, random, models, needsDefault, warn });
  return { pool, servers };
}
