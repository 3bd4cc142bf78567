/**
 * The rows of a file as they are cut out of its blocks, each as an object: lines of NDJSON, elements of a JSON array, rows
 * of CSV and TSV. What is no object is a row all the same, with its failure; nothing is passed over.
 */

import { isUtf8 } from 'node:buffer';
import { foreignKind } from '../../../engine/core/files/encoding.ts';
import { hasMark, isEmptyLine, longLine, parseLine } from '../../../engine/core/files/line.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { type Decoder, decoderFor } from '../../../engine/tables/source-kind.ts';

export interface RowAt {
  /** bytes `offset` to `offset + length` of the file, without the line end */
  offset: number;
  length: number;
  /** on which it begins, from 1 */
  line: number;
  value: JsonObject;
  /** a row of a table, and no line of ours */
  isRow: boolean;
}

export interface RowSource {
  /** A block that begins at `base` of the file, with what `rest` gave of the last one; `final`: there is no more. */
  feed(block: Buffer, base: number, final: boolean): void;
  /** The next row. The object is the same each time. */
  next(): RowAt | null;
  /** The bytes of the block that belong to no row yet: the next one begins with them. */
  rest(): Buffer;
  /** Where the first row begins that is not given yet, or that has no end and may grow. */
  at: number;
  /** the line there, from 1 */
  line: number;
}

/** `elements`: of a JSON array */
export type FileShape = 'lines' | 'elements' | 'table' | 'parquet';

const NEWLINE = 10;
const BRACE = 0x7b;
const BRACKET = 0x5b;
const STAGE = 'view';
/** Bytes that say what a file is. */
export const FIRST_BYTES = 64 * 1024;

export const isParquet = (path: string): boolean => /\.parquet$/i.test(path);

/** By its name and its first bytes. Throws (65) where it is nothing that can be read. */
export function shapeOf(path: string, first: Buffer): FileShape {
  if (isParquet(path)) return 'parquet';
  const foreign = foreignKind(first, path);
  if (foreign !== null) throw dataError(foreign);
  const start = hasMark(first, 0) ? 3 : 0;
  const begin = first.find((byte, at) => at >= start && byte > 32);
  if (begin === undefined || begin === BRACE || /\.(ndjson|jsonl)$/i.test(path)) return 'lines';
  if (begin === BRACKET) return 'elements';
  return /\.json$/i.test(path) ? 'lines' : 'table';
}

/** Lines of NDJSON from byte `at` on, which is where line `line` begins. */
export class LineRows implements RowSource {
  at: number;
  line: number;
  readonly #source: { stage: string; name: string; maxLine: number };
  #block: Buffer = Buffer.alloc(0);
  #base = 0;
  #from = 0;
  #searched = 0;
  #final = false;
  /** bytes of a line that is too long to keep, which have gone by */
  #skipped: ReturnType<typeof longLine> | null = null;
  /** all whole lines of the block are UTF-8 */
  #checked = false;
  readonly #row: RowAt = { offset: 0, length: 0, line: 0, value: {}, isRow: false };

  constructor(path: string, maxLine: number, { at, line }: { at: number; line: number }) {
    this.#source = { stage: STAGE, name: path, maxLine };
    this.at = at;
    this.line = line;
  }

  feed(block: Buffer, base: number, final: boolean): void {
    this.#block = block;
    this.#base = base;
    this.#from = 0;
    this.#final = final;
    this.#checked = isUtf8(block.subarray(0, block.lastIndexOf(NEWLINE) + 1));
  }

  next(): RowAt | null {
    for (;;) {
      const to = this.#block.indexOf(NEWLINE, this.#searched);
      if (to < 0) return this.#final ? this.#last() : this.#wait();
      const from = this.#from;
      const line = this.line;
      const offset = this.at;
      this.#from = this.#searched = to + 1;
      this.line += 1;
      this.at = this.#base + to + 1;
      if (this.#skipped === null && isEmptyLine(this.#block, from, to, line)) continue;
      return this.#rowOf(from, to, line, offset);
    }
  }

  #rowOf(from: number, to: number, line: number, offset: number): RowAt {
    const row = this.#row;
    row.offset = offset;
    row.length = this.#base + to - offset;
    row.line = line;
    const { maxLine } = this.#source;
    if (this.#skipped !== null || to - from > maxLine) {
      this.#skip(from, to);
      row.value = this.#skipped!.end(line);
      this.#skipped = null;
    } else row.value = this.#valueOf(from, to, line);
    return row;
  }

