/**
 * The thread that reads files and makes the index: rows are cut out of bytes, each is parsed once, and what its columns
 * hold goes into typed arrays. The thread that answers the browser never waits for it.
 */
import { fstatSync, readSync, statSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { dataError } from '../../../engine/core/item/failure.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { openParquet, tooLong } from '../../../engine/tables/parquet-rows.ts';
import { CHUNK, type Chunk, ColumnBuilder, type ColumnNews, hashOf } from './chunk.ts';
import {
  FIRST_BYTES,
  failed,
  isParquet,
  LineRows,
  type RowAt,
  type RowSource,
  shapeOf,
  TableRows,
} from './cut-rows.ts';
import { fieldsOf } from './line-fields.ts';
import { openSource, type SourceRows } from './source-rows.ts';

export interface IndexerData {
  paths: readonly string[];
  /** descriptors of the files: what takes the place of one is another file */
  descriptors: readonly number[];
  maxLine: number;
  /** hashes of answers too, for two runs beside each other */
  hashes: boolean;
  /** the table that was asked, for lines that lack its columns */
  source: string | null;
  /** where an index that was kept ends */
  from: readonly FileState[];
  columns: readonly ColumnNews[];
  leftOut: number;
}

/** How far a file was read. */
export interface FileState {
  /** bytes */
  read: number;
  /** the line that begins there, from 1 */
  line: number;
}

export type FromIndexer =
  | { kind: 'chunk'; chunk: Chunk; news: ColumnNews[]; files: FileState[]; leftOut: number }
  /** all is read that was there; `open`: bytes of a last line without an end, by file */
  | { kind: 'end'; open: number[]; files: FileState[]; leftOut: number; strangers: string | null }
  | { kind: 'trouble'; file: number; message: string };

const BLOCK = 1 << 20;
/** The first rows are shown as soon as they are known. */
const FIRST_ROWS = 200;
/** ms after which a chunk is handed over though it is not full */
const SOON = 300;

class Indexer {
  readonly #data: IndexerData;
  readonly #columns = new Map<string, Map<string, ColumnBuilder | null>>();
  readonly #builders: ColumnBuilder[] = [];
  readonly #files: FileState[];
  #source: SourceRows | null = null;
  #leftOut: number;
  #mostColumns = MOST_COLUMNS;
  #rows = 0;
  #file = 0;
  #handedOver = 0;
  #isFirst = true;
  #offsets = new Float64Array(CHUNK);
  #lengths = new Uint32Array(CHUNK);
  #lines = new Uint32Array(CHUNK);
  #ids = new Float64Array(CHUNK);
  #decided: Float64Array | null = null;
  #said: Float64Array | null = null;

  constructor(data: IndexerData) {
    this.#data = data;
    this.#leftOut = data.leftOut;
    this.#files = data.paths.map((_path, at) => ({ ...(data.from[at] ?? { read: 0, line: 1 }) }));
    for (const column of data.columns) this.#builderOf(column.group, column.key, column);
    this.#isFirst = data.columns.length === 0;
    if (!this.#isFirst) this.#mostColumns = Math.max(FEWEST_COLUMNS, data.columns.length);
    if (data.hashes) {
      this.#decided = new Float64Array(CHUNK);
      this.#said = new Float64Array(CHUNK);
    }
  }

  /** Reads what there is, from where it came to the last time. A last line without an end is read again. */
  async run(): Promise<void> {
    const open: number[] = [];
    const { source, maxLine } = this.#data;
    if (source !== null) this.#source ??= await openSource(source, maxLine);
    for (let file = 0; file < this.#data.paths.length; file++) {
      this.#file = file;
      try {
        open.push(
          isParquet(this.#data.paths[file] as string) ? await this.#readParquet(file) : this.#read(file),
        );
      } catch (error) {
        open.push(0);
        post({ kind: 'trouble', file, message: (error as Error).message });
      }
      this.#handOver();
    }
    const strangers = strangersIn(this.#source);
    post({ kind: 'end', open, files: this.#files, leftOut: this.#leftOut, strangers });
  }

  /** Returns how many bytes at the end are a line without an end. */
  #read(file: number): number {
    const path = this.#data.paths[file] as string;
    const state = this.#files[file] as FileState;
    const handle = this.#data.descriptors[file] as number;
    const { size } = fstatSync(handle);
    if (size <= state.read) return 0;
    const rows = this.#rowsOf(path, handle, state);
    // two buffers in turn: what is left of one block is copied to the beginning of the next
    let [block, other] = [Buffer.allocUnsafeSlow(BLOCK), Buffer.allocUnsafeSlow(BLOCK)];
    let rest: Buffer = Buffer.alloc(0);
    for (let end = state.read; ; ) {
      if (block.length < 2 * rest.length) block = Buffer.allocUnsafeSlow(4 * rest.length);
      rest.copy(block);
      const wanted = Math.min(block.length - rest.length, size - end);
      const got = wanted <= 0 ? 0 : readSync(handle, block, rest.length, wanted, end);
      rows.feed(block.subarray(0, rest.length + got), end - rest.length, got === 0);
      end += got;
      for (let row = rows.next(); row !== null; row = rows.next()) this.#add(row, file);
      Object.assign(state, { read: rows.at, line: rows.line });
      if (got === 0) return rows instanceof LineRows ? end - rows.at : 0;
      rest = rows.rest();
      [block, other] = [other, block];
    }
  }

  /** Row groups, where a row's place is its number. Returns 0. */
  async #readParquet(file: number): Promise<number> {
    const path = this.#data.paths[file] as string;
    const state = this.#files[file] as FileState;
    const { size } = statSync(path);
    if (state.read === size) return 0;
    const { maxLine } = this.#data;
    const parquet = await openParquet(path);
    await parquet.each(0, maxLine, (row, at) => {
      const value = row ?? failed('line-too-long', tooLong(maxLine));
      this.#add({ offset: at, length: 0, line: at + 1, value, isRow: true }, file);
      return true;
    });
    state.read = size;
    return 0;
  }

  #rowsOf(path: string, handle: number, state: FileState): RowSource {
    const first = Buffer.alloc(FIRST_BYTES);
    const shape = shapeOf(path, first.subarray(0, readSync(handle, first, 0, FIRST_BYTES, 0)));
    const { maxLine } = this.#data;
    if (shape === 'lines') return new LineRows(path, maxLine, { at: state.read, line: state.line });
    if (state.read > 0) throw dataError('expected lines to be added, found a table that grew; open it again');
    return new TableRows(path, maxLine, shape === 'elements' ? 'elements' : 'table');
  }

  #add({ offset, length, line, value, isRow }: RowAt, file: number): void {
    const row = this.#rows;
    this.#offsets[row] = offset;
    this.#lengths[row] = length;
    this.#lines[row] = line;
    this.#ids[row] = Number.NaN;
    fieldsOf(
      value,
      (group, key, field) => {
        if (key === 'id' && group === '') this.#ids[row] = hashOf(String(field));
        else this.#builderOf(group, key)?.add(row, field);
      },
      isRow,
      isRow ? null : this.#source?.of(value, `${this.#data.paths[file]}:${line}`),
    );
    if (this.#data.paths.length > 1) this.#builderOf('', 'file')?.add(row, this.#data.paths[file] as string);
    if (this.#decided !== null && this.#said !== null) {
      const { decided, said } = hashesOf(value);
      this.#decided[row] = decided;
      this.#said[row] = said;
    }
    this.#rows += 1;
    const isDue = this.#isFirst
      ? this.#rows === FIRST_ROWS
      : (this.#rows & 255) === 0 && performance.now() - this.#handedOver > SOON;
    if (this.#rows === CHUNK || isDue) this.#handOver();
  }

  /** By how long the first rows are: a million rows have room for fewer columns than a thousand. */
  #columnsThatFit(rows: number): number {
    const bytes = this.#offsets[rows - 1]! + this.#lengths[rows - 1]! - this.#offsets[0]!;
    const size = this.#data.descriptors.reduce((sum, file) => sum + fstatSync(file).size, 0);
    const expected = Math.max(1, (rows * size) / Math.max(1, bytes));
    return Math.max(FEWEST_COLUMNS, Math.min(MOST_COLUMNS, Math.floor(ROOM / (expected * USUAL_BYTES))));
  }

  #builderOf(group: string, key: string, kept?: ColumnNews): ColumnBuilder | null {
    const keys = this.#columns.get(group) ?? new Map<string, ColumnBuilder | null>();
    this.#columns.set(group, keys);
    const known = keys.get(key);
    if (known !== undefined) return known;
    if (this.#builders.length >= this.#mostColumns) {
      this.#leftOut += 1;
      if (this.#leftOut <= MOST_NAMED) keys.set(key, null);
      return null;
    }
    const made = new ColumnBuilder(this.#builders.length, group, key, kept);
    this.#builders.push(made);
    keys.set(key, made);
    return made;
  }

  #handOver(): void {
    const rows = this.#rows;
    if (rows === 0) return;
    const columns: Chunk['columns'] = [];
    const news: ColumnNews[] = [];
    for (const builder of this.#builders) {
      const { data, news: fresh } = builder.take(rows);
      if (data !== null) columns.push(data);
      if (fresh !== null) news.push(fresh);
    }
    const chunk: Chunk = {
      file: this.#file,
      rows,
      offsets: this.#offsets.slice(0, rows),
      lengths: this.#lengths.slice(0, rows),
      lines: this.#lines.slice(0, rows),
      ids: this.#ids.slice(0, rows),
      decided: this.#decided?.slice(0, rows) ?? null,
      said: this.#said?.slice(0, rows) ?? null,
      columns,
    };
    post({ kind: 'chunk', chunk, news, files: this.#files, leftOut: this.#leftOut }, buffersOf(chunk));
    this.#rows = 0;
    if (this.#isFirst) this.#mostColumns = this.#columnsThatFit(rows);
    this.#isFirst = false;
    this.#handedOver = performance.now();
  }
}

/** Bytes that the columns of all rows may take. */
const ROOM = 140 << 20;
/** of a column, a row; most have few values, and take one or two */
const USUAL_BYTES = 3;
const MOST_COLUMNS = 300;
const FEWEST_COLUMNS = 24;

/** Names of columns that are left out, which a hostile file may have any number of. */
const MOST_NAMED = 100_000;

/** What was decided, and all that was answered, to be compared with another run; NaN where there is none. */
function hashesOf(line: JsonObject): { decided: number; said: number } {
  const { steps, decision, business_decision, all_agent_outputs, conversation_history, response } = line;
  const output = isObject(decision) ? decision.output : business_decision;
  const said = Array.isArray(steps)
    ? steps.map(step => (isObject(step) ? (step.output ?? step.response ?? null) : null))
    : (all_agent_outputs ??
      conversation_history ??
      (isObject(response) ? choicesIn(response.body) : undefined));
  return { decided: hashOfValue(output), said: hashOfValue(said) };
}

const choicesIn = (body: unknown): unknown => (isObject(body) ? (body.choices ?? body.data ?? body) : body);

const hashOfValue = (value: unknown): number =>
  value === undefined ? Number.NaN : hashOf(JSON.stringify(value) ?? '');

function strangersIn(source: SourceRows | null): string | null {
  if (source === null || source.strangers === 0) return null;
  const lines = counted(source.strangers, 'line');
  return `${lines} of another row than --source has in that place, without its columns: ${source.why}`;
}

function buffersOf(chunk: Chunk): ArrayBuffer[] {
  const { offsets, lengths, lines, ids, decided, said, columns } = chunk;
  const arrays = [offsets, lengths, lines, ids, decided, said, ...columns.map(({ data }) => data)];
  return arrays.flatMap(array => (array === null ? [] : [array.buffer as ArrayBuffer]));
}

const post = (message: FromIndexer, move: ArrayBuffer[] = []): void => parentPort?.postMessage(message, move);

const indexer = new Indexer(workerData as IndexerData);
let running = indexer.run();
parentPort?.on('message', () => {
  running = running.then(() => indexer.run());
});
