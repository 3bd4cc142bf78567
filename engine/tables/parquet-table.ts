/** A Parquet file as a source of a table: its rows as the fields of a row, a bounded part of the file at a time. */
import { closeSync, openSync, readSync } from 'node:fs';
import type { ByteInput } from '../core/files/input-files.ts';
import { dataError } from '../core/item/failure.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import type { ParquetFile, ParquetSource } from './parquet-rows.ts';
import type { Row } from './rows.ts';

/**
 * Bytes of values, uncompressed, that are read at once, of one group of rows: writers make a column of a group one page, which
 * would be unpacked again for each part of it.
 */
const PART = 128 * 1024 * 1024;
/** rows that are passed on at once */
const ROWS = 256;
const MAGIC = 'PAR1';
/** what the shell opened can be opened again, to be read from any place */
const SHELLS_FILE = '/proc/self/fd/0';

/**
 * What gives the parts of what begins as a Parquet file does: a path, or a file that is elsewhere. Null for anything else, and for
 * a pipe: its columns are known at the end.
 */
export async function parquetOf(input: ByteInput): Promise<ParquetSource | null> {
  if (input.remote === undefined) return parquetPath(input);
  const first = await input.remote.begins(MAGIC.length);
  if (first.toString('latin1', 0, MAGIC.length) !== MAGIC) return null;
  input.close(); // from here on by its parts
  return input.remote.file();
}

function parquetPath({ name, isFile }: ByteInput): string | null {
  if (isFile !== true) return null;
  const path = name === 'stdin' ? SHELLS_FILE : name;
  const first = Buffer.alloc(MAGIC.length);
  try {
    const fd = openSync(path, 'r');
    try {
      readSync(fd, first, 0, first.length, 0);
    } finally {
      closeSync(fd);
    }
  } catch {
    return null; // whoever reads it says what is wrong
  }
  return first.toString('latin1') === MAGIC ? path : null;
}

export async function openTableOf(source: ParquetSource): Promise<ParquetFile> {
  const { openParquet } = await import('./parquet-rows.ts');
  return openParquet(source);
}

/** The rows, some at a time; a row of more than `maxLine` characters is a trouble. Throws (65) where there are none. */
export async function* parquetRows(
  file: ParquetFile,
  source: string,
  maxLine: number,
): AsyncGenerator<Row[], undefined> {
  const most = file.rowsOf(PART);
  let from = 0;
  for (const count of file.groups) {
    const end = from + count;
    for (; from < end; from = Math.min(end, from + most)) {
      let rows: Row[] = [];
      let line = from;
      for (const values of await file.values(from, Math.min(end, from + most))) {
        line += 1;
        rows.push(rowOf(values, { source, line, maxLine }));
        if (rows.length < ROWS) continue;
        yield rows;
        rows = [];
      }
      if (rows.length > 0) yield rows;
    }
  }
  if (from === 0) throw dataError(`${source}: expected rows, found a Parquet file without any`);
}

/** A null is no value: its column is left out, as in JSON. */
function rowOf(
  values: JsonObject,
  { source, line, maxLine }: { source: string; line: number; maxLine: number },
): Row {
  const columns: string[] = [];
  const fields: string[] = [];
  let length = 0;
  for (const [name, value] of Object.entries(values)) {
    if (value === null) continue;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    columns.push(name);
    fields.push(text);
    length += text.length;
  }
  if (length <= maxLine) return { line, columns, fields };
  const message = `expected a row of at most ${maxLine} characters (--max-line), found ${counted(length, 'character')} in ${source}`;
  return {
    line,
    columns,
    trouble: { code: 'line-too-long', message, more: { text: fields.join(' ').slice(0, 1024) } },
  };
}
