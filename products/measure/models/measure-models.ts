/**
 * The same items through several models, one after the other: each is run as `fw run` would, by the asking stages of the
 * pipeline and without a ledger, since an answer on record takes no time.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { type PoolFile, poolAt, readPoolFile } from '../../../engine/asking/endpoints/settings.ts';
import { readYaml, type YamlFile } from '../../../engine/core/config/yaml.ts';
import { makeFolder } from '../../../engine/core/files/durable.ts';
import { expandPaths, expectResults } from '../../../engine/core/files/input-files.ts';
import { letGo, originOf, textOf } from '../../../engine/core/files/origin.ts';
import { dataError, EXIT } from '../../../engine/core/item/failure.ts';
import type { Item } from '../../../engine/core/item/item.ts';
import { makePool } from '../../../engine/running/open-pool.ts';
import { readPipeline } from '../../../engine/running/pipeline.ts';
import { type Run, run } from '../../../engine/running/run.ts';
import { silent } from '../../../engine/running/stage-options.ts';
import { runToFiles } from '../../../engine/running/to-files.ts';
import { itemsBefore } from '../../../engine/running/without-asking.ts';
import { stages } from '../../../stages/index.ts';
import { spreadOf } from '../bench/bench-figures.ts';
import { type Judging, outcomesOf, type Quality, qualityOf } from './answer-figures.ts';

/** What one model did; times and tokens are of all that was asked, retries among it. */
export type Measured = Omit<Awaited<ReturnType<typeof measureOne>>, 'exit'>;

export interface World extends Pick<Run, 'progress' | 'stoppable'> {
  /** hears what there is to say, each message with the name of the model that it is about */
  say(message: string): void;
}

export interface Outcome {
  items: number;
  models: Measured[];
  /** 130 or 143 where somebody stopped it */
  stopped: number | null;
}

