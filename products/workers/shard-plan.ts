/**
 * The lines of a work on the disk of its coordinator, cut into shards once:
 *
 *   FOLDER/lines.jsonl      what came in, as it would go through a pipe: no .ndjson, which is what the files of a ledger are called;
 *                           lines that begin alike are side by side, so that a worker has them in one shard
 *   FOLDER/manifest.json    of each shard the span of its bytes, its lines and their SHA-256; and its models, where lines name
 *                           them: a shard has lines of one model, so that any worker with that one may take it
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
import { readBack } from '../../engine/core/files/put-aside.ts';
import { dataError, ioError } from '../../engine/core/item/failure.ts';
import { Beginnings } from '../../engine/flow/beginnings.ts';

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
  /** that its lines name; absent where the work says which models its workers need */
  models?: readonly string[];
}

export interface Plan {
  folder: string;
  lines: number;
  /** of all lines as they came, in hex */
  sha256: string;
  shards: Shard[];
  /** planned by this process just now, so that nobody can have anything of it yet */
  isNew?: boolean;
}

const linesIn = (folder: string): string => join(folder, 'lines.jsonl');
const manifestIn = (folder: string): string => join(folder, 'manifest.json');

/** Cuts lines into shards. */
class Shards {
  readonly list: Shard[] = [];
  readonly #most: { lines: number; bytes: number };
  #own = createHash('sha256');
  #shard = { from: 0, bytes: 0, lines: 0 };

  readonly #models = new Set<string>();
  readonly #hasModels: boolean;

  constructor(most: { lines: number; bytes: number }, hasModels: boolean) {
    this.#most = most;
    this.#hasModels = hasModels;
  }

