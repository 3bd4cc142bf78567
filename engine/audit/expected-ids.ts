/**
 * Which ids a run should have: those of a file, one a line, as text or as the lines that were asked (items) or are to
 * be had again (legacy results). Only hashes are kept; the file is read again to name what is missing.
 */

import { createIdSet, createIdTable, hashOf } from '../core/files/idset.ts';
import { openLines, type ScannedLine } from '../core/files/line-places.ts';
import { dataError } from '../core/item/failure.ts';
import {
  failureOf,
  type Item,
  idOf,
  isFailed,
  isItem,
  isLegacy,
  isRawRequest,
  type Step,
  sampleMark,
} from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import { cut } from '../core/item/wording.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { visible } from '../core/json/visible.ts';
import { noIds } from '../flow/looks-like.ts';
import type { Violation } from './legacy/leftovers.ts';

/** Ids that a message names; the rest is a number. */
const MAX_NAMED_IDS = 10;
/** characters of an id that are shown */
const LONGEST_ID = 100;

/** Ids, of which only the first are kept by name. */
export interface Named {
  count: number;
  first: string[];
}

export const noneNamed = (): Named => ({ count: 0, first: [] });

export function name(named: Named, id: string): void {
  named.count += 1;
  if (named.first.length < MAX_NAMED_IDS) named.first.push(cut(id, LONGEST_ID));
}

/** `3: a, b, c`, or the first ten and how many more. */
export function describeNamed({ count, first }: Named): string {
  return `${count}: ${first.join(', ')}${count > first.length ? `, and ${count - first.length} more` : ''}`;
}

/** What a line is known by. */
export interface Identity {
  id: string | null;
  /** of a legacy result, the row that it came from, and which sample of it */
  row?: string | undefined;
  failed: boolean;
}

export function identityOf(line: JsonObject): Identity {
  const { prompt_id: number } = line;
  const isNumber = typeof number === 'number' || typeof number === 'string';
  const row = isNumber && isLegacy(line) ? `${number}${sampleMark(line)}` : undefined;
  return { id: idOf(line), row, failed: isFailed(line) };
}

/**
 * Checks ids against a list, if there is one, and each other. A legacy result is known by `prompt_id/ordering`, an item
 * by its own id; so an item of the list stands for both, and one with a row but no ordering for any ordering of it.
 */
export function checkIds(path: string | undefined, { stage, maxLine }: { stage: string; maxLine: number }) {
  const seen = createIdSet();
  const expected = path === undefined ? null : createIdTable();
  const asked = askedLines(visible(path ?? ''));
  const duplicates = noneNamed();
  const unknown = noneNamed();
  if (path !== undefined)
    readList(path, (keys, line) => {
      const nth = asked.add(line);
      for (const key of keys) expected?.numberOf(key, nth);
    });

  return {
    duplicates,
    /** ids that nobody expected; none without a list */
    unknown,
    /** Notes a line; false where its id was there before. A line without an id is always a first. */
    see({ id, row: number, failed }: Identity): boolean {
      if (id === null) {
        if (expected !== null && !failed) name(unknown, '(a line without an id)');
        return true;
      }
      const first = seen.add(id);
      if (!first) name(duplicates, id);
      if (expected === null) return first;
      const row = number === undefined ? null : anyOrderingOf(number);
      if (row !== null) seen.add(row);
      if (!expected.has(id) && (row === null || !expected.has(row))) name(unknown, id);
      return first;
    },
    /** What the line has in another form than the one of the list that was asked; null too where the list says no more than ids. */
    otherThanAsked(line: Item): Violation | null {
      if (expected === null) return null;
      const { id, row } = identityOf(line);
      const key = [id, row === undefined ? null : anyOrderingOf(row)].find(
        name => name !== null && expected.has(name),
      );
      return typeof key === 'string' ? asked.otherThan(expected.numberOf(key, 0), line) : null;
    },
    /** Reads the list again for ids that were not seen; null without a list. */
    missing(): { expected: number; missing: Named } | null {
      if (path === undefined) return null;
      const missing = noneNamed();
      const listed = readList(path, keys => {
        if (!keys.some(key => seen.has(key))) name(missing, keys[0] as string);
      });
      return { expected: listed, missing };
    },
  };

  /** Calls `take` with the names that a line of the list goes by, and with the line where it is more than a name; returns how many lines there were. */
  function readList(list: string, take: (keys: string[], line: Item | null) => void): number {
    const file = openLines(list, { stage, maxLine });
    let count = 0;
    try {
      for (const line of file.scan()) {
        if (line === null) continue;
        if (count === 0) refuseTable(line, list);
        count += 1;
        let item: Item | null = null;
        const keys = keysOf(line, () => (item = file.item(line)), list);
        take(keys, item);
      }
    } finally {
      file.close();
    }
    if (count === 0) throw dataError(`${list}: expected ids, one a line, found none`);
    return count;
  }
}

