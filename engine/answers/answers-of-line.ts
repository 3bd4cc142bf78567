/**
 * An answer in a line: how much of it an item keeps, and how it is read back. A server may send some MiB, and the next stage
 * refuses a line of that length (--max-line); so an accepted answer has a bound, and of a refused one only the beginning is
 * kept. Lines that are read come from anywhere, so whatever has another shape is left out, and nothing here throws.
 */

import { hash } from 'node:crypto';
import {
  type FullText,
  isCalls,
  isItem,
  type Repair,
  type Response,
  type WholeAnswer,
} from '../core/item/item.ts';
import { lossless } from '../core/json/lossless.ts';
import { isObject, type JsonObject, same } from '../core/json/pointer.ts';
import { applyEdits, editsOf, replay, valueEntries } from './entries.ts';

export interface Refused {
  raw: string;
  whole?: FullText;
  code: string;
  message: string;
  temperature?: number;
}

export interface Answer {
  /** JSON Pointer of the step in its line: `/steps/0`, `/decision` */
  at: string;
  agent: string;
  output?: unknown;
  /** what a server answered to a raw request */
  response?: Response;
  /** the model's text, to the letter; absent where nothing says it */
  said?: string;
  /** the output is what its agent called, and not what it said */
  isCalls?: true;
  /** the text has another hash than the model's: somebody edited it, or the output that stands for it */
  isEdited?: true;
  /** there where only the beginning of the text was kept */
  whole?: FullText;
  rung: string;
  saw: string;
  repairs: Repair[];
  calls: string[];
  attempts: number;
  round: number;
  rejected: Refused[];
  /** the name of the question, where other items of the row share it */
  shared?: string;
  /** why the last answer was not accepted */
  problem?: { code: string; message: string };
  usage?: { prompt: number; completion: number };
}

export function answersIn(line: JsonObject): Answer[] {
  const { steps, decision, agents } = line;
  if (isProvenance(line)) return list(agents).map((agent, index) => answerOf(agent, `/agents/${index}`));
  if (!isItem(line)) return [];
  const answers = list(steps).map((step, index) => answerOf(step, `/steps/${index}`));
  return isObject(decision) ? [...answers, answerOf(decision, '/decision')] : answers;
}

/** A line of `legacy-convert --provenance`. */
export function isProvenance(line: JsonObject): boolean {
  return Array.isArray(line.agents) && 'rung' in line && !isItem(line);
}

