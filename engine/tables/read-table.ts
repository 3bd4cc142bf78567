/**
 * Tables in: CSV, TSV, JSON and NDJSON, from files or pipes, as rows in one shape and then as items.
 *
 *   blocks ─ cut ─▶ pieces (bytes, line) ─ decode ─▶ rows ─ itemsOf ─▶ items
 *                                         └ where nobody needs objects ─▶ lines
 *
 * Every row comes out once: with its columns, as the item that it already is, or with its trouble. What makes a whole
 * source unusable (no header, no rows, no text) ends the run with 65. Rows are read a batch at a time, when they are asked for.
 */
import _ from 'highland';
import { decodedInput } from '../core/files/decoded.ts';
import type { ByteInput } from '../core/files/input-files.ts';
import type { Batch, Lines } from '../core/files/ndjson-out.ts';
import { type MadeOf, rememberMade } from '../core/files/origin.ts';
import { twice } from '../core/files/put-aside.ts';
import { dataError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import type { ParquetSource } from './parquet-rows.ts';
import { openTableOf, type ParquetRows, parquetOf, rowsOf } from './parquet-table.ts';
import { requestsAgain } from './requests.ts';
import { lengthOf, type RowSplitter } from './row-bytes.ts';
import { type LineShape, LineWriter } from './row-lines.ts';
import { type Decoder, type Header, headerTooLong, type Row } from './rows.ts';
import { decoderFor, firstBytes, type Opening } from './source-kind.ts';
import { Wrong } from './wrong-lines.ts';

export { delimiterOf } from './delimiter.ts';
export { FORMATS } from './source-kind.ts';

export interface TableRow extends Row {
  /** running over the whole run, 1-based, whatever the row holds */
  row: number;
  source: string;
}

export interface TableOptions extends Opening {
  itemsOf(row: TableRow): readonly Item[];
  /** of a batch file: what makes its items again */
  again?: (path: string) => MadeOf['file'];
  /** read no further than this row */
  lastRow: number;
  /** aborted: read no further */
  signal: AbortSignal;
}

/** rows read at once, and the items of rows handed on at once (a row of many orderings is many items) */
const ROWS = 256;
/** rows of so many characters are handed on, however few they are */
const CHARACTERS = 4 << 20;
const ITEMS = 1024;

/** The items of the rows of `inputs`, in order, read on demand. */
export function readTable(inputs: readonly ByteInput[], options: TableOptions): Highland.Stream<Item> {
  return streamOf(tableBatches(inputs, options), options.signal);
}

/** Items that come some at a time as a stream of them. */
export function streamOf(
  batches: AsyncGenerator<Batch, undefined>,
  signal: AbortSignal,
): Highland.Stream<Item> {
  let batch: readonly Item[] = [];
  let at = 0;
  let ended = false;

  return _<Item>((push, next) => {
    const end = (error?: unknown): void => {
      if (ended) return;
      ended = true;
      if (error !== undefined) push(error as Error);
      push(null, _.nil);
    };
    if (signal.aborted) return end();
    if (at < batch.length) {
      push(null, batch[at++]!);
      return next();
    }
    batches.next().then(
      ({ done, value }) => {
        if (ended || done) return end();
        batch = value as Item[];
        at = 0;
        setImmediate(next); // signals and timers have their turn between two batches
      },
      error => setImmediate(end, error), // what has left before is written first
    );
  });
}

type ShapeOf = (columns: readonly string[]) => LineShape | null;

/** What has been written of lines. */
interface Written {
  isFull(): boolean;
  taken(): Lines | null;
}

/**
 * The same, some at a time. `shapeOf` gives what the lines of good rows are like, told their columns: those of CSV and of
 * Parquet are written; then only the other rows come as items.
 */
export async function* tableBatches(
  inputs: readonly ByteInput[],
  options: TableOptions,
  shapeOf?: ShapeOf,
): AsyncGenerator<Batch, undefined> {
  const { lastRow, signal, format, maxLine } = options;
  const first: { header: Header | null } = { header: null };
  const batches = new Batches(options, shapeOf);
  for (const source of inputs) {
    const input = inUtf8(source, options);
    // while a read of a pipe waits, nothing else is heard; closing the input ends the read
    const stop = (): void => {
      if (!input.regular || input.remote) input.close();
    };
    signal.addEventListener('abort', stop, { once: true });
    try {
      const parquet = format === undefined ? await parquetOf(input) : null;
      if (parquet !== null) {
        yield* parquetBatches(parquet, input.name, batches, { ...options, isOnly: inputs.length === 1 });
        if (signal.aborted || batches.row >= lastRow) return;
        continue;
      }
      const { bytes, at } = await firstBytes(input, format === 'openai-batch');
      const decoder = decoderFor(bytes, input.name, options, first);
      // standard input has no name, what was compressed no places, and what is elsewhere is not asked for a line
      batches.again = !input.isPacked && !input.remote && input.reopened?.() ? (options.again ?? null) : null;
      const rowsBefore = batches.row;
      for await (const _fed of feeding(decoder.pieces, bytes, input, at)) {
        if (decoder.table?.columns === null && decoder.pieces.isTooLong())
          throw headerTooLong(input.name, maxLine);
        for (const batch of batches.of(decoder, input.name)) {
          if (signal.aborted) return;
          yield batch;
        }
        if (signal.aborted || batches.row >= lastRow) return;
      }
      decoder.end(batches.row - rowsBefore);
    } catch (error) {
      if (!signal.aborted) throw error;
      return; // the end of an input that was closed is not its own
    } finally {
      signal.removeEventListener('abort', stop);
      input.close();
    }
  }
}

function inUtf8(source: ByteInput, { encoding }: Pick<TableOptions, 'encoding'>): ByteInput {
  return encoding === undefined ? source : decodedInput(source, encoding);
}

async function* parquetBatches(
  parquet: ParquetSource,
  source: string,
  batches: Batches,
  { expect, maxLine, lastRow, signal, warn, isOnly }: TableOptions & { isOnly: boolean },
): AsyncGenerator<Batch, undefined> {
  const file = await openTableOf(parquet);
  expect(file.columns, source);
  // many a part of a table is empty, as Spark writes them
  if (isOnly && file.groups.every(rows => rows === 0))
    throw dataError(`${source}: expected rows, found a Parquet file without any`);
  const rows = await rowsOf(file, { source, maxLine, shape: batches.shapeOf(file.columns) });
  while (batches.row < lastRow && (await rows.ready())) {
    for (const batch of batches.made(rows, source)) {
      if (signal.aborted) return;
      yield batch;
    }
    await new Promise(setImmediate); // signals have their turn
    if (signal.aborted) return;
  }
  for (const note of file.notes()) warn(note);
}

/** The rows of all sources, one after the other, as items and as lines. */
class Batches {
  /** the number of the last row */
  row = 0;
  readonly #options: TableOptions;
  readonly #shapeOf: ShapeOf | undefined;
  #writer: LineWriter | null = null;
  #items: Item[] = [];
  /** of the source, where its items can be made again */
  again: TableOptions['again'] | null = null;
  /** that file, once it is open */
  #file: (MadeOf['file'] & { source: string }) | null = null;
  #warnedOf = ''; // the source of which it was said that its numbers may differ

  constructor(options: TableOptions, shapeOf: ShapeOf | undefined) {
    this.#options = options;
    this.#shapeOf = shapeOf;
  }

  shapeOf(columns: readonly string[]): LineShape | null {
    return this.#shapeOf?.(columns) ?? null;
  }

  #writerOf(columns: readonly string[]): LineWriter | null {
    const shape = this.shapeOf(columns);
    return shape && new LineWriter(shape);
  }

  /** Those of the block that the decoder was fed. */
  *of(decoder: Decoder, source: string): Generator<Batch, undefined> {
    if (!decoder.table?.columns) this.#writer = null; // another source begins
    try {
      for (let rows = 1; this.row < this.#options.lastRow; rows++) {
        const piece = decoder.pieces.next();
        if (piece === null) break;
        const writer = this.#writer;
        if (writer !== null && piece.trouble === undefined) {
          if (this.#items.length > 0) yield* this.#left();
          if (writer.write(piece.block, piece.from, decoder.table!.fields, this.row + 1)) {
            this.row += 1;
            if (writer.isFull()) yield* this.#left();
            continue;
          }
        }
        const row = decoder.row(piece);
        if (row === null) {
          if (decoder.table?.columns) this.#writer = this.#writerOf(decoder.table.columns);
          continue;
        }
        if (writer !== null && this.#items.length === 0) yield* this.#left();
        this.#add(row, source);
        if (this.#items.length >= ITEMS || rows % ROWS === 0) yield* this.#left();
      }
    } catch (error) {
      yield* this.#left(); // the rows before an error are rows all the same
      throw error;
    }
    yield* this.#left();
  }

  /** Those of a Parquet file that are ready. */
  *made(rows: ParquetRows, source: string): Generator<Batch, undefined> {
    this.#writer = null;
    this.again = null;
    const { writer } = rows;
    let characters = 0;
    try {
      while (this.row < this.#options.lastRow && rows.take()) {
        if (writer !== null && this.#items.length > 0) yield* this.#left();
        if (writer?.write(this.row + 1)) {
          this.row += 1;
          if (writer.isFull()) yield* this.#left(writer);
          continue;
        }
        if (this.#items.length === 0) yield* this.#left(writer);
        const row = rows.row();
        characters += lengthOf(row.fields ?? []);
        this.#add(row, source);
        if (this.#items.length < ROWS && characters < CHARACTERS) continue;
        yield* this.#left();
        characters = 0;
      }
    } catch (error) {
      yield* this.#left(writer); // the rows before an error are rows all the same
      throw error;
    }
    yield* this.#left(writer);
  }

  /** What has not been passed on: where there are lines, there are no items. */
  *#left(writer: Written | null = this.#writer): Generator<Batch, undefined> {
    const lines = writer?.taken();
    if (lines) yield lines;
    if (this.#items.length > 0) yield this.#items;
    this.#items = [];
  }

  #add({ swallowed, lastLine, ...row }: Row, source: string): void {
    this.row += 1;
    const items = this.#options.itemsOf({ ...row, row: this.row, source });
    const { at, length } = row;
    if (this.again && at !== undefined && length !== undefined && items[0] && !items[0].failure) {
      if (this.#file?.source !== source) this.#file = { source, ...this.again(source) };
      rememberMade(items[0], { file: this.#file, at, length, row: this.row });
    }
    this.#items.push(...items);
    if (lastLine === undefined) return;
    this.row += swallowed ?? 0;
    if (this.#warnedOf !== source) this.#options.warn(numbersDiffer(source, row.line, lastLine, swallowed));
    this.#warnedOf = source;
  }
}

/** Results are known by the numbers of rows, so whoever mends the file and reads it again has to know. */
function numbersDiffer(source: string, line: number, lastLine: number, swallowed: Row['swallowed']): string {
  const counted =
    typeof swallowed === 'number'
      ? `they count as ${swallowed + 1} rows, since each fits the header`
      : 'they count as one row, since nothing tells how many they are';
  return `${source}:${line}: a quote is not closed, and the row takes lines ${line} to ${lastLine}; ${counted}. Behind line ${lastLine} the numbers of rows (prompt_id) may change when the file is mended`;
}

/** How many rows there are. They are cut as for reading, a block in each turn of the event loop; throws as reading does. */
export async function countTableRows(
  inputs: readonly ByteInput[],
  { signal, ...options }: Pick<TableOptions, 'format' | 'delimiter' | 'encoding' | 'maxLine' | 'signal'>,
): Promise<number> {
  let count = 0;
  for (const source of inputs) {
    const input = inUtf8(source, options);
    try {
      const parquet = options.format === undefined ? await parquetOf(input) : null;
      if (parquet !== null) {
        const { groups } = await openTableOf(parquet);
        count += groups.reduce((sum, rows) => sum + rows, 0);
        continue;
      }
      const { bytes, at } = await firstBytes(input, options.format === 'openai-batch');
      const opening = { ...options, takesItems: true, expect: () => {}, warn: () => {} };
      const { pieces, table } = decoderFor(bytes, input.name, opening, { header: null });
      if (table) count -= table.lines;
      for await (const _fed of feeding(pieces, bytes, input, at)) {
        while (pieces.next() !== null) count += 1;
        signal.throwIfAborted();
        await new Promise(setImmediate);
      }
    } finally {
      input.close();
    }
  }
  return count;
}

/** Feeds an input to its pieces, a block before each turn; `first` is what was read of it already. */
async function* feeding(
  pieces: RowSplitter,
  first: Buffer,
  input: ByteInput,
  at: number,
): AsyncGenerator<void, undefined> {
  let block = first;
  let base = at;
  for (let final = false; ; ) {
    pieces.feed(block, final, base);
    yield;
    if (final) return;
    const rest = pieces.rest();
    base += block.length - (rest?.length ?? 0);
    const more = await input.read(rest);
    final = more === null;
    block = more ?? rest ?? Buffer.alloc(0);
  }
}

/** The items of `inputs`, of a batch file on disk, for who takes all of them before the first is asked: throws at the end where one has failed. */
export async function* batchesToHold(
  inputs: readonly ByteInput[],
  reading: TableOptions,
): AsyncGenerator<Batch, undefined> {
  const wrong = new Wrong();
  for await (const batch of tableBatches(inputs, { ...reading, again: requestsAgain })) {
    wrong.look(batch as readonly Item[]);
    yield batch;
  }
  if (!reading.signal.aborted) wrong.end();
}

/**
 * The items of `inputs`, once none of them has failed; else exit 65, with what is wrong: whoever pays for answers wants to
 * know of a broken line before, and not behind a thousand that were asked. `judge` makes them the first time.
 */
export async function* checkedBatches(
  inputs: readonly ByteInput[],
  reading: TableOptions,
  judge: TableOptions['itemsOf'],
): AsyncGenerator<Batch, undefined> {
  const pairs = inputs.map(twice);
  const wrong = new Wrong();
  for await (const batch of tableBatches(
    pairs.map(({ first }) => first),
    { ...reading, itemsOf: judge },
  )) {
    wrong.look(batch as readonly Item[]);
    await new Promise(setImmediate); // signals have their turn
  }
  if (reading.signal.aborted) return;
  wrong.end();
  yield* tableBatches(
    pairs.map(({ again }) => again()),
    reading,
  );
}
