/** One file while it is looked at: it stays open, so that what takes its place, or removes it, changes nothing here. */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { isRemote, notOnDisk } from '../../../engine/core/files/input-files.ts';
import { dataError, Fatal } from '../../../engine/core/item/failure.ts';
import { number } from '../../../engine/core/item/wording.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import { openParquet, type ParquetFile, tooLong } from '../../../engine/tables/parquet-rows.ts';
import { FIRST_BYTES, type FileShape, failed, LineRows, shapeOf, TableRows } from './cut-rows.ts';

/** What a row holds now. */
export interface RowContent {
  /** as it stands there; null where it cannot be read any more, as `trouble` says */
  text: string | null;
  /** what it holds; of a line that is no object its failure */
  value: JsonObject;
  /** a row of a table, and no line of ours */
  isRow: boolean;
  trouble: string | null;
}

/** Rows of a Parquet file that are kept, and characters of them: those around one are likely to be looked at too. */
const MOST_KEPT = 500;
const MOST_CHARACTERS = 4 << 20;
const NEWLINE = Buffer.from('\n');

export class OpenFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly shape: FileShape;
  /** bytes, at the last look */
  size: number;
  /** bytes at the end that are a line without an end */
  open = 0;
  trouble: string | null = null;
  readonly #begin: Buffer;
  /** of a table: all before its first row */
  #head: Buffer | null = null;
  /** rows of a Parquet file that were read last */
  #page: { from: number; rows: (JsonObject | null)[] } | null = null;

  /** Exit 65 where it is not there, or is nothing that can be read. */
  static async open(path: string): Promise<OpenFile> {
    let handle: FileHandle;
    try {
      // to open a pipe waits until somebody writes into it
      if (!(await stat(path)).isFile())
        throw dataError(`expected a file, found a pipe, folder or device: ${path}; write it to a file first`);
      handle = await open(path, 'r');
    } catch (error) {
      if (error instanceof Fatal) throw error;
      const { code } = error as NodeJS.ErrnoException;
      if (isRemote(path)) throw notOnDisk(path);
      throw dataError(`expected a readable file, found ${code === 'ENOENT' ? 'none' : code}: ${path}`);
    }
    const facts = await handle.stat();
    const first = Buffer.alloc(FIRST_BYTES);
    const { bytesRead } = await handle.read(first, 0, FIRST_BYTES, 0);
    const begin = first.subarray(0, bytesRead);
    return new OpenFile(path, handle, shapeOf(path, begin), { size: facts.size, begin });
  }

  private constructor(
    path: string,
    handle: FileHandle,
    shape: FileShape,
    { size, begin }: { size: number; begin: Buffer },
  ) {
    this.path = path;
    this.handle = handle;
    this.shape = shape;
    this.size = size;
    this.#begin = begin;
  }

  /** Looks whether it is as long as it was. */
  async measure(): Promise<void> {
    const { size } = await this.handle.stat();
    if (size < this.size)
      this.trouble = 'the file got shorter while it is looked at; rows beyond its end are gone';
    else if (size > this.size && !(await this.#isBegun()))
      this.trouble = 'the file was written anew while it is looked at: open it again';
    this.size = size;
  }

  /** Whether it still begins as it did. */
  async #isBegun(): Promise<boolean> {
    const begin = Buffer.alloc(this.#begin.length);
    const { bytesRead } = await this.handle.read(begin, 0, begin.length, 0);
    return begin.subarray(0, bytesRead).equals(this.#begin);
  }

  /** The rows of a Parquet file, as `ParquetFile.each`; of another one null, whose rows are text in it. */
  each(...given: Parameters<ParquetFile['each']>): Promise<void> | null {
    return this.shape === 'parquet' ? openParquet(this.path).then(file => file.each(...given)) : null;
  }

  /** The row at `offset`. `head`: where the first row of the file begins. */
  async read(at: { offset: number; bytes: number; head: number }, maxLine: number): Promise<RowContent> {
    const { offset, bytes, head } = at;
    const isRow = this.shape === 'table' || this.shape === 'parquet';
    if (bytes > maxLine) {
      const trouble = `expected at most ${number(maxLine)} bytes (--max-line), found ${number(bytes)}`;
      const failure = { stage: 'view', code: 'line-too-long', message: trouble };
      return { text: null, value: { failure }, isRow, trouble };
    }
    try {
      if (this.shape === 'parquet') {
        const value = await this.#parquetRow(offset, maxLine);
        if (value !== null) return { text: JSON.stringify(value), value, isRow, trouble: null };
        const trouble = tooLong(maxLine);
        return { text: null, value: failed('line-too-long', trouble), isRow, trouble };
      }
      const block = await this.#bytes(offset, bytes);
      return {
        text: block.toString(),
        value: await this.#valueOf(block, head, maxLine),
        isRow,
        trouble: null,
      };
    } catch (error) {
      return { text: null, value: {}, isRow, trouble: (error as Error).message };
    }
  }

  async #bytes(offset: number, bytes: number): Promise<Buffer> {
    const block = Buffer.allocUnsafe(bytes);
    const { bytesRead } = await this.handle.read(block, 0, bytes, offset);
    if (bytesRead < bytes) throw dataError('the file is shorter than it was: this row is not there any more');
    return block;
  }

  async #valueOf(block: Buffer, head: number, maxLine: number): Promise<JsonObject> {
    if (this.shape === 'table') {
      this.#head ??= await this.#bytes(0, head);
      const rows = new TableRows(this.path, maxLine + head, this.shape);
      rows.feed(Buffer.concat([this.#head, block]), 0, true);
      return rows.next()?.value ?? {};
    }
    const rows = new LineRows(this.path, maxLine, { at: 0, line: 0 });
    // an element of an array may be written over several lines
    const flat = this.shape === 'elements' ? onOneLine(block) : block;
    rows.feed(Buffer.concat([flat, NEWLINE]), 0, true);
    return rows.next()?.value ?? {};
  }

  /** null: it is longer than `maxLine` */
  async #parquetRow(row: number, maxLine: number): Promise<JsonObject | null> {
    const kept = this.#page?.rows[row - this.#page.from];
    if (kept !== undefined) return kept;
    const rows: (JsonObject | null)[] = [];
    let from = row - (row % MOST_KEPT);
    const end = from + MOST_KEPT;
    let characters = 0;
    await this.each(from, maxLine, (value, at) => {
      characters += JSON.stringify(value).length;
      if (characters > MOST_CHARACTERS && at > row) return false;
      if (characters > MOST_CHARACTERS) {
        rows.length = 0;
        from = at;
        characters = 0;
      }
      rows.push(value);
      return at + 1 < end;
    });
    this.#page = { from, rows };
    const found = rows[row - from];
    return found === undefined ? {} : found;
  }
}

/** Line ends between values are space; in a text of JSON there are none. */
function onOneLine(block: Buffer): Buffer {
  const flat = Buffer.from(block);
  for (let at = flat.indexOf(10); at >= 0; at = flat.indexOf(10, at + 1)) flat[at] = 32;
  return flat;
}
