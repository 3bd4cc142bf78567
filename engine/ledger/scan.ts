/**
 * Reading the files of a ledger. Who dies while writing leaves the end of a line out: such a tail is no line, and is
 * passed over. A bad line with a good one behind it is something else: bytes have changed, and nothing is guessed.
 */
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { dataError, ioError } from '../flow/failure.ts';
import { FORMAT, isSealed } from './format.ts';

const NEWLINE = 10;
const BLOCK = 1 << 22;
/** No line is longer: an answer has at most 16 MiB on the wire. */
const LONGEST = 1 << 28;

/** The files of a ledger, the oldest first: a folder's, by date and start, or the one that was named. */
export function filesOf(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return [];
  if (!found.isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ndjson'))
    .sort()
    .map(name => join(path, name));
}

export interface Scanned {
  path: string;
  /** bytes of whole lines, and of a torn tail behind them */
  whole: number;
  torn: number;
  lines: number;
}

export interface Seeing {
  /** A whole line without its newline; the bytes are used again after the call. */
  line(bytes: Buffer, offset: number): void;
  /** In place of a refusal: bytes that are no whole line and stand before one that is. */
  damage?(offset: number, length: number): void;
}

/** Exit 65 with file and offset where bytes before the tail are damaged, 74 where they cannot be read. */
export function scanFile(path: string, { line, damage = refuse(path) }: Seeing): Scanned {
  const scanned: Scanned = { path, whole: 0, torn: 0, lines: 0 };
  let bad = -1; // where bytes that are no line begin
  const see = (bytes: Buffer, offset: number): void => {
    if (!isSealed(bytes)) {
      if (bad < 0) bad = offset;
      // the tail of a first write has no newline; a first line that ends and is not whole has changed
      if (offset === 0) damage(0, bytes.length + 1);
      return;
    }
    if (bad > 0) damage(bad, offset - bad);
    bad = -1;
    scanned.lines += 1;
    scanned.whole = offset + bytes.length + 1;
    line(bytes, offset);
  };
  const size = readLines(path, see);
  scanned.torn = size - scanned.whole;
  return scanned;
}

function refuse(path: string): (offset: number) => never {
  return offset => {
    const found =
      offset === 0
        ? `expected a file of a ledger, found none that begins with a whole {"fw":"${FORMAT}", line\nif it is none, move it out of the ledger's folder; if it was one, `
        : `expected whole lines, found damage at byte ${offset} with whole lines behind it\n`;
    throw dataError(
      `${path}: ${found}fw ledger repair DIR --out NEW copies what is whole; what is lost is asked again`,
    );
  };
}

/** Calls `see` for each line that ends in a newline; returns the size of the file. */
function readLines(path: string, see: (bytes: Buffer, offset: number) => void): number {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    throw ioError(`${path}: expected a readable ledger: ${(error as Error).message}`);
  }
  try {
    let block = Buffer.allocUnsafe(BLOCK);
    let filled = 0;
    let offset = 0; // of the block's first byte
    for (;;) {
      if (filled === block.length) {
        if (filled >= LONGEST)
          throw dataError(`${path}: expected lines, found none end after byte ${offset}`);
        block = Buffer.concat([block], 2 * filled);
      }
      const got = readSync(file, block, filled, block.length - filled, null);
      if (got === 0) return offset + filled;
      const end = filled + got;
      let from = 0;
      let newline = block.subarray(0, end).indexOf(NEWLINE, filled);
      while (newline >= 0) {
        see(block.subarray(from, newline), offset + from);
        from = newline + 1;
        newline = block.subarray(0, end).indexOf(NEWLINE, from);
      }
      block.copyWithin(0, from, end);
      filled = end - from;
      offset += from;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw ioError(`${path}: the ledger cannot be read: ${(error as Error).message}`);
  } finally {
    closeSync(file);
  }
}
