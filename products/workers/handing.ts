/**
 * A run whose asking stages workers do: the row with one stage in their place, and the task that says what they do. What is
 * wrong with it is said before anything is opened.
 *
 * Workers run the stages from the first that asks to the last one. What is before and behind them stays with the
 * coordinator, and so do the files that a run writes.
 *
 *   ingest | chain | validate | synthesize-decision | legacy-convert | verify
 *            └──────── on the workers ────────────┘
 */

import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { agentsOf, inputGuard } from '../../engine/asking/agents/asking-options.ts';
import { folderOfAgents, loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { originOf, textOf } from '../../engine/core/files/origin.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { type Item, isItem, isRawRequest } from '../../engine/core/item/item.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import { BOUNDING } from '../../engine/flow/join.ts';
import type { Values } from '../../engine/flow/options.ts';
import { type Stage, stage } from '../../engine/flow/stage.ts';
import { POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import type { Run } from '../../engine/running/run.ts';
import { type OptionsOfStage, optionsOf, placed, sideFilesOf } from '../../engine/running/stage-options.ts';
import { dryPool, dryTools } from '../../engine/running/without-asking.ts';
import { bundleOf } from './bundle.ts';
import { coordinatorId, type Desk } from './desk.ts';
import type { Task } from './protocol.ts';
import type { PlannedWork } from './shard-work.ts';
import { sharding } from './sharding.ts';

interface HandedBy {
  desk: Desk;
  /** of all works of this ledger */
  folder: string;
  /** asked for where an agent or a request names none; null where each does */
  model(): string | null;
  /** Waits for a worker, and has `model` say its model from then on. */
  firstModel(): Promise<void>;
  onOpen(work: PlannedWork): void;
}

type Handed = Pick<Run, 'label' | 'row' | 'base' | 'pool'> & { sets: readonly string[] };

/** Exit 64 or 65 for a pipeline that workers cannot do. */
export async function handingOf({ label, row, base, sets, pool }: Handed) {
  const { moved } = movingIn(row);
  const asked = moved.filter(({ stage }) => stage.asks);
  const named = (asked[0]?.options.model as string | undefined) ?? pool?.model;
  await checkMoved(moved, { base, sets, model: named ?? '' });
  const bundle = bundleOf(moved, base);
  const files = bundle.files === null ? null : sha256(bundle.files);
  const byAgents = modelsOf(asked, base);
  const needsModel = byAgents.includes(undefined);

  function taskOf(model: string | null, { models: ofLines, hasUnnamed }: AskedByLines): Task {
    const wanted = (needsModel || hasUnnamed) && model !== null ? { model } : {};
    const models = [...byAgents.filter(name => name !== undefined), ...Object.values(wanted), ...ofLines];
    return {
      ...{ label, files, owner: 'run', weight: 1, models: [...new Set(models)].sort() },
      row: bundle.row.map(({ stage, options }) => ({ stage, options: { ...options, ...wanted } })),
    };
  }

  return {
    /** an agent names no model, and nobody has said which one to ask */
    needsModel: needsModel && named === undefined,
    /** the one that is asked for where an agent names none, if anybody has said it */
    model: named ?? null,
    /** what the pipeline says in vain, in words */
    unused: [
      ...(pool ? ['the endpoints of the pipeline file are not asked: workers have their own'] : []),
      ...asked
        .filter(({ options }) => options['in-flight'] !== undefined)
        .map(
          ({ stage: { name } }) =>
            `in-flight of ${name} is not used: a worker takes what its endpoints have places for`,
        ),
    ],
    /** The row of the run; `row` is that of the pipeline, its side files under the names that they are written by. */
    rowOf(row: Run['row'], { desk, folder, model, firstModel, onOpen }: HandedBy): OptionsOfStage[] {
      const { before, moved, behind } = movingIn(row);
      const ofLines: AskedByLines = { models: new Set(), hasUnnamed: false };
      const stage = sharding({
        desk,
        spool: spoolIn(folder),
        // which model a request means that names none is settled before workers of any model take it
        settle: async () => (ofLines.hasUnnamed && model() === null ? firstModel() : undefined),
        workOf(lines) {
          const task = taskOf(model(), ofLines);
          // of this ledger: workers keep the answers of a work, and a run with another ledger asks anew
          const what = [coordinatorId(folder), task.row, task.files, task.models, lines];
          const id = `run-${sha256(JSON.stringify(what)).slice(0, 24)}`;
          return { id, folder: join(folder, id), task, files: bundle.files };
        },
        onOpen,
      });
      return [...before, expecting(moved, base, ofLines), placed(stage, staying(moved)), ...behind];
    },
    /** Removes the lines of a run that ended before all had come: nobody has any of them. */
    dropUnplanned: (folder: string): void => rmSync(spoolIn(folder), { force: true }),
  };
}

const spoolIn = (folder: string): string => join(folder, 'lines.unfinished');

/** What the agents of the stages ask for; undefined for one that names none. */
function modelsOf(asked: readonly OptionsOfStage[], base: string): (string | undefined)[] {
  const withAgents = asked.filter(({ stage }) => 'agents' in optionsOf(stage));
  return withAgents.flatMap(({ options }) => {
    const agents = loadAgents(folderOfAgents(options.agents as string | undefined, base));
    return [...agents.byKey.values()].map(({ model }) => model);
  });
}

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex');

/** What each worker says for itself. */
const OWN_OF_WORKERS = [
  ...(['endpoint', 'pool', 'endpoint-limit', 'model-map'] as const),
  ...(['api-key-env', 'max-body', 'timeout', 'wait', 'fsync'] as const),
];
/** What the run itself goes by. */
const OWN_OF_RUN = ['ledger', 'metrics', 'total', 'grace', 'max-failed'];

/** Exit 64 where the row cannot be cut so, with what to do about it. */
export function movingIn(row: readonly OptionsOfStage[]) {
  const first = row.findIndex(({ stage }) => stage.asks);
  const last = row.findLastIndex(({ stage }) => stage.asks);
  if (first < 0) throw usageError('--redis: expected a stage that asks, found none; run it without --redis');
  const moved = row.slice(first, last + 1);
  const names = [row[first], row[last]].map(placed => placed?.stage.name);
  for (const { stage } of moved.filter(({ stage }) => !isOneToOne(stage)))
    throw usageError(
      `--redis: expected stages that work line by line between ${names.join(' and ')}, found ${stage.name}, ` +
        `which needs all lines; put it after ${names[1]}, or split the pipeline in two`,
    );
  for (const [at, placed] of moved.entries()) refuseOptions(placed, at === moved.length - 1);
  return { before: row.slice(0, first), moved, behind: row.slice(last + 1) };
}

const isOneToOne = ({ each, through, source, judges, dropsFailures, ends, looks }: Stage): boolean =>
  each !== undefined && !through && !source && !judges && !dropsFailures && !ends && !looks;

function refuseOptions({ stage, options }: OptionsOfStage, isLast: boolean): void {
  const { name } = stage;
  for (const option of stage.asks ? OWN_OF_WORKERS : []) {
    const schema = POOL_OPTIONS[option];
    const usual = 'default' in schema ? schema.default : undefined;
    if (options[option] !== undefined && options[option] !== usual)
      throw usageError(
        `--redis: expected ${name} without ${option}, found it: workers have their own endpoints; set it there (fw work --help)`,
      );
  }
  const bound = BOUNDING.find(option => option !== 'max-failed' && options[option] !== undefined);
  if (bound !== undefined)
    throw usageError(
      `--redis: expected ${name} without ${bound}, found it: each worker has endpoints and a ledger of its own, and nobody sees what all of them spend`,
    );
  if (options.ordered === true)
    throw usageError(
      `--redis: expected ${name} without ordered, found it: results come as workers finish them; sort the output afterwards`,
    );
  const shares = ['share', 'once'].find(option => options[option] === true);
  if (shares !== undefined)
    throw usageError(
      `--redis: expected ${name} without ${shares}, found it: workers do not see each other's answers, so they cannot share them`,
    );
  for (const { option } of sideFilesOf({ stage, options })) {
    if (isLast && option === 'failures') continue;
    throw usageError(
      `--redis: expected ${name} without ${option}, found it: it runs on workers, which have no such file; ` +
        'only the last stage that asks may have failures',
    );
  }
}

/** What stays of the options of the moved stages, for the one that stands for them. */
export function staying(moved: readonly OptionsOfStage[]): Values {
  const asking = moved.find(({ stage }) => stage.asks)?.options ?? {};
  const own = OWN_OF_RUN.map(name => [name, asking[name]]);
  const { 'max-line': maxLine } = moved[0]?.options ?? {};
  return { ...Object.fromEntries(own), 'max-line': maxLine, failures: moved.at(-1)?.options.failures };
}

/**
 * Opens the moved stages as a worker will, and lets them go: what is wrong with agents or options is said before anything is
 * given out, by the same words as in a run without workers.
 */
export async function checkMoved(
  moved: readonly OptionsOfStage[],
  { base, sets, model }: { base: string; sets: readonly string[]; model: string },
): Promise<void> {
  const tools = dryTools({ base, sets, files: [], warn() {}, pool: async () => dryPool(model, null) });
  for (const { stage, options } of moved) await stage.each?.(options, tools);
}

/** models of requests that are told apart */
const MOST_MODELS = 64;

/** What requests ask: the models that they name, and whether one names none. */
export interface AskedByLines {
  models: Set<string>;
  hasUnnamed: boolean;
}

/**
 * What is to be known of all lines before they are cut into shards. Whether the items are of the kind that the agents are
 * for: the first item of all decides (engine/asking/agents/asking-options.ts), so no worker judges it again. And which models
 * requests name: workers that serve these get them. The stage is put before the moved ones, fails items in the name of the
 * first of them, and adds to `lines`.
 */
export function expecting(
  moved: readonly OptionsOfStage[],
  base: string,
  lines: AskedByLines,
): OptionsOfStage {
  const [first] = moved as readonly [OptionsOfStage];
  const { name, heals = [] } = first.stage;
  const named = new Map<string, string | undefined>();
  for (const { stage, options } of moved) {
    if (!stage.asks || !('agents' in optionsOf(stage))) continue;
    const agents = options.agents as string | undefined;
    named.set(folderOfAgents(agents, base), agents);
  }
  const sends = moved.some(({ stage }) => stage.name === 'request');
  const noteModel = ({ request }: Item): void => {
    if (!isRawRequest(request)) return;
    if (typeof request.body.model !== 'string') lines.hasUnnamed = true;
    else if (lines.models.size < MOST_MODELS) lines.models.add(request.body.model);
  };
  const judging = stage({
    name,
    summary: 'Judge whether the agents are meant for the items.',
    options: {},
    heals: typeof heals === 'function' ? failure => heals(failure, first.options) : heals,
    each(_options, tools) {
      const guards = [...named.values()].map(agents => inputGuard(agentsOf({ agents }, tools), tools.warn));
      return item => {
        // what is no item, or no whole one, the first moved stage fails by its own words
        const origin = originOf(item);
        const isWhole = isItem(item) && typeof item.id === 'string' && !(origin && lossless(textOf(origin)));
        if (isWhole) for (const guard of guards) guard(item);
        if (isWhole && sends) noteModel(item);
        return item;
      };
    },
  });
  return { stage: judging, options: { 'max-line': first.options['max-line'] } };
}
