/**
 * From the pieces of one source to its rows: what a header is, what a row must be to fit it, what a JSON object gives.
 */

import { dataError } from '../core/item/failure.ts';
import { type Item, isItem, isRawRequest } from '../core/item/item.ts';
import { counted } from '../core/item/wording.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { afterSpace, stringEnd, valueEnd } from '../core/json/span.ts';
import { CsvReader, fieldTexts } from './csv-rows.ts';
import { type RowBytes, type RowError, RowSplitter } from './row-bytes.ts';
import { arrayCutter, type FieldBounds, lineCutter } from './row-ends.ts';

/** One row; exactly one of `fields`, `item` and `trouble` is there. */
export interface Row {
  /** 1-based, where the row begins */
  line: number;
  columns: readonly string[];
  /** the text of each column */
  fields?: readonly string[];
  /** a JSON object that is an item, and its text */
  item?: Item;
  text?: string;
  /** of a line of a batch file: where it is in its input, and how long, in bytes */
  at?: number;
  length?: number;
  /** of a trouble, where the line says one */
  id?: string;
  trouble?: RowError;
  /**
   * Of a row whose quotes are broken and that took further lines: how many rows these are, where all of them fit the
   * header; null where nobody can tell.
   */
  swallowed?: number | null;
  /** the last line of such a row */
  lastLine?: number;
}

/** What turns the pieces of one source into rows; `end` throws (65) where the source was no table. */
export interface Decoder {
  pieces: RowSplitter;
  /** The row of the piece that was cut last; null where that is the header. */
  row(piece: RowBytes): Row | null;
  /**
   * of CSV: the fields of the piece that was cut last, the columns once the header was read, and how many lines are none
   * of its rows
   */
  table?: { fields: FieldBounds; columns: readonly string[] | null; lines: number };
  /** `rows`: how many there were. */
  end(rows: number): void;
}

export interface DecoderOptions {
  maxLine: number;
  takesItems: boolean;
  /** `line`: of CSV, the header as it stands there */
  expect(columns: readonly string[], source: string, line?: Buffer): void;
  /** of batch files: what of a line is too much to be read, in words; it is asked before anything is built of the line */
  excess?(line: Buffer): string | null;
}

const LF = 10;

export interface Header {
  source: string;
  columns: readonly string[];
}

/** `delimiter` as a byte. `hasSep`: there is a line before the header. */
export function csvDecoder(
  delimiter: number,
  source: string,
  options: DecoderOptions,
  hasSep = false,
): Decoder {
  const reader = new CsvReader(delimiter, options.maxLine);
  const table: Decoder['table'] & object = {
    fields: reader.fields,
    columns: null,
    lines: hasSep ? 2 : 1,
  };
  let isBefore = hasSep;
  return {
    pieces: new RowSplitter(reader, options.maxLine),
    table,
    row(piece) {
      if (isBefore) {
        isBefore = false;
        return null;
      }
      if (table.columns === null) {
        table.columns = headerOf(piece, reader.fields, source, options.maxLine);
        reader.columns = table.columns.length;
        options.expect(table.columns, source, piece.block.subarray(piece.from, piece.to));
        return null;
      }
      const { columns } = table;
      const { block, from, line, trouble } = piece;
      if (trouble) return { line, columns, trouble, ...swallowedIn(piece, delimiter, columns.length) };
      return { line, columns, ...csvRow(fieldTexts(block, from, reader.fields), columns) };
    },
    end(rows) {
      const above =
        table.columns === null ? 'a header and rows under the line sep=' : 'rows under the header';
      if (rows === 0) throw dataError(`${source}: expected ${above}, found none`);
    },
  };
}

export function headerTooLong(source: string, maxLine: number): Error {
  return dataError(
    `${source}: expected a header of at most ${maxLine} bytes (--max-line), found none in them`,
  );
}

function headerOf(piece: RowBytes, fields: FieldBounds, source: string, maxLine: number): string[] {
  const { block, from, to, line, trouble } = piece;
  // the text of a header has no zero bytes; where it is no text, any that has been read says that this is another kind of file
  if ((trouble?.code === 'not-utf8' ? block : block.subarray(from, to)).includes(0))
    throw dataError(`${source}: expected a table as text, found bytes of a binary file`);
  if (trouble?.code === 'line-too-long') throw headerTooLong(source, maxLine);
  if (trouble) throw dataError(`${source}:${line}: expected a header: ${trouble.message}`);
  const columns = fieldTexts(block, from, fields);
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const name of columns) (seen.has(name) ? twice : seen).add(name);
  if (twice.has('')) {
    const places = columns.flatMap((name, at) => (name === '' ? [at + 1] : [])).slice(0, 40);
    throw dataError(
      `${source}: expected a name for every column, found none for the columns ${places.join(', ')}`,
    );
  }
  if (twice.size > 0) {
    throw dataError(`${source}: expected every column once, found twice or more: ${quotedNames(twice)}`);
  }
  return columns;
}

/** The header that the sources of a run share: that of the first. */
export function sameHeader(found: Header, first: Header | null): Header {
  if (first === null) return found;
  const { source, columns } = found;
  if (columns.length === first.columns.length && columns.every((name, at) => name === first.columns[at])) {
    return first;
  }
  const here = new Set(columns);
  const there = new Set(first.columns);
  const missing = first.columns.filter(name => !here.has(name));
  const added = columns.filter(name => !there.has(name));
  const differences = [
    ...(missing.length > 0 ? [`without ${quotedNames(missing)}`] : []),
    ...(added.length > 0 ? [`with ${quotedNames(added)}`] : []),
  ];
  const difference = differences.join(', ') || 'in another order';
  throw dataError(`${source}: expected the same header as ${first.source}, found it ${difference}`);
}

