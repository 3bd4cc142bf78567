/**
 * From a row of a table to its items: where the id and the prompt come from, one item for each ordering, and a failed
 * item for what is no row, so that every row can be found again.
 */
import { hash } from 'node:crypto';
import { createIdSet } from '../core/files/idset.ts';
import { inputsOf } from '../core/files/input-files.ts';
import type { Code } from '../core/item/codes.ts';
import { dataError, ItemFailure } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { badMessages, chatMessages } from '../core/item/line-shape.ts';
import { lossless } from '../core/json/lossless.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { shorten } from '../core/json/show.ts';
import { delimiterIn } from './delimiter.ts';
import { readTable, type TableOptions, type TableRow } from './read-table.ts';
import { beginningOf, lengthOf } from './row-bytes.ts';
import type { RowCheck } from './row-check.ts';
import type { LineShape, Variant } from './row-lines.ts';
import { quotedNames } from './rows.ts';
import type { PromptSource } from './template.ts';

export interface MakerOptions extends PromptSource {
  /** the stage that speaks in failures */
  stage: string;
  /** the column of the id; default: id, else prompt_id, else a hash of the row */
  id?: string;
  /** judges a row before anything in it is believed, its id among it */
  check?: RowCheck;
  /** one item a row for each; `label` ends its id */
  orderings: readonly { keys: string[]; label: string }[] | null;
  /** so many items for each of these, each with its number; null: one, without */
  samples: number | null;
}

/** The items that a row becomes, in their order: samples of one ordering are side by side. */
function variantsOf(orderings: MakerOptions['orderings'], samples: number | null): Variant[] {
  const ordered: Variant[] = orderings?.map(({ keys, label }) => ({
    ending: `/${label}`,
    more: { ordering: keys },
  })) ?? [{ ending: '', more: {} }];
  if (samples === null) return ordered;
  const numbers = Array.from({ length: samples }, (_none, at) => at + 1);
  return ordered.flatMap(({ ending, more }) =>
    numbers.map(sample => ({ ending: `${ending}#${sample}`, more: { ...more, sample } })),
  );
}

export class ItemMaker {
  readonly #options: MakerOptions;
  readonly #variants: readonly Variant[];
  readonly #ids = createIdSet();
  #idColumn: string | null | undefined; // null: the hash of the row
  #prompt: PromptSource['prompt'];
  #without: string | null = null; // the column that the first row lacks, so that another row with it is of another kind

  constructor(options: MakerOptions) {
    this.#options = options;
    this.#variants = variantsOf(options.orderings, options.samples);
    this.#prompt = options.prompt;
  }

  /** Throws (65) where the columns of a source lack one that is needed. */
  expect(columns: readonly string[], source: string): void {
    const { id, otherwise } = this.#options;
    if (this.#idColumn === undefined) {
      this.#idColumn = id ?? ['id', 'prompt_id'].find(name => columns.includes(name)) ?? null;
      if (otherwise !== undefined && typeof this.#prompt === 'string' && !columns.includes(this.#prompt)) {
        this.#without = this.#prompt;
        this.#prompt = otherwise;
      }
    }
    const prompt = this.#prompt;
    const wanted = typeof prompt === 'string' ? [prompt] : prompt.variables;
    const needed = this.#idColumn === null ? wanted : [this.#idColumn, ...wanted];
    const missing = new Set(needed.filter(name => !columns.includes(name)));
    if (missing.size === 0) return;
    const found = `${quotedNames(columns)}${columns.length === 1 ? ` alone${delimiterIn(columns[0] as string)}` : ''}`;
    const isBatch = columns.includes('custom_id') && columns.includes('body');
    const advice = isBatch
      ? 'a batch file is read by --format openai-batch'
      : typeof prompt === 'string'
        ? 'name others with --id and --prompt'
        : `see ${prompt.path}`;
    throw dataError(`${source}: expected the columns ${quotedNames(missing)}, found ${found}; ${advice}`);
  }

