/**
 * Batches that run. Each does so as fw batch runs it: ingest, and behind it who answers. It ends with all of its lines
 * written, or before that: paused by a stop of the server, or broken by its disk.
 */
import { join } from 'node:path';
import { type Disk, replaceFile } from '../../../engine/core/files/durable.ts';
import { EXIT, fatalOf } from '../../../engine/core/item/failure.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { run, type Stopper } from '../../../engine/running/run.ts';
import { placed } from '../../../engine/running/stage-options.ts';
import ingest from '../../../stages/ingest.ts';
import { isStopping } from '../errors.ts';
import type { Names } from '../gateway/served-models.ts';
import { recalled } from '../small-files.ts';
import { aliasLines } from './alias-lines.ts';
import type { Answerers, AnsweringOptions } from './answerers.ts';
import {
  type Ending,
  linesInto,
  newTally,
  onTop,
  type Progress,
  pathsIn,
  withTally,
} from './batch-output.ts';
import type { BatchRecord } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import type { Forecasts } from './forecasts.ts';

export type Outcome = 'whole' | 'paused' | { broken: string };

const PAUSED: Stopper = { name: 'a stop of the server', exit: 143 };

/** Where it has an `ending`, nothing of it is asked from the beginning. */
export function startRun(
  options: Omit<AnsweringOptions, 'ending' | 'onSpent' | 'onFresh'> & { names: Names },
  answerers: Answerers,
  ending: Ending | null,
) {
  const { record, input, folder, maxLine, grace, names } = options;
  const tally = newTally();
  let stop: ((by: Stopper) => void) | undefined;
  let late: NodeJS.Timeout | undefined;
  let isPaused = false;
  let said = '';
  /** ids of lines that are on their way out */
  const fresh = new Set<string>();
  const answering = answerers.answering({
    ...options,
    ...{ ending: () => ending, onSpent: () => end('spent'), onFresh: id => void fresh.add(id) },
  });

  const ended = run({
    label: record.id,
    row: [
      // its lines were looked at before, when it was validated
      placed(ingest, { format: 'openai-batch', 'skip-invalid': true, 'max-line': maxLine }),
      ...(names.aliases.length > 0 ? [placed(aliasLines(names), {})] : []),
      answering.placed,
    ],
    files: [input],
    base: folder,
    toNext: false,
    ledger: false,
    openPool: async asked => answering.openPool(asked),
    output: onBroken =>
      linesInto(pathsIn(folder), { tally, isFresh: id => fresh.delete(id) }, () => ending, onBroken),
    say(message) {
      said = message;
    },
    stoppable(act) {
      stop = act;
      if (isPaused) act(PAUSED);
      return () => {
        stop = undefined;
      };
    },
  }).then(
    ({ exit }): Outcome => {
      if (exit === EXIT.ok || exit === EXIT.failed) return 'whole';
      return isPaused && exit === PAUSED.exit ? 'paused' : { broken: said };
    },
    (error): Outcome => {
      const { message, exit } = fatalOf(error);
      if (exit === EXIT.bug) throw error;
      return { broken: message };
    },
  );
  /** Asks nothing more; what has no answer yet gets the error of `why`. What is under way has the grace, or ends as it would. */
  function end(why: Ending): void {
    if (ending !== null) return;
    ending = why;
    answering.stop();
    if (why !== 'spent') late = setTimeout(answering.abort, grace);
  }

  return {
    /** with what has come back so far, over what had come back before it */
    onto: (seen: BatchRecord): BatchRecord => withTally(withTally(seen, onTop(record, tally)), tally),
    /** what has come back of it alone */
    tally,
    get ending(): Ending | null {
      return ending;
    },
    end,
    hold: answering.hold,
    /** Stops where it is, to be run again. */
    pause(): void {
      isPaused = true;
      stop?.(PAUSED);
    },
    ended: ended.finally(() => clearTimeout(late)),
  };
}

export type BatchRun = ReturnType<typeof startRun>;

/** Each has blocks of its file and requests in memory. */
export const MOST_RUNNING = 24;
/** lines of one that has little in memory: it runs beside so many, up to four times as many in all */
const SMALL = 1_000;

type Order = Pick<Forecasts, 'weightOf' | 'isFirst'>;

/** Batches that run at once, and whose turn it is where more wait. */
export class Turns {
  /** by id of the batch */
  readonly running = new Map<string, BatchRun>();
  /** of these, whether who answers them is there */
  readonly #served = new Map<string, boolean>();
  readonly #store: Pick<BatchStore, 'of'>;
  readonly #answerers: Pick<Answerers, 'areThere'>;
  readonly #order: Order;

  constructor(store: Pick<BatchStore, 'of'>, answerers: Pick<Answerers, 'areThere'>, order: Order) {
    this.#store = store;
    this.#answerers = answerers;
    this.#order = order;
  }

  begin(record: BatchRecord, run: BatchRun): void {
    this.running.set(record.id, run);
    this.#served.set(record.id, this.#answerers.areThere(record));
  }

