/**
 * The ledger: every try of every call, appended before its answer is used. The same command again finds what is on
 * record and asks the rest; so it is checkpoint, cache and audit trail at once.
 */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Answer, AsksWith, End, RecordedAnswer } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { type Fatal, ioError, usageError } from '../../core/item/failure.ts';
import type { Rung } from '../../core/item/item.ts';
import { nameFor, unnamedIn } from './answer-identity.ts';
import { changedModel, changedStage, type Served } from './changes.ts';
import { filesOf } from './files.ts';
import { createKeys } from './key-index.ts';
import {
  type CallRecord,
  callLine,
  FORMAT,
  type Header,
  idOfText,
  type LineWithBytes,
} from './ledger-format.ts';
import { type Lock, type LockOptions, takeLock } from './lock.ts';
import { acceptedIn, answersOf, noteFor, openLines, readRecord } from './record.ts';
import { type Appended, createWriter, type Fsync, nameOf } from './writer.ts';

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
  /** texts of locks that nobody renews: see watch-lock.ts */
  gone?: ReadonlySet<string>;
  warn: (message: string) => void;
  /** called once when writing has failed; every append from then on is told the same */
  onBroken: (error: Fatal) => void;
}

export interface Ledger {
  /** answers on record when it was opened */
  readonly answers: number;
  /** the last round of --retry-failed that had an answer then; 0 where none had */
  readonly lastRound: number;
  /** the model of the last run */
  readonly lastModel: string | undefined;
  /** why nothing can be recorded, and so nothing asked; null where it can */
  readonly closed: Fatal | null;
  /** ms that this process has spent in writes so far */
  readonly blocked: number;
  /** Makes its file, if it is not there yet: before a call is paid for. Returns what prevents that. */
  ready(): Fatal | null;
  /** Once, before the first append: what serves. Says what has changed since the last run. */
  begin(served: Served, endpoints: readonly string[]): void;
  /** What a further stage on the same pool asks with. */
  stage(asksWith: AsksWith): void;
  /**
   * The answer to the call of this key, of this run too; where its request names no model, that of one of `asked`. Exit 65
   * where its bytes have changed since the ledger was opened.
   */
  find(key: string, asked?: readonly string[]): Answer | null;
  /** requests without a model whose answers on record are another model's */
  readonly ofOthers: { count: number; model: string };
  /** Whether there is one, of this run too. */
  has(key: string): boolean;
  /** `done` is called once the record is written, or with what stood in its way. */
  append(record: CallRecord, done?: (error?: Fatal) => void): void;
  /** Answers that an earlier run accepted which judged by older rules than this stage does; see flow's Pool. */
  acceptedBefore(asksWith: AsksWith): Iterable<RecordedAnswer>;
  /** What was made of the answer to `key`; not written again where the same is on record. */
  judge(key: string, rung: Rung, code?: Code): void;
  /** `how` is put on record, if the ledger has a file of this run. */
  close(how?: End): Promise<void>;
}

