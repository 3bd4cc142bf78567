/**
 * The lines of items, written from the bytes of their rows: no object and, but for the id, no text is made on the way.
 * It is the way of a row that is fine. Any other is left to row-items.ts, which says what is wrong with it; the bytes are
 * those of JSON.stringify of what that makes.
 */
import { hash } from 'node:crypto';
import type { Lines } from '../core/files/ndjson-out.ts';
import { DOUBLED, ESCAPED, fieldText, fieldTexts } from './csv-rows.ts';
import type { FieldBounds } from './row-ends.ts';

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
  /** told the texts of a row; absent where any row will do */
  fits?: ((texts: readonly string[]) => boolean) | undefined;
  /** False where the id was there already. */
  claim(id: string): boolean;
  isTaken(row: number): boolean;
}

export const FULL = 256 * 1024;
const ROOM = 4 * FULL;
/** a longer field is copied by the system, a shorter one byte by byte */
const WORTH_A_COPY = 64;
export const QUOTE = 34;
export const SPACE = 32;
export const DELETE = 127;
const FIRST_OF_MARK = 0xef;

export const PAIRS_END = Buffer.from('"]]');

/** What JSON.stringify writes for each byte that it escapes. */
export const ESCAPES = Array.from({ length: 128 }, (_none, byte) =>
  Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1)),
);

export const HEAD_BEGIN = Buffer.from('{"id":"');
const ROW_BEGIN = Buffer.from('"row":');
export const PROMPT_BEGIN = Buffer.from('"},"prompt":"');

/** A column, and what is written before its text. */
interface Member {
  column: number;
  before: Buffer;
}

/** The columns as they stand in the input of an item: an object lists keys that look like numbers first. */
function membersOf(columns: readonly string[]): Member[] {
  const keys = Object.keys(Object.fromEntries(columns.map(column => [column, ''])));
  return keys.map((key, at) => ({
    column: columns.indexOf(key),
    before: Buffer.from(`${at === 0 ? ',"input":{' : '",'}${JSON.stringify(key)}:"`),
  }));
}

/** The columns as the hash of a row has them. */
function pairsOf(columns: readonly string[]): Member[] {
  const sorted = [...columns.entries()].sort(([, a], [, b]) => (a < b ? -1 : 1));
  return sorted.map(([column, name], at) => ({
    column,
    before: Buffer.from(`${at === 0 ? '[[' : '"],['}${JSON.stringify(name)},"`),
  }));
}

/** What is behind the id of each item of a row, and behind its prompt. */
export const endsOf = (variants: readonly Variant[]): { id: Buffer; line: Buffer }[] =>
  variants.map(({ ending, more }) => ({
    id: Buffer.from(`${JSON.stringify(ending).slice(1, -1)}",`),
    line: Buffer.from(`"${ending === '' ? '' : `,${JSON.stringify(more).slice(1, -1)}`}}\n`),
  }));

export class LineWriter {
  readonly #shape: LineShape;
  readonly #idAt: number;
  readonly #promptAt: number;
  readonly #members: readonly Member[];
  readonly #pairs: readonly Member[];
  /** of each item of a row: what is behind its id, and behind its prompt */
  readonly #ends: readonly { id: Buffer; line: Buffer }[];
  /** bytes of a row beside its fields */
  readonly #constants: number;
  readonly #header: Buffer;
  readonly #out = Buffer.allocUnsafeSlow(ROOM);
  #filled = 0;
  #count = 0;
  // the row that is written
  #block: Buffer = this.#out;
  #from = 0;
  #bounds: Int32Array = new Int32Array(0);

  constructor(shape: LineShape) {
    const { columns, idColumn, promptColumn, variants } = shape;
    this.#shape = shape;
    this.#idAt = idColumn === null ? -1 : columns.indexOf(idColumn);
    this.#promptAt = columns.indexOf(promptColumn);
    this.#members = membersOf(columns);
    this.#pairs = pairsOf(columns);
    this.#header = Buffer.from(columns[0] ?? '');
    this.#ends = endsOf(variants);
    const names = [...this.#members, ...this.#pairs].reduce((sum, { before }) => sum + before.length, 0);
    const ends = this.#ends.reduce(
      (sum, { id, line }) => sum + id.length + line.length + HEAD_BEGIN.length,
      100,
    );
    this.#constants = ends + this.#ends.length * names;
  }

