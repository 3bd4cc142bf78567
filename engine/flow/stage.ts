/**
 * The shape of a stage: data plus one function, named by what it sees.
 *
 *   each      one item → one item (or a promise of one, where the stage asks)
 *   through   the flow of items, as a Highland stream → the flow
 *   source    bytes → items; first in a pipeline
 *
 * What every stage would otherwise repeat is done here: a failed item passes untouched unless the stage heals its
 * code, a throw becomes the item's failure, a changed line must be one that can be rewritten without loss.
 */

import type { ByteInput } from '../core/files/input-files.ts';
import type { Batch, Frame } from '../core/files/ndjson-out.ts';
import { forget, originOf, textOf } from '../core/files/origin.ts';
import type { Account, Workload } from '../core/item/account.ts';
import type { AsksWith, Begins, Pool } from '../core/item/call.ts';
import type { Code } from '../core/item/codes.ts';
import { type Fatal, ItemFailure } from '../core/item/failure.ts';
import { type Failure, failureOf, type Item, idOf, isItem, passRungOn } from '../core/item/item.ts';
import { wrongShape } from '../core/item/line-shape.ts';
import { lossless } from '../core/json/lossless.ts';
import type { OptionSchemas, OptionsOf, Values } from './options.ts';

/** What a stage may use of the world; made by `bin`, never imported by a stage. */
export interface Tools {
  /** agents, schemas, templates and defaults are found from here: the current folder, or that of the pipeline file */
  base: string;
  /** of a pipeline: what --set says (STAGE.OPTION=VALUE). Its other options are the file's, whatever its input is today */
  sets?: readonly string[];
  /** the files named after the options; none of them means standard input */
  files: readonly string[];
  /** aborted by the first signal: leave files unread */
  signal: AbortSignal;
  /** aborted with it where models are asked: take nothing new. What asks nothing drains what its neighbours send */
  asking: AbortSignal;
  account: Account;
  /** the start of the run, for those few stages whose output carries a date */
  started: Date;
  /** of a stage that asks: it says what each item lacks here, and what it has got */
  workload?: Workload;
  /** of a stage that asks: takes what tells how the first request of an item begins, so that those that begin alike are asked together */
  tellBeginnings?(begins: (item: Item) => Begins | null): void;
  /** of a source: all of its items are read before the first is asked about, and where it ends with an error none is */
  areHeld?: boolean;
  /** rows or lines that the input has, as a person says (--total) */
  rows?: number;
  /** one line to stderr, prefixed by the stage */
  warn(message: string): void;
  /** Ends the run: nothing new is taken, calls in flight are dropped, and what was not answered leaves as interrupted. */
  giveUp?(fatal: Fatal): void;
  /** whether the run was told whom to ask: a ledger alone may know some of the answers, but not that it knows this one */
  namesEndpoint?(): Promise<boolean>;
  /** the endpoints, probed on first use; exit 64 where none is named, 69 where none answers; once lines flow, what
   * is in hand is failed as interrupted first, so that it leaves with what it has. Who asks says with what */
  pool(asksWith?: AsksWith): Promise<Pool>;
}

export type Items = Highland.Stream<Item>;
export type Each = (item: Item) => Item | Promise<Item>;
export type Through = (items: Items) => Items;
export type Source = (inputs: readonly ByteInput[]) => Items;
export type Written = (inputs: readonly ByteInput[]) => AsyncIterable<Batch>;
type Opening<T> = T | Promise<T>;

export interface StageSpec<S extends OptionSchemas, Given = OptionsOf<S>> {
  name: string;
  summary: string;
  options: S;
  /** what the positional arguments are, where they are not the lines to read */
  positional?: string;
  /** asks models: `always` needs a pool before the first item, `when-needed` makes one for the first item that asks */
  asks?: 'always' | 'when-needed';
  /** the failures that this stage takes up again; every other failed item passes it untouched */
  heals?: readonly Code[] | ((failure: Failure, options: Given) => boolean);
  /** works on failed lines alone, so that a line passes even where it only looks like an item or a mark of ours */
  mends?: boolean;
  /** failed items leave the stream: they are counted, or written to --failures */
  dropsFailures?: boolean;
  /** only looks: its lines leave a pipe with --pass alone */
  looks?: boolean;
  /** command lines for the help page */
  examples?: readonly string[];
  /** what an option asks to be told: printed on stdout in place of a run */
  tells?(options: Given): string | undefined;
  /** an input may be a whole legacy document: its results are then the lines */
  documents?: boolean;
  /** where the output is to be something else than the lines of the items */
  frame?(options: Given): Frame | undefined;
  /** nothing comes behind it */
  ends?: boolean;
  /** failed items make the exit code 1; asking stages and those that drop failures do so anyway */
  judges?: boolean;
  /** the exit code is 1 where items came and every one failed: then it is the input that is wrong */
  needsGood?(options: Given): boolean;
  each?(options: Given, tools: Tools): Opening<Each>;
  through?(options: Given, tools: Tools): Opening<Through>;
  source?(options: Given, tools: Tools): Opening<Source>;
  /** Instead of `source`, where nothing comes behind it: many of its lines are written already. Null where none are. */
  written?(options: Given, tools: Tools): Opening<Written | null>;
  /** where it comes first: how many items will come of its files; null where that cannot be known before they are read */
  counts?(options: Given, tools: Tools): Promise<number | null>;
  /** of a stage with `through` and `source`: whether these options make it a source */
  isSource?(options: Given): boolean;
}

