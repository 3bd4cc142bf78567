/**
 * What people said of finished lines: files of labels, a line each (schemas/label.schema.json). `fw view` appends to them
 * and `fw report --labels` counts them; nobody ever changes a line, so the last one of a key is what holds.
 */
import { createHash } from 'node:crypto';
import { ownValidator } from '../core/config/package.ts';
import { linesOf, openAgain } from '../core/files/line-places.ts';
import { originOf } from '../core/files/origin.ts';
import { dataError } from '../core/item/failure.ts';
import { isLegacyLike } from '../core/item/item.ts';
import { answerText, isBatchResult } from '../core/item/response.ts';
import { counted, number } from '../core/item/wording.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { show } from '../core/json/show.ts';
import { hashOfResult } from '../flow/provenance.ts';

export const VERDICTS = ['right', 'wrong', 'unsure'] as const;
export type Verdict = (typeof VERDICTS)[number];

/** How the lines that were judged were chosen. */
export interface Sample {
  seed: number;
  /** rows that were drawn */
  size: number;
  /** the column whose values were drawn from alike; absent: every row had the same chance */
  by?: string;
  /** rows that it was drawn from */
  of: number;
}

export interface Label {
  id: string;
  /** '' for the line as a whole, or a JSON Pointer to a value in it */
  path: string;
  /** null takes back what was said before */
  verdict: Verdict | null;
  /** what it should have been, any JSON value; absent: nobody said it */
  value?: unknown;
  note?: string;
  by: string;
  /** RFC 3339, UTC */
  at: string;
  /** `hashOfJudged` of the line */
  hash: string;
  sample?: Sample;
  /** columns that the judge was not shown */
  hidden?: string[];
}

/** A label that holds: none that was taken back. */
export type Held = Label & { verdict: Verdict };

export interface Labels {
  /** those that hold, in an order that hangs on what they say alone: by judge, id, path and hash */
  all: readonly Held[];
  /** those of a line, of any judge, path and hash */
  of(id: string): readonly Held[];
  /** lines that were read */
  lines: number;
  /** of lines whose writing broke off, which say nothing: `labels.ndjson:12: a torn line of 80 bytes` */
  torn: string[];
}

/** Labels that are kept of all files. Each is some hundred bytes. */
const MOST_LABELS = 1_000_000;
/** Torn lines that are named. */
const MOST_TORN = 10;

/**
 * Reads files of labels, in their order. A line longer than `maxLine` bytes, one that is no label, and one with a verdict
 * that is none end it with 65, with file and line. A line that begins as a label and breaks off is torn: whoever wrote it
 * was stopped, and nobody was told that it is kept. It is counted, wherever it is.
 */
export async function readLabels(paths: readonly string[], maxLine: number): Promise<Labels> {
  const held = new Map<string, Label>();
  const labels: Labels = { all: [], of: id => byId.get(id) ?? [], lines: 0, torn: [] };
  const byId = new Map<string, Held[]>();
  let torn = 0;
  for (const path of new Set(paths)) {
    const file = openAgain(path);
    try {
      const lines = linesOf(file, { stage: 'labels', maxLine, name: path });
      for (const scanned of lines.scan()) {
        if (scanned === null) {
          await new Promise(setImmediate); // signals have their turn
          continue;
        }
        labels.lines += 1;
        const { offset, length } = scanned;
        const where = `${path}:${scanned.number}`;
        const line: JsonObject = lines.item(scanned);
        const isLast = offset + length === file.size;
        if (isTorn(line, isLast)) {
          torn += 1;
          if (labels.torn.length < MOST_TORN)
            labels.torn.push(`${where}: a torn line of ${counted(length, 'byte')}, which says nothing`);
          continue;
        }
        const label = labelIn(line, where);
        held.set(keyOf(label), label);
        if (held.size > MOST_LABELS)
          throw dataError(`${where}: expected at most ${number(MOST_LABELS)} labels, found more`);
      }
    } finally {
      file.close();
    }
  }
  if (torn > labels.torn.length) labels.torn.push(`and ${number(torn - labels.torn.length)} more torn lines`);
  const sorted = [...held].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, label]) => label);
  labels.all = sorted.filter((label): label is Held => label.verdict !== null);
  for (const label of labels.all) {
    const known = byId.get(label.id);
    if (known === undefined) byId.set(label.id, [label]);
    else known.push(label);
  }
  return labels;
}

