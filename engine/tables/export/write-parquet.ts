/**
 * Rows as Parquet, some at a time: a group of rows holds so many texts and cells that memory stays flat. Columns are
 * optional, texts and JSON are UTF-8, integers INT64, numbers DOUBLE; pages are compressed by gzip, which every reader has.
 */
import { gzipSync } from 'node:zlib';
import type { Column, Row } from './table-columns.ts';
import type { RowWriter } from './write-table.ts';

/** Characters of a group of rows, and cells: an absent value is a cell as well. */
const CHARACTERS = 8 * 1024 * 1024;
const CELLS = 2_000_000;

const TYPES = {
  boolean: { type: 'BOOLEAN' },
  integer: { type: 'INT64' },
  number: { type: 'DOUBLE' },
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  json: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
} as const;

export async function parquetRows(
  columns: readonly Column[],
  put: (bytes: Buffer) => Promise<void>,
): Promise<RowWriter> {
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer');
  const bytes = new ByteWriter();
  const optional = columns.map(({ name, type }) => ({
    ...{ name, repetition_type: 'OPTIONAL' as const },
    ...TYPES[type],
  }));
  const file = new ParquetWriter({
    writer: bytes,
    schema: [{ name: 'root', num_children: columns.length }, ...optional],
    codec: 'GZIP',
    compressors: { GZIP: page => gzipSync(page, { level: 1 }) },
    statistics: false, // the least and the largest text of each group would be kept until the end
    createdBy: 'fw',
  });
  let cells: unknown[][] = columns.map(() => []);
  let rows = 0;
  let characters = 0;

  const leave = async (): Promise<void> => {
    const made = Buffer.from(bytes.getBytes()); // its own memory is written over
    bytes.index = 0;
    await put(made);
  };
  const flush = async (): Promise<void> => {
    const columnData = columns.map(({ name }, index) => ({
      ...{ name, offsetIndex: false },
      data: cells[index] as unknown[],
    }));
    await file.write({ columnData, rowGroupSize: rows });
    cells = columns.map(() => []);
    rows = 0;
    characters = 0;
    await leave();
  };
  return {
    add(row) {
      for (const [index, value] of row.entries()) {
        const cell = cellOf(value, columns[index] as Column);
        if (typeof cell === 'string') characters += cell.length;
        (cells[index] as unknown[]).push(cell);
      }
      rows += 1;
      return characters >= CHARACTERS || rows * columns.length >= CELLS ? flush() : undefined;
    },
    async end() {
      if (rows > 0) await flush();
      await file.finish();
      await leave();
    },
    notes: () => [],
  };
}

function cellOf(value: Row[number], { type }: Column): unknown {
  if (value === null) return null;
  if (type === 'json') return JSON.stringify(value);
  return type === 'integer' ? BigInt(value as number) : value;
}
