/**
 * Files opened to be looked at. A thread makes the index (indexer.ts), which grows here chunk by chunk; the rows themselves
 * stay on disk and are read when somebody looks at them. Nothing is written but an index that is kept for the next time.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../../../engine/core/config/package.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { ColumnKind } from './chunk.ts';
import { FIRST_BYTES, type FileShape, LineRows, shapeOf, TableRows } from './cut-rows.ts';
import type { FileState, FromIndexer, IndexerData } from './indexer.ts';
import { type PlacedChunk, RowIndex } from './row-index.ts';
import { type Query, type Selection, Selections } from './selections.ts';

export interface Column {
  name: string;
  kind: ColumnKind;
  /** different values; where there are too many to count, those that were counted */
  distinct: number;
}

/** One row as it is on disk now. */
export interface RowText {
  /** from 0, over all files */
  row: number;
  file: string;
  /** on which it begins, from 1 */
  line: number;
  /** where it is in the file, in bytes */
  offset: number;
  bytes: number;
  /** as it stands there; null where it cannot be read any more, as `trouble` says */
  text: string | null;
  /** what it holds; of a line that is no object its failure */
  value: JsonObject;
  /** a row of a table, and no line of ours */
  isRow: boolean;
  trouble: string | null;
}

export interface RunState {
  rows: number;
  /** all is read that was there at the last look */
  done: boolean;
  /** bytes */
  read: number;
  of: number;
  /** what a person should know: a torn last line, a file that shrank, columns left out */
  notes: string[];
}

export interface RunOptions {
  /** bytes of a row that is parsed */
  maxLine: number;
  /** two runs will be compared */
  hashes?: boolean;
}

/** ms between two looks at whether a file has grown */
const LOOK = 500;

interface OpenFile {
  path: string;
  handle: FileHandle;
  shape: FileShape;
  /** at the last look */
  size: number;
  /** bytes at the end that are a line without an end */
  open: number;
  /** of a table: all before its first row */
  head: Buffer | null;
  trouble: string | null;
}

export class Run {
  readonly index = new RowIndex();
  readonly #selections: Selections;
  readonly #files: OpenFile[];
  readonly #options: RunOptions;
  readonly #worker: Worker;
  #read: FileState[] = [];
  #leftOut = 0;
  #isBusy = true;
  #lookedAt = 0;
  #waiting: (() => void)[] = [];
  #broken: string | null = null;

  /** Exit 65 where a file is not there, or is nothing that can be read. */
  static async open(paths: readonly string[], options: RunOptions): Promise<Run> {
    const files: OpenFile[] = [];
    for (const path of paths) files.push(await opened(path));
    return new Run(files, options);
  }

  private constructor(files: OpenFile[], options: RunOptions) {
    this.#files = files;
    this.#options = options;
    this.#selections = new Selections(this.index, this.paths);
    const workerData: IndexerData = {
      paths: files.map(({ path }) => path),
      maxLine: options.maxLine,
      hashes: options.hashes === true,
      from: [],
      columns: [],
    };
    this.#worker = new Worker(join(packageRoot(), 'dist/products/view/rows/indexer.js'), { workerData });
    this.#worker.on('message', (message: FromIndexer) => this.#take(message));
    this.#worker.on('error', (error: Error) => this.#breaks(error));
    this.#worker.unref();
    this.#worker.postMessage('read');
  }

  get paths(): string[] {
    return this.#files.map(({ path }) => path);
  }