/** A text judged anew after another answer is no second thought about the first one, so its hash is part of the key. */
const keyOf = ({ by, id, path, hash }: Label): string => JSON.stringify([by, id, path, hash]);

const BEGINS = '{"fw":"label"';

function isTorn(line: JsonObject, isLast: boolean): boolean {
  const { failure } = line;
  if (
    originOf(line) !== undefined ||
    !isObject(failure) ||
    !['not-json', 'not-utf8'].includes(failure.code as string)
  )
    return false;
  const { text, base64 } = failure;
  const begins = typeof text === 'string' ? text : Buffer.from(String(base64), 'base64').toString('latin1');
  return begins.startsWith(BEGINS) || (isLast && BEGINS.startsWith(begins));
}

function labelIn(line: JsonObject, where: string): Label {
  // the reader's own failure, which names file and line; what was read has an origin
  if (originOf(line) === undefined && isObject(line.failure)) throw dataError(String(line.failure.message));
  const validate = ownValidator('label', 'first');
  if (line.fw !== 'label')
    throw dataError(
      `${where}: expected a label, as fw view writes them ("fw":"label"), found ${show(line.fw ?? line)}`,
    );
  if (!validate(line)) throw dataError(`${where}: expected a label, ${whyNot(line, validate.errors?.[0])}`);
  const { fw: _, ...label } = line;
  return label as unknown as Label;
}

/** The schema's first complaint in words. */
function whyNot(
  line: JsonObject,
  error:
    | { instancePath: string; keyword: string; params: JsonObject; message?: string; data?: unknown }
    | undefined,
): string {
  const { instancePath = '', keyword = '', params = {}, message = '', data = line } = error ?? {};
  const at = instancePath === '' ? 'in it' : `at ${instancePath}`;
  if (instancePath === '/verdict')
    return `whose verdict is ${VERDICTS.join(', ')} or null, found ${show(data)}`;
  if (keyword === 'additionalProperties')
    return `found ${at} the unknown key ${show(params.additionalProperty)}`;
  if (keyword === 'required') return `found ${at} no ${show(params.missingProperty)}`;
  return `found ${at} ${show(data)}, which ${message}`;
}

/** A label as its line, with the newline. Its keys stand in one order, and what is absent is left out. */
export function labelLine(label: Label): string {
  const { id, path, verdict, value, note, by, at, hash, sample, hidden } = label;
  const line = { fw: 'label', id, path, verdict, value, note, by, at, hash, sample, hidden };
  return `${JSON.stringify(line)}\n`;
}

/**
 * SHA-256 in hex of what is judged of a line, whatever kind it is: who was asked what, and each answer. How it was had
 * (tokens, tries, rungs, times) is not in it, so that a line that was verified or merged since is the same. Null where it
 * nests too deeply for JSON. Of a legacy result it is `hashOfResult`, which of an item would be the same for all.
 */
export function hashOfJudged(line: JsonObject): string | null {
  if (isLegacyLike(line)) return hashOfResult(line);
  try {
    return createHash('sha256')
      .update(JSON.stringify(judgedOf(line)))
      .digest('hex');
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function judgedOf(line: JsonObject): unknown {
  if (isBatchResult(line)) {
    const { custom_id, response, error } = line;
    const body = isObject(response) ? response.body : undefined;
    return ['batch', custom_id, answerText(body) ?? body, error];
  }
  const { id, ordering, sample, prompt, messages, request, input, steps, decision } = line;
  if (Array.isArray(steps) || isObject(decision)) {
    const answers = (Array.isArray(steps) ? steps : []).map(answerOf);
    const asked = [prompt, messages, request, input];
    return ['item', id, ordering, sample, ...asked, answers, answerOf(decision)];
  }
  // tables of one content may be read as texts, or typed
  return ['row', Object.entries(line).map(([column, value]) => [column, cellOf(value)])];
}

function answerOf(step: unknown): unknown {
  if (!isObject(step)) return null;
  const { agent, output, response, raw } = step;
  const body = isObject(response) ? response.body : undefined;
  return [agent, output ?? answerText(body) ?? body ?? raw];
}

const cellOf = (value: unknown): unknown =>
  value === null || value === undefined ? '' : typeof value === 'object' ? value : String(value);
