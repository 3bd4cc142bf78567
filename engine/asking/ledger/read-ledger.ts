/**
 * Reading a ledger for the record and not for a run: what is no line of it is told and passed over, and no line is
 * believed to be what it begins like. Memory is bounded whatever the files hold.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { descriptors, readersOf } from '../../core/files/process.ts';
import type { AsksWith, RecordedAnswer } from '../../core/item/call.ts';
import { dataError, EXIT, Fatal } from '../../core/item/failure.ts';
import { besideOf, type Usage } from '../../core/item/item.ts';
import { counted, cut } from '../../core/item/wording.ts';
import { isObject } from '../../core/json/pointer.ts';
import type { Place } from './key-index.ts';
import { type CallLine, FORMAT, type Header, isCall, isHeader, withoutRequest } from './ledger-format.ts';
import { filesOf, type LedgerPart, scan } from './scan-files.ts';

/** What of a ledger cannot be read. A torn tail is none: nothing that anybody used is lost with it. */
export interface LedgerDamage {
  path: string;
  kind: 'damage' | 'torn' | 'unreadable';
  /** bytes: where it begins and how much it is; 0 and 0 where the file as a whole is meant */
  at: number;
  length: number;
  message: string;
}
export type Tell = (trouble: LedgerDamage) => void;

export interface Line {
  at: number;
  /** without its newline; used again for the next line */
  bytes: Buffer;
  /** of the run that wrote it; null where its header is lost */
  header: Header | null;
}

/** The files of a ledger. Exit 65 where there is nothing at `path`. */
export function ledgerFiles(path: string, tell: Tell): string[] {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    throw dataError(`expected a ledger at ${path}, found nothing there; --ledger DIR or FW_LEDGER names one`);
  }
  return filesOf(path, (at, why) => tell(unreadable(at, `expected a part of the ledger, found ${why}`)));
}

/**
 * The whole lines of a file, headers too; files put end to end are read as what they were. `from`: where a line begins that
 * was not there when the file was read before, and the header that holds there.
 */
export function* linesOf(
  path: string,
  tell: Tell,
  from: { at: number; header: Header | null } = { at: 0, header: null },
): Generator<Line> {
  let { header } = from;
  let isFirst = true;
  try {
    for (const found of scan(path, from.at)) {
      if (found.kind !== 'line') {
        tell({ path, ...found, message: wordsOf(found) });
        continue;
      }
      const { at, bytes } = found;
      if (isHeader(bytes)) {
        header = headerIn(bytes);
        if (header === null)
          return tell({ path, kind: 'damage', at, length: 0, message: noHeader(bytes, at) });
      } else if (isFirst && at === 0) tell({ path, kind: 'damage', at, length: 0, message: NO_HEADER });
      isFirst = false;
      yield { at, bytes, header };
    }
  } catch (error) {
    if (!(error instanceof Fatal)) throw error;
    const { message, exit } = error;
    const words = message.replace(`${path}: `, '');
    tell(
      exit === EXIT.io ? unreadable(path, words) : { path, kind: 'damage', at: 0, length: 0, message: words },
    );
  }
}

const NO_HEADER = `expected {"fw":"${FORMAT}", which begins a run's lines, found none`;

/** What is wrong with a line that should be a header: `headerIn` finds none. */
export function noHeader(bytes: Buffer, at: number): string {
  const format = parsed(bytes.toString())?.fw;
  if (typeof format !== 'string' || format === FORMAT) return `${NO_HEADER} at byte ${at}`;
  return `expected a ledger of the format "${FORMAT}", found one of "${cut(format, 40)}" at byte ${at}, of another version of fw`;
}

function unreadable(path: string, message: string): LedgerDamage {
  return { path, kind: 'unreadable', at: 0, length: 0, message };
}