  state(): RunState {
    const read = this.#read.reduce((sum, { read: bytes }) => sum + bytes, 0);
    const of = this.#files.reduce((sum, { size }) => sum + size, 0);
    return { rows: this.index.rows, done: !this.#isBusy, read, of, notes: this.#notes() };
  }

  #notes(): string[] {
    const notes = this.#files.flatMap(({ path, open: bytes, trouble }) => [
      ...(trouble === null ? [] : [`${path}: ${trouble}`]),
      ...(bytes === 0 || this.#isBusy
        ? []
        : [
            `${path}: the last line has no end (${counted(bytes, 'byte')}); it may still be written, or be torn`,
          ]),
    ]);
    if (this.#broken !== null) notes.push(this.#broken);
    if (this.#leftOut > 0)
      notes.push(
        `${number(this.#leftOut)} values are of columns beyond the first ${this.index.columns.length}, which cannot be filtered or sorted by`,
      );
    for (const { name, kind, odd } of this.index.columns)
      if (kind === 'numbers' && odd > 0)
        notes.push(
          `column ${name}: ${counted(odd, 'value')} in it ${odd === 1 ? 'is' : 'are'} no number, and left out where it is sorted or filtered by`,
        );
    return notes;
  }

  /** Each column that some row has, in the order in which they were met. */
  columns(): Column[] {
    return this.index.columns.map(({ name, kind, values }) => ({ name, kind, distinct: values.length }));
  }

  /** Resolves once there are more rows than `rows`, or all is read, or `ms` are over. */
  async grown(rows: number, ms: number): Promise<void> {
    if (this.index.rows > rows || !this.#isBusy) return;
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, ms);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Has files that grew read on; asked by whoever looks, not more often than it makes sense. */
  async look(now: number): Promise<void> {
    if (this.#isBusy || this.#broken !== null || now - this.#lookedAt < LOOK) return;
    this.#lookedAt = now;
    let isMore = false;
    for (const file of this.#files) {
      const before = file.size;
      await measure(file);
      if (file.size > before && file.shape === 'lines') isMore = true;
      else if (file.size > before) file.trouble = 'it grew; a table is read once: open it again';
    }
    if (!isMore) return;
    this.#isBusy = true;
    this.#worker.postMessage('read');
  }

  /** The rows that are wanted, as far as they are known; a text is searched for `ms` at most before it answers. */
  async select(query: Query, ms = 0): Promise<Selection> {
    await this.#selections.searched(query.text, ms);
    return this.#selections.of(query);
  }

  /** One row, from the disk. */
  async read(row: number): Promise<RowText> {
    const chunk = this.index.chunkOf(row);
    const at = row - chunk.first;
    const offset = chunk.offsets[at] as number;
    const bytes = chunk.lengths[at] as number;
    const file = this.#files[chunk.file] as OpenFile;
    const about = { row, file: file.path, line: chunk.lines[at] as number, offset, bytes };
    const isRow = file.shape === 'table' || file.shape === 'parquet';
    const gone = (trouble: string): RowText => ({
      ...about,
      text: null,
      value: { failure: { stage: 'view', code: 'unreadable', message: trouble } },
      isRow,
      trouble,
    });
    if (bytes > this.#options.maxLine)
      return gone(
        `expected at most ${number(this.#options.maxLine)} bytes (--max-line), found ${number(bytes)}`,
      );
    const block = Buffer.allocUnsafe(bytes);
    let got = 0;
    try {
      ({ bytesRead: got } = await file.handle.read(block, 0, bytes, offset));
    } catch (error) {
      return gone(`expected to read it, found ${(error as NodeJS.ErrnoException).code}`);
    }
    if (got < bytes) return gone('the file is shorter than it was: this row is not there any more');
    return {
      ...about,
      text: block.toString(),
      value: await this.#valueOf(file, block, chunk),
      isRow,
      trouble: null,
    };
  }

  async #valueOf(file: OpenFile, block: Buffer, chunk: PlacedChunk): Promise<JsonObject> {
    const { path, shape } = file;
    const { maxLine } = this.#options;
    if (shape === 'table') {
      file.head ??= await headOf(
        file,
        this.index.chunks.find(each => each.file === chunk.file)?.offsets[0] ?? 0,
      );
      const rows = new TableRows(path, maxLine + file.head.length, shape);
      rows.feed(Buffer.concat([file.head, block]), 0, true);
      return rows.next()?.value ?? {};
    }
    const rows = new LineRows(path, maxLine, { at: 0, line: 0 });
    // an element of an array may be written over several lines
    const flat = shape === 'elements' ? onOneLine(block) : block;
    rows.feed(Buffer.concat([flat, NEWLINE]), 0, true);
    return rows.next()?.value ?? {};
  }

  #take(message: FromIndexer): void {
    if (message.kind === 'trouble') {
      (this.#files[message.file] as OpenFile).trouble = message.message;
      return;
    }
    this.#read = message.files;
    this.#leftOut = message.leftOut;
    if (message.kind === 'chunk') this.index.add(message.chunk, message.news);
    else {
      this.#isBusy = false;
      message.open.forEach((bytes, at) => {
        (this.#files[at] as OpenFile).open = bytes;
      });
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  #breaks(error: Error): void {
    this.#broken = `the index could not be made to its end: ${error.message}`;
    this.#isBusy = false;
  }

  async close(): Promise<void> {
    this.#selections.stop();
    await this.#worker.terminate();
    for (const { handle } of this.#files) await handle.close();
  }
}

const NEWLINE = Buffer.from('\n');

/** Line ends between values are space; in a text of JSON there are none. */
function onOneLine(block: Buffer): Buffer {
  const flat = Buffer.from(block);
  for (let at = flat.indexOf(10); at >= 0; at = flat.indexOf(10, at + 1)) flat[at] = 32;
  return flat;
}

async function opened(path: string): Promise<OpenFile> {
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw dataError(`expected a readable file, found ${code === 'ENOENT' ? 'none' : code}: ${path}`);
  }
  const facts = await handle.stat();
  if (!facts.isFile()) {
    await handle.close();
    throw dataError(`expected a file, found a pipe, folder or device: ${path}; write it to a file first`);
  }
  const first = Buffer.alloc(FIRST_BYTES);
  const { bytesRead } = await handle.read(first, 0, FIRST_BYTES, 0);
  const shape = shapeOf(path, first.subarray(0, bytesRead));
  return { path, handle, shape, size: facts.size, open: 0, head: null, trouble: null };
}

/** Whether it is as long as it was. A file that another one took the place of stays open, as it was. */
async function measure(file: OpenFile): Promise<void> {
  const { size } = await file.handle.stat();
  if (size < file.size)
    file.trouble = 'the file got shorter while it is looked at; rows beyond its end are gone';
  file.size = size;
}

async function headOf({ handle }: OpenFile, bytes: number): Promise<Buffer> {
  const head = Buffer.alloc(bytes);
  const { bytesRead } = await handle.read(head, 0, bytes, 0);
  return head.subarray(0, bytesRead);
}