  /**
   * The items of a row; none where it is not taken, but its id counts all the same: parts of a table (--offset,
   * --shard) then make up the whole, with the same row as the first of its id.
   */
  itemsOf(row: TableRow, taken: boolean): readonly Item[] {
    const known: Item = { id: null, row: row.row }; // what is there to say if it fails
    try {
      if (row.id !== undefined && this.#ids.add(row.id)) known.id = row.id;
      if (row.trouble) return taken ? [this.#failed(known, row, row.trouble)] : [];
      return row.item ? this.#ofItem(row, known, taken) : this.#ofFields(row, known, taken);
    } catch (error) {
      if (isTooLong(error)) {
        const message = 'expected a row that is no longer than 512 MiB as a line of JSON, found a longer one';
        const more = { text: beginningOf(row.fields ?? []) };
        return taken ? [this.#failed(known, row, { code: 'line-too-long', message, more })] : [];
      }
      if (!(error instanceof ItemFailure)) throw error;
      if (!taken) return [];
      const more = row.item ? { text: row.text } : {};
      return [this.#failed(known, row, { code: error.code, message: error.message, more })];
    }
  }

  /** Of the lines of the same items; null where a template writes the prompt. */
  shape(columns: readonly string[], isTaken: (row: number) => boolean): LineShape | null {
    const { check, isMessages } = this.#options;
    if (typeof this.#prompt !== 'string' || isMessages) return null;
    return {
      columns,
      idColumn: this.#idColumn ?? null,
      promptColumn: this.#prompt,
      variants: this.#variants,
      fits: check && (texts => check(columns, texts) === null),
      claim: id => this.#ids.add(id),
      isTaken,
    };
  }

  #ofFields({ row, columns, fields = [] }: TableRow, known: Item, taken: boolean): readonly Item[] {
    const input = Object.fromEntries(columns.map((column, at) => [column, fields[at] as string]));
    known.input = input;
    const { check, isMessages } = this.#options;
    const mismatch = check?.(columns, fields);
    if (mismatch) throw new ItemFailure('row-mismatch', mismatch);
    const id = this.#idColumn === null ? contentId(columns, fields) : (input[this.#idColumn as string] ?? '');
    if (id.trim() === '')
      throw new ItemFailure('empty-id', `expected an id in '${this.#idColumn}', found none`);
    this.#claim(id);
    if (!taken) return [];
    known.id = id;
    if (this.#without !== null && Object.hasOwn(input, this.#without)) {
      const message = `expected no column '${this.#without}', which the first row lacks, found one; --prompt or --template says which it is`;
      throw new ItemFailure('template-failed', message);
    }
    const prompt = this.#prompt;
    const text = typeof prompt === 'string' ? (input[prompt] ?? '') : prompt.render(input);
    if (text.trim() === '') {
      const from = typeof prompt === 'string' ? `in '${prompt}'` : `from ${prompt.path}`;
      throw new ItemFailure('empty-prompt', `expected a prompt ${from}, found none`);
    }
    const asked = isMessages ? { messages: messagesIn(text) } : { prompt: text };
    const items = this.#variants.map(({ ending, more }) => ({
      id: id + ending,
      row,
      input,
      ...asked,
      ...more,
    }));
    if (text.length + lengthOf(fields) > LONG) JSON.stringify(items.at(-1)); // here it can still fail alone
    return items;
  }

  /** An item keeps what it has, its row and its ordering too. */
  #ofItem({ row, item, text = '' }: TableRow, known: Item, taken: boolean): readonly Item[] {
    const { id, ...rest } = item as Item;
    if (id !== null) this.#claim(id);
    known.id = id;
    if (!taken) return [];
    const loss = lossless(text);
    if (loss) throw new ItemFailure(loss.code, loss.message);
    if (rest.failure !== undefined) return [item as Item];
    const whole: Item = { id, row, ...rest };
    const { orderings, samples } = this.#options;
    const own = variantsOf(
      rest.ordering === undefined ? orderings : null,
      rest.sample === undefined ? samples : null,
    );
    return own.map(({ ending, more }) =>
      ending === '' ? whole : { ...whole, id: `${id}${ending}`, ...more },
    );
  }

