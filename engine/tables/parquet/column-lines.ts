/**
 * The lines of items, written from the columns of a Parquet file: a text goes from its page into the line, and no object of a
 * row is made on the way. It is the way of a row that is fine, as row-lines.ts is for CSV; any other is left to row-items.ts. The
 * bytes are those of JSON.stringify of what that makes.
 */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import type { Lines } from '../../core/files/ndjson-out.ts';
import {
  DELETE,
  ESCAPES,
  endsOf,
  FULL,
  HEAD_BEGIN,
  type LineShape,
  PAIRS_END,
  PROMPT_BEGIN,
  QUOTE,
  SPACE,
} from '../row-lines.ts';
import type { Column, RowReader } from './group.ts';

/** bytes of values of a row; a longer one is left to who makes an object of it */
const MOST_ROW = 64 * 1024;
const BACKSLASH = 92;
/** of \u0000 */
const LETTER_U = 117;
/** bytes of a line that are the same in each, and of its number and its hash */
const MOST_FIXED = 128;
/** a longer run of bytes is copied by the system */
const WORTH_A_COPY = 48;
/** a longer text is quoted by the system */
const WORTH_A_CALL = 256;

const INPUT_BEGIN = Buffer.from(',"input":{');
const NEXT = Buffer.from('",');
/** nothing but this: JSON.stringify writes it as it is */
const NEEDS_NOTHING = Uint8Array.from({ length: 256 }, (_none, byte) =>
  byte >= SPACE && byte <= DELETE && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0,
);

interface Member {
  column: number;
  before: Buffer;
}

export class ColumnLines {
  readonly #reader: RowReader;
  readonly #columns: readonly Column[];
  readonly #shape: LineShape;
  readonly #maxLine: number;
  readonly #idAt: number;
  readonly #promptAt: number;
  /** in the order of the keys of an object, and in the order of the hash of a row */
  readonly #members: readonly Member[];
  readonly #pairs: readonly Member[];
  readonly #ends: readonly { id: Buffer; line: Buffer }[];
  readonly #constants: number;
  /** the texts of the row, as they stand between the quotes of JSON, and where each begins and ends; -1 for nothing */
  #texts: Buffer;
  readonly #bounds: Int32Array;
  #out: Buffer;
  #filled = 0;
  #count = 0;

