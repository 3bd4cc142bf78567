/**
 * fw as a library: the stages, rows of them, and what a run is made of.
 *
 *   const checked = validate({ schema: 'answer.json' }).through(verify({ expect: 5760 }));
 *   const { exit, account } = await run(checked, { inputs: ['out.jsonl'], output: 'checked.jsonl' });
 */

import { basename } from 'node:path';
import { expandPaths } from './engine/core/files/input-files.ts';
import type { OnBroken, Output } from './engine/core/files/ndjson-out.ts';
import { letGo } from './engine/core/files/origin.ts';
import { ioError, usageError } from './engine/core/item/failure.ts';
import type { Item } from './engine/core/item/item.ts';
import type { ASKING, COMMON } from './engine/flow/join.ts';
import { type OptionSchemas, type OptionsOf, resolveOptions, type Values } from './engine/flow/options.ts';
import type { Stage, StageOf } from './engine/flow/stage.ts';
import type { POOL_OPTIONS } from './engine/running/open-pool.ts';
import { outputOf } from './engine/running/output-paths.ts';
import { readPipeline } from './engine/running/pipeline.ts';
import { run as runRow } from './engine/running/run.ts';
import type { Ended } from './engine/running/run-options.ts';
import { optionsOf } from './engine/running/stage-options.ts';
import type { Stopper } from './engine/running/stopping.ts';
import {
  refuseOutputs,
  runToFiles,
  runToStream,
  type Start,
  type Unplaced,
} from './engine/running/to-files.ts';
import type { Progress, Watched } from './engine/running/watch/progress.ts';
import { createLook, type Facts } from './engine/running/watch/run-facts.ts';
import { countItems } from './engine/running/watch/total.ts';
import agentStepStage from './stages/agent-step.ts';
import chainStage from './stages/chain.ts';
import exportStage from './stages/export.ts';
import fixEscapesStage from './stages/fix-escapes.ts';
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
export { EXIT, Fatal, ItemFailure } from './engine/core/item/failure.ts';
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
export type { Ended } from './engine/running/run-options.ts';
export type { Facts } from './engine/running/watch/run-facts.ts';

/** Stages in a row, with their options. */
export interface Row {
  readonly stages: readonly { stage: Stage; options: Values }[];
  /** This row and then `next`. */
  through(next: Row): Row;
}

/** What an option may be given: those with a default, too, may be left out. */
export type Given<S extends OptionSchemas> = Partial<OptionsOf<S & typeof COMMON>>;
type Asking = Partial<OptionsOf<typeof ASKING & typeof POOL_OPTIONS>>;

/** A stage as a function of its options. Throws Fatal (64) for an option that it does not have, or a value that is none. */
export function rowOfStage<S extends OptionSchemas>(stage: StageOf<S>): (options?: Given<S>) => Row {
  return (given = {}) => {
    const options = resolveOptions(optionsOf(stage), given as Values, (name, message) => {
      throw usageError(`${stage.name}: ${name}: ${message}`);
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

export interface RunOptions {
  /** files and globs; `-` is standard input. Default: those that a pipeline file names */
  inputs?: readonly string[];
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

/** The exit code of a run that was stopped by its signal, as after SIGINT. */
const STOPPED = 130;

/**
 * Runs a row of stages, or the pipeline file at a path. Resolves when the last line was taken: `exit` is 0, 1 where items
 * failed, or as in EXIT, and then `log` has heard why. Rejects with Fatal for what is wrong before it begins, and with
 * what the function of `output` threw.
 */
export async function run(what: Row | string, options: RunOptions = {}): Promise<Ended> {
  const { inputs, output, log = () => {}, signal, progress } = options;
  const pipeline = typeof what === 'string' ? await readPipeline(what, []) : null;
  const stages = pipeline ? pipeline.row : (what as Row).stages;
  const target = output ?? (pipeline ? outputOf(pipeline) : undefined);
  if (target === undefined) throw usageError('output: expected a path or a function, found none');
  const planned: Unplaced = {
    label:
      options.label ??
      (typeof what === 'string' ? basename(what) : stages.map(({ stage }) => stage.name).join(' | ')),
    row: stages.map(({ stage, options }) => ({
      stage,
      options: stage.looks ? { ...options, pass: true } : options,
    })),
    files: await expandPaths(inputs ?? pipeline?.input ?? []),
    base: options.base ?? pipeline?.base ?? process.cwd(),
    ...(pipeline && { pool: pipeline.pool, ledger: pipeline.ledger }),
  };
  await refuseOutputs(planned, typeof target === 'string' ? target : undefined, pipeline?.reads ?? []);
  let ended: Ended | undefined;
  const start: Start = async placed => {
    ended = await runRow({
      ...placed,
      say: log,
      ...(progress && { progress: watched => watch(watched, progress) }),
      ...(signal && { stoppable: stop => stopBy(signal, stop) }),
    });
    return ended.exit;
  };
  const thrown: unknown[] = [];
  if (typeof target === 'string') await runToFiles(planned, { start, say: log, target });
  else {
    const lines = toEach(target, error => void thrown.push(error));
    await runToStream({ ...planned, output: lines }, { start, say: log });
  }
  if (thrown.length > 0) throw thrown[0];
  return ended as Ended;
}

function stopBy(signal: AbortSignal, stop: (by: Stopper) => void): () => void {
  const onAbort = (): void => stop({ name: 'the signal', exit: STOPPED });
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

/** An output that hands each line to a function, and waits for it; what it throws ends the run, and is `failed` on. */
function toEach(
  take: (line: Item) => void | Promise<void>,
  failed: (error: unknown) => void,
): (onBroken: OnBroken) => Output {
  return onBroken => {
    let taking: Promise<void> = Promise.resolve();
    const fail = (error: unknown): void => {
      failed(error);
      onBroken(ioError('expected the output to take a line, found that it threw'));
    };
    return {
      write(line) {
        letGo(line);
        try {
          const taken = take(line);
          if (!(taken instanceof Promise)) return true;
          taking = taken.catch(fail);
          return false;
        } catch (error) {
          fail(error);
          return true;
        }
      },
      ready: act => void taking.then(act),
      end: () => taking,
    };
  };
}
