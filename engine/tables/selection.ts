/** How many lines or rows files hold, and a part of them: --offset, --limit and --shard, which machines may share out. */
import { fstatSync, statSync } from 'node:fs';
import { inputsOf, isRemote } from '../core/files/input-files.ts';
import { openLines } from '../core/files/line-places.ts';
import { isPackedFile } from '../core/files/unpacked.ts';
import { usageError } from '../core/item/failure.ts';
import { countTableRows } from './read-table.ts';
import type { Format } from './source-kind.ts';

export interface Counting {
  /** as in readTable; `lines` where the files are no table */
  format?: Format | 'lines' | undefined;
  delimiter?: number | undefined;
  encoding?: string | undefined;
  maxLine: number;
  signal: AbortSignal;
}

/** Counting runs beside the work; more than this would take seconds from it. */
const MOST_BYTES = 2 ** 31;
/** a file that the shell has opened, opened once more, so that the reading of it is not disturbed */
const SHELLS_FILE = '/proc/self/fd/0';

/**
 * Rows or lines of the files, none of them standing for standard input; null where one is no regular file, or is none
 * that can be counted: what is wrong with it is said by who reads it.
 */
export async function countRows(files: readonly string[], counting: Counting): Promise<number | null> {
  try {
    const paths = (files.length === 0 ? ['-'] : files).map(path => (path === '-' ? SHELLS_FILE : path));
    if (paths.some(isRemote)) return await countElsewhere(paths, counting);
    const kinds = paths.map(path => (path === SHELLS_FILE ? fstatSync(0) : statSync(path)));
    const bytes = kinds.reduce((sum, { size }) => sum + size, 0);
    if (bytes > MOST_BYTES || kinds.some(kind => !kind.isFile())) return null;
    const { format, maxLine, signal } = counting;
    if (format !== 'lines') return await countTableRows(inputsOf(paths), { ...counting, format });
    if (paths.some(isPackedFile)) return null;
    return await countLines(paths, { maxLine, signal });
  } catch {
    return null;
  }
}

/** What is elsewhere is fetched once more to be counted: a Parquet file's last bytes say it, of others no more than this. */
const MOST_FETCHED = 2 ** 26;

async function countElsewhere(paths: readonly string[], counting: Counting): Promise<number | null> {
  if (!paths.every(isRemote)) return null;
  const { openRemote } = await import('../core/remote/reading.ts');
  let bytes = 0;
  for (const path of paths.filter(path => !/\.parquet$/i.test(path))) {
    bytes += (await openRemote(path).known()).size;
    if (bytes > MOST_FETCHED) return null;
  }
  const format = counting.format === 'lines' ? 'ndjson' : counting.format;
  return countTableRows(inputsOf(paths), { ...counting, format });
}

/** Lines that are not empty, a block in each turn of the event loop. */
async function countLines(
  paths: readonly string[],
  { maxLine, signal }: { maxLine: number; signal: AbortSignal },
): Promise<number> {
  let lines = 0;
  for (const path of paths) {
    const file = openLines(path, { stage: 'count', maxLine });
    try {
      for (const line of file.scan()) {
        if (line !== null) lines++;
        else {
          signal.throwIfAborted();
          await new Promise(setImmediate);
        }
      }
    } finally {
      file.close();
    }
  }
  return lines;
}

export interface RowSelection {
  /** whether the row is in it, from 1 */
  has(row: number): boolean;
  /** no row behind this one is in it */
  lastRow: number;
  /** how many of so many rows are in it */
  of(rows: number): number;
}

/** `shard` is `i/n`: of the rows between `offset` and `limit`, every n-th from the i-th on. Exit 64 where it is not. */
export function selectRows({
  offset,
  limit = Number.POSITIVE_INFINITY,
  shard,
}: {
  offset: number;
  limit: number | undefined;
  shard: string | undefined;
}): RowSelection {
  const [index, step] = shard === undefined ? [1, 1] : shardOf(shard);
  const lastRow = offset + limit;
  return {
    has(row) {
      const at = row - 1 - offset;
      return at >= 0 && at % step === index - 1;
    },
    lastRow,
    of: rows => Math.max(0, Math.ceil((Math.min(rows, lastRow) - offset - (index - 1)) / step)),
  };
}

/** Exit 64 where `text` is not `i/n`, with i from 1 to n. */
export function shardOf(text: string): [index: number, of: number] {
  const match = /^(\d{1,9})\/(\d{1,9})$/.exec(text);
  const [index, step] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || index < 1 || index > step) {
    throw usageError(`--shard: expected i/n with i from 1 to n, such as 1/8, found '${text}'`);
  }
  return [index, step];
}