  /** The failure of a second row has no id, since ids are unique in a run. */
  #claim(id: string): void {
    if (this.#ids.add(id)) return;
    const advice =
      this.#idColumn === null ? '; the id is a hash of the row: --id names a column instead' : '';
    throw new ItemFailure(
      'duplicate-id',
      `expected every id once, found '${id}', which an earlier row has${advice}`,
    );
  }

  #failed(
    known: Item,
    { source, line, fields = [] }: TableRow,
    { code, message, more }: { code: Code; message: string; more?: JsonObject },
  ): Item {
    const failed: Item = {
      ...known,
      failure: { stage: this.#options.stage, code, message: `${source}:${line}: ${message}`, line, ...more },
    };
    if (lengthOf(fields) > LONG && !isWritable(failed)) delete failed.input;
    return failed;
  }
}

/** Characters of a row; only of a longer one the line may be longer than a text of V8 can be: JSON needs up to six for one. */
const LONG = 2 ** 26;

/** Whether the line of a failed item can be a text of V8. */
function isWritable(item: Item): boolean {
  try {
    JSON.stringify(item);
    return true;
  } catch (error) {
    if (isTooLong(error)) return false;
    throw error;
  }
}

/** JSON that would be longer than 512 MiB. Only a --max-line of many times the usual lets such a row come so far. */
const isTooLong = (error: unknown): boolean =>
  error instanceof RangeError && error.message === 'Invalid string length';

function messagesIn(text: string): unknown[] {
  let messages: unknown;
  try {
    messages = JSON.parse(text);
  } catch {
    throw badMessages(`expected a JSON list of chat messages, found ${JSON.stringify(shorten(text))}`);
  }
  const loss = lossless(text);
  if (loss) throw new ItemFailure(loss.code, loss.message);
  return chatMessages(messages);
}

/** 12 hex digits of the SHA-256 of the columns and their text, whatever their order. */
export function contentId(columns: readonly string[], fields: readonly string[]): string {
  const pairs = columns.map((column, at) => [column, fields[at]] as const);
  pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  return hash('sha256', JSON.stringify(pairs)).slice(0, 12);
}

/**
 * The rows of a table that was asked before, by their number: for results that know no more than the row. The items are
 * made as ingest makes them, so that an id is the same id. They are kept in memory, prompts and all.
 */
export interface SourceRows {
  /** for messages */
  path: string;
  /** how many rows there are */
  size: number;
  /** the item of a row (from 1), failed where the row is none; undefined beyond the last */
  at(row: number): Item | undefined;
  /** the row of an id */
  rowOf(id: string): number | undefined;
}

export async function readRows(
  path: string,
  making: Omit<MakerOptions, 'orderings' | 'samples'>,
  reading: Pick<TableOptions, 'delimiter' | 'maxLine' | 'signal' | 'warn'>,
): Promise<SourceRows> {
  const maker = new ItemMaker({ ...making, orderings: null, samples: null });
  const table = readTable(inputsOf([path]), {
    ...reading,
    takesItems: false,
    expect: (columns, source) => maker.expect(columns, source),
    itemsOf: row => maker.itemsOf(row, true),
    lastRow: Number.POSITIVE_INFINITY,
  });
  const items = await new Promise<Item[]>((resolve, reject) => table.stopOnError(reject).toArray(resolve));
  const rows = new Map(items.flatMap(({ id, row }) => (id === null ? [] : [[id, row as number] as const])));
  return { path, size: items.length, at: row => items[row - 1], rowOf: id => rows.get(id) };
}