  end(id: string): void {
    this.running.delete(id);
    this.#served.delete(id);
  }

  /**
   * Where more wait than run at once, those of the owner with the fewest come first, and of these the oldest. Those that
   * no worker serves do not keep others waiting. One that has to be first to keep its window waits for none of them, while
   * there is memory.
   */
  hasTurn(record: BatchRecord): boolean {
    const { owner, id, counts } = record;
    const most = counts.total <= SMALL ? 4 * MOST_RUNNING : MOST_RUNNING;
    if (this.running.size < (this.#order.isFirst(record) ? 2 * most : most)) return true;
    const isLike = this.#answerers.areThere(record);
    const others = [...this.#served]
      .filter(([, isServed]) => isServed === isLike)
      .map(([other]) => this.#store.of(other));
    return others.length < most || others.every(other => other.owner !== owner || other.id === id);
  }

  /** `words`: why it waits behind others; null where it may begin. */
  of(record: BatchRecord): { isRunning: boolean; words: string | null } {
    const isRunning = this.running.has(record.id);
    const mayBegin = isRunning || this.hasTurn(record);
    return {
      isRunning,
      words: mayBegin ? null : `waits until one of the ${MOST_RUNNING} that run has ended`,
    };
  }

  /**
   * As the pool gives places: owners in equal parts, and each to its batches by their weight; but no less than an equal part,
   * so that the others fill the places that one before them leaves free.
   */
  shareOf(record: BatchRecord): number {
    const all = [...this.running.keys()].map(id => this.#store.of(id));
    const owners = new Set(all.map(({ owner }) => owner)).size;
    const own = all.filter(({ owner }) => owner === record.owner);
    const weightOf = (one: BatchRecord): number => this.#order.weightOf(one);
    const sum = own.reduce((total, one) => total + weightOf(one), 0);
    return sum === 0 ? 1 : Math.max(weightOf(record) / sum, 1 / own.length) / owners;
  }

  /** Who answers them may have come or gone. */
  look(): void {
    for (const id of this.running.keys()) this.#served.set(id, this.#answerers.areThere(this.#store.of(id)));
  }
}

/**
 * What has come back of the batches that run, as somebody may see it: DIR/progress.json, written before it is shown. A
 * server that is killed and started again has it when it begins to go through its ledgers.
 */
export class Shown {
  readonly #path: string;
  readonly #disk: Disk;
  readonly #say: Say;
  #kept: Map<string, Progress>;
  #isTold = false;
  #text: string;

  constructor(data: string, { disk, open }: Pick<BatchStore, 'disk' | 'open'>, say: Say) {
    this.#say = say;
    this.#path = join(data, 'progress.json');
    this.#disk = disk;
    const ids = new Set(open().map(({ id }) => id));
    this.#kept = new Map([...readProgress(this.#path)].filter(([id]) => ids.has(id)));
    this.#text = this.#now();
  }

  /** as it may be seen */
  of<R extends BatchRecord>(record: R): R {
    const kept = this.#kept.get(record.id);
    return kept === undefined ? record : withTally(record, kept);
  }

  /** `records`: those that run, with all that has come back. A disk that takes nothing takes nothing back either, while this process lives. */
  keep(records: readonly BatchRecord[]): void {
    const kept = new Map(this.#kept);
    for (const { id, counts, usage, failures } of records)
      kept.set(id, { counts: { ...counts }, usage: { ...usage }, failures: structuredClone(failures) });
    this.#kept = kept;
    this.#write();
  }

  /** Its record has all of it. */
  forget(id: string): void {
    this.#kept.delete(id);
  }

  #now(): string {
    const all = [...this.#kept].map(([id, { counts, usage }]) => [id, { counts, usage }] as const);
    return JSON.stringify(Object.fromEntries(all));
  }

  #write(): void {
    const text = this.#now();
    if (text === this.#text) return;
    try {
      replaceFile(this.#path, text, this.#disk);
      this.#text = text;
      this.#isTold = false;
    } catch (error) {
      if (isStopping(error)) return;
      const words = `${this.#path}: expected to be written, found ${(error as Error).message}; a kill would take back progress`;
      if (!this.#isTold) this.#say(words, { event: 'disk', level: 'warn' });
      this.#isTold = true;
    }
  }
}

/** Nothing where there is none that a server wrote: it is shown again once the ledgers are read. */
function readProgress(path: string): Map<string, Progress> {
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const has = (of: unknown, names: readonly string[]): boolean =>
    isObject(of) && names.every(name => isCount(of[name]));
  const isProgress = (one: unknown): boolean =>
    isObject(one) && has(one.counts, COUNTS) && has(one.usage, USAGE);
  const read = recalled<Record<string, Progress>>(path, isObject) ?? {};
  return new Map(Object.entries(read).filter(([, one]) => isProgress(one)));
}

const COUNTS = ['completed', 'failed'];
const USAGE = ['input', 'cached', 'output', 'reasoning'];
