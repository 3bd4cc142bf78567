/** A Parquet file as a source of a table: its rows as the fields of a row, a bounded part of the file at a time. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import type { ByteInput } from '../core/files/input-files.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import type { ColumnLines } from './parquet/column-lines.ts';
import type { ParquetFile, ParquetSource } from './parquet-rows.ts';
import { beginningOf, lengthOf, textOf } from './row-bytes.ts';
import type { LineShape } from './row-lines.ts';
import type { Row } from './rows.ts';

const MAGIC = 'PAR1';
/** what an encrypted one begins and ends with; a table may have a column 'PARENT' */
const ENCRYPTED = 'PARE';
/** Characters of a row's lists and structs, whatever --max-line says: JSON has up to six for each, and a text of V8 at most 2^29. */
const MOST_LISTED = 2 ** 26;
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
  const last = Buffer.alloc(MAGIC.length);
  try {
    const fd = openSync(path, 'r');
    try {
      readSync(fd, first, 0, first.length, 0);
      readSync(fd, last, 0, last.length, Math.max(0, fstatSync(fd).size - last.length));
    } finally {
      closeSync(fd);
    }
  } catch {
    return null; // whoever reads it says what is wrong
  }
  const begin = first.toString('latin1');
  return begin === MAGIC || (begin === ENCRYPTED && last.equals(first)) ? path : null;
}

export async function openTableOf(source: ParquetSource): Promise<ParquetFile> {
  const { openParquet } = await import('./parquet-rows.ts');
  return openParquet(source);
}

export interface ParquetRows {
  /** Whether a row can be taken, once it is read. */
  ready(): Promise<boolean>;
  /** Goes to the next row of those that are ready; false where there is none. */
  take(): boolean;
  /** what writes the lines of the row that was taken */
  writer: ColumnLines | null;
  /** The same as a row; of more than `maxLine` characters it is a trouble. */
  row(): Row;
}

/** All of them, in their order. `shape`: of their lines, where lines are asked for. */
export async function rowsOf(
  file: ParquetFile,
  { source, maxLine, shape }: { source: string; maxLine: number; shape: LineShape | null },
): Promise<ParquetRows> {
  const { ColumnLines } = await import('./parquet/column-lines.ts');
  const reader = file.reader(Math.min(maxLine, MOST_LISTED));
  let left = 0;
  return {
    async ready() {
      left = await reader.ready();
      return left > 0;
    },
    take() {
      if (left === 0) return false;
      left -= 1;
      reader.take();
      return true;
    },
    // a schema judges texts
    writer: shape === null || shape.fits ? null : new ColumnLines(reader, shape, maxLine),
    row: () => rowOf(reader.row(null), { source, line: reader.next, maxLine, isBeginning: reader.isLong }),
  };
}

/** A null is no value: its column is left out, as in JSON. */
function rowOf(
  values: JsonObject,
  reading: { source: string; line: number; maxLine: number; isBeginning: boolean },
): Row {
  const { source, line, maxLine, isBeginning } = reading;
  const columns: string[] = [];
  const fields: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    if (value === null) continue;
    columns.push(name);
    fields.push(textOf(value));
  }
  const length = lengthOf(fields);
  if (length <= maxLine && !isBeginning) return { line, columns, fields };
  const most = maxLine > MOST_LISTED && isBeginning ? MOST_LISTED : maxLine;
  const whose = most === maxLine ? '(--max-line)' : 'in lists and structs';
  const message = `expected a row of at most ${most} characters ${whose}, found ${isBeginning ? 'more' : counted(length, 'character')} in ${source}`;
  return {
    line,
    columns,
    trouble: {
      code: 'line-too-long',
      message,
      more: { text: beginningOf(fields) },
    },
  };
}
