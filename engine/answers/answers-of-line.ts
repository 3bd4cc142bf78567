/**
 * The answers in a line, read for a person: of an item its steps and its decision, of a line of `legacy-convert
 * --provenance` what it says of each agent. Lines come from anywhere, so whatever has another shape is left out, and
 * nothing here throws.
 */
import { type FullText, isItem, type Repair, type Response } from '../core/item/item.ts';
import { lossless } from '../core/json/lossless.ts';
import { isObject, type JsonObject, same } from '../core/json/pointer.ts';
import { hashOfText, wordsOf } from './answer-limits.ts';
import { applyEdits, type Edit } from './edits.ts';
import { replay, valueEntries } from './trace.ts';

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
  const read = isObject(step) ? step : {};
  const {
    agent,
    output,
    response,
    raw,
    sha256,
    whole: all,
    rung,
    saw,
    calls,
    attempts,
    round,
    rejected,
    problem,
    usage,
    shared,
  } = read;
  const repairs = list(read.repairs).filter(isRepair);
  const isAnswered = output !== undefined && output !== null;
  const whole = isAnswered && repairs.length === 0 ? wordsOf(output) : undefined;
  const text = typeof raw === 'string' ? raw : whole;
  // an output alone may be anybody's: only the hash says that it is what the model said
  const isKnown = typeof raw === 'string' || sha256 !== undefined;
  const said = isKnown ? text : undefined;
  const answered = isResponse(response) ? response : undefined;
  const hashed = said ?? (answered && JSON.stringify(answered.body));
  const isEdited = hashed !== undefined && sha256 !== undefined && sha256 !== hashOfText(hashed);
  return {
    at,
    agent: typeof agent === 'string' ? agent : 'an agent without a name',
    ...(isAnswered && { output }),
    ...(answered && { response: answered }),
    ...(said !== undefined && { said }),
    ...(isEdited && { isEdited }),
    ...(isWhole(all) && { whole: all }),
    rung: typeof rung === 'string' ? rung : 'of no rung',
    saw: typeof saw === 'string' ? saw : 'of no rung',
    repairs,
    calls: list(calls).filter(call => typeof call === 'string'),
    attempts: typeof attempts === 'number' ? attempts : 0,
    round: typeof round === 'number' ? round : 0,
    rejected: list(rejected).filter(isRefused),
    ...(typeof shared === 'string' && { shared }),
    ...(isProblem(problem) && { problem }),
    ...(isUsage(usage) && { usage }),
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
  const mended = applyEdits(
    said,
    repairs.filter((repair): repair is Edit => repair.offset !== undefined),
  );
  if (typeof output === 'string' && replay(mended, valueEntries(repairs)) === output) return output;
  if (lossless(mended) !== null) return undefined;
  try {
    return replay(JSON.parse(mended), valueEntries(repairs));
  } catch {
    return undefined;
  }
}

/** Whether the entries, applied to the model's text, give the output; undefined where that cannot be known. */
export function isAccountedFor({ said, isEdited, repairs, output }: Answer): boolean | undefined {
  if (isEdited) return false;
  if (said === undefined || output === undefined) return undefined;
  return same(givenBy(said, repairs, output), output);
}
