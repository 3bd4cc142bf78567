/** The rows of a Parquet file, some at a time, each value as JSON has it (parquet-values.ts). */
import { statSync } from 'node:fs';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { AsyncBuffer, Compressors, FileMetaData } from 'hyparquet';
import { isRemote } from '../core/files/input-files.ts';
import { dataError, Fatal } from '../core/item/failure.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { type Columns, columnsOf } from './parquet-values.ts';

/** A file whose groups of rows say more than this is not read. */
const MOST_ROWS = 100_000_000;
const MOST_COLUMNS = 10_000;
const MOST_BYTES = 1 << 30;
const MOST_PAGE = 1 << 28;

export interface ParquetFile {
  /** rows of each group */
  groups: readonly number[];
  columns: readonly string[];
  /** rows that have about so many bytes, at least one */
  rowsOf(bytes: number): number;
  /**
   * Rows `from` to `to` (not included) of the file, from 0, each made when it is taken; null for what is absent. What they are
   * made of is held meanwhile. Exit 65 where they cannot be read.
   */
  values(from: number, to: number): Promise<Iterable<JsonObject>>;
  /** The same as the rows of a table: what is absent is an empty text. */
  rows(from: number, to: number): Promise<JsonObject[]>;
  /** What was shown otherwise than it is, a line for each column; of the rows so far. */
  notes(): string[];
}

/** A path, or what gives any part of a file, each in memory of its own. */
export type ParquetSource =
  | string
  | { name: string; size: number; part(from: number, to: number): Promise<Buffer> };

/** Exit 65 where the file is not there, is none, is damaged or encrypted, or is compressed in a way that nobody writes any more. */
export async function openParquet(given: ParquetSource): Promise<ParquetFile> {
  const source = typeof given === 'string' && isRemote(given) ? await elsewhere(given) : given;
  const path = typeof source === 'string' ? source : source.name;
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  const read = async <T>(what: () => Promise<T>): Promise<T> => {
    try {
      return await what();
    } catch (error) {
      if (error instanceof Fatal) throw error; // it could not be fetched
      const why = (error as Error).message.slice(0, 200);
      throw dataError(`${path}: expected a Parquet file, found what cannot be read as one: ${why}`);
    }
  };
  if (typeof source === 'string' && statSync(source, { throwIfNoEntry: false })?.isFile() !== true)
    throw dataError(`expected a file, found none: ${source}`);
  const file = typeof source === 'string' ? await read(() => asyncBufferFromFile(source)) : partsOf(source);
  const [metadata, columns] = await read(async () => {
    if (file.byteLength < 12) throw new Error(`it has ${counted(file.byteLength, 'byte')}`);
    const found = await parquetMetadataAsync(file);
    expectBounded(found);
    expectReadable(found);
    const known = columnsOf(found);
    expectComplete(found, known);
    return [found, known] as [FileMetaData, Columns];
  });
  const compressors = await codecs();
  const bytes = metadata.row_groups.reduce((sum, group) => sum + Number(group.total_byte_size), 0);
  const count = metadata.row_groups.reduce((sum, group) => sum + Number(group.num_rows), 0);
  const reading = { file, metadata, compressors, parsers: PARSERS, utf8: false, useOffsetIndex: true };
  const rawRows = (rowStart: number, rowEnd: number) =>
    read(() => parquetReadObjects({ ...reading, rowStart, rowEnd }));
  return {
    groups: metadata.row_groups.map(({ num_rows: rows }) => Number(rows)),
    columns: columns.names,
    rowsOf: wanted => Math.max(1, Math.floor((wanted * count) / Math.max(1, bytes))),
    async values(from, to) {
      const rows = await rawRows(from, to);
      return (function* () {
        for (const row of rows) yield rowOf(row, columns, null);
      })();
    },
    rows: async (from, to) => (await rawRows(from, to)).map(row => rowOf(row, columns, '')),
    notes: () => [...columns.notes].map(([name, words]) => `${path}: the column '${name}' has ${words}`),
  };
}

async function elsewhere(address: string): Promise<ParquetSource> {
  const { openRemote } = await import('../core/remote/reading.ts');
  return openRemote(address).known();
}

/** A part from the end has a negative beginning, as of an array. */
function partsOf(source: Exclude<ParquetSource, string>): AsyncBuffer {
  const { size: byteLength } = source;
  return {
    byteLength,
    async slice(start, end = byteLength) {
      const from = start < 0 ? Math.max(0, byteLength + start) : start;
      return (await source.part(from, Math.min(end, byteLength))).buffer as ArrayBuffer;
    },
  };
}

function rowOf(row: { [column: string]: unknown }, { shapes }: Columns, absent: null | ''): JsonObject {
  const values: JsonObject = {};
  for (const [name, shape] of shapes) {
    const value = row[name];
    values[name] = value === null || value === undefined ? absent : shape(value);
  }
  return values;
}

function expectBounded({ row_groups: groups }: FileMetaData): void {
  for (const { num_rows: rows, columns } of groups) {
    const most = Math.max(0, ...columns.map(({ meta_data: of }) => Number(of?.total_uncompressed_size ?? 0)));
    if (Number(rows) > MOST_ROWS || columns.length > MOST_COLUMNS || !(most <= MOST_BYTES))
      throw new Error('a group of rows that is too large');
  }
}

/** Each group has each column once, or a column would be missing without a word. */
function expectComplete({ row_groups: groups }: FileMetaData, { leaves }: Columns): void {
  const known = new Set(leaves);
  for (const { columns } of groups) {
    const found = new Set(columns.map(({ meta_data: of }) => of?.path_in_schema.join('.') ?? ''));
    const isWhole = found.size === columns.length && found.size === known.size;
    if (!isWhole || ![...found].every(path => known.has(path)))
      throw new Error('a group of rows that has other columns than the schema');
  }
}

/** hyparquet reads those from 2^31 on as 2^31 - 1 (1.33): DuckDB writes such columns, in its second version. */
function expectReadable({ schema, row_groups: groups }: FileMetaData): void {
  const unsigned = new Set(
    schema
      .filter(({ type, converted_type: kind }) => type === 'INT32' && kind === 'UINT_32')
      .map(({ name }) => name),
  );
  for (const { meta_data: of } of groups.flatMap(({ columns }) => columns)) {
    const name = of?.path_in_schema.at(-1);
    if (name !== undefined && unsigned.has(name) && of?.encodings.includes('DELTA_BINARY_PACKED'))
      throw new Error(
        `unsigned 32-bit numbers as differences, in the column '${name.slice(0, 60)}'; write it as int64`,
      );
  }
}

/** Texts stay bytes until their row is made: those of a whole group as strings would take several times the room. */
const PARSERS = {
  stringFromBytes: (bytes: unknown): unknown => bytes,
  timestampFromNanoseconds: (nanos: unknown): unknown => nanos,
} as object;

/** What a page may be compressed by, each bounded by the length that the file says. */
async function codecs(): Promise<Compressors> {
  const { compressors } = await import('hyparquet-compressors');
  const bounded: Compressors = {
    ...compressors,
    GZIP: (bytes, length) => gunzipSync(bytes, { maxOutputLength: Math.max(1, length) }),
    BROTLI: (bytes, length) => brotliDecompressSync(bytes, { maxOutputLength: Math.max(1, length) }),
  };
  return Object.fromEntries(
    Object.entries(bounded).map(([name, decompress]) => [
      name,
      (bytes: Uint8Array, length: number) => {
        if (!(length <= MOST_PAGE)) throw new Error(`a page of ${length} bytes`);
        return decompress(bytes, length);
      },
    ]),
  );
}