function csvRow(fields: string[], columns: readonly string[]): { fields: string[] } | { trouble: RowError } {
  if (fields.length !== columns.length) {
    const message = `expected ${counted(columns.length, 'field')}, as the header has, found ${fields.length}`;
    return { trouble: { code: 'ragged-row', message, more: { fields } } };
  }
  if (fields.every((field, at) => field === columns[at] || field === `\ufeff${columns[at]}`)) {
    const message = 'expected a row, found the header again (are these several files in one?)';
    return { trouble: { code: 'header-again', message, more: { fields } } };
  }
  return { fields };
}

/** The rows in the lines that a row with broken quotes took beside its own. What is too long was not kept to be counted. */
function swallowedIn(
  { block, from, to, trouble }: RowBytes,
  delimiter: number,
  columns: number,
): Pick<Row, 'swallowed' | 'lastLine'> {
  const lastLine = trouble?.more?.lastLine as number | undefined;
  if (lastLine === undefined) return {};
  if (trouble?.code !== 'bad-quotes') return { swallowed: null, lastLine };
  const reader = new CsvReader(delimiter);
  const lines = block.subarray(from, to);
  let rows = 0;
  for (let at = lines.indexOf(LF) + 1; at < lines.length; at = reader.next) {
    reader.cut(lines, at, at, true);
    if (reader.void) continue;
    if (reader.complaint !== null || reader.fields.count !== columns) return { swallowed: null, lastLine };
    rows += 1;
  }
  return { swallowed: rows, lastLine };
}

/** `isArray`: the elements of one array; else an object a line. */
export function jsonDecoder(isArray: boolean, source: string, options: DecoderOptions): Decoder {
  let found = 0;
  let objects = 0;
  let expected = false;
  return {
    pieces: new RowSplitter(isArray ? arrayCutter(source) : lineCutter(), options.maxLine),
    row(piece) {
      found += 1;
      const { line, trouble } = piece;
      if (trouble) return { line, columns: [], trouble };
      const { keys, ...row } = objectRow(piece, options.takesItems);
      if (row.trouble === undefined || row.trouble.code === 'value-not-kept') objects += 1;
      if (keys !== undefined && !expected) {
        expected = true;
        options.expect(keys, source);
      }
      return { line, ...row };
    },
    end() {
      if (objects > 0) return;
      const none = found > 0 ? `none among ${found} ${isArray ? 'elements' : 'lines'}` : 'none';
      throw dataError(
        `${source}: expected objects, ${isArray ? 'in an array' : 'one a line'}, found ${none}`,
      );
    },
  };
}

function objectRow(
  { block, from, to }: RowBytes,
  takesItems: boolean,
): Omit<Row, 'line'> & { keys?: string[] } {
  const text = block.toString('utf8', from, to);
  const columns: string[] = [];
  const parsed = parsedObject(text);
  if ('trouble' in parsed) return { columns, ...parsed };
  const { value } = parsed;
  if (takesItems && isWhole(value)) return { columns, item: value as Item, text };
  const fields = objectFields(text, value);
  if (!('twice' in fields)) return fields;
  const message = `expected every key once, found '${fields.twice}' twice`;
  return { columns, trouble: { code: 'value-not-kept', message, more: { text } } };
}

interface Fields {
  /** all keys, those of nulls too */
  keys: string[];
  columns: string[];
  fields: string[];
}

/**
 * The fields of the JSON object `value`, whose text is `text`, as they are written there. What JSON does not hold as text keeps
 * the text that it has: 8.50 stays 8.50, a long number keeps its digits, an array its brackets. A null is no value: its column is left out, as if the key
 * were not there. A key that comes twice is returned as `twice`.
 */
function objectFields(text: string, value: object): Fields | { twice: string } {
  const seen = new Set<string>();
  const columns: string[] = [];
  const fields: string[] = [];
  let at = afterSpace(text, text.indexOf('{') + 1);
  while (text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const key: string = JSON.parse(text.slice(at, keyEnd));
    const from = afterSpace(text, afterSpace(text, keyEnd) + 1); // past the colon
    const to = valueEnd(text, from);
    if (seen.has(key)) return { twice: key };
    seen.add(key);
    const found = (value as Record<string, unknown>)[key];
    if (found !== null) {
      columns.push(key);
      fields.push(typeof found === 'string' ? found : text.slice(from, to));
    }
    at = afterSpace(text, to);
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return { keys: [...seen], columns, fields };
}

/** A line of JSON as an object, or why it is none. */
export function parsedObject(text: string): { value: JsonObject } | { trouble: RowError } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const message = `expected JSON, found: ${(error as Error).message}`;
    return { trouble: { code: 'not-json', message, more: { text } } };
  }
  if (isObject(value)) return { value };
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
  const message = `expected a JSON object, found ${kind}`;
  return { trouble: { code: 'not-an-object', message, more: { text } } };
}

/** An object with an id and a prompt may be a row of data too; what only an item has tells the two apart. */
function isWhole(value: JsonObject): boolean {
  const { id, prompt, ordering, input, steps, failure } = value;
  if (isObject(failure)) return id === null || typeof id === 'string';
  if (typeof id !== 'string' || (prompt !== undefined && typeof prompt !== 'string')) return false;
  const isOwn = Array.isArray(ordering) || Array.isArray(steps) || isObject(input);
  return isItem(value) && (isOwn || isRawRequest(value.request));
}

/** Names in quotes, for messages; at most 40 of them. */
export function quotedNames(names: Iterable<string>): string {
  const all = [...names].map(name => `'${name.length > 60 ? `${name.slice(0, 60)}…` : name}'`);
  return all.length > 40 ? `${all.slice(0, 40).join(', ')} and ${all.length - 40} more` : all.join(', ');
}
