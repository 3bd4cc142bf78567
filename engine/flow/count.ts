/** How many items files hold, for who wants to know before they are read: rows are cut for that, and not parsed. */
import { fstatSync, statSync } from 'node:fs';
import { inputsOf } from './input.ts';
import { countPieces, type Format } from './table.ts';

export interface Counting {
  /** as in readTable; `ndjson` where the files are lines */
  format?: Format | undefined;
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
    const kinds = paths.map(path => (path === SHELLS_FILE ? fstatSync(0) : statSync(path)));
    const bytes = kinds.reduce((sum, { size }) => sum + size, 0);
    if (bytes > MOST_BYTES || kinds.some(kind => !kind.isFile())) return null;
    return await countPieces(inputsOf(paths), counting);
  } catch {
    return null;
  }
}
