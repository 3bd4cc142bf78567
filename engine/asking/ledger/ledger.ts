/**
 * The ledger: every try of every call, appended before its answer is used. The same command again finds what is on
 * record and asks the rest; so it is checkpoint, cache and audit trail at once.
 */

import { existsSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isRemote } from '../../core/files/input-files.ts';
import type { Answer, AsksWith, End, RecordedAnswer } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { type Fatal, ioError, usageError } from '../../core/item/failure.ts';
import type { Rung } from '../../core/item/item.ts';
import { nameFor, type Place } from './key-index.ts';
import {
  type CallRecord,
  callLine,
  FORMAT,
  type Header,
  idOfText,
  type LineWithBytes,
  type Served,
} from './ledger-format.ts';
import { type Lock, type LockOptions, takeLock } from './lock.ts';
import {
  Answers,
  acceptedIn,
  changedModel,
  changedStage,
  noteFor,
  type OnRecord,
  readRecord,
} from './record.ts';
import { filesOf } from './scan-files.ts';
import { type Appended, type Fsync, nameOf, Writer, type WriterOptions } from './writer.ts';

export interface LedgerOptions {
  /** a folder, or one file that ends in .ndjson: that is written once, and from then on only read */
  path: string;
  fsync: Fsync;
  /** of fw */
  version: string;
  /** what the run calls itself, and the files that it reads: with what it asks they are what may run once at a time */
  label: string;
  files: readonly string[];
  asksWith: AsksWith;
  /** sets runs apart that share the work of one input, such as the tasks of a job array */
  shard: string | undefined;
  /** texts of locks that nobody renews: see `whenFree` */
  gone?: ReadonlySet<string>;
  warn: (message: string) => void;
  /** called once when writing has failed; every append from then on is told the same */
  onBroken: (error: Fatal) => void;
}

export type Ledger = ReturnType<typeof openLedger>;

/** Exit 64 where another run has it, 65 where it is damaged, 74 where it cannot be read. */
export function openLedger(options: LedgerOptions) {
  const { path, fsync, version, label, files, asksWith, shard, gone, warn, onBroken } = options;
  if (isRemote(path)) throw usageError(`--ledger: expected a folder on disk, found an address: ${path}`);
  const started = new Date();
  const isFile = path.endsWith('.ndjson');
  const onLost = (error: Fatal): void => lines.breakOff(error);
  const { closed, lock } = isFile
    ? alone(path)
    : locked(join(path, 'locks'), [label, files, asksWith, shard], { gone, onLost });
  const own = isFile ? path : nameOf(path, started);
  const { paths, calls, record } = releasing(lock, () => {
    const paths = filesOf(path);
    const calls = new RunCalls([...paths, own], warn);
    return { paths, calls, record: readRecord(paths, calls.keys, { warn, onLine: lock.renew }) };
  });
  const lines = new RunLines({ path: own, ownFolder: !isFile, fsync, onBroken }, asksWith);

  return {
    /** answers on record when it was opened */
    answers: record.answers,
    /** the last round of --retry-failed that had an answer then; 0 where none had */
    lastRound: record.lastRound,
    /** the model of the last run */
    lastModel: record.header?.model,
    /** why nothing can be recorded, and so nothing asked; null where it can */
    closed,
    /** requests without a model whose answers on record are another model's */
    ofOthers: calls.ofOthers,
    /** ms that this process has spent in writes so far */
    get blocked(): number {
      return lines.blocked;
    },
    /** Makes its file, if it is not there yet: before a call is paid for. Returns what prevents that. */
    ready: (): Fatal | null => closed ?? lines.ready(),
    /** Once, before the first append: what serves. Says what has changed since the last run. */
    begin({ model, root }: Served, endpoints: readonly string[]): void {
      const header: Header = {
        ...{ fw: FORMAT, version, started: started.toISOString(), host: hostname(), pid: process.pid },
        ...{ label, files, model, ...(root !== undefined && { root }), endpoints },
      };
      lines.header = header;
      const changed = record.header && changedModel(record.header, header);
      if (changed) warn(`since the run of ${record.header?.started}: ${changed}`);
      warnOfChanges(record, asksWith, warn);
    },
    /** What a further stage on the same pool asks with. */
    stage(more: AsksWith): void {
      if (lines.hasStage(more)) return;
      warnOfChanges(record, more, warn);
      lines.addStage(more);
    },
    /**
     * The answer to the call of this key, of this run too; where its request names no model, that of one of `asked`. Exit 65
     * where its bytes have changed since the ledger was opened.
     */
    find: (key: string, asked?: readonly string[]): Answer | null =>
      asked === undefined ? calls.find(key) : calls.findOf(asked, key),
    /** Whether there is one, of this run too. */
    has: (key: string): boolean => calls.keys.placeOf(key) !== null,
    /** Answers that an earlier run accepted which judged by older rules than this stage does; see flow's Pool. */
    acceptedBefore: (asksWith: AsksWith): Iterable<RecordedAnswer> =>
      wasJudgedByOlderRules(record, asksWith) ? acceptedIn(paths, calls.keys, lock.renew) : [],
    /** `done` is called once the record is written, or with what stood in its way. */
    append: (call: CallRecord, done?: (error?: Fatal) => void): void =>
      lines.call(call, (error, offset, length) => {
        if (error === null) calls.add(call, { file: paths.length, offset, length });
        done?.(error ?? undefined);
      }),
    /** What was made of the answer to `key`; not written again where the same is on record. */
    judge(key: string, rung: Rung, code?: Code): void {
      const line = closed === null ? calls.verdict(key, rung, code) : null;
      if (line !== null) lines.write(line);
    },
    /** `how` is put on record, if the ledger has a file of this run. */
    async close(how?: End): Promise<void> {
      await lines.close(how);
      calls.close();
      lock.release();
    },
  };
}

