/**
 * Which stages of a pipeline run on the workers: from the first that asks to the last one. What is before and behind them
 * stays with the coordinator, and so do the files that a run writes.
 *
 *   ingest | chain | validate | synthesize-decision | legacy-convert | verify
 *            └──────── on the workers ────────────┘
 */

import { newAccount } from '../../engine/core/item/account.ts';
import type { Pool } from '../../engine/core/item/call.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import type { Values } from '../../engine/flow/options.ts';
import type { Stage, Tools } from '../../engine/flow/stage.ts';
import { type OptionsOfStage, sideFilesOf } from '../../engine/running/named-files.ts';
import { POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';

export interface Moving {
  before: readonly OptionsOfStage[];
  moved: readonly OptionsOfStage[];
  behind: readonly OptionsOfStage[];
}

/** What each worker says for itself. */
const OWN_OF_WORKERS = [
  ...(['endpoint', 'pool', 'endpoint-limit', 'model-map'] as const),
  ...(['api-key-env', 'max-body', 'timeout', 'wait', 'fsync'] as const),
];
/** Beside them, what the coordinator does, and what no worker could do alone. */
const STAYS: ReadonlySet<string> = new Set([
  ...Object.keys(POOL_OPTIONS).filter(name => name !== 'model'),
  ...['failures', 'in-flight', 'ordered', 'grace', 'max-failed'],
]);
/** Of these, what the run itself goes by. */
const OWN_OF_RUN = ['ledger', 'metrics', 'total', 'grace', 'max-failed'];

/** Exit 64 where the row cannot be cut so, with what to do about it. */
export function movingIn(row: readonly OptionsOfStage[]): Moving {
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
  if (options.ordered === true)
    throw usageError(
      `--redis: expected ${name} without ordered, found it: results come as workers finish them; sort the output afterwards`,
    );
  if (options.share === true)
    throw usageError(
      `--redis: expected ${name} without share, found it: workers do not see each other's answers, so they cannot share them`,
    );
  for (const { option } of sideFilesOf({ stage, options })) {
    if (isLast && option === 'failures') continue;
    throw usageError(
      `--redis: expected ${name} without ${option}, found it: it runs on workers, which have no such file; ` +
        'only the last stage that asks may have failures',
    );
  }
}

/** The options that go along with a stage: those that say what is done to a line. */
export function travelling({ stage, options }: OptionsOfStage): Values {
  const names = Object.keys(optionsOf(stage)).filter(name => !STAYS.has(name));
  return Object.fromEntries(
    names.filter(name => options[name] !== undefined).map(name => [name, options[name]]),
  );
}

/** What stays of the options of the moved stages, for the one that stands for them. */
export function staying(moved: Moving['moved']): Values {
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
  moved: Moving['moved'],
  { base, sets, model }: { base: string; sets: readonly string[]; model: string },
): Promise<void> {
  const { signal } = new AbortController();
  const refuse = () => Promise.reject(new Error('a stage that is only looked at asks'));
  const nobody: Pool = {
    model,
    itemsInFlight: 1,
    onRoom() {},
    call: refuse,
    judge() {},
    close: async () => {},
  };
  const tools: Tools = {
    ...{ base, sets, files: [], signal, asking: signal },
    ...{ account: newAccount(''), started: new Date(0), warn() {}, pool: async () => nobody },
  };
  for (const { stage, options } of moved) await stage.each?.(options, tools);
}