function wordsOf({ kind, at, length }: Exclude<LedgerPart, { kind: 'line' }>): string {
  if (kind === 'torn') return `a torn line of ${counted(length, 'byte')} at byte ${at}, which was never used`;
  return `expected whole lines, found ${counted(length, 'byte')} of damage at byte ${at}`;
}

/** null where the line is no header as docs/ledger.md has it. */
export function headerIn(bytes: Buffer): Header | null {
  const header = parsed(bytes.toString());
  if (header === null || header.fw !== FORMAT) return null;
  const { started, host, label, model, endpoints } = header;
  const isKnown = [started, host, label, model].every(text => typeof text === 'string');
  return isKnown && isTexts(endpoints) ? (header as unknown as Header) : null;
}

const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every(one => typeof one === 'string');

/** null where the line is no stage as docs/ledger.md has it. */
export function stageIn(bytes: Buffer): AsksWith | null {
  const line = parsed(bytes.toString());
  const { stage, agents, options } = line ?? {};
  if (typeof stage !== 'string' || !isObject(agents) || !isObject(options)) return null;
  return Object.values(agents).every(isObject) ? (line as unknown as AsksWith) : null;
}

/** A call line but its request, which is the larger part of it. */
export type CallHead = Omit<CallLine, 'request'>;

/** null where the line is no call line as docs/ledger.md has it. */
export function callIn(bytes: Buffer): CallHead | null {
  const call = parsed(withoutRequest(bytes));
  if (call === null) return null;
  const { key, outcome, time, endpoint, model, item, agent, round, attempt, ms } = call;
  const { answer, whole, logprobs, finish, usage } = call;
  const texts = [key, outcome, time, endpoint, model, item, agent];
  const numbers = [round, attempt, ms];
  if (outcome === 'answer') {
    if (!isObject(usage) || (whole !== undefined && !isWhole(whole))) return null;
    if (logprobs !== undefined && !Array.isArray(logprobs)) return null;
    if (!isBeside(call)) return null;
    texts.push(answer, finish);
  }
  if (usage !== undefined) {
    if (!isObject(usage)) return null;
    numbers.push(usage.prompt, usage.completion, usage.cached ?? 0);
  }
  const isKnown = texts.every(text => typeof text === 'string') && numbers.every(Number.isSafeInteger);
  return isKnown ? (call as unknown as CallHead) : null;
}

/** What a model said beside its answer, as a line has it. */
function isBeside({ tool_calls, reasoning, reasoning_whole }: Record<string, unknown>): boolean {
  const isList = Array.isArray(tool_calls) && tool_calls.length > 0 && tool_calls.every(isObject);
  return (
    (tool_calls === undefined || isList) &&
    (reasoning === undefined || typeof reasoning === 'string') &&
    (reasoning_whole === undefined || isObject(reasoning_whole))
  );
}

function isWhole(value: unknown): boolean {
  const { bytes, sha256, characters } = isObject(value) ? value : {};
  return Number.isSafeInteger(bytes) && Number.isSafeInteger(characters) && typeof sha256 === 'string';
}

/** The calls of a file, each with its line; `texts` are told of every line. */
export function* callsOf(
  path: string,
  tell: Tell,
  texts?: { note(line: Line): void },
): Generator<Line & { call: CallHead }> {
  for (const line of linesOf(path, tell)) {
    texts?.note(line);
    if (!isCall(line.bytes)) continue;
    const call = callIn(line.bytes);
    if (call !== null) yield { ...line, call };
    else
      tell({ path, kind: 'damage', at: line.at, length: line.bytes.length, message: notUnderstood(line.at) });
  }
}

export const notUnderstood = (at: number): string =>
  `expected a call as docs/ledger.md has it, found none at byte ${at}`;

export function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
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
  if (call.forgotten) return null;
  const { key, agent, answer: text, whole, logprobs, finish, usage } = call;
  const answer = { key, agent, text, ...(whole && { whole }), ...(logprobs && { logprobs }), finish, usage };
  return Object.assign(answer, besideOf(call));
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