export function answerOf(step: unknown, at: string): Answer {
  const read: JsonObject = isObject(step) ? step : {};
  const { output, raw, sha256 } = read;
  const repairs = list(read.repairs).filter(isRepair);
  const isAnswered = output !== undefined && output !== null;
  const whole = isAnswered && repairs.length === 0 ? wordsOf(output) : undefined;
  const text = typeof raw === 'string' ? raw : whole;
  // an output alone may be anybody's: only the hash says that it is what the model said
  const isKnown = typeof raw === 'string' || sha256 !== undefined;
  const said = isKnown ? text : undefined;
  const answered = isResponse(read.response) ? read.response : undefined;
  const hashed = said ?? (answered && JSON.stringify(answered.body));
  const isEdited = hashed !== undefined && sha256 !== undefined && sha256 !== hashOfText(hashed);
  return {
    at,
    agent: typeof read.agent === 'string' ? read.agent : 'an agent without a name',
    ...(isAnswered && { output }),
    ...(answered && { response: answered }),
    ...(said !== undefined && { said }),
    ...(isEdited && { isEdited }),
    ...(isCalls(read) && { isCalls: true as const }),
    ...(isWhole(read.whole) && { whole: read.whole }),
    rung: typeof read.rung === 'string' ? read.rung : 'of no rung',
    saw: typeof read.saw === 'string' ? read.saw : 'of no rung',
    repairs,
    calls: list(read.calls).filter(call => typeof call === 'string'),
    attempts: typeof read.attempts === 'number' ? read.attempts : 0,
    round: typeof read.round === 'number' ? read.round : 0,
    rejected: list(read.rejected).filter(isRefused),
    ...(typeof read.shared === 'string' && { shared: read.shared }),
    ...(isProblem(read.problem) && { problem: read.problem }),
    ...(isUsage(read.usage) && { usage: read.usage }),
  };
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The entries of a record's own mark. */
export function markedRepairs({ _fw }: JsonObject): Repair[] {
  return isObject(_fw) ? list(_fw.repairs).filter(isRepair) : [];
}

export function isRepair(value: unknown): value is Repair {
  if (!isObject(value) || typeof value.rule !== 'string') return false;
  const { offset, cut, put, at } = value;
  if (offset === undefined) return typeof at === 'string' && (at === '' || at.startsWith('/'));
  return Number.isSafeInteger(offset) && typeof cut === 'string' && typeof put === 'string';
}

function isRefused(value: unknown): value is Refused {
  if (!isProblem(value)) return false;
  const { raw, whole } = value as JsonObject;
  return typeof raw === 'string' && (whole === undefined || isWhole(whole));
}

function isWhole(value: unknown): value is FullText {
  return isObject(value) && typeof value.bytes === 'number' && typeof value.sha256 === 'string';
}

function isProblem(value: unknown): value is { code: string; message: string } {
  return isObject(value) && typeof value.code === 'string' && typeof value.message === 'string';
}

function isResponse(value: unknown): value is Response {
  return isObject(value) && typeof value.status_code === 'number' && value.body !== undefined;
}

function isUsage(value: unknown): value is NonNullable<Answer['usage']> {
  return isObject(value) && typeof value.prompt === 'number' && typeof value.completion === 'number';
}

/**
 * What the entries, applied to the model's text, give; undefined where that is no JSON, or loses a value of it. An answer
 * in text is no JSON, whatever it looks like: it is given where the text itself, with the entries, is the `output`.
 */
export function givenBy(said: string, repairs: readonly Repair[], output: unknown): unknown {
  const mended = applyEdits(said, editsOf(repairs));
  if (typeof output === 'string' && replay(mended, valueEntries(repairs)) === output) return output;
  if (lossless(mended) !== null) return undefined;
  try {
    return replay(JSON.parse(mended), valueEntries(repairs));
  } catch {
    return undefined;
  }
}

/** Whether the entries, applied to the model's text, give the output; undefined where that cannot be known. */
export function isAccountedFor({
  said,
  isEdited,
  isCalls: isCalled,
  repairs,
  output,
}: Answer): boolean | undefined {
  if (isEdited) return false;
  if (isCalled) return repairs.length === 0;
  if (said === undefined || output === undefined) return undefined;
  return same(givenBy(said, repairs, output), output);
}

/** Bytes of a line that an accepted answer may take, its text and what was read from it together: five fit well. */
const MOST_ACCEPTED = 1024 * 1024;
/** Bytes of a line that a refused answer may take. */
const MOST_REFUSED = 64 * 1024;
/** UTF-8 bytes that one UTF-16 unit may become inside a JSON string: \u0001 */
const WORST = 6;

/** Whether an answer is too long for its line. */
export function isTooLong(text: string, output: unknown): boolean {
  if ((output === undefined ? 1 : 2) * WORST * text.length <= MOST_ACCEPTED) return false;
  return bytesOf(text) + (output === undefined ? 0 : bytesOf(output)) > MOST_ACCEPTED;
}

/** Whether what an answer brings along takes more of its line than an answer may. */
export function takesTooMuch(value: unknown): boolean {
  return bytesOf(value) > MOST_ACCEPTED;
}

export const TOO_LONG = `expected an answer that takes at most ${MOST_ACCEPTED} bytes of its line`;

/**
 * An answer as later agents are shown it: text as it is, any other value as JSON without spaces. A step keeps no text of
 * the model that is the same.
 */
export function wordsOf(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

export interface Said {
  text: string;
  whole?: WholeAnswer | undefined;
}

/**
 * An answer as a run and a ledger take it: of one that is too long whatever it says, no more than is kept of a refused
 * one. It is refused for its length, and so need not be there to be refused again.
 */
export function saidOf({ text, whole: known }: Said): Said {
  if (known !== undefined || !isTooLong(text, undefined)) return { text, whole: known };
  const { raw, whole } = keptOf(text);
  return { text: raw, whole: whole && { ...whole, characters: text.length } };
}

/** Hex characters of SHA-256 that a step keeps of a text which is its output as JSON. */
const HASH_LENGTH = 16;

/** What a step keeps of such a text: enough to find that somebody edited the output since. */
export function hashOfText(text: string): string {
  return hash('sha256', text, 'hex').slice(0, HASH_LENGTH);
}

/** `raw` as it is kept of a refused answer; `whole` says what it is the beginning of, where it was cut. */
export function keptOf(text: string, known?: WholeAnswer): { raw: string; whole?: FullText } {
  if (known !== undefined) return { raw: text, whole: { bytes: known.bytes, sha256: known.sha256 } };
  if (WORST * text.length <= MOST_REFUSED) return { raw: text };
  let head = text.slice(0, MOST_REFUSED);
  while (bytesOf(head) > MOST_REFUSED) head = head.slice(0, head.length / 2);
  if (head.length === text.length) return { raw: text };
  // by way of bytes, since a slice of a string keeps all of it in memory; half a pair at the end becomes U+FFFD
  const raw = Buffer.from(head).toString();
  return { raw, whole: { bytes: Buffer.byteLength(text), sha256: hash('sha256', text) } };
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
