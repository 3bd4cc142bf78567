import type { Answer, AsksWith, RecordedAnswer } from '../../core/item/call.ts';
import { dataError } from '../../core/item/failure.ts';
import { RUNGS, type Rung } from '../../core/item/item.ts';
import { counted } from '../../core/item/wording.ts';
import { createKeys, type Keys, nameFor, nameOfVerdict, unnamedIn } from './key-index.ts';
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
  type Served,
} from './ledger-format.ts';
import { answerIn, headerIn, noHeader, notUnderstood, openLines, parsed, stageIn } from './read-ledger.ts';
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
      `${torn} of ${counted(paths.length, 'file')} of the ledger ${torn === 1 ? 'ends' : 'end'} in a torn line, which is skipped`,
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

/** What is on record of calls, by what finds it (see key-index.ts); `paths` are those whose numbers the places have. */
export class Answers {
  readonly keys = createKeys();
  readonly #paths: readonly string[];
  readonly #lines: ReturnType<typeof openLines>;

  constructor(paths: readonly string[]) {
    this.#paths = paths;
    this.#lines = openLines(paths);
  }

  /** What a name finds, if it is of that key; null where nothing is. */
  find(key: string, name = key): Answer | null {
    const place = this.keys.placeOf(name);
    if (place === null) return null;
    const line = this.#lines.read(place);
    const where = `the line at byte ${place.offset}`;
    const path = this.#paths[place.file];
    if (!isSealed(line)) throw dataError(`${path}: ${where} has changed since the ledger was opened`);
    const answer = answerIn(line);
    if (answer === null) throw dataError(`${path}: ${notUnderstood(place.offset)}${REPAIR}`);
    const { key: found, agent: _agent, ...given } = answer;
    return found === key ? { ...given, replayed: true } : null;
  }

  /** The first of the models that gave a key an answer, in words; null where it has none. */
  modelOf(key: string): string | null {
    const place = this.keys.placeOf(key);
    return place && (unnamedIn(this.#lines.read(place), null) || 'another model');
  }

  close(): void {
    this.#lines.close();
  }
}

/**
 * What of a run has changed since the last one on the same ledger: told before anything is asked. In words, each a
 * change that lets calls be asked again; none where nothing that is known has changed.
 */
export function changedStage(before: AsksWith, now: AsksWith): string[] {
  const changes: string[] = [];
  for (const [agent, facts] of Object.entries(now.agents)) {
    const old = before.agents[agent];
    if (old === undefined) {
      changes.push(`${agent} is new`);
      continue;
    }
    const parts = (['persona', 'schema', 'sampling', 'model'] as const).filter(
      part => old[part] !== facts[part],
    );
    if (parts.length > 0) changes.push(`${agent}: ${parts.join(' and ')} changed`);
  }
  for (const agent of Object.keys(before.agents)) {
    if (now.agents[agent] === undefined) changes.push(`${agent} is gone`);
  }
  for (const name of new Set([...Object.keys(now.options), ...Object.keys(before.options)])) {
    const [old, value] = [before.options[name], now.options[name]];
    if (old !== value) changes.push(`${name}: ${old ?? 'none'} before, ${value ?? 'none'} now`);
  }
  return changes;
}

/** Two names of models where the endpoints serve another one, or another one under the same name; else null. */
export function changedModel(before: Served, now: Served): string | null {
  if (before.model !== now.model) return `the model was ${before.model} and is ${now.model}`;
  if (before.root === undefined || now.root === undefined || before.root === now.root) return null;
  return `the name ${now.model} meant ${before.root} and now means ${now.root}: the answers on record are those of ${before.root}`;
}