/** Whether a line is one of those that a file lists, in any of the forms that `checkIds` reads; an empty file lists none. */
export function listedIn(
  list: string,
  reading: { stage: string; maxLine: number },
): (line: JsonObject) => boolean {
  const listed = createIdSet();
  const file = openLines(list, reading);
  try {
    for (const line of file.scan()) {
      if (line === null) continue;
      if (listed.size === 0) refuseTable(line, list);
      for (const key of keysOf(line, () => file.item(line), list)) listed.add(key);
    }
  } finally {
    file.close();
  }
  return line => {
    const { id, row } = identityOf(line);
    if (id === null) return false;
    return listed.has(id) || (row !== undefined && listed.has(anyOrderingOf(row)));
  };
}

/** Its rows would be taken for ids, of which none is there. */
function refuseTable({ block, from, length }: ScannedLine, list: string): void {
  const first = block.toString('utf8', from, from + Math.min(length, HEADER));
  const found = noIds(first, list);
  if (found === null || first.startsWith('{')) return;
  const file = visible(list);
  throw dataError(
    `--ids ${file}: expected ids, items or legacy results, one a line, found what looks like ${found}: ${visible(cut(first.trim(), 60))}\n` +
      `turn it into items first, as the run did: fw ingest ${file} > asked.jsonl, then --ids asked.jsonl`,
  );
}

/** bytes of a header that are looked at */
const HEADER = 64 * 1024;

/** No id ends in a slash and a star but by intent, so this cannot be one of a legacy result. */
const anyOrderingOf = (row: unknown): string => `${row}/*`;

function keysOf(line: ScannedLine, parse: () => Item, list: string): string[] {
  const { block, from, length, number } = line;
  const text = length > 1024 ? '{' : block.toString('utf8', from, from + length).trim();
  if (!text.startsWith('{')) return [text];
  const item = parse();
  const id = idOf(item);
  if (id === null) {
    const why = failureOf(item)?.message ?? 'expected an id';
    throw dataError(`${list}:${number}: expected an id, an item or a legacy result; ${why}`);
  }
  const { row, ordering } = item;
  if (typeof row !== 'number' || isLegacy(item)) return [id];
  const mark = sampleMark(item);
  return [id, isTexts(ordering) ? `${row}/${ordering.join()}${mark}` : anyOrderingOf(`${row}${mark}`)];
}

/** In the order in which they are compared. */
const PARTS = [
  ['prompt', 'the prompt'],
  ['input', 'the columns'],
  ['row', 'the row'],
  ['ordering', 'the ordering'],
] as const;

/**
 * What was asked, line by line, to hold answers to: of each line only hashes of 8 bytes are kept, of its prompt, its
 * columns, its row and its ordering. A line that is an id alone says none of them. `list` is the name of
 * the file, for messages.
 */
function askedLines(list: string) {
  let parts = new Float64Array(PARTS.length * 1024);
  let size = 0;
  return {
    /** Adds what the next line says; returns its number, from 0. */
    add(line: JsonObject | null): number {
      if (size * PARTS.length === parts.length) {
        const more = new Float64Array(parts.length * 2);
        more.set(parts);
        parts = more;
      }
      parts.set(line === null ? NOTHING : partsOf(line), size * PARTS.length);
      return size++;
    },
    /** What `line` has in another form than the line of that number; null for nearly all. */
    otherThan(number: number, line: Item): Violation | null {
      const found = partsOf(line);
      for (const [nth, [key, words]] of PARTS.entries()) {
        const asked = parts[number * PARTS.length + nth] as number;
        const got = found[nth] as number;
        if (Number.isNaN(asked) || asked === got) continue;
        if (Number.isNaN(got) && !mustHave(key, line)) continue;
        const at = `/${key === 'prompt' ? placeOfPrompt(line) : key}`;
        const expected = `${words} of its line in ${list} (--ids)`;
        const there = Number.isNaN(got) ? 'nothing' : 'another';
        return { code: 'not-strict', rule: 'other than asked', at, expected, got: there };
      }
      return null;
    },
  };
}

const NOTHING = PARTS.map(() => Number.NaN);

/** Results that were read back without their table have no columns, and know their row by another name. */
function mustHave(key: (typeof PARTS)[number][0], line: Item): boolean {
  if (key === 'prompt') return true;
  if (key === 'ordering' || !isItem(line)) return false;
  const { steps, decision } = line;
  const answers = [
    ...(Array.isArray(steps) ? steps : []),
    ...(decision ? [decision] : []),
  ] as (Step | null)[];
  return answers.some(step => Array.isArray(step?.calls) && step.calls.length > 0);
}

const placeOfPrompt = (line: JsonObject): string =>
  ['prompt', 'initial_prompt', 'messages', 'request'].find(key => key in line) ?? 'prompt';

/** NaN for what a line does not say. */
function partsOf(line: JsonObject): number[] {
  const { input, row, prompt_id, ordering } = line;
  const asked = line[placeOfPrompt(line)];
  const own = isLegacy(line) ? prompt_id : row;
  return [
    typeof asked === 'string'
      ? hashOf(asked)
      : Array.isArray(asked) || isRawRequest(asked)
        ? hashOf(JSON.stringify(asked))
        : Number.NaN,
    isObject(input) ? hashOf(JSON.stringify(Object.entries(input).sort(byKey))) : Number.NaN,
    Number.isSafeInteger(own) ? (own as number) : Number.NaN,
    isTexts(ordering) ? hashOf(ordering.join()) : Number.NaN,
  ];
}

const byKey = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : a > b ? 1 : 0);
