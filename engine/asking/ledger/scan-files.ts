/**
 * Reading the files of a ledger. Who dies while writing leaves the end of a line out: such a tail is no line, and is
 * passed over. A bad line with a good one behind it is something else: bytes have changed, and nothing is guessed.
 */

import {
  closeSync,
  type Dirent,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { dataError, type Fatal, ioError, usageError } from '../../core/item/failure.ts';
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

/** `from`: an offset at which a line begins. Exit 65 where a line does not end, 74 where the file cannot be read. */
export function* scan(path: string, from = 0): Generator<LedgerPart> {
  const file = opened(path);
  try {
    // one byte more than there is: the end is met by a read of nothing
    let block = Buffer.allocUnsafe(Math.min(BLOCK, Math.max(0, fstatSync(file).size - from) + 1));
    let filled = 0;
    let offset = from; // of the block's first byte
    let told = from; // all before it is
    for (;;) {
      if (filled === block.length) {
        if (filled >= MAX_LINE_BYTES)
          throw dataError(`${path}: expected lines, found no line end after byte ${offset}`);
        block = Buffer.concat([block], 2 * filled);
      }
      const at = from === 0 ? null : offset + filled; // what is no file has no places to read from
      const got = readSync(file, block, filled, block.length - filled, at);
      const end = filled + got;
      if (got === 0) {
        if (offset + end > told) yield { kind: 'torn', at: told, length: offset + end - told };
        return;
      }
      let begin = 0;
      let newline = block.subarray(0, end).indexOf(NEWLINE, filled);
      while (newline >= 0) {
        const bytes = block.subarray(begin, newline);
        const at = offset + begin;
        begin = newline + 1;
        if (isSealed(bytes)) {
          if (at > told) yield { kind: 'damage', at: told, length: at - told };
          told = offset + begin;
          yield { kind: 'line', at, bytes };
        } else if (at === 0) {
          // the tail of a first write has no newline; a first line that ends and is not whole has changed
          told = begin;
          yield { kind: 'damage', at, length: begin };
        }
        newline = block.subarray(0, end).indexOf(NEWLINE, begin);
      }
      block.copyWithin(0, begin, end);
      filled = end - begin;
      offset += begin;
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
export const REPAIR = '\nfw ledger repair --out NEW copies the intact lines; what is lost is asked for again';

/** To refuse a file with: a run that continued without what is lost would silently ask it again. */
export function damaged(path: string, at: number): Fatal {
  const found =
    at === 0
      ? `expected a file of a ledger, found none that begins with a whole {"fw":"${FORMAT}", line\nif it is no part of a ledger, move it out of the ledger's folder; if it is, `
      : `expected whole lines, found damage at byte ${at} with whole lines behind it\n`;
  return dataError(`${path}: ${found}${REPAIR.trimStart()}`);
}

/**
 * Which files a ledger has. A folder may hold anything: links are followed, so that old dates can lie on another disk,
 * and whatever is reached twice is read once. Told of what belongs to the ledger and cannot be read.
 */
export type OnUnreadable = (path: string, why: string) => void;

const refuse: OnUnreadable = (path, why) => {
  throw ioError(`${path}: expected a readable part of the ledger, found ${why}`);
};

/**
 * The files of a ledger, the oldest first: a folder's, by date and start, or the one that was named; none where there
 * is nothing. Exit 74 for what cannot be read, unless `unreadable` takes it.
 */
export function filesOf(path: string, unreadable: OnUnreadable = refuse): string[] {
  const top = statSync(path, { throwIfNoEntry: false });
  if (top === undefined) return [];
  if (top.isCharacterDevice() || top.isBlockDevice())
    throw usageError(`--ledger ${path}: expected a folder, found a device`);
  if (!top.isDirectory()) return [path];
  const files: string[] = [];
  const linked: string[] = [];
  const seen = new Set([nameOfNode(top)]);
  const folders = [path];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of entriesOf(folder, unreadable)) {
      const at = join(folder, entry.name);
      const isNamed = entry.name.endsWith('.ndjson');
      if (entry.isFile()) {
        if (isNamed) files.push(at);
        continue;
      }
      if (!entry.isDirectory() && !entry.isSymbolicLink()) continue;
      const node = nodeAt(at);
      if (node === null) {
        if (isNamed) unreadable(at, 'a link that leads nowhere');
      } else if (node.isDirectory()) {
        const name = nameOfNode(node);
        if (!seen.has(name)) folders.push(at);
        seen.add(name);
      } else if (isNamed && node.isFile()) linked.push(at);
    }
  }
  return [...files, ...notAmong(files, linked)].sort();
}

function entriesOf(folder: string, unreadable: OnUnreadable): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    unreadable(folder, (error as NodeJS.ErrnoException).code ?? 'no folder');
    return [];
  }
}

function nodeAt(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

const nameOfNode = ({ dev, ino }: Stats): string => `${dev}:${ino}`;

/** Of the links those that lead to no file among `files`, and not to the same one twice. */
function notAmong(files: readonly string[], links: readonly string[]): string[] {
  if (links.length === 0) return [];
  const seen = new Set<string>();
  for (const path of files) {
    const node = nodeAt(path);
    if (node !== null) seen.add(nameOfNode(node));
  }
  return links.filter(path => {
    const node = nodeAt(path);
    const name = node === null ? path : nameOfNode(node);
    if (seen.has(name)) return false;
    seen.add(name);
    return true;
  });
}
