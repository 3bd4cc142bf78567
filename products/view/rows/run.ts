/**
 * Files opened to be looked at. A thread makes the index (indexer.ts), which grows here chunk by chunk; the rows themselves
 * stay on disk and are read when somebody looks at them. Nothing is written but an index that is kept for the next time.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../../../engine/core/config/package.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { ColumnKind } from './chunk.ts';
import type { FileState, FromIndexer, IndexerData } from './indexer.ts';
import { readKept, type Subject, usualFolder, writeKept } from './kept-index.ts';
import { OpenFile, type RowContent } from './open-file.ts';
import { RowIndex } from './row-index.ts';
import { type Query, type Selection, Selections } from './selections.ts';
import { openSource, type SourceRows } from './source-rows.ts';

export interface Column {
  name: string;
  kind: ColumnKind;
  /** different values; where there are too many to count, those that were counted */
  distinct: number;
}

/** One row as it is on disk now. */
export interface RowText extends RowContent {
  /** from 0, over all files */
  row: number;
  file: string;
  /** on which it begins, from 1 */
  line: number;
  /** where it is in the file, in bytes */
  offset: number;
  bytes: number;
  /** of --source: the columns of its row */
  joined: JsonObject | null;
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
  /** the table that was asked, for results that lack its columns */
  source?: string | null;
  /** the folder of kept indexes; usually one of the system's for temporary files */
  keptIn?: string;
}

/** ms without anything to read after which the thread ends */
const IDLE = 5_000;
/** bytes more than a kept index has, for which it is kept anew */
const MUCH = 256 << 20;
/** ms between two looks at whether a file has grown */
const LOOK = 500;

export class Run {
  readonly index = new RowIndex();
  readonly #selections: Selections;
  readonly #files: OpenFile[];
  readonly #options: RunOptions;
  #worker: Worker | null = null;
  /** ends the thread where nothing grows: what it has in memory is in the index too */
  #idle: NodeJS.Timeout | undefined;
  #read: FileState[] = [];
  #source: SourceRows | null = null;
  #strangers: string | null = null;
  #leftOut = 0;
  #isBusy = false;
  #lookedAt = 0;
  #waiting: (() => void)[] = [];
  #broken: string | null = null;
  /** bytes that the kept index has, so that it is kept again only once there is much more */
  #kept = 0;
  #keeping: Promise<void> = Promise.resolve();

  /** Exit 65 where a file is not there, or is nothing that can be read. */
  static async open(paths: readonly string[], options: RunOptions): Promise<Run> {
    const files: OpenFile[] = [];
    for (const path of paths) files.push(await OpenFile.open(path));
    const run = new Run(files, options);
    const { source = null, maxLine } = options;
    if (source !== null) run.#source = await openSource(source, maxLine);
    await run.#takeKept();
    if (run.#readBytes() < run.state().of || run.index.rows === 0) run.#readOn();
    return run;
  }

  private constructor(files: OpenFile[], options: RunOptions) {
    this.#files = files;
    this.#options = options;
    this.#selections = new Selections(this.index, files, options.maxLine);
  }

  async #takeKept(): Promise<void> {
    const kept = await readKept(this.#subject());
    if (kept === null) return;
    this.index.take(kept.chunks, kept.columns);
    this.#read = kept.files;
    this.#leftOut = kept.leftOut;
    this.#kept = this.#readBytes();
  }

  #subject(): Subject {
    const { hashes = false, maxLine, source = null, keptIn = usualFolder() } = this.#options;
    const handles = this.#files.map(({ handle }) => handle);
    return {
      paths: this.paths,
      handles,
      folder: keptIn,
      options: JSON.stringify([hashes, maxLine, ...sourceMark(source)]),
    };
  }

  /** Has the thread read what it has not read yet. */
  #readOn(): void {
    this.#isBusy = true;
    clearTimeout(this.#idle);
    if (this.#worker !== null) return this.#worker.postMessage('read');
    const workerData: IndexerData = {
      paths: this.paths,
      descriptors: this.#files.map(({ handle }) => handle.fd),
      maxLine: this.#options.maxLine,
      hashes: this.#options.hashes === true,
      from: this.#read,
      columns: this.index.news(),
      leftOut: this.#leftOut,
      source: this.#options.source ?? null,
    };
    // objects of a line live as long as the line is looked at: a small heap is enough, and stays small
    const resourceLimits = { maxYoungGenerationSizeMb: 16 };
    const worker = new Worker(join(packageRoot(), 'dist/products/view/rows/indexer.js'), {
      workerData,
      resourceLimits,
    });
    worker.on('message', (message: FromIndexer) => this.#take(message));
    worker.on('error', (error: Error) => this.#breaks(error));
    worker.unref();
    this.#worker = worker;
  }

  #rest(): void {
    this.#idle = setTimeout(() => {
      void this.#worker?.terminate();
      this.#worker = null;
    }, IDLE).unref();
  }

