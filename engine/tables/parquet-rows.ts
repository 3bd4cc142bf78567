/** Parquet files: what is in them, and their rows, each value as JSON has it. */
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { isRemote } from '../core/files/input-files.ts';
import { dataError, Fatal, ioError } from '../core/item/failure.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { type Footer, footerOf } from './parquet/footer.ts';
import { type Opened, RowReader } from './parquet/group.ts';
import { type Node, treeOf } from './parquet/schema.ts';
import { lengthOf, textOf } from './row-bytes.ts';

const MAGIC = 'PAR1';
const ENCRYPTED = 'PARE';
const MOST_FOOTER = 1 << 28;
/** the end of a file, which most often has all that describes it */
const FIRST_END = 1 << 16;
/** A group of rows that says more than this is not read. */
const MOST_ROWS = 1e9;

export interface ParquetFile {
  /** rows of each group */
  groups: readonly number[];
  columns: readonly string[];
  /** Row after row from the first on; of the lists and structs of a row no more is made than `maxLine` characters. */
  reader(maxLine: number): RowReader;
  /**
   * Calls `take` with one row after the other from row `from` on, counted from 0, until it says false: what is absent is an empty
   * text, and a row of more than `maxLine` characters is null. Exit 65 where they cannot be read.
   */
  each(from: number, maxLine: number, take: (row: JsonObject | null, at: number) => boolean): Promise<void>;
  /** What was shown otherwise than it is, a line for each column; of the rows so far. */
  notes(): string[];
}

/** Why the row that `each` gives as null is none. */
export const tooLong = (maxLine: number): string =>
  `expected a row of at most ${maxLine} characters (--max-line), found more`;

/** A path, or what gives any part of a file, each in memory of its own. */
export type ParquetSource =
  | string
  | { name: string; size: number; part(from: number, to: number): Promise<Buffer> };

/** Exit 65 where the file is not there, is none, is damaged or encrypted, or is compressed in a way that nobody writes any more. */
export async function openParquet(given: ParquetSource): Promise<ParquetFile> {
  const source = typeof given === 'string' ? await sourceOf(given) : given;
  const { name } = source;
  const part = (from: number, to: number) => source.part(from, to);
  const notes = new Map<string, string>();
  let opened: Opened;
  try {
    const footer = footerOf(await endOf(source));
    const { columns, leaves } = treeOf(footer.schema);
    expectWhole(footer, leaves, source.size);
    const note = (column: string, words: string): void => void notes.set(column, words);
    opened = {
      name,
      part,
      isRemote: typeof given !== 'string' || isRemote(given),
      footer,
      columns,
      leaves,
      note,
    };
  } catch (error) {
    if (error instanceof Fatal) throw error; // it could not be fetched
    const why = (error as Error).message.slice(0, 200);
    throw dataError(`${name}: expected a Parquet file, found what cannot be read as one: ${why}`);
  }
  return {
    groups: opened.footer.groups.map(({ rows }) => rows),
    columns: opened.columns.map(({ element }) => element.name),
    reader: maxLine => new RowReader(opened, maxLine),
    async each(from, maxLine, take) {
      const reader = new RowReader(opened, maxLine);
      await reader.skipTo(from);
      for (let ready = await reader.ready(); ready > 0; ready = await reader.ready()) {
        for (let left = ready; left > 0; left--) {
          const at = reader.next;
          reader.take();
          if (!take(reader.isLong ? null : fitting(reader, maxLine), at)) return;
        }
      }
    },
    notes: () => [...notes].map(([column, words]) => `${name}: the column '${column}' has ${words}`),
  };
}

/** The row that was taken; null where it has more characters. */
function fitting(reader: RowReader, maxLine: number): JsonObject | null {
  const row = reader.row('');
  return lengthOf(Object.values(row).map(textOf)) > maxLine ? null : row;
}

async function sourceOf(path: string): Promise<Exclude<ParquetSource, string>> {
  if (!isRemote(path)) return onDisk(path);
  const { openRemote } = await import('../core/remote/reading.ts');
  return openRemote(path).known();
}

