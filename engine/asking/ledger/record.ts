/** What is on record when a ledger is opened, and lines of it on demand. */

import { closeSync, openSync, readSync } from 'node:fs';
import { descriptors, readersOf } from '../../core/files/process.ts';
import type { Answer, AsksWith, RecordedAnswer } from '../../core/item/call.ts';
import { dataError, type Fatal } from '../../core/item/failure.ts';
import { RUNGS, type Rung, type Usage } from '../../core/item/item.ts';
import { counted } from '../../core/item/wording.ts';
import { nameFor, nameOfVerdict, unnamedIn } from './answer-identity.ts';
import type { Keys, Place } from './key-index.ts';
import {
  type Header,
  isAnswer,
  isHeader,
  isSealed,
  isStage,
  isVerdict,
  keyIn,
  readVerdict,
  roundIn,
} from './ledger-format.ts';
import { callIn, headerIn, noHeader, notUnderstood, parsed, stageIn } from './read-ledger.ts';
import { damaged, REPAIR, scan } from './scan-files.ts';

/** The number that stands for a verdict beside its key. */
export const noteFor = (rung: Rung): number => RUNGS.indexOf(rung) + 1;

export interface OnRecord {
  /** of the last run */
  header: Header | null;
  /** the last round that has an answer; 0 where no failed item was taken up again */
  lastRound: number;
  answers: number;
  stages: Map<string, { facts: AsksWith; started: string }>;
}

/** Fills `keys`; where a file is damaged, or is none of a ledger, exit 65. */
export function readRecord(
  paths: readonly string[],
  keys: Keys,
  { warn, onLine }: { warn: (message: string) => void; onLine?: () => void },
): OnRecord {
  const record: OnRecord = { header: null, lastRound: 0, answers: 0, stages: new Map() };
  let hasUnnamed = false;
  let torn = 0;
  for (const [file, path] of paths.entries()) {
    let isFirst = true;
    let header: Header | null = null;
    for (const found of scan(path)) {
      onLine?.();
      if (found.kind === 'damage') throw damaged(path, found.at);
      if (found.kind === 'torn') {
        torn += 1;
        continue;
      }
      const { at: offset, bytes } = found;
      if (isFirst) {
        record.header = headerIn(bytes);
        if (record.header === null) throw dataError(`${path}: ${noHeader(bytes, offset)}`);
        isFirst = false;
        header = record.header;
      } else if (isAnswer(bytes)) {
        const key = keyIn(bytes);
        const place = { file, offset, length: bytes.length };
        const model = unnamedIn(bytes, header);
        const isNew = keys.add(key, place);
        if (model !== null) hasUnnamed = true;
        if (model === null ? isNew : keys.add(nameFor(key, model), place)) record.answers += 1;
        record.lastRound = Math.max(record.lastRound, roundIn(bytes));
      } else if (isVerdict(bytes)) {
        const { key, verdict } = readVerdict(bytes);
        keys.note(key, noteFor(verdict));
        if (hasUnnamed) keys.note(nameOfVerdict(parsed(bytes.toString()) ?? {}, header), noteFor(verdict));
      } else if (isHeader(bytes)) {
        header = headerIn(bytes) ?? header; // of files that were put end to end
      } else if (isStage(bytes)) {
        const facts = stageIn(bytes);
        if (facts === null)
          throw dataError(
            `${path}: expected a stage as docs/ledger.md has it, found none at byte ${offset}${REPAIR}`,
          );
        record.stages.set(facts.stage, { facts, started: record.header?.started ?? '' });
      }
    }
  }
  if (torn > 0)
    warn(
      `${torn} of ${counted(paths.length, 'file')} of the ledger ${torn === 1 ? 'ends' : 'end'} in a torn line, which is passed over`,
    );
  return record;
}

/** The answers that are replayed and that no verdict refused, read once more in the order of the files. */
export function* acceptedIn(
  paths: readonly string[],
  keys: Keys,
  onLine: () => void,
): Generator<RecordedAnswer> {
  for (const [file, path] of paths.entries()) {
    for (const found of scan(path)) {
      onLine();
      if (found.kind !== 'line' || !isAnswer(found.bytes)) continue;
      const key = keyIn(found.bytes);
      const place = keys.placeOf(key);
      // two tries of one key may both have an answer: the first is replayed
      if (place?.file !== file || place.offset !== found.at) continue;
      if (keys.noteOf(key) === noteFor('failed')) continue;
      const answer = answerIn(found.bytes);
      if (answer !== null) yield answer;
    }
  }
}

export interface AnswerLine extends RecordedAnswer {
  key: string;
  usage: Usage;
}

/** The answer of a sealed line; null where it is none as docs/ledger.md has it, though its checksum fits. */
export function answerIn(bytes: Buffer): AnswerLine | null {
  const call = callIn(bytes);
  if (call?.answer === undefined || call.finish === undefined || call.usage === undefined) return null;
  const { key, agent, answer: text, whole, logprobs, finish, usage } = call;
  return { key, agent, text, ...(whole && { whole }), ...(logprobs && { logprobs }), finish, usage };
}

/** What a run says of a line that is whole and no answer. */
export function noAnswer(path: string, at: number): Fatal {
  return dataError(`${path}: ${notUnderstood(at)}${REPAIR}`);
}

/** What a name finds (see answer-identity.ts), if it is of that key; `paths` are those whose numbers the places have. */
export function answersOf(
  paths: readonly string[],
  keys: Keys,
  lines: ReturnType<typeof openLines>,
): (key: string, name: string) => Answer | null {
  return (key, name) => {
    const place = keys.placeOf(name);
    if (place === null) return null;
    const line = lines.read(place);
    if (!isSealed(line)) {
      throw dataError(
        `${paths[place.file]}: the line at byte ${place.offset} has changed since the ledger was opened`,
      );
    }
    const answer = answerIn(line);
    if (answer === null) throw noAnswer(paths[place.file] as string, place.offset);
    const { key: found, agent: _agent, ...said } = answer;
    return found === key ? { ...said, replayed: true } : null;
  };
}

/** Lines read by their places; the bytes of the last one are used again. */
export function openLines(paths: readonly string[]) {
  // a ledger may have thousands of files
  const most = readersOf(descriptors());
  const open = new Map<number, number>();
  let bytes = Buffer.allocUnsafe(1 << 12);
  return {
    read({ file, offset, length }: Place): Buffer {
      let opened = open.get(file);
      if (opened === undefined) {
        const [oldest] = open;
        if (open.size >= most && oldest) {
          closeSync(oldest[1]);
          open.delete(oldest[0]);
        }
        opened = openSync(paths[file] as string, 'r');
        open.set(file, opened);
      }
      if (bytes.length < length) bytes = Buffer.allocUnsafe(2 * length);
      return bytes.subarray(0, readSync(opened, bytes, 0, length, offset));
    },
    close(): void {
      for (const opened of open.values()) closeSync(opened);
      open.clear();
    },
  };
}
