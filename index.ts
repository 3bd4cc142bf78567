/**
 * fw as a library: the stages, rows of them, and what a run is made of.
 *
 *   const checked = validate({ schema: 'answer.json' }).through(verify({ expect: 5760 }));
 *   const { outcome, account } = await run(checked, { inputs: ['out.jsonl'], output: 'checked.jsonl' });
 *   for await (const item of itemsOf(checked, { input: lines })) …
 */

import { basename } from 'node:path';
import { Readable } from 'node:stream';
import _ from 'highland';
import { expandPaths } from './engine/core/files/input-files.ts';
import type { Account } from './engine/core/item/account.ts';
import { EXIT, usageError } from './engine/core/item/failure.ts';
import type { Item } from './engine/core/item/item.ts';
import type { ASKING, COMMON } from './engine/flow/join.ts';
import { type OptionSchemas, type OptionsOf, resolveOptions, type Values } from './engine/flow/options.ts';
import type { Items, Stage, StageOf } from './engine/flow/stage.ts';
import type { POOL_OPTIONS } from './engine/running/open-pool.ts';
import { outputOf, readPipeline } from './engine/running/pipeline.ts';
import { type Ended as EndedRun, run as runRow, type Stopper } from './engine/running/run.ts';
import { optionsOf } from './engine/running/stage-options.ts';
import {
  refuseOutputs,
  runToFiles,
  runToStream,
  type Start,
  type Unplaced,
} from './engine/running/to-files.ts';
import {
  countItems,
  createLook,
  type Facts,
  type Progress,
  type Watched,
} from './engine/running/watch/run-facts.ts';
import { rethrow } from './errors.ts';
import { type Chunks, handedOut, inputOf, toEach } from './iterables.ts';
import agentStepStage from './stages/agent-step.ts';
import chainStage from './stages/chain.ts';
import exportStage from './stages/export.ts';
import fixEscapesStage from './stages/fix-escapes.ts';
import { stages as everyStage } from './stages/index.ts';
import ingestStage from './stages/ingest.ts';
import legacyConvertStage from './stages/legacy-convert.ts';
import mergeStage from './stages/merge.ts';
import nullFixStage from './stages/null-fix.ts';
import requestStage from './stages/request.ts';
import selectStage from './stages/select.ts';
import synthesizeDecisionStage from './stages/synthesize-decision.ts';
import validateStage from './stages/validate.ts';
import verifyStage from './stages/verify.ts';

export { type Ledger, type LedgerOptions, openLedger } from './engine/asking/ledger/ledger.ts';
export type { EndpointPool, PoolOptions } from './engine/asking/pool/part.ts';
export { createPool } from './engine/asking/pool/pool.ts';
export type { Account } from './engine/core/item/account.ts';
export { CODES } from './engine/core/item/codes.ts';
export { Fatal, ItemFailure } from './engine/core/item/failure.ts';
export type { Failure, Item, Repair, Rung, Step } from './engine/core/item/item.ts';
export { boundedMap, type MapOptions } from './engine/flow/map.ts';
export {
  type Each,
  type Items,
  type StageSpec,
  stage,
  type Through,
  type Tools,
} from './engine/flow/stage.ts';
export type { Facts } from './engine/running/watch/run-facts.ts';
export { type ErrorCode, FairwatchError } from './errors.ts';
export type { Chunks } from './iterables.ts';

/** Stages in a row, with their options. */
export interface Row {
  readonly stages: readonly { stage: Stage; options: Values }[];
  /** This row and then `next`. */
  through(next: Row): Row;
}

/** What an option may be given: those with a default, too, may be left out. */
export type Given<S extends OptionSchemas> = Partial<OptionsOf<S & typeof COMMON>>;
type Asking = Partial<OptionsOf<typeof ASKING & typeof POOL_OPTIONS>>;

/** A stage as a function of its options. Throws FairwatchError (`usage`) for an option that it does not have, or a value that is none. */
export function rowOfStage<S extends OptionSchemas>(stage: StageOf<S>): (options?: Given<S>) => Row {
  return (given = {}) => {
    const options = resolveOptions(optionsOf(stage), given as Values, (name, message) => {
      rethrow(usageError(`${stage.name}: ${name}: ${message}`));
    });
    return row([{ stage, options }]);
  };
}

function row(stages: Row['stages']): Row {
  return { stages, through: next => row([...stages, ...next.stages]) };
}

const asks = <S extends OptionSchemas>(stage: StageOf<S>) =>
  rowOfStage(stage) as (options?: Given<S> & Asking) => Row;

export const agentStep = asks(agentStepStage);
export const chain = asks(chainStage);
/** `export` is a word of the language. */
export const exportAs = rowOfStage(exportStage);
export const fixEscapes = rowOfStage(fixEscapesStage);
export const ingest = rowOfStage(ingestStage);
export const legacyConvert = rowOfStage(legacyConvertStage);
export const merge = rowOfStage(mergeStage);
export const nullFix = rowOfStage(nullFixStage);
export const request = asks(requestStage);
export const select = rowOfStage(selectStage);
export const synthesizeDecision = asks(synthesizeDecisionStage);
export const validate = rowOfStage(validateStage);
export const verify = rowOfStage(verifyStage);

/** How a run ended: every item is good, some failed, or it was stopped by its signal. */
export interface Ended {
  outcome: 'ok' | 'failed' | 'stopped';
  account: Account;
}

