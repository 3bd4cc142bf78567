/**
 * What calls used that are on record no more. A server that removes a ledger (a deleted batch, an old day) first appends what
 * it says to DIR/spent.jsonl, a line each, and forces that to disk:
 *
 *   {"ledger":"batches/<id>/ledger","sums":[{"key":"alice","model":"m","day":"2026-11-27",…,"tries":12,"in":974,"out":388}]}
 *
 * The first line of a ledger counts, and from then on its files do not: whatever is killed in between, each call counts once.
 * `fw ledger prune --before` does the same, file by file; of a ledger that is no server's, the lines are in its own folder. No .ndjson,
 * which is what the files of a ledger are called.
 */
import { closeSync, existsSync, fsyncSync, openSync, statSync, writeSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { parsed } from '../../engine/asking/ledger/read-ledger.ts';
import { OWNER_ONLY, readKept, syncFolder } from '../../engine/core/files/durable.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { type Alike, BY, COUNTS } from './cost-by.ts';

const NAME = 'spent.jsonl';

export interface Removed {
  /** its path below the folder of the server, with `/` */
  ledger: string;
  sums: Alike[];
}

/**
 * Those of a server's folder; none where it has no such file, or where a ledger is one file. What is no line of it, such as
 * a torn end, says nothing.
 */
export function removedIn(folder: string): Removed[] {
  const path = join(folder, NAME);
  if (!existsSync(path) || !statSync(path).isFile()) return [];
  const byLedger = new Map<string, Removed>();
  for (const line of readKept(path).toString().split('\n')) {
    const { ledger, sums } = parsed(line) ?? {};
    if (typeof ledger !== 'string' || ledger === '' || !Array.isArray(sums) || !sums.every(isAlike)) continue;
    if (!byLedger.has(ledger)) byLedger.set(ledger, { ledger, sums });
  }
  return [...byLedger.values()];
}

function isAlike(one: unknown): one is Alike {
  return (
    isObject(one) &&
    BY.every(name => typeof one[name] === 'string') &&
    COUNTS.every(name => Number.isSafeInteger(one[name]) && (one[name] as number) >= 0)
  );
}

/** A server's folder has the time that was seen last there, and ledgers in gateway/ and batches/ID/ledger/. */
const SERVERS = 'clock.json';
const DEEPEST = 3;

/** The folder in which sums of the ledger at `path` are kept, and what that is called there. */
export function keeperOf(path: string): { folder: string; name: string } {
  const at = resolve(path);
  let folder = at;
  for (let up = 0; up < DEEPEST; up++) {
    folder = dirname(folder);
    if (existsSync(join(folder, SERVERS)))
      return { folder, name: `${relative(folder, at).split(sep).join('/')}/` };
  }
  return { folder: at, name: '' };
}

/** Appends a line; it is on disk when this returns. Throws what the disk says. */
export function appendRemoved(folder: string, removed: Removed): void {
  const path = join(folder, NAME);
  const isNew = statSync(path, { throwIfNoEntry: false }) === undefined;
  const fd = openSync(path, 'a', OWNER_ONLY.file);
  try {
    // behind a line that was torn this one is whole
    const bytes = Buffer.from(`\n${JSON.stringify(removed)}\n`);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  if (isNew) syncFolder(folder);
}

/** The files of `paths` below `folder` that no line has counted. */
export function stillThere(folder: string, paths: readonly string[], removed: readonly Removed[]): string[] {
  if (removed.length === 0) return [...paths];
  const counted = new Set(removed.map(({ ledger }) => ledger));
  return paths.filter(path => {
    // a batch that is being removed is `<id>.gone`
    const parts = relative(folder, path)
      .split(sep)
      .map(part => part.replace(/\.gone$/, ''));
    return !parts.some((_, at) => counted.has(parts.slice(0, at + 1).join('/')));
  });
}
