/**
 * Reading the files of a ledger. Who dies while writing leaves the end of a line out: such a tail is no line, and is
 * passed over. A bad line with a good one behind it is something else: bytes have changed, and nothing is guessed.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { dataError, type Fatal, ioError } from '../../core/item/failure.ts';
import { FORMAT, isSealed } from './ledger-format.ts';

const NEWLINE = 10;
const BLOCK = 1 << 22;
/** No line is longer: an answer has at most 16 MiB on the wire (--max-body). */
const MAX_LINE_BYTES = 1 << 28;

/** What a file is made of, in order; `at` is an offset in bytes. */
export type LedgerPart =
  /** a whole line without its newline; the bytes are used again for the next one */
  | { kind: 'line'; at: number; bytes: Buffer }
  /** bytes that are no whole line, before one that is; or a first line that is none */
  | { kind: 'damage'; at: number; length: number }
  /** what comes after the last whole line */
  | { kind: 'torn'; at: number; length: number };

/** Exit 65 where a line does not end, 74 where the file cannot be read. */
export function* scan(path: string): Generator<LedgerPart> {
  const file = opened(path);
  try {
    // one byte more than there is: the end is met by a read of nothing
    let block = Buffer.allocUnsafe(Math.min(BLOCK, fstatSync(file).size + 1));
    let filled = 0;
    let offset = 0; // of the block's first byte
    let told = 0; // all before it is
    for (;;) {
      if (filled === block.length) {
        if (filled >= MAX_LINE_BYTES)
          throw dataError(`${path}: expected lines, found no line end after byte ${offset}`);
        block = Buffer.concat([block], 2 * filled);
      }
      const got = readSync(file, block, filled, block.length - filled, null);
      const end = filled + got;
      if (got === 0) {
        if (offset + end > told) yield { kind: 'torn', at: told, length: offset + end - told };
        return;
      }
      let from = 0;
      let newline = block.subarray(0, end).indexOf(NEWLINE, filled);
      while (newline >= 0) {
        const bytes = block.subarray(from, newline);
        const at = offset + from;
        from = newline + 1;
        if (isSealed(bytes)) {
          if (at > told) yield { kind: 'damage', at: told, length: at - told };
          told = offset + from;
          yield { kind: 'line', at, bytes };
        } else if (at === 0) {
          // the tail of a first write has no newline; a first line that ends and is not whole has changed
          told = from;
          yield { kind: 'damage', at, length: from };
        }
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

function opened(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw ioError(`${path}: expected a readable ledger: ${(error as Error).message}`);
  }
}

/** What to do about a file that is refused. */
export const REPAIR = '\nfw ledger repair --out NEW copies what is whole; what is lost is asked again';

/** To refuse a file with: a run that continued without what is lost would silently ask it again. */
export function damaged(path: string, at: number): Fatal {
  const found =
    at === 0
      ? `expected a file of a ledger, found none that begins with a whole {"fw":"${FORMAT}", line\nif it is no part of a ledger, move it out of the ledger's folder; if it is, `
      : `expected whole lines, found damage at byte ${at} with whole lines behind it\n`;
  return dataError(`${path}: ${found}${REPAIR.trimStart()}`);
}