  get paths(): string[] {
    return this.#files.map(({ path }) => path);
  }

  state(): RunState {
    const read = this.#readBytes();
    const of = this.#files.reduce((sum, { size }) => sum + size, 0);
    return { rows: this.index.rows, done: !this.#isBusy, read, of, notes: this.#notes() };
  }

  #readBytes(): number {
    return this.#read.reduce((sum, { read }) => sum + read, 0);
  }

  #notes(): string[] {
    const notes = this.#files.flatMap(({ path, open: bytes, trouble }) => [
      ...(trouble === null ? [] : [trouble.startsWith(path) ? trouble : `${path}: ${trouble}`]),
      ...(bytes === 0 || this.#isBusy
        ? []
        : [
            `${path}: the last line has no end (${counted(bytes, 'byte')}); it may still be written, or be torn`,
          ]),
    ]);
    if (this.#broken !== null) notes.push(this.#broken);
    if (this.#strangers !== null) notes.push(this.#strangers);
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
      await file.measure();
      if (file.trouble !== null) continue; // it is another file by now, as the page says
      if (file.size > before && file.shape === 'lines') isMore = true;
      else if (file.size > before) file.trouble = 'it grew; a table is read once: open it again';
    }
    if (!isMore) return;
    this.#readOn();
  }

  /** The rows that are wanted, as far as they are known; a text is searched for `ms` at most before it answers. */
  async select(query: Query, ms = 0): Promise<Selection> {
    await this.#selections.searched(query.text, ms);
    return this.#selections.of(query);
  }

  /**
   * By row, 53 bits of a hash, or NaN: of the `ids`; of what was `decided`, and of all that was `said`, where two runs are
   * to be compared (`hashes`). As far as they are known.
   */
  hashes(of: 'ids' | 'decided' | 'said'): Float64Array {
    const all = new Float64Array(this.index.rows).fill(Number.NaN);
    for (const chunk of this.index.chunks) if (chunk[of] !== null) all.set(chunk[of], chunk.first);
    return all;
  }

  /** One row, from the disk. */
  async read(row: number): Promise<RowText> {
    const chunk = this.index.chunkOf(row);
    const at = row - chunk.first;
    const offset = chunk.offsets[at] as number;
    const bytes = chunk.lengths[at] as number;
    const file = this.#files[chunk.file] as OpenFile;
    const about = { row, file: file.path, line: chunk.lines[at] as number, offset, bytes };
    const first = this.index.chunks.find(each => each.file === chunk.file) ?? chunk;
    const head = first.offsets[0] as number;
    const content = await file.read({ offset, bytes, head }, this.#options.maxLine);
    const where = `${about.file}:${about.line}`;
    const joined = content.isRow ? null : (this.#source?.of(content.value, where) ?? null);
    return { ...about, ...content, joined };
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
      this.#strangers = message.strangers;
      message.open.forEach((bytes, at) => {
        (this.#files[at] as OpenFile).open = bytes;
      });
      this.#rest();
      this.#keeping = this.#keeping.then(() => this.#keep());
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  async #keep(): Promise<void> {
    const bytes = this.#readBytes();
    if (bytes < 2 * this.#kept && bytes - this.#kept < MUCH) return;
    this.#kept = bytes;
    await writeKept(this.#subject(), this.index, this.#read, this.#leftOut);
  }

  #breaks(error: Error): void {
    this.#broken = `the index could not be made to its end: ${error.message}`;
    this.#isBusy = false;
  }

  async close(): Promise<void> {
    this.#selections.stop();
    clearTimeout(this.#idle);
    await this.#worker?.terminate();
    await this.#keeping;
    for (const { handle } of this.#files) await handle.close();
  }
}

/** What tells one table from another, and from itself after a change. */
function sourceMark(source: string | null): unknown[] {
  if (source === null) return [];
  const { size, mtimeMs } = statSync(source);
  return [source, size, mtimeMs];
}
