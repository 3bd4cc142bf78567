/**
 * The lines of items, written from the bytes of their rows: no object and, but for the id, no text is made on the way.
 * It is the way of a row that is fine. Any other is left to rowitems.ts, which says what is wrong with it; the bytes are
 * those of JSON.stringify of what that makes.
 */
import { hash } from 'node:crypto';
import type { Lines } from '../core/files/ndjson-out.ts';
import { DOUBLED, ESCAPED, fieldText, fieldTexts } from './csv-rows.ts';
import type { FieldBounds } from './row-ends.ts';

export interface LineWriter {
  /** Adds the lines of the row that begins at `from`. False where it needs a closer look; then nothing was added. */
  write(block: Buffer, from: number, fields: FieldBounds, row: number): boolean;
  /** as many bytes are there that they should be taken */
  isFull(): boolean;
  /** What was added since the last time; null where that is nothing. */
  taken(): Lines | null;
}

/** What tells the items of a row apart. */
export interface Variant {
  ending: string;
  more: { ordering?: string[]; sample?: number };
}

export interface LineShape {
  columns: readonly string[];
  /** null: a hash of the row */
  idColumn: string | null;
  promptColumn: string;
  variants: readonly Variant[];
  /** told the texts of a row; null where any row will do */
  fits: ((texts: readonly string[]) => boolean) | null;
  /** False where the id was there already. */
  claim(id: string): boolean;
  isTaken(row: number): boolean;
}

const FULL = 256 * 1024;
const ROOM = 4 * FULL;
/** a longer field is copied by the system, a shorter one byte by byte */
const WORTH_A_COPY = 64;
const QUOTE = 34;
const SPACE = 32;
const DELETE = 127;
const FIRST_OF_MARK = 0xef;

const PAIRS_END = Buffer.from('"]]');

/** What JSON.stringify writes for each byte that it escapes. */
const ESCAPES = Array.from({ length: 128 }, (_none, byte) =>
  Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1)),
);