/** Each part is read from the file as it was at first, or from none. */
function onDisk(path: string): Exclude<ParquetSource, string> {
  const first = statSync(path, { throwIfNoEntry: false });
  if (first?.isFile() !== true) throw dataError(`expected a file, found none: ${path}`);
  return {
    name: path,
    size: first.size,
    async part(from, to) {
      const fd = openSync(path, 'r');
      try {
        const { size, mtimeMs, ino } = fstatSync(fd);
        if (size !== first.size || mtimeMs !== first.mtimeMs || ino !== first.ino)
          throw ioError(
            `${path}: expected the file to stay as it is while it is read, found another in its place; run the same command again to read the new one`,
          );
        const bytes = Buffer.allocUnsafeSlow(to - from);
        let at = 0;
        for (let got = -1; got !== 0 && at < bytes.length; at += got)
          got = readSync(fd, bytes, at, bytes.length - at, from + at);
        return bytes.subarray(0, at);
      } finally {
        closeSync(fd);
      }
    },
  };
}

/** What describes the file, at its end. */
async function endOf(source: Exclude<ParquetSource, string>): Promise<Uint8Array> {
  const { size } = source;
  if (size < 12) throw new Error(`it has ${counted(size, 'byte')}`);
  const from = Math.max(0, size - FIRST_END);
  const end = await source.part(from, size);
  const magic = end.toString('latin1', end.length - 4);
  if (magic === ENCRYPTED)
    throw new Error('an encrypted file, whose key fw cannot be given; write it without');
  if (magic !== MAGIC) throw new Error('it does not end as one does: it may be cut off');
  const length = end.readUInt32LE(end.length - 8);
  if (length > size - 12) throw new Error(`a description of ${length} bytes in a file of ${size}`);
  if (length > MOST_FOOTER)
    throw new Error(`a description of ${length} bytes, which is more than ${MOST_FOOTER}`);
  const begin = size - 8 - length;
  if (begin >= from) return end.subarray(begin - from, end.length - 8);
  return source.part(begin, size - 8);
}

/** Each group has each column once, in its order, where the file is: or one would be missing, or another in its place. */
function expectWhole({ groups }: Footer, leaves: readonly Node[], size: number): void {
  for (const [at, { rows, chunks }] of groups.entries()) {
    const where = `row group ${at + 1} of ${groups.length}`;
    if (!(rows >= 0 && rows <= MOST_ROWS)) throw new Error(`${where}: ${rows} rows`);
    if (chunks.length !== leaves.length)
      throw new Error(`${where}: ${chunks.length} columns, where the schema has ${leaves.length}`);
    for (const [index, chunk] of chunks.entries()) {
      const { path, element, levels } = leaves[index]!;
      const column = `${where}, the column '${path.join('.').slice(0, 60)}'`;
      if (chunk.isElsewhere === 'encrypted')
        throw new Error(`${column}: it is encrypted, and fw cannot be given the key; write it without`);
      if (chunk.isElsewhere !== null) throw new Error(`${column}: its values are ${chunk.isElsewhere}`);
      if (chunk.path.length !== path.length || !path.every((name, level) => chunk.path[level] === name))
        throw new Error(`${column}: the column '${chunk.path.join('.').slice(0, 60)}' in its place`);
      if (levels.deepest === 0 && chunk.values !== rows)
        throw new Error(`${column}: ${chunk.values} values, where the group has ${rows} rows`);
      if (chunk.kind !== element.kind || chunk.codec === undefined)
        throw new Error(`${column}: an unknown type or compression`);
      if (element.kind === 'FIXED_LEN_BYTE_ARRAY' && !(element.length > 0 && element.length <= size))
        throw new Error(`${column}: values of ${element.length} bytes`);
      if (rows > 0 && !(chunk.from >= 4 && chunk.to <= size && chunk.to >= chunk.from && chunk.values >= 0))
        throw new Error(`${column}: pages that are not in the file`);
    }
  }
}