  add(line: Buffer, model: string): void {
    if (this.#shard.bytes + line.length > this.#most.bytes) this.cut();
    if (model !== '') this.#models.add(model);
    this.#own.update(line);
    this.#shard.bytes += line.length;
    this.#shard.lines += 1;
    if (this.#shard.lines === this.#most.lines) this.cut();
  }

  /** `models`: of the lines since the last cut. */
  cut(): void {
    if (this.#shard.lines === 0) return;
    const models = [...this.#models].sort();
    this.#models.clear();
    this.list.push({
      ...this.#shard,
      sha256: this.#own.digest('hex'),
      ...(this.#hasModels && { models }),
    });
    this.#own = createHash('sha256');
    this.#shard = { from: this.#shard.from + this.#shard.bytes, bytes: 0, lines: 0 };
  }
}

/** Lines that leave some at a time. */
class LineFile {
  readonly #path: string;
  readonly #fd: number;
  #waiting: Buffer[] = [];
  #filled = 0;
  #isOpen = true;

  constructor(path: string) {
    this.#path = path;
    this.#fd = openNew(path);
  }

  /** `line` may be used again by whoever gave it. */
  add(line: Buffer): void {
    this.#waiting.push(Buffer.from(line));
    this.#filled += line.length;
    if (this.#filled >= BLOCK) this.flush();
  }

  flush(): void {
    const block = Buffer.concat(this.#waiting, this.#filled);
    [this.#waiting, this.#filled] = [[], 0];
    try {
      for (let at = 0; at < block.length; ) at += writeSync(this.#fd, block, at);
    } catch (error) {
      throw ioError(`${this.#path}: expected to write, found ${(error as NodeJS.ErrnoException).code}`);
    }
  }

  read(at: number, length: number): Buffer {
    return readBack(this.#fd, at, length);
  }

  sync(): void {
    this.flush();
    fsyncSync(this.#fd);
  }

  close(): void {
    if (this.#isOpen) closeSync(this.#fd);
    this.#isOpen = false;
  }
}

/** Models that have shards of their own; lines of more than these share shards, whose workers need all of theirs. */
const MOST_GROUPS = 100;

/** Which model each line names. */
class LineModels {
  readonly #names: string[] = [];
  readonly #numbers = new Map<string, number>();
  /** of each line, the number of its model */
  readonly #lines: number[] = [];

  get areNamed(): boolean {
    return this.#names.some(name => name !== '');
  }

  add(model: string): void {
    let number = this.#numbers.get(model);
    if (number === undefined) {
      number = this.#names.push(model) - 1;
      this.#numbers.set(model, number);
    }
    this.#lines.push(number);
  }

  of = (line: number): string => this.#names[this.#lines[line] as number] as string;

  groupOf = (line: number): number => Math.min(this.#lines[line] as number, MOST_GROUPS);

  /** Lines of one model side by side, and otherwise as they were. */
  arranged(order: Iterable<number>): readonly number[] {
    const lines = [...order];
    return this.#names.length > 1 ? lines.sort((a, b) => this.groupOf(a) - this.groupOf(b)) : lines;
  }
}

/** `spool` is the path of a file for the lines until they are all here, on the disk of the folder. Exit 74 where it cannot be written. */
export function newPlanner(spool: string, { lines, bytes }: { lines: number; bytes: number } = SHARD) {
  makeFolder(dirname(spool), OWNER_ONLY.folder);
  const file = new LineFile(spool);
  const all = createHash('sha256');
  /** of each line where it ends */
  const ends: number[] = [];
  const beginnings = new Beginnings();
  const models = new LineModels();
  /** The lines in their order, beside the spool; the path of the file, and its shards. */
  function arranged(): { path: string; shards: Shards } {
    const shards = new Shards({ lines, bytes }, models.areNamed);
    const order = models.arranged(beginnings.arranged().order);
    file.flush();
    let group: number | null = null;
    const isAsItCame = order.every((line, at) => line === at);
    const other = isAsItCame ? null : new LineFile(`${spool}.arranged`);
    for (const line of order) {
      const at = line === 0 ? 0 : (ends[line - 1] as number);
      const text = file.read(at, (ends[line] as number) - at);
      if (group !== null && models.groupOf(line) !== group) shards.cut();
      group = models.groupOf(line);
      shards.add(text, models.of(line));
      other?.add(text);
    }
    shards.cut();
    const kept = other ?? file;
    kept.sync();
    other?.close();
    file.close();
    if (other !== null) rmSync(spool, { force: true });
    return { path: other === null ? spool : `${spool}.arranged`, shards };
  }
  return {
    /** A line, with its newline; `texts`: what its request begins with; `model`: that it needs, where lines may go to different workers. */
    add(line: Buffer, texts: readonly string[] = [], model = ''): void {
      file.add(line);
      all.update(line);
      beginnings.add(texts);
      models.add(model);
      ends.push((ends.at(-1) ?? 0) + line.length);
    },
    /**
     * All lines came: the plan is on disk in the folder that is named for their SHA-256; one that is there already stays, in
     * whatever order it has its lines.
     */
    finish(folderOf: (sha256: string) => string): Plan {
      const sha256 = all.digest('hex');
      const folder = folderOf(sha256);
      const known = readPlan(folder);
      if (known !== null) {
        file.close();
        rmSync(spool, { force: true });
        if (known.sha256 === sha256) return known;
        throw dataError(
          `${folder}: expected the lines that were planned before, found others: the input has changed; delete the folder to start over`,
        );
      }
      const { path, shards } = arranged();
      makeFolder(folder, OWNER_ONLY.folder);
      placeFile(path, linesIn(folder));
      const rows = shards.list.map(one => [
        ...[one.from, one.bytes, one.lines, one.sha256],
        ...(one.models === undefined ? [] : [one.models]),
      ]);
      replaceFile(
        manifestIn(folder),
        JSON.stringify({ version: VERSION, lines: ends.length, sha256, shards: rows }),
      );
      return { folder, lines: ends.length, sha256, shards: shards.list, isNew: true };
    },
    /** They did not all come: nothing of them stays. */
    drop(): void {
      file.close();
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
      shards: [number, number, number, string, string[]?][];
    };
    if (version !== VERSION) throw new Error(`version ${version}`);
    return {
      ...{ folder, lines, sha256 },
      // without models it is of an earlier version, or of a run: all of it is for the same workers
      shards: shards.map(([from, bytes, lines, sha256, models]) => ({
        ...{ from, bytes, lines, sha256 },
        ...(models !== undefined && { models }),
      })),
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
