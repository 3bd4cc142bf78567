/** The rows of a Parquet file, a group of rows at a time, as the rows of a table: what is absent is an empty text. */
import { statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { dataError } from '../core/item/failure.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';

/** What `fw export` writes has groups of a few MiB; a file whose groups say more than this is not read. */
const MOST_ROWS = 10_000_000;
const MOST_COLUMNS = 10_000;
const MOST_BYTES = 1 << 30;

export interface ParquetFile {
  /** rows of each group */
  groups: readonly number[];
  /** Rows `from` to `to` (not included) of the file, from 0. Exit 65 where they cannot be read. */
  rows(from: number, to: number): Promise<JsonObject[]>;
}

/** Exit 65 where the file is not there, is none, is damaged, or is compressed otherwise than by Snappy or gzip. */
export async function openParquet(path: string): Promise<ParquetFile> {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true)
    throw dataError(`expected a file, found none: ${path}`);
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  const read = async <T>(what: () => Promise<T>): Promise<T> => {
    try {
      return await what();
    } catch (error) {
      const why = (error as Error).message.slice(0, 200);
      throw dataError(`${path}: expected a Parquet file, found what cannot be read as one: ${why}`);
    }
  };
  const file = await read(() => asyncBufferFromFile(path));
  const metadata = await read(async () => {
    if (file.byteLength < 12) throw new Error(`it has ${counted(file.byteLength, 'byte')}`);
    const found = await parquetMetadataAsync(file);
    for (const { num_rows: rows, columns } of found.row_groups) {
      const bytes = columns.map(({ meta_data: of }) => Number(of?.total_uncompressed_size ?? 0));
      const most = Math.max(0, ...bytes);
      if (Number(rows) > MOST_ROWS || columns.length > MOST_COLUMNS || !(most <= MOST_BYTES))
        throw new Error('a group of rows that is too large');
    }
    return found;
  });
  const compressors = {
    GZIP: (bytes: Uint8Array, length: number): Uint8Array =>
      gunzipSync(bytes, { maxOutputLength: Math.max(1, Math.min(length, MOST_BYTES)) }),
  };
  return {
    groups: metadata.row_groups.map(({ num_rows: rows }) => Number(rows)),
    rows: async (rowStart, rowEnd) => {
      const rows = await read(() => parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd }));
      return rows.map(plain);
    },
  };
}

function plain(row: { [column: string]: unknown }): JsonObject {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, cellOf(value)]));
}

function cellOf(value: unknown): unknown {
  if (value === null || value === undefined) return '';
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value instanceof Date ? value.toISOString() : value;
}
