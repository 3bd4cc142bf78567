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
import type { ByteInput } from '../core/files/input-files.ts';
import type { Batch } from '../core/files/ndjson-out.ts';
import type { Item } from '../core/item/item.ts';
import type { RowSplitter } from './row-bytes.ts';
import type { LineWriter } from './row-lines.ts';
import { type Decoder, type Header, headerTooLong, type Row } from './rows.ts';
import { decoderFor, firstBytes, type Opening } from './source-kind.ts';

export interface TableRow extends Row {
  /** running over the whole run, 1-based, whatever the row holds */
  row: number;
  source: string;
}

export interface TableOptions extends Opening {
  itemsOf(row: TableRow): readonly Item[];
  /** read no further than this row */
  lastRow: number;
  /** aborted: read no further */
  signal: AbortSignal;
}

/** rows read at once, and the items of rows handed on at once (a row of many orderings is many items) */
const ROWS = 256;
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

/**
 * The same, some at a time. `linesOf` gives what writes the lines of good rows of CSV, told their columns; then only
 * the other rows come as items.
 */
export async function* tableBatches(
  inputs: readonly ByteInput[],
  { itemsOf, lastRow, signal, ...opening }: TableOptions,
  linesOf?: (columns: readonly string[]) => LineWriter | null,
): AsyncGenerator<Batch, undefined> {
  const first: { header: Header | null } = { header: null };
  let row = 0;
  let writer: LineWriter | null = null;
  let told = ''; // the source of which it was said that its numbers may differ

  function* batchesIn(decoder: Decoder, source: string): Generator<Batch, undefined> {
    let items: Item[] = [];
    function* left(): Generator<Batch, undefined> {
      const lines = writer?.taken(); // where there are some, there are no items
      if (lines) yield lines;
      if (items.length > 0) yield items;
      items = [];
    }
    try {
      for (let rows = 1; row < lastRow; rows++) {
        const piece = decoder.pieces.next();
        if (piece === null) break;
        if (writer !== null && piece.trouble === undefined) {
          if (items.length > 0) yield* left();
          if (writer.write(piece.block, piece.from, decoder.table!.fields, row + 1)) {
            row += 1;
            if (writer.isFull()) yield* left();
            continue;
          }
        }
        const each = decoder.row(piece);
        if (each === null) {
          if (decoder.table?.columns) writer = linesOf?.(decoder.table.columns) ?? null;
          continue;
        }
        if (writer !== null && items.length === 0) yield* left();
        row += 1;
        const { swallowed, lastLine, ...found } = each;
        items.push(...itemsOf({ ...found, row, source }));
        if (lastLine !== undefined) {
          row += swallowed ?? 0;
          if (told !== source) opening.warn(numbersDiffer(source, each));
          told = source;
        }
        if (items.length >= ITEMS || rows % ROWS === 0) yield* left();
      }
    } catch (error) {
      yield* left(); // the rows before an error are rows all the same
      throw error;
    }
    yield* left();
  }

  for (const input of inputs) {
    // while a read of a pipe waits, nothing else is heard; closing the input ends the read
    const stop = (): void => {
      if (!input.regular) input.close();
    };
    signal.addEventListener('abort', stop, { once: true });
    try {
      const bytes = await firstBytes(input, opening.format === 'openai-batch');
      const decoder = decoderFor(bytes, input.name, opening, first);
      writer = null;
      const rowsBefore = row;
      for await (const _fed of feeding(decoder.pieces, bytes, input)) {
        if (decoder.table?.columns === null && decoder.pieces.isTooLong())
          throw headerTooLong(input.name, opening.maxLine);
        for (const batch of batchesIn(decoder, input.name)) {
          if (signal.aborted) return;
          yield batch;
        }
        if (signal.aborted || row >= lastRow) return;
      }
      decoder.end(row - rowsBefore);
    } catch (error) {
      if (!signal.aborted) throw error;
      return; // the end of an input that was closed is not its own
    } finally {
      signal.removeEventListener('abort', stop);
      input.close();
    }
  }
}

/** Results are known by the numbers of rows, so whoever mends the file and reads it again has to know. */
function numbersDiffer(source: string, { line, lastLine, swallowed }: Row): string {
  const counted =
    typeof swallowed === 'number'
      ? `they count as ${swallowed + 1} rows, since each fits the header`
      : 'they count as one row, since nothing tells how many they are';
  return `${source}:${line}: a quote is not closed, and the row takes lines ${line} to ${lastLine}; ${counted}. Behind line ${lastLine} the numbers of rows (prompt_id) may change when the file is mended`;
}

/** How many rows there are. They are cut as for reading, a block in each turn of the event loop; throws as reading does. */
export async function countTableRows(
  inputs: readonly ByteInput[],
  { signal, ...options }: Pick<TableOptions, 'format' | 'delimiter' | 'maxLine' | 'signal'>,
): Promise<number> {
  let count = 0;
  for (const input of inputs) {
    try {
      const bytes = await firstBytes(input, options.format === 'openai-batch');
      const opening = { ...options, takesItems: true, expect: () => {}, warn: () => {} };
      const { pieces, table } = decoderFor(bytes, input.name, opening, { header: null });
      if (table) count -= table.lines;
      for await (const _fed of feeding(pieces, bytes, input)) {
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
): AsyncGenerator<void, undefined> {
  let block = first;
  for (let final = false; ; ) {
    pieces.feed(block, final);
    yield;
    if (final) return;
    const rest = pieces.rest();
    const more = await input.read(rest);
    final = more === null;
    block = more ?? rest ?? Buffer.alloc(0);
  }
}