/** Exit 64 or 65 where there is nothing to measure; a model that cannot be asked is in the outcome. */
export async function measureModels(choice: Choice, world: World): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'fw-models-'));
  try {
    return await measureIn(folder, choice, world);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureIn(folder: string, choice: Choice, world: World): Promise<Outcome> {
  const { row, base, input } = await readPipeline(choice.pipeline, stages, choice.set);
  const items: string[] = [];
  await itemsBefore({
    row,
    files: expectResults(await expandPaths(choice.input ?? input)),
    base,
    label: 'bench',
    warn: world.say,
    take(item: Item) {
      const origin = originOf(item);
      // bytes that came in leave as they are
      items.push(origin === undefined ? JSON.stringify(item) : textOf(origin));
      letGo(item);
      return choice.limit === null || items.length < choice.limit;
    },
  });
  if (items.length === 0) throw dataError(`${choice.pipeline}: expected items to ask, found none`);
  const path = join(folder, 'items.ndjson');
  writeFileSync(path, `${items.join('\n')}\n`);
  const asks = row.map(({ stage }) => stage.asks !== undefined);
  const asker = row[asks.indexOf(true)];
  const judging: Judging = {
    outcome: choice.outcome,
    label: choice.label,
    reference: null,
    agents: asker?.options.agents as string | undefined,
    base,
    warn: world.say,
  };
  const reference = choice.reference === null ? null : await outcomesOf(choice.reference, judging);
  if (reference?.size === 0)
    throw dataError(
      `${choice.reference}: expected finished items with ${choice.outcome}, found none that verification accepts`,
    );
  if (choice.out !== null) makeFolder(choice.out);
  const models: Measured[] = [];
  let stopped: number | null = null;
  for (const candidate of choice.models) {
    const asking = row.slice(asks.indexOf(true), asks.lastIndexOf(true) + 1).map(silent);
    for (const { options } of asking) {
      for (const name of NAMES_A_POOL) delete options[name];
      options['max-failed'] = 'none'; // that a model fails at everything is a result
    }
    const { exit, ...measured } = await measureOne(candidate, { path, asking, base }, world, {
      ...judging,
      reference,
      target: join(choice.out ?? folder, `${candidate.name}.ndjson`),
    });
    models.push(measured);
    if (exit > 128) {
      stopped = exit;
      break;
    }
  }
  return { items: items.length, models, stopped };
}

/** Options of an asking stage that say whom it asks: here each model says it. */
const NAMES_A_POOL = ['endpoint', 'pool', 'model', 'model-map', 'ledger', 'metrics'];

async function measureOne(
  { name, pool: file, gpus, price }: Candidate,
  { path, asking, base }: { path: string; asking: Run['row']; base: string },
  { say, progress, stoppable }: World,
  { target, ...judging }: Judging & { target: string },
) {
  const latencies: number[] = [];
  let last = '';
  const tell = (message: string): void => {
    last = message;
    say(`${name}: ${message}`);
  };
  let began = 0;
  let made: Awaited<ReturnType<typeof makePool>> | null = null;
  const exit = await runToFiles(
    { label: name, row: asking, files: [path], base, ledger: false },
    {
      target,
      say: tell,
      async start(placed) {
        const ended = await run({
          ...placed,
          say: tell,
          ...(progress && { progress }),
          ...(stoppable && { stoppable }),
          async openPool(asked) {
            made = await makePool(asking[0]?.options ?? {}, {
              ...asked,
              label: name,
              files: [path],
              file,
              ledger: false,
              warn: tell,
              onAnswer: (_, ms) => void latencies.push(ms),
            });
            began = performance.now();
            return made;
          },
        });
        return ended.exit;
      },
    },
  );
  const seconds = made === null ? 0 : (performance.now() - began) / 1000;
  const stats = (made as Awaited<ReturnType<typeof makePool>> | null)?.stats();
  const isWhole = exit <= EXIT.failed;
  const spread = spreadOf(latencies);
  const uses = (stats?.endpoints ?? []).flatMap(({ gpuOverall }) => gpuOverall?.use ?? []);
  return {
    exit,
    name,
    endpoints: file.endpoints.map(({ url }) => url),
    /** as the servers call it; null where it could not be asked */
    model: (made as Awaited<ReturnType<typeof makePool>> | null)?.model ?? null,
    gpus,
    price,
    /** why there are no figures, or not of all items; null where there are */
    broken: isWhole ? null : exit > 128 ? 'stopped before all items were answered' : firstOf(last),
    /** from when its servers were known to answer until the last line was written */
    seconds,
    calls: stats?.calls ?? 0,
    retries: stats?.retries ?? 0,
    promptTokens: stats?.usage.prompt ?? 0,
    completionTokens: stats?.usage.completion ?? 0,
    cachedTokens: stats?.usage.cached ?? 0,
    /** of a call, ms */
    latency: spread.n === 0 ? null : { p50: spread.at[50] as number, p99: spread.at[99] as number },
    /** of its GPUs, where the pool says how to see them */
    gpuUse: uses.length === 0 ? null : uses.reduce((sum, use) => sum + use, 0) / uses.length,
    quality: isWhole ? await qualityOf(target, judging) : NO_QUALITY,
  };
}

/** What was expected and found; the advice below it is for who runs it now. */
const firstOf = (message: string): string =>
  message
    .split('\n', 2)
    .map(line => line.trim())
    .join(' ');

const NO_QUALITY: Quality = {
  items: 0,
  accepted: 0,
  rungs: {},
  answers: 0,
  firstTry: null,
  left: [],
  label: null,
  reference: null,
};

// The file of a choice: which pipeline, which items, which pools, and what to agree with.

export interface Candidate {
  name: string;
  pool: PoolFile;
  gpus: number;
  /** of one GPU for an hour; null where none is named */
  price: number | null;
}

export interface Choice {
  /** paths as they can be opened */
  pipeline: string;
  input: string[] | null;
  limit: number | null;
  set: string[];
  outcome: string | null;
  label: string | null;
  reference: string | null;
  out: string | null;
  models: Candidate[];
}

interface Written extends Partial<Omit<Choice, 'input' | 'models'>> {
  pipeline: string;
  input?: string | string[];
  models: { name: string; pool: string | object; gpus?: number; price?: number }[];
}

/** Exit 65 with line and column for whatever is wrong with it. */
export function readChoice(path: string): Choice {
  // a pool may have a key in it
  const file = readYaml(path, 'bench-models', { secretive: true });
  const { pipeline, input, models, ...rest } = file.value as Written;
  const { limit = null, set = [], outcome = null, label = null, reference = null, out = null } = rest;
  for (const [at, { name }] of models.entries())
    if (models.findIndex(other => other.name.toLowerCase() === name.toLowerCase()) < at)
      throw file.complain(['models', at, 'name'], `expected different names, found '${name}' twice`);
  return {
    pipeline: resolve(dirname(path), pipeline),
    input: input === undefined ? null : [input].flat(),
    limit,
    set,
    outcome,
    label,
    reference,
    out,
    models: models.map(({ name, pool: written, gpus, price = null }, at) => {
      const pool = poolOf(file, written, ['models', String(at), 'pool']);
      return { name, pool, gpus: gpus ?? pool.endpoints.length, price };
    }),
  };
}

function poolOf(file: YamlFile, pool: string | object, at: readonly string[]): PoolFile {
  return typeof pool === 'string' ? readPoolFile(resolve(dirname(file.path), pool)) : poolAt(file, at);
}