/** A stage as the list of stages holds it: its options are values, checked by `resolveOptions`, which gives them their types. */
export type Stage = StageSpec<OptionSchemas, Values>;

/** A stage that still knows which options it has. */
export type StageOf<S extends OptionSchemas> = Stage & { options: S };

export function stage<const S extends OptionSchemas>(spec: StageSpec<S>): StageOf<S> {
  return spec as unknown as StageOf<S>;
}

/** Whether a stage that comes first makes the items itself, and does not read them as lines. */
export function isSource(stage: Stage, options: Values): boolean {
  return stage.source !== undefined && (stage.isSource?.(options) ?? true);
}

/** Several stages under one name: `legacy` is `synthesize-decision | legacy-convert`. */
export interface StageRow {
  name: string;
  summary: string;
  examples?: readonly string[];
  row: readonly Stage[];
}

/** Stages by their names, each loaded when it is named. */
export type StageList = Readonly<Record<string, () => Promise<{ default: Stage | StageRow }>>>;

export function stagesOf(stage: Stage | StageRow): readonly Stage[] {
  return 'row' in stage ? stage.row : [stage];
}

/** A failed line: the item with its failure; or, where rewriting it would change a value, its id and its old text. */
export function withFailure(item: Item, failure: Failure): Item {
  const origin = originOf(item);
  const problem = origin && lossless(textOf(origin));
  if (!origin || !problem) return { ...item, failure };
  const both =
    failure.code === problem.code
      ? failure.message
      : `${failure.message}; and the line is kept as text, since ${problem.message}`;
  return { id: idOf(item), failure: { ...failure, message: both, text: textOf(origin) } };
}

/** Characters; a message may quote names, and a name may be anything. */
const LONGEST_MESSAGE = 2_000;

/** What a stage does to one item of the flow, failures and untouched lines included. */
export function itemWork(spec: Stage, options: Values, work: Each): Each {
  const failed = (item: Item, error: unknown): Item => {
    if (error instanceof RangeError && /call stack/.test(error.message)) {
      error = new ItemFailure(
        'too-deep',
        'expected a line that nests at most some thousand levels, found more',
      );
    }
    if (!(error instanceof ItemFailure)) throw error;
    const { code, agent, at } = error;
    const message =
      error.message.length <= LONGEST_MESSAGE ? error.message : `${error.message.slice(0, LONGEST_MESSAGE)}…`;
    const whose = { ...(agent && { agent }), ...(at && { at }) };
    return withFailure(error.item ?? item, { stage: spec.name, ...whose, code, message });
  };
  const checked = (before: Item, after: Item): Item => {
    const origin = after === before ? undefined : originOf(before);
    const problem = origin && lossless(textOf(origin));
    if (after !== before) passRungOn(before, after);
    if (!problem) return after;
    return failed(before, new ItemFailure(problem.code, problem.message));
  };
  return item => {
    const failure = failureOf(item);
    if (passes(spec, options, failure)) return item;
    try {
      const wrong = wrongShape(item);
      if (wrong !== null) {
        if (failure !== undefined || spec.mends) return item; // where it failed before, nobody can heal this
        throw new ItemFailure('not-an-item', wrong);
      }
      const result = spec.asks ? work(entering(item)) : work(item);
      if (!(result instanceof Promise)) return checked(item, result);
      return result.catch(error => failed(item, error));
    } catch (error) {
      return failed(item, error);
    }
  };
}

const LONE_SURROGATE = /\p{Cs}/u;

/** A stage that asks holds an item for minutes: it must be an item, and must not pin the block it was read from. */
function entering(item: Item): Item {
  if (!isItem(item) || typeof item.id !== 'string') {
    throw new ItemFailure('not-an-item', 'expected an item: an id (text), and a prompt, a request or steps');
  }
  // two such ids would be one in UTF-8, and so in a ledger
  if (LONE_SURROGATE.test(item.id)) {
    const message = 'expected an id that UTF-8 can write, found half of a surrogate pair in it';
    throw new ItemFailure('id-not-utf8', message);
  }
  const origin = originOf(item);
  const problem = origin && lossless(textOf(origin));
  if (problem) throw new ItemFailure(problem.code, problem.message);
  forget(item);
  return item;
}

function passes(spec: Stage, options: Values, failure: Failure | undefined): boolean {
  if (failure === undefined) return false;
  const { heals = [] } = spec;
  return typeof heals === 'function' ? !heals(failure, options) : !heals.includes(failure.code);
}
