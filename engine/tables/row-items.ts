/**
 * From a row of a table to its items: where the id and the prompt come from, one item for each ordering, and a failed
 * item for what is no row, so that every row can be found again.
 */
import { hash } from 'node:crypto';
import { createIdSet } from '../core/files/idset.ts';
import type { Code } from '../core/item/codes.ts';
import { dataError, ItemFailure } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { badMessages, chatMessages } from '../core/item/line-shape.ts';
import { lossless } from '../core/json/lossless.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { shorten } from '../core/json/show.ts';
import { delimiterIn } from './delimiter.ts';
import type { TableRow } from './read-table.ts';
import type { RowCheck } from './row-check.ts';
import { type LineWriter, lineWriter, type Variant } from './row-lines.ts';
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

export interface Maker {
  /** Throws (65) where the columns of a source lack one that is needed. */
  expect(columns: readonly string[], source: string): void;
  /**
   * The items of a row; none where it is not taken, but its id counts all the same: parts of a table (--offset,
   * --shard) then make up the whole, with the same row as the first of its id.
   */
  itemsOf(row: TableRow, taken: boolean): readonly Item[];
  /** For the lines of the same items; null where a template writes the prompt. */
  lines(columns: readonly string[], isTaken: (row: number) => boolean): LineWriter | null;
}

export function itemMaker({ stage, id: idOption, check, orderings, samples, ...from }: MakerOptions): Maker {
  const variants = variantsOf(orderings, samples);
  const ids = createIdSet();
  let idColumn: string | null | undefined; // null: the hash of the row
  let { prompt } = from;
  let without: string | null = null; // the column that the first row lacks, so that another row with it is of another kind

  return {
    expect(columns, source) {
      if (idColumn === undefined) {
        idColumn = idOption ?? ['id', 'prompt_id'].find(name => columns.includes(name)) ?? null;
        if (from.otherwise !== undefined && typeof prompt === 'string' && !columns.includes(prompt)) {
          without = prompt;
          prompt = from.otherwise;
        }
      }
      const wanted = typeof prompt === 'string' ? [prompt] : prompt.variables;
      const needed = idColumn === null ? wanted : [idColumn, ...wanted];
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
    },

    itemsOf(row, taken) {
      const known: Item = { id: null, row: row.row }; // what is there to say if it fails
      try {
        if (row.id !== undefined && ids.add(row.id)) known.id = row.id;
        if (row.trouble) return taken ? [failed(known, row, row.trouble)] : [];
        return row.item ? ofItem(row, known, taken) : ofFields(row, known, taken);
      } catch (error) {
        if (!(error instanceof ItemFailure)) throw error;
        if (!taken) return [];
        const more = row.item ? { text: row.text } : {};
        return [failed(known, row, { code: error.code, message: error.message, more })];
      }
    },

    lines(columns, isTaken) {
      if (typeof prompt !== 'string' || from.isMessages) return null;
      const claim = (id: string): boolean => ids.add(id);
      return lineWriter({
        columns,
        idColumn: idColumn ?? null,
        promptColumn: prompt,
        variants,
        fits: check === undefined ? null : texts => check(columns, texts) === null,
        claim,
        isTaken,
      });
    },
  };

  function ofFields({ row, columns, fields = [] }: TableRow, known: Item, taken: boolean): readonly Item[] {
    const input = Object.fromEntries(columns.map((column, at) => [column, fields[at] as string]));
    known.input = input;
    const mismatch = check?.(columns, fields);
    if (mismatch) throw new ItemFailure('row-mismatch', mismatch);
    const id = idColumn === null ? contentId(columns, fields) : (input[idColumn as string] ?? '');
    if (id.trim() === '') throw new ItemFailure('empty-id', `expected an id in '${idColumn}', found none`);
    claim(id);
    if (!taken) return [];
    known.id = id;
    if (without !== null && Object.hasOwn(input, without)) {
      const message = `expected no column '${without}', which the first row lacks, found one; --prompt or --template says which it is`;
      throw new ItemFailure('template-failed', message);
    }
    const text = typeof prompt === 'string' ? (input[prompt] ?? '') : prompt.render(input);
    if (text.trim() === '') {
      const from = typeof prompt === 'string' ? `in '${prompt}'` : `from ${prompt.path}`;
      throw new ItemFailure('empty-prompt', `expected a prompt ${from}, found none`);
    }
    const asked = from.isMessages ? { messages: messagesIn(text) } : { prompt: text };
    return variants.map(({ ending, more }) => ({ id: id + ending, row, input, ...asked, ...more }));
  }

  /** An item keeps what it has, its row and its ordering too. */
  function ofItem({ row, item, text = '' }: TableRow, known: Item, taken: boolean): readonly Item[] {
    const { id, ...rest } = item as Item;
    if (id !== null) claim(id);
    known.id = id;
    if (!taken) return [];
    const loss = lossless(text);
    if (loss) throw new ItemFailure(loss.code, loss.message);
    if (rest.failure !== undefined) return [item as Item];
    const whole: Item = { id, row, ...rest };
    const own = variantsOf(
      rest.ordering === undefined ? orderings : null,
      rest.sample === undefined ? samples : null,
    );
    return own.map(({ ending, more }) =>
      ending === '' ? whole : { ...whole, id: `${id}${ending}`, ...more },
    );
  }

  /** The failure of a second row has no id, since ids are unique in a run. */
  function claim(id: string): void {
    if (ids.add(id)) return;
    const advice = idColumn === null ? '; the id is a hash of the row: --id names a column instead' : '';
    throw new ItemFailure(
      'duplicate-id',
      `expected every id once, found '${id}', which an earlier row has${advice}`,
    );
  }

  function failed(
    known: Item,
    { source, line }: TableRow,
    { code, message, more }: { code: Code; message: string; more?: JsonObject },
  ): Item {
    return { ...known, failure: { stage, code, message: `${source}:${line}: ${message}`, line, ...more } };
  }
}

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