/** Exit 64 where another run has it, 65 where it is damaged, 74 where it cannot be read. */
export function openLedger(options: LedgerOptions): Ledger {
  const { path, fsync, version, label, files, asksWith, shard, gone, warn, onBroken } = options;
  const started = new Date();
  const isFile = path.endsWith('.ndjson');
  const onLost = (error: Fatal): void => writer.breakOff(error);
  const { closed, lock } = isFile
    ? alone(path)
    : locked(join(path, 'locks'), [label, files, asksWith, shard], { gone, onLost });
  const keys = createKeys();
  const { paths, record } = releasing(lock, () => {
    const found = filesOf(path);
    return { paths: found, record: readRecord(found, keys, { warn, onLine: lock.renew }) };
  });
  const own = isFile ? path : nameOf(path, started);
  const readable = [...paths, own];
  const lines = openLines(readable);
  const answerAt = answersOf(readable, keys, lines);
  const texts = new Map<string, string>();
  const stages = [asksWith];
  const ofOthers = { count: 0, model: '' };
  /** of answers to requests that name no model, whose: until they are judged */
  const unjudged = new Map<string, string>();
  let header: Header | null = null;

  const writer = createWriter({
    path: own,
    ownFolder: !isFile,
    fsync,
    onBroken,
    head: () => [header, ...stages].map(line => JSON.stringify(line).slice(0, -1)),
  });
  let begun = false;

  function textId(content: string): string {
    let id = texts.get(content);
    if (id === undefined) {
      id = idOfText(content);
      texts.set(content, id);
      write(`{"text":"${id}","content":${JSON.stringify(content)}`);
    }
    return id;
  }

  function write(line: string | LineWithBytes, done?: Appended): void {
    begun = true;
    writer.append(line, done);
  }

  function tellChanges(stage: AsksWith): void {
    const before = record.stages.get(stage.stage);
    const changes = before ? changedStage(before.facts, stage) : [];
    if (before && changes.length > 0) {
      warn(
        `since the run of ${before.started}: ${changes.join('; ')}; calls that this changes are asked again`,
      );
    }
  }

  /** Another model has answered it: it is asked again, and that is said. */
  function noteOther(key: string, asked: readonly string[]): void {
    const place = keys.placeOf(key);
    if (place === null) return;
    if (ofOthers.count++ > 0) return;
    const before = unnamedIn(lines.read(place), null) || 'another model';
    ofOthers.model = before;
    warn(
      `the ledger has answers of ${before} to requests that name no model; ${asked.join(' or ')} is asked now, so they are asked again`,
    );
  }

  return {
    answers: record.answers, // as of now: further ones are this run's
    lastRound: record.lastRound,
    lastModel: record.header?.model,
    closed,
    get blocked() {
      return writer.blocked;
    },
    ready() {
      const why = closed ?? writer.begin();
      if (why === null) begun = true;
      return why;
    },
    begin({ model, root }, endpoints) {
      header = {
        fw: FORMAT,
        version,
        started: started.toISOString(),
        host: hostname(),
        pid: process.pid,
        label,
        files,
        model,
        ...(root !== undefined && { root }),
        endpoints,
      };
      const changed = record.header && changedModel(record.header, header);
      if (changed) warn(`since the run of ${record.header?.started}: ${changed}`);
      tellChanges(asksWith);
    },
    stage(more) {
      const line = JSON.stringify(more);
      if (stages.some(known => JSON.stringify(known) === line)) return;
      tellChanges(more);
      stages.push(more);
      if (begun) write(line.slice(0, -1));
    },
    ofOthers,
    find(key, asked) {
      if (asked === undefined) return answerAt(key, key);
      for (const model of asked) {
        const answer = answerAt(key, nameFor(key, model));
        if (answer !== null) unjudged.set(key, model);
        if (answer !== null) return answer;
      }
      noteOther(key, asked);
      return null;
    },
    has: key => keys.placeOf(key) !== null,
    acceptedBefore({ stage, rules }) {
      const facts = [...record.stages.values()].map(known => known.facts);
      const isOlder = (known: AsksWith): boolean => (known.rules ?? 1) < (rules ?? 1);
      const last = record.stages.get(stage)?.facts;
      if (last ? !isOlder(last) : !facts.some(isOlder)) return [];
      return acceptedIn(paths, keys, lock.renew);
    },
    append(call, done) {
      const { key, outcome } = call;
      const [head, tail] = call.raw ? ['', ''] : [textId(call.head), textId(call.tail)];
      write(callLine(call, head, tail), (error, offset, length) => {
        // another item of this run may ask the same again, and is to hear what a later run would
        if (error === null && outcome === 'answer') {
          const place = { file: paths.length, offset, length };
          keys.add(key, place);
          if (call.unnamed) {
            keys.add(nameFor(key, call.model), place);
            unjudged.set(key, call.model);
          }
        }
        done?.(error ?? undefined);
      });
    },
    judge(key, rung, code) {
      const model = unjudged.get(key);
      unjudged.delete(key);
      const name = model === undefined ? key : nameFor(key, model);
      if (closed !== null || keys.noteOf(name) === noteFor(rung)) return;
      keys.note(name, noteFor(rung));
      const of = model === undefined ? '' : `,"model":${JSON.stringify(model)}`;
      write(`{"verdict":"${rung}","key":"${key}"${code === undefined ? '' : `,"code":"${code}"`}${of}`);
    },
    async close(how) {
      if (begun && how !== undefined) write(`{"end":"${how}","time":"${new Date().toISOString()}"`);
      await writer.close();
      lines.close();
      lock.release();
    },
  };
}

/** Who cannot read the ledger must not keep it from those who come to repair it. */
function releasing<T>(lock: Lock, work: () => T): T {
  try {
    return work();
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface Locked {
  closed: Fatal | null;
  lock: Lock;
}

const NO_LOCK: Lock = { renew: () => {}, release: () => {} };

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
  const why = `${path}: a ledger of one file is written once, and this call is not in it; a folder takes further runs`;
  return { closed: isThere ? usageError(why) : null, lock: NO_LOCK };
}