export function lineWriter({
  columns,
  idColumn,
  promptColumn,
  variants,
  fits,
  claim,
  isTaken,
}: LineShape): LineWriter {
  const out = Buffer.allocUnsafeSlow(ROOM);
  let filled = 0;
  let count = 0;
  const idAt = idColumn === null ? -1 : columns.indexOf(idColumn);
  const promptAt = columns.indexOf(promptColumn);
  // an object lists keys that look like numbers first
  const keys = Object.keys(Object.fromEntries(columns.map(column => [column, ''])));
  const members = keys.map((key, at) => ({
    column: columns.indexOf(key),
    before: Buffer.from(`${at === 0 ? ',"input":{' : '",'}${JSON.stringify(key)}:"`),
  }));
  const pairs = [...columns.keys()]
    .sort((a, b) => ((columns[a] as string) < (columns[b] as string) ? -1 : 1))
    .map((column, at) => ({
      column,
      before: Buffer.from(`${at === 0 ? '[[' : '"],['}${JSON.stringify(columns[column])},"`),
    }));
  const headBegin = Buffer.from('{"id":"');
  const rowBegin = Buffer.from('"row":');
  const promptBegin = Buffer.from('"},"prompt":"');
  const ends = variants.map(({ ending, more }) => ({
    id: Buffer.from(`${JSON.stringify(ending).slice(1, -1)}",`),
    line: Buffer.from(`"${ending === '' ? '' : `,${JSON.stringify(more).slice(1, -1)}`}}\n`),
  }));
  const constants =
    ends.reduce((sum, { id, line }) => sum + id.length + line.length + headBegin.length, 100) +
    ends.length * [...members, ...pairs].reduce((sum, { before }) => sum + before.length, 0);
  const header = Buffer.from(columns[0] ?? '');
  const row = { block: out as Buffer, from: 0, bounds: new Int32Array(0) as Int32Array };

  return {
    write(block, from, fields, number) {
      const { bounds } = fields;
      if (fields.count !== columns.length || mayBeHeader(block, from, bounds)) return false;
      const bytes = bounds[3 * fields.count - 2]! * ((fields.marks & ESCAPED) === 0 ? 1 : 6);
      const needed = constants + ends.length * 3 * bytes;
      if (needed > ROOM - FULL) return false;
      row.block = block;
      row.from = from;
      row.bounds = bounds;
      if (idAt >= 0 && isBlank(idAt)) return false;
      if (isTaken(number) && isBlank(promptAt)) return false;
      if (fits !== null && !fits(fieldTexts(block, from, fields))) return false;
      const id = idAt >= 0 ? fieldText(block, from, bounds, 3 * idAt) : contentId();
      if (!claim(id)) return false;
      if (isTaken(number)) writeLines(id, number);
      return true;
    },
    isFull: () => filled >= FULL,
    taken() {
      if (count === 0) return null;
      const lines = { bytes: out.subarray(0, filled), count };
      filled = 0;
      count = 0;
      return lines;
    },
  };

  function writeLines(id: string, number: number): void {
    let body = 0; // of the first line: what is between its id and its ordering
    let bodyEnd = 0;
    for (const { id: idEnd, line } of ends) {
      put(headBegin);
      if (idAt >= 0) putField(idAt);
      else putText(id);
      put(idEnd);
      if (bodyEnd === 0) {
        body = filled;
        putBody(number);
        bodyEnd = filled;
      } else {
        out.copyWithin(filled, body, bodyEnd);
        filled += bodyEnd - body;
      }
      put(line);
    }
    count += ends.length;
  }

  function putBody(number: number): void {
    put(rowBegin);
    putText(String(number));
    let prompt = 0;
    let promptEnd = 0;
    for (const { column, before } of members) {
      put(before);
      const at = filled;
      putField(column);
      if (column !== promptAt) continue;
      prompt = at;
      promptEnd = filled;
    }
    put(promptBegin);
    out.copyWithin(filled, prompt, promptEnd);
    filled += promptEnd - prompt;
  }

  // `filled` outlives these functions; a place of their own makes their loops three times as fast
  function put(bytes: Buffer): void {
    let place = filled;
    for (let at = 0; at < bytes.length; at++) out[place++] = bytes[at]!;
    filled = place;
  }

  /** Text in ASCII that JSON does not escape. */
  function putText(text: string): void {
    let place = filled;
    for (let at = 0; at < text.length; at++) out[place++] = text.charCodeAt(at);
    filled = place;
  }

  /** The field as it is between the quotes of JSON. */
  function putField(column: number): void {
    const { block, from, bounds } = row;
    let at = from + bounds[3 * column]!;
    const to = from + bounds[3 * column + 1]!;
    let place = filled;
    if ((bounds[3 * column + 2]! & ESCAPED) !== 0) {
      while (at < to) {
        const byte = block[at++]!;
        if (byte === QUOTE) at += 1; // it is written twice
        const escaped = byte > DELETE ? undefined : ESCAPES[byte]!;
        if (escaped === undefined || escaped.length === 1) out[place++] = byte;
        else for (const part of escaped) out[place++] = part;
      }
    } else if (to - at > WORTH_A_COPY) place += block.copy(out, place, at, to);
    else while (at < to) out[place++] = block[at++]!;
    filled = place;
  }

  /** 12 hex digits of the SHA-256 of the columns and their text, as contentId in rowitems.ts; it is made behind the lines. */
  function contentId(): string {
    const begin = filled;
    for (const { column, before } of pairs) {
      put(before);
      putField(column);
    }
    put(PAIRS_END);
    const id = hash('sha256', out.subarray(begin, filled)).slice(0, 12);
    filled = begin;
    return id;
  }

  /** Nothing but space, as far as a look at the bytes of ASCII tells; the rest is asked of the text. */
  function isBlank(column: number): boolean {
    const { block, from, bounds } = row;
    const to = from + bounds[3 * column + 1]!;
    for (let at = from + bounds[3 * column]!; at < to; at++) {
      const byte = block[at]!;
      if (byte > SPACE && byte <= DELETE) return false;
    }
    return fieldText(block, from, bounds, 3 * column).trim() === '';
  }

  /** The header may come again, after a byte order mark too; the first name tells most rows apart from it. */
  function mayBeHeader(block: Buffer, from: number, bounds: Int32Array): boolean {
    const begin = from + bounds[0]!;
    if (block[begin] === FIRST_OF_MARK || (bounds[2]! & DOUBLED) !== 0) return true;
    if (bounds[1]! - bounds[0]! !== header.length) return false;
    for (let at = 0; at < header.length; at++) if (block[begin + at] !== header[at]) return false;
    return true;
  }
}