export interface RunOptions {
  /** files and globs; `-` is standard input. Default: those that a pipeline file names */
  inputs?: readonly string[];
  /** In place of files, an iterable or a stream. An object is a line; text and bytes are read as those of a file are. */
  input?: Chunks;
  /**
   * A path, with `{ordering}` in it for a file each, which gets its name once the run has ended; or what takes each line,
   * one after the other. Default: that of a pipeline file.
   */
  output?: string | ((line: Item) => void | Promise<void>);
  /** where agents, schemas and templates are found; default: the current folder, or that of the pipeline file */
  base?: string;
  /** what messages begin with; default: the names of the stages, or that of the pipeline file */
  label?: string;
  /** hears each message, a line or several */
  log?(message: string): void;
  /** aborted: takes nothing new, lets what is in flight finish within the grace of the stage that asks */
  signal?: AbortSignal;
  /** is told once a second how it goes, while models are asked */
  progress?(facts: Facts): void;
}

type Stop = (by: Stopper) => void;

/**
 * Runs a row of stages, or the pipeline file at a path. Resolves when the last line was taken. Rejects with FairwatchError,
 * whose `code` says what it is about, for what is wrong before it begins or ends it early, and with what `input` or `output`
 * threw.
 */
export function run(what: Row | string, options: RunOptions = {}): Promise<Ended> {
  const { signal } = options;
  return start(what, options, stop => (signal ? stopBy(signal, stop) : () => {})).catch(rethrow);
}

/** The lines that leave a row, for a `for await`; to leave the loop stops the run at once. Throws as `run` rejects. */
export function itemsOf(
  what: Row | string,
  options: Omit<RunOptions, 'output'> = {},
): AsyncGenerator<Item, Ended> {
  const { signal } = options;
  let stopNow = (): void => {};
  return handedOut<Item, Ended>(
    output =>
      start(what, { ...options, output }, stop => {
        stopNow = () => {
          for (const _again of [1, 2]) stop(STOPPED);
        };
        return signal ? stopBy(signal, stop) : () => {};
      }).catch(rethrow),
    () => stopNow(),
  );
}

/** A row as a function for `through` of a Highland stream, of whatever objects: each is a line. */
export function asThrough(
  what: Row | string,
  options: Omit<RunOptions, 'input' | 'inputs' | 'output'> = {},
): <Line extends object>(items: Highland.Stream<Line>) => Items {
  return items => _<Item>(Readable.from(itemsOf(what, { ...options, input: pulled(items) })));
}

async function* pulled<Line>(items: Highland.Stream<Line>): AsyncGenerator<Line> {
  for (;;) {
    const item = await new Promise<Line | Highland.Nil>((resolve, reject) => {
      items.pull((error, next) => (error ? reject(error) : resolve(next)));
    });
    if (_.isNil(item)) return;
    yield item;
  }
}

async function start(
  what: Row | string,
  options: RunOptions,
  stoppable: (stop: Stop) => () => void,
): Promise<Ended> {
  const { inputs, input, log = () => {}, progress } = options;
  const pipeline = typeof what === 'string' ? await readPipeline(what, everyStage) : null;
  const { stages } = pipeline ? { stages: pipeline.row } : (what as Row);
  const target = options.output ?? (pipeline ? outputOf(pipeline) : undefined);
  if (target === undefined) throw usageError('output: expected a path or a function, found none');
  const thrown: unknown[] = [];
  const failed = (error: unknown): void => void thrown.push(error);
  const over = new AbortController();
  const read = input && inputOf(input, over.signal, failed);
  const planned: Unplaced = {
    label:
      options.label ??
      (typeof what === 'string' ? basename(what) : stages.map(({ stage }) => stage.name).join(' | ')),
    row: stages.map(({ stage, options }) => ({
      stage,
      options: stage.looks ? { ...options, pass: true } : options,
    })),
    ...(read
      ? { files: [read.name], inputs: [read] }
      : { files: await expandPaths(inputs ?? pipeline?.input ?? []) }),
    base: options.base ?? pipeline?.base ?? process.cwd(),
    ...(pipeline && { pool: pipeline.pool, ledger: pipeline.ledger }),
  };
  await refuseOutputs(planned, typeof target === 'string' ? target : undefined, pipeline?.reads ?? []);
  let ended: EndedRun | undefined;
  const begin: Start = async placed => {
    ended = await runRow({
      ...placed,
      say: log,
      ...(progress && { progress: watched => watch(watched, progress) }),
      stoppable: stop =>
        stoppable(by => {
          stop(by);
          over.abort();
        }),
    });
    return ended.exit;
  };
  try {
    if (typeof target === 'string') await runToFiles(planned, { start: begin, say: log, target });
    else await runToStream({ ...planned, output: toEach(target, failed) }, { start: begin, say: log });
  } finally {
    read?.close();
  }
  if (thrown.length > 0) throw thrown[0];
  const { exit, account, fatal } = ended as EndedRun;
  if (fatal && exit !== STOPPED.exit) throw fatal;
  return { outcome: exit === EXIT.ok ? 'ok' : exit === EXIT.failed ? 'failed' : 'stopped', account };
}

/** The exit code is that of a command after SIGINT. */
const STOPPED: Stopper = { name: 'the signal', exit: 130 };

function stopBy(signal: AbortSignal, stop: Stop): () => void {
  const onAbort = (): void => stop(STOPPED);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort);
  return () => signal.removeEventListener('abort', onAbort);
}

const LOOK_EVERY = 1_000;

async function watch(
  { account, pool, row, tools }: Watched,
  progress: (facts: Facts) => void,
): Promise<Progress> {
  const look = createLook(account, pool, countItems(row, tools).items);
  let facts = look(performance.now());
  const timer = setInterval(() => {
    facts = look(performance.now());
    progress(facts);
  }, LOOK_EVERY).unref();
  return {
    get facts() {
      return facts;
    },
    stop: () => clearInterval(timer),
    closing: () => [],
  };
}