function warnOfChanges({ stages }: OnRecord, stage: AsksWith, warn: (message: string) => void): void {
  const before = stages.get(stage.stage);
  const changes = before ? changedStage(before.facts, stage) : [];
  if (changes.length === 0) return;
  warn(`since the run of ${before?.started}: ${changes.join('; ')}; calls that this changes are asked again`);
}

function wasJudgedByOlderRules({ stages }: OnRecord, { stage, rules }: AsksWith): boolean {
  const isOlder = (known: AsksWith): boolean => (known.rules ?? 1) < (rules ?? 1);
  const last = stages.get(stage)?.facts;
  return last ? isOlder(last) : [...stages.values()].some(({ facts }) => isOlder(facts));
}

/** What is on record, of this run too, and whose an answer is whose request names no model. */
class RunCalls extends Answers {
  readonly ofOthers = { count: 0, model: '' };
  /** of answers to requests that name no model, whose: until they are judged */
  readonly #unjudged = new Map<string, string>();
  readonly #warn: (message: string) => void;

  constructor(paths: readonly string[], warn: (message: string) => void) {
    super(paths);
    this.#warn = warn;
  }

  /** The answer of one of the models `asked`, to a request that names none. */
  findOf(asked: readonly string[], key: string): Answer | null {
    for (const model of asked) {
      const answer = this.find(key, nameFor(key, model));
      if (answer !== null) this.#unjudged.set(key, model);
      if (answer !== null) return answer;
    }
    const other = this.ofOthers.count > 0 ? null : this.modelOf(key);
    if (this.keys.placeOf(key) !== null) this.ofOthers.count += 1;
    if (other === null) return null;
    this.ofOthers.model = other;
    this.#warn(
      `the ledger has answers of ${other} to requests that name no model; ${asked.join(' or ')} is asked now, so they are asked again`,
    );
    return null;
  }

  /** Another item of this run may ask the same again, and is to hear what a later run would. */
  add({ key, outcome, unnamed, model }: CallRecord, place: Place): void {
    if (outcome !== 'answer') return;
    this.keys.add(key, place);
    if (!unnamed) return;
    this.keys.add(nameFor(key, model), place);
    this.#unjudged.set(key, model);
  }

  /** The line of a verdict; null where the same is on record. */
  verdict(key: string, rung: Rung, code: Code | undefined): string | null {
    const model = this.#unjudged.get(key);
    this.#unjudged.delete(key);
    const name = model === undefined ? key : nameFor(key, model);
    if (this.keys.noteOf(name) === noteFor(rung)) return null;
    this.keys.note(name, noteFor(rung));
    const of = model === undefined ? '' : `,"model":${JSON.stringify(model)}`;
    return `{"verdict":"${rung}","key":"${key}"${code === undefined ? '' : `,"code":"${code}"`}${of}`;
  }
}