  /** Adds the lines of the row that begins at `from`. False where it needs a closer look; then nothing was added. */
  write(block: Buffer, from: number, fields: FieldBounds, number: number): boolean {
    const { bounds } = fields;
    const { columns, fits, claim, isTaken } = this.#shape;
    if (fields.count !== columns.length || this.#mayBeHeader(block, from, bounds)) return false;
    const bytes = bounds[3 * fields.count - 2]! * ((fields.marks & ESCAPED) === 0 ? 1 : 6);
    const needed = this.#constants + this.#ends.length * 3 * bytes;
    if (needed > ROOM - FULL) return false;
    this.#block = block;
    this.#from = from;
    this.#bounds = bounds;
    if (this.#idAt >= 0 && this.#isBlank(this.#idAt)) return false;
    const taken = isTaken(number);
    if (taken && this.#isBlank(this.#promptAt)) return false;
    if (fits && !fits(fieldTexts(block, from, fields))) return false;
    const id = this.#idAt >= 0 ? fieldText(block, from, bounds, 3 * this.#idAt) : this.#contentId();
    if (!claim(id)) return false;
    if (taken) this.#writeLines(id, number);
    return true;
  }

  /** As many bytes are there that they should be taken. */
  isFull(): boolean {
    return this.#filled >= FULL;
  }

  /** What was added since the last time; null where that is nothing. */
  taken(): Lines | null {
    if (this.#count === 0) return null;
    const lines = { bytes: this.#out.subarray(0, this.#filled), count: this.#count };
    this.#filled = 0;
    this.#count = 0;
    return lines;
  }

  #writeLines(id: string, number: number): void {
    let body = 0; // of the first line: what is between its id and its ordering
    let bodyEnd = 0;
    for (const { id: idEnd, line } of this.#ends) {
      this.#put(HEAD_BEGIN);
      if (this.#idAt >= 0) this.#putField(this.#idAt);
      else this.#putText(id);
      this.#put(idEnd);
      if (bodyEnd === 0) {
        body = this.#filled;
        this.#putBody(number);
        bodyEnd = this.#filled;
      } else {
        this.#out.copyWithin(this.#filled, body, bodyEnd);
        this.#filled += bodyEnd - body;
      }
      this.#put(line);
    }
    this.#count += this.#ends.length;
  }

  #putBody(number: number): void {
    this.#put(ROW_BEGIN);
    this.#putText(String(number));
    let prompt = 0;
    let promptEnd = 0;
    for (const { column, before } of this.#members) {
      this.#put(before);
      const at = this.#filled;
      this.#putField(column);
      if (column !== this.#promptAt) continue;
      prompt = at;
      promptEnd = this.#filled;
    }
    this.#put(PROMPT_BEGIN);
    this.#out.copyWithin(this.#filled, prompt, promptEnd);
    this.#filled += promptEnd - prompt;
  }

  // `filled` outlives these functions; a place of their own makes their loops three times as fast
  #put(bytes: Buffer): void {
    const out = this.#out;
    let place = this.#filled;
    for (let at = 0; at < bytes.length; at++) out[place++] = bytes[at]!;
    this.#filled = place;
  }

  /** Text in ASCII that JSON does not escape. */
  #putText(text: string): void {
    const out = this.#out;
    let place = this.#filled;
    for (let at = 0; at < text.length; at++) out[place++] = text.charCodeAt(at);
    this.#filled = place;
  }

  /** The field as it is between the quotes of JSON. */
  #putField(column: number): void {
    const out = this.#out;
    const block = this.#block;
    const from = this.#from;
    const bounds = this.#bounds;
    let at = from + bounds[3 * column]!;
    const to = from + bounds[3 * column + 1]!;
    let place = this.#filled;
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
    this.#filled = place;
  }

  /** 12 hex digits of the SHA-256 of the columns and their text, as contentId in row-items.ts; it is made behind the lines. */
  #contentId(): string {
    const begin = this.#filled;
    for (const { column, before } of this.#pairs) {
      this.#put(before);
      this.#putField(column);
    }
    this.#put(PAIRS_END);
    const id = hash('sha256', this.#out.subarray(begin, this.#filled)).slice(0, 12);
    this.#filled = begin;
    return id;
  }

  /** Nothing but space, as far as a look at the bytes of ASCII tells; the rest is asked of the text. */
  #isBlank(column: number): boolean {
    const block = this.#block;
    const from = this.#from;
    const bounds = this.#bounds;
    const to = from + bounds[3 * column + 1]!;
    for (let at = from + bounds[3 * column]!; at < to; at++) {
      const byte = block[at]!;
      if (byte > SPACE && byte <= DELETE) return false;
    }
    return fieldText(block, from, bounds, 3 * column).trim() === '';
  }

  /** The header may come again, after a byte order mark too; the first name tells most rows apart from it. */
  #mayBeHeader(block: Buffer, from: number, bounds: Int32Array): boolean {
    const header = this.#header;
    const begin = from + bounds[0]!;
    if (block[begin] === FIRST_OF_MARK || (bounds[2]! & DOUBLED) !== 0) return true;
    if (bounds[1]! - bounds[0]! !== header.length) return false;
    for (let at = 0; at < header.length; at++) if (block[begin + at] !== header[at]) return false;
    return true;
  }
}
