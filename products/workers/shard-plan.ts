/**
 * The lines of a work on the disk of its coordinator, cut into shards once:
 *
 *   FOLDER/lines.jsonl      what came in, as it would go through a pipe: no .ndjson, which is what the files of a ledger are called
 *   FOLDER/manifest.json    of each shard the span of its bytes, its lines and their SHA-256
 *
 * Nothing here changes afterwards. What became of the shards is in part-states.ts.
 */
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, readSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  makeFolder,
  OWNER_ONLY,
  openKept,
  openNew,
  placeFile,
  readKept,
  replaceFile,
} from '../../engine/core/files/durable.ts';
import { dataError, ioError } from '../../engine/core/item/failure.ts';

/** What a shard has at most: a large line alone may have more bytes. */
const SHARD = { lines: 200, bytes: 1024 * 1024 } as const;
/** bytes that leave in one write */
const BLOCK = 1024 * 1024;
const VERSION = 1;

/** Where a shard is in lines.jsonl, and what it is. */
export interface Shard {
  from: number;
  bytes: number;
  lines: number;
  /** of its bytes, in hex */
  sha256: string;
}

export interface Plan {
  folder: string;
  lines: number;
  /** of all lines, in hex */
  sha256: string;
  shards: Shard[];
  /** planned by this process just now, so that nobody can have anything of it yet */
  isNew?: boolean;
}

const linesIn = (folder: string): string => join(folder, 'lines.jsonl');
const manifestIn = (folder: string): string => join(folder, 'manifest.json');

/** `spool` is the path of a file for the lines until they are all here, on the disk of the folder. Exit 74 where it cannot be written. */
export function newPlanner(spool: string, { lines, bytes }: { lines: number; bytes: number } = SHARD) {
  makeFolder(dirname(spool), OWNER_ONLY.folder);
  const fd = openNew(spool);
  const all = createHash('sha256');
  const shards: Shard[] = [];
  let waiting: Buffer[] = [];
  let filled = 0;
  let own = createHash('sha256');
  let shard = { from: 0, bytes: 0, lines: 0 };
  let isOpen = true;

  function flush(): void {
    const block = Buffer.concat(waiting, filled);
    [waiting, filled] = [[], 0];
    try {
      for (let at = 0; at < block.length; ) at += writeSync(fd, block, at);
    } catch (error) {
      throw ioError(`${spool}: expected to write, found ${(error as NodeJS.ErrnoException).code}`);
    }
  }
  function cut(): void {
    if (shard.lines === 0) return;
    shards.push({ ...shard, sha256: own.digest('hex') });
    own = createHash('sha256');
    shard = { from: shard.from + shard.bytes, bytes: 0, lines: 0 };
  }
  function close(): void {
    if (isOpen) closeSync(fd);
    isOpen = false;
  }
  return {
    /** A line, with its newline. */
    add(line: Buffer): void {
      if (shard.bytes + line.length > bytes) cut();
      // the memory of a line that was read is used again
      waiting.push(Buffer.from(line));
      filled += line.length;
      all.update(line);
      own.update(line);
      shard.bytes += line.length;
      shard.lines += 1;
      if (shard.lines === lines) cut();
      if (filled >= BLOCK) flush();
    },
    /** All lines came: the plan is on disk in the folder that is named for their SHA-256; one that is there already stays. */
    finish(folderOf: (sha256: string) => string): Plan {
      cut();
      flush();
      fsyncSync(fd);
      close();
      const sha256 = all.digest('hex');
      const folder = folderOf(sha256);
      const known = readPlan(folder);
      if (known !== null) {
        rmSync(spool, { force: true });
        if (known.sha256 === sha256) return known;
        throw dataError(
          `${folder}: expected the lines that were planned before, found others: the input has changed; delete the folder to start over`,
        );
      }
      makeFolder(folder, OWNER_ONLY.folder);
      placeFile(spool, linesIn(folder));
      const count = shards.reduce((sum, one) => sum + one.lines, 0);
      const rows = shards.map(one => [one.from, one.bytes, one.lines, one.sha256]);
      replaceFile(
        manifestIn(folder),
        JSON.stringify({ version: VERSION, lines: count, sha256, shards: rows }),
      );
      return { folder, lines: count, sha256, shards, isNew: true };
    },
    /** They did not all come: nothing of them stays. */
    drop(): void {
      close();
      rmSync(spool, { force: true });
    },
  };
}

/** Null where nothing was planned. Exit 65 where the manifest is none that fw wrote. */
export function readPlan(folder: string): Plan | null {
  const path = manifestIn(folder);
  let text: string;
  try {
    text = readKept(path).toString();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    const { version, lines, sha256, shards } = JSON.parse(text) as {
      version: number;
      lines: number;
      sha256: string;
      shards: [number, number, number, string][];
    };
    if (version !== VERSION) throw new Error(`version ${version}`);
    return {
      ...{ folder, lines, sha256 },
      shards: shards.map(([from, bytes, lines, sha256]) => ({ from, bytes, lines, sha256 })),
    };
  } catch (error) {
    throw dataError(`${path}: expected a manifest of version ${VERSION}, found ${(error as Error).message}`);
  }
}

/** The lines of a shard, each with its newline. Exit 65 where they are not those that were planned. */
export function linesOf({ folder, shards }: Plan, root: number): Buffer[] {
  const { from, bytes, lines, sha256 } = shards[root] as Shard;
  const block = Buffer.allocUnsafe(bytes);
  const fd = openKept(linesIn(folder));
  try {
    for (let at = 0; at < bytes; ) {
      const got = readSync(fd, block, at, bytes - at, from + at);
      if (got === 0) break;
      at += got;
    }
  } finally {
    closeSync(fd);
  }
  const found = createHash('sha256').update(block).digest('hex');
  if (found !== sha256)
    throw dataError(
      `${linesIn(folder)}, bytes ${from} to ${from + bytes}: expected the lines that were planned, found others: the file has changed`,
    );
  const cut = cutLines(block);
  if (cut.length !== lines) throw new Error(`shard ${root}: ${cut.length} lines of ${lines}`);
  return cut;
}

/** Each with its newline; what is behind the last newline is a line as well. */
export function cutLines(block: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; from < block.length; ) {
    const at = block.indexOf(0x0a, from);
    const to = at < 0 ? block.length : at + 1;
    lines.push(block.subarray(from, to));
    from = to;
  }
  return lines;
}
