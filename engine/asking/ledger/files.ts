/**
 * Which files a ledger has. A folder may hold anything: links are followed, so that old dates can lie on another disk,
 * and whatever is reached twice is read once.
 */
import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { ioError, usageError } from '../../core/item/failure.ts';

/** Told of what belongs to the ledger and cannot be read. */
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