  constructor(reader: RowReader, shape: LineShape, maxLine: number) {
    const { columns, idColumn, promptColumn, variants } = shape;
    this.#reader = reader;
    this.#columns = reader.columns;
    this.#shape = shape;
    this.#maxLine = maxLine;
    this.#idAt = idColumn === null ? -1 : columns.indexOf(idColumn);
    this.#promptAt = columns.indexOf(promptColumn);
    const keys = Object.keys(Object.fromEntries(columns.map(column => [column, ''])));
    const member = (key: string, before: string): Member => ({
      column: columns.indexOf(key),
      before: Buffer.from(before),
    });
    this.#members = keys.map(key => member(key, `${JSON.stringify(key)}:"`));
    const sorted = [...columns].sort((a, b) => (a < b ? -1 : 1));
    this.#pairs = sorted.map(key => member(key, `[${JSON.stringify(key)},"`));
    this.#ends = endsOf(variants);
    const names = [...this.#members, ...this.#pairs].reduce((sum, { before }) => sum + before.length + 4, 0);
    const ends = this.#ends.reduce((sum, { id, line }) => sum + id.length + line.length + MOST_FIXED, 100);
    this.#constants = 200 + ends + this.#ends.length * names;
    this.#texts = Buffer.allocUnsafeSlow(2 * MOST_ROW);
    this.#bounds = new Int32Array(2 * columns.length);
    this.#out = Buffer.allocUnsafeSlow(2 * FULL);
  }

  /** Adds the lines of the row that was taken. False where it needs a closer look; then nothing was added. */
  write(number: number): boolean {
    const { claim, isTaken } = this.#shape;
    if (!this.#make()) return false;
    const isAsked = isTaken(number);
    if (this.#idAt >= 0 && this.#isBlank(this.#idAt)) return false;
    if (isAsked && this.#isBlank(this.#promptAt)) return false;
    const id = this.#idAt < 0 ? this.#contentId() : this.#idText();
    if (id === null || !claim(id)) return false;
    if (isAsked) for (const end of this.#ends) this.#line(id, number, end);
    return true;
  }

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

  /** The texts of the row. False where one of them is too long, or none. */
  #make(): boolean {
    // what was read of its lists is their beginning
    if (this.#reader.isLong) return false;
    let to = 0;
    for (let at = 0; at < this.#columns.length; at++) {
      const column = this.#columns[at]!;
      if (column.isNull) {
        this.#bounds[2 * at] = -1;
        continue;
      }
      this.#bounds[2 * at] = to;
      to = column.isText ? this.#bytes(column, to) : this.#value(column, to);
      if (to < 0) return false;
      this.#bounds[2 * at + 1] = to;
    }
    // bytes are no fewer than characters; what may be too long is counted by who says so
    if (to > this.#maxLine) return false;
    const needed = this.#filled + this.#constants + (2 + this.#ends.length * 3) * to;
    if (needed > this.#out.length) {
      const longer = Buffer.allocUnsafeSlow(2 * needed);
      this.#out.copy(longer, 0, 0, this.#filled);
      this.#out = longer;
    }
    return true;
  }

  /** A text, from its page. Returns where it ends, or -1. */
  #bytes(column: Column, begin: number): number {
    const { bytes, start, end } = column.bytes();
    if (end - start > MOST_ROW || !this.#hasRoom(begin, end - start)) return -1;
    const out = this.#texts;
    let to = begin;
    let isPlain = true;
    for (let at = start; at < end; ) {
      let from = at;
      while (at < end && NEEDS_NOTHING[bytes[at]!] === 1) at += 1;
      if (at - from > WORTH_A_COPY) to += bytes.copy(out, to, from, at);
      else while (from < at) out[to++] = bytes[from++]!;
      if (at === end) break;
      const byte = bytes[at++]!;
      if (byte > DELETE) {
        isPlain = false;
        out[to++] = byte;
      } else for (const part of ESCAPES[byte]!) out[to++] = part;
    }
    return isPlain || isUtf8(bytes.subarray(start, end)) ? to : -1;
  }

  #value(column: Column, begin: number): number {
    // a list is not written only to be found too long
    if (this.#reader.weight > MOST_ROW) return -1;
    const value = this.#reader.valueOf(column);
    const text =
      typeof value === 'string' ? value : typeof value === 'number' ? String(value) : JSON.stringify(value);
    const out = this.#texts;
    if (text.length > MOST_ROW || !this.#hasRoom(begin, text.length)) return -1;
    if (text.length > WORTH_A_CALL) return this.#quoted(text, begin);
    let to = begin;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code > DELETE) return this.#quoted(text, begin);
      if (NEEDS_NOTHING[code] === 1) out[to++] = code;
      else for (const part of ESCAPES[code]!) out[to++] = part;
    }
    return to;
  }

  #quoted(text: string, begin: number): number {
    const quoted = JSON.stringify(text);
    return begin + this.#texts.write(quoted.slice(1, -1), begin);
  }

  /** For a text of so many bytes, or characters, where each is escaped. */
  #hasRoom(begin: number, length: number): boolean {
    if (begin > MOST_ROW) return false;
    const needed = begin + 6 * length;
    if (needed <= this.#texts.length) return true;
    const longer = Buffer.allocUnsafeSlow(2 * needed);
    this.#texts.copy(longer, 0, 0, begin);
    this.#texts = longer;
    return true;
  }

  #isNull(column: number): boolean {
    return this.#bounds[2 * column] === -1;
  }

  /** Nothing but space, as far as a look at ASCII tells: then it is left to who looks at all of Unicode. */
  #isBlank(column: number): boolean {
    if (this.#isNull(column)) return true;
    const texts = this.#texts;
    const to = this.#bounds[2 * column + 1]!;
    for (let at = this.#bounds[2 * column]!; at < to; at++) {
      const byte = texts[at]!;
      if (byte === BACKSLASH) {
        // of what JSON escapes, quotes and backslashes are no space; a line's end or a tab may be
        const escaped = texts[++at];
        if (escaped === QUOTE || escaped === BACKSLASH) return false;
        if (escaped === LETTER_U) return true;
      } else if (byte > SPACE && byte <= DELETE) return false;
    }
    return true;
  }

  /** The id; null where it is escaped, and so not the text itself. */
  #idText(): string | null {
    const from = this.#bounds[2 * this.#idAt]!;
    const to = this.#bounds[2 * this.#idAt + 1]!;
    const texts = this.#texts;
    let isPlain = true;
    for (let at = from; at < to; at++) {
      if (texts[at]! === BACKSLASH) return null;
      if (texts[at]! > DELETE) isPlain = false;
    }
    return texts.toString(isPlain ? 'latin1' : 'utf8', from, to);
  }

  /** 12 hex digits of the SHA-256 of the columns and their text, as contentId in row-items.ts; it is made behind the lines. */
  #contentId(): string {
    const begin = this.#filled;
    let isFirst = true;
    for (const { column, before } of this.#pairs) {
      if (this.#isNull(column)) continue;
      this.#put(isFirst ? FIRST_PAIR : NEXT_PAIR);
      this.#put(before);
      this.#putText(column);
      isFirst = false;
    }
    this.#put(isFirst ? NO_PAIRS : PAIRS_END);
    const id = hash('sha256', this.#out.subarray(begin, this.#filled)).slice(0, 12);
    this.#filled = begin;
    return id;
  }

  #line(id: string, number: number, end: { id: Buffer; line: Buffer }): void {
    this.#put(HEAD_BEGIN);
    if (this.#idAt < 0) this.#filled += this.#out.write(id, this.#filled, 'latin1');
    else this.#putText(this.#idAt);
    this.#put(end.id);
    this.#filled += this.#out.write(`"row":${number}`, this.#filled, 'latin1');
    this.#put(INPUT_BEGIN);
    let isFirst = true;
    for (const { column, before } of this.#members) {
      if (this.#isNull(column)) continue;
      if (!isFirst) this.#put(NEXT);
      this.#put(before);
      this.#putText(column);
      isFirst = false;
    }
    this.#put(PROMPT_BEGIN);
    this.#putText(this.#promptAt);
    this.#put(end.line);
    this.#count += 1;
  }

  #putText(column: number): void {
    const from = this.#bounds[2 * column]!;
    const to = this.#bounds[2 * column + 1]!;
    this.#copy(this.#texts, from, to);
  }

  #put(bytes: Buffer): void {
    this.#copy(bytes, 0, bytes.length);
  }

  #copy(bytes: Buffer, from: number, to: number): void {
    if (to - from > WORTH_A_COPY) {
      this.#filled += bytes.copy(this.#out, this.#filled, from, to);
      return;
    }
    const out = this.#out;
    let place = this.#filled;
    for (let at = from; at < to; at++) out[place++] = bytes[at]!;
    this.#filled = place;
  }
}

const FIRST_PAIR = Buffer.from('[');
const NEXT_PAIR = Buffer.from('"],');
const NO_PAIRS = Buffer.from('[]');