  #valueOf(from: number, to: number, number: number): JsonObject {
    if (this.#checked && number > 1) {
      try {
        const value: unknown = JSON.parse(this.#block.toString('utf8', from, to));
        if (isObject(value)) return value;
      } catch {
        // what is wrong with it is said below
      }
    }
    return parseLine(this.#block, from, to, { checked: this.#checked, number, source: this.#source });
  }

  #wait(): null {
    this.#searched = this.#block.length - this.#from;
    if (this.#skipped !== null || this.#searched > this.#source.maxLine) {
      this.#skip(this.#from, this.#block.length);
      this.#from = this.#block.length;
      this.#searched = 0;
    }
    return null;
  }

  rest(): Buffer {
    return this.#block.subarray(this.#from);
  }

  #skip(from: number, to: number): void {
    this.#skipped ??= longLine(this.#source);
    this.#skipped.add(this.#block.subarray(from, to));
  }

  /** A line without an end is a row where it is whole; it stays where the next look begins, for it may grow. */
  #last(): RowAt | null {
    const from = this.#from;
    const to = this.#block.length;
    this.#from = this.#searched = to;
    this.#final = false;
    if (this.#skipped !== null || from === to || isEmptyLine(this.#block, from, to, this.line)) return null;
    const row = this.#rowOf(from, to, this.line, this.at);
    return row.value.failure === undefined || !isTorn(row.value) ? row : null;
  }
}

const isTorn = ({ failure }: JsonObject): boolean =>
  ['not-json', 'not-utf8'].includes(String((failure as JsonObject).code));

/** Rows of a table, or elements of an array. */
export class TableRows implements RowSource {
  at = 0;
  line = 1;
  readonly #path: string;
  readonly #maxLine: number;
  readonly #isArray: boolean;
  #decoder: Decoder | null = null;
  readonly #row: RowAt;

  constructor(path: string, maxLine: number, shape: 'elements' | 'table') {
    this.#path = path;
    this.#maxLine = maxLine;
    this.#isArray = shape === 'elements';
    this.#row = { offset: 0, length: 0, line: 0, value: {}, isRow: !this.#isArray };
  }

  feed(block: Buffer, base: number, final: boolean): void {
    if (this.#decoder !== null) return this.#decoder.pieces.feed(block, final, base);
    const mark = hasMark(block, 0) ? 3 : 0;
    const bytes = block.subarray(mark);
    const format = this.#isArray ? ('json' as const) : undefined;
    const opening = { format, maxLine: this.#maxLine, takesItems: true, expect: () => {}, warn: () => {} };
    this.#decoder = decoderFor(bytes, this.#path, opening, { header: null });
    this.#decoder.pieces.feed(bytes, final, base + mark);
  }

  next(): RowAt | null {
    const decoder = this.#decoder as Decoder;
    const { pieces } = decoder;
    for (let piece = pieces.next(); piece !== null; piece = pieces.next()) {
      const { block, from, to, line, trouble } = piece;
      const row = this.#row;
      row.offset = pieces.base + from;
      row.length = to - from;
      row.line = line;
      this.at = pieces.base + piece.next;
      this.line = line;
      if (this.#isArray) {
        const source = { stage: STAGE, name: this.#path, maxLine: this.#maxLine, unit: 'element' };
        row.value = trouble
          ? failed(trouble.code, trouble.message)
          : parseLine(block, from, to, { checked: false, number: line, source });
        return row;
      }
      const read = decoder.row(piece);
      if (read === null) continue; // the header
      const { columns, fields, trouble: wrong } = read;
      row.value = wrong
        ? failed(wrong.code, wrong.message)
        : Object.fromEntries(columns.map((column, at) => [column, fields?.[at] ?? '']));
      return row;
    }
    return null;
  }

  rest(): Buffer {
    return this.#decoder?.pieces.rest() ?? Buffer.alloc(0);
  }
}

/** The value of a row that is none. */
export const failed = (code: string, message: string): JsonObject => ({
  failure: { stage: STAGE, code, message },
});