/** The lines of this run: its header and its stages first, and each text before the first call that names it. */
class RunLines {
  header: Header | null = null;
  readonly #writer: Writer;
  readonly #stages: AsksWith[];
  readonly #texts = new Map<string, string>();
  #begun = false;

  constructor(options: Omit<WriterOptions, 'head'>, asksWith: AsksWith) {
    this.#stages = [asksWith];
    const head = (): string[] =>
      [this.header, ...this.#stages].map(line => JSON.stringify(line).slice(0, -1));
    this.#writer = new Writer({ ...options, head });
  }

  get blocked(): number {
    return this.#writer.blocked;
  }

  ready(): Fatal | null {
    const why = this.#writer.begin();
    if (why === null) this.#begun = true;
    return why;
  }

  hasStage(stage: AsksWith): boolean {
    const line = JSON.stringify(stage);
    return this.#stages.some(known => JSON.stringify(known) === line);
  }

  addStage(stage: AsksWith): void {
    this.#stages.push(stage);
    if (this.#begun) this.write(JSON.stringify(stage).slice(0, -1));
  }

  call(record: CallRecord, done: Appended): void {
    const [head, tail] = record.raw ? ['', ''] : [this.#textId(record.head), this.#textId(record.tail)];
    this.write(callLine(record, head, tail), done);
  }

  write(line: string | LineWithBytes, done?: Appended): void {
    this.#begun = true;
    this.#writer.append(line, done);
  }

  breakOff(error: Fatal): void {
    this.#writer.breakOff(error);
  }

  async close(how: End | undefined): Promise<void> {
    if (this.#begun && how !== undefined) this.write(`{"end":"${how}","time":"${new Date().toISOString()}"`);
    await this.#writer.close();
  }

  #textId(content: string): string {
    let id = this.#texts.get(content);
    if (id === undefined) {
      id = idOfText(content);
      this.#texts.set(content, id);
      this.write(`{"text":"${id}","content":${JSON.stringify(content)}`);
    }
    return id;
  }
}

/** Who cannot read the ledger must not keep it from those who come to repair it. */
function releasing<T>(lock: Pick<Lock, 'release'>, work: () => T): T {
  try {
    return work();
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface Locked {
  closed: Fatal | null;
  lock: typeof NO_LOCK;
}

const NO_LOCK: Pick<Lock, 'renew' | 'release'> = { renew: () => {}, release: () => {} };

/** A ledger that cannot be written to can still be replayed from. */
function locked(folder: string, what: unknown, options: LockOptions): Locked {
  try {
    return { closed: null, lock: takeLock(folder, what, options) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const why = `expected a ledger that can be written to, found ${message}`;
    return { closed: ioError(why), lock: NO_LOCK };
  }
}

function alone(path: string): Locked {
  const isThere = statSync(path, { throwIfNoEntry: false }) !== undefined;
  const why = `${path}: a single file of a ledger takes no new answers, and this call is not in it; name the folder instead`;
  return { closed: isThere ? usageError(why) : null, lock: NO_LOCK };
}

/** A ledger that is only looked into: without a lock, and without a file of its own. */
export type Recorded = ReturnType<typeof openRecorded>;

/** Of `path`, a folder or one file; nothing is on record where it is not there. Exit 65 where it is damaged. */
export function openRecorded(path: string, warn: (message: string) => void) {
  const paths = existsSync(path) ? filesOf(path) : [];
  const calls = new Answers(paths);
  const record = readRecord(paths, calls.keys, { warn });
  return {
    lastRound: record.lastRound,
    /** of the last run */
    lastModel: record.header?.model,
    has: (key: string): boolean => calls.keys.placeOf(key) !== null,
    /** The answer to the call of this key; `model`: who was asked, where the request names nobody. */
    find: (key: string, model?: string): Answer | null =>
      calls.find(key, model === undefined ? key : nameFor(key, model)),
    close: (): void => calls.close(),
  };
}
