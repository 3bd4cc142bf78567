/**
 * Appending to a ledger: what comes in one turn of the event loop goes out in one write, and whoever appended is told
 * once that write has returned. fsync runs behind, every so often: what the machine had not put on disk when its power
 * went is asked again. After any error of the disk nothing more is written: a line behind a torn one would be damage.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fdatasync, fdatasyncSync, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { type Fatal, ioError } from '../flow/failure.ts';
import { roomFor, writeSealed } from './format.ts';

/** milliseconds between two syncs; `always` syncs before anybody is told, `never` leaves it to the system */
export type Fsync = number | 'always' | 'never';

export interface WriterOptions {
  /** made as the first line is written, and never opened again */
  path: string;
  fsync: Fsync;
  /** the first lines of the file */
  head: () => string[];
  /** called once, with what every append from then on is told */
  onBroken: (error: Fatal) => void;
}

export interface Writer {
  /** ms that this process has stood in writes so far, and in syncs where they come before anybody is told */
  readonly blocked: number;
  /** `done` is called once the line is written, or with what stood in its way. */
  append(line: string, done?: (error?: Fatal) => void): void;
  /** Writes and syncs what is left; what is appended after that is told so, and is not written. */
  close(): Promise<void>;
}

/** A write beyond this goes out before the turn ends. */
const ENOUGH = 1 << 20;

export function createWriter({ path, fsync, head, onBroken }: WriterOptions): Writer {
  let file: number | null = null;
  let bytes = Buffer.allocUnsafe(ENOUGH);
  let filled = 0;
  let waiting: ((error?: Fatal) => void)[] = [];
  let due: NodeJS.Immediate | null = null;
  let syncDue: NodeJS.Timeout | null = null;
  /** a sync that is under way */
  let syncing: Promise<void> | null = null;
  let broken: Fatal | null = null;
  let closed = false;
  let blocked = 0;

  function put(line: string): void {
    const room = roomFor(line);
    if (filled + room > bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * bytes.length, filled + room));
      bytes.copy(larger, 0, 0, filled);
      bytes = larger;
    }
    filled = writeSealed(line, bytes, filled);
  }

  function flush(): void {
    if (due !== null) clearImmediate(due);
    due = null;
    if (filled === 0) return;
    const told = waiting;
    waiting = [];
    const since = performance.now();
    try {
      file ??= create(path);
      for (let at = 0; at < filled; ) at += writeSync(file, bytes, at, filled - at);
      if (fsync === 'always') fdatasyncSync(file);
      else if (fsync !== 'never') syncDue ??= setTimeout(sync, fsync);
    } catch (error) {
      breakOff(error as Error);
    }
    blocked += performance.now() - since;
    filled = 0;
    if (bytes.length > 4 * ENOUGH) bytes = Buffer.allocUnsafe(ENOUGH);
    for (const done of told) done(broken ?? undefined);
  }

  function sync(): void {
    syncDue = null;
    const synced = file;
    if (synced === null) return;
    if (syncing !== null) {
      // a slow disk is not asked again while it works
      syncDue = setTimeout(sync, fsync as number);
      return;
    }
    syncing = new Promise(resolve => {
      fdatasync(synced, error => {
        syncing = null;
        if (error) breakOff(error);
        resolve();
      });
    });
  }

  function breakOff(error: Error): void {
    if (broken !== null) return;
    broken = ioError(
      `${path}: the ledger cannot be written: ${error.message}\n` +
        'mend the disk, then give the same command again: what is in the ledger is not asked again',
    );
    onBroken(broken);
  }

  return {
    get blocked() {
      return blocked;
    },
    append(line, done) {
      if (broken !== null || closed) return done?.(broken ?? ioError(`${path}: the ledger is closed`));
      if (file === null && filled === 0) for (const first of head()) put(first);
      put(line);
      if (done) waiting.push(done);
      if (filled >= ENOUGH) flush();
      else due ??= setImmediate(flush);
    },
    async close() {
      if (closed) return;
      if (broken === null) flush();
      closed = true;
      if (syncDue !== null) clearTimeout(syncDue);
      // an error of the disk is told once: to the sync that is under way, not to the one that comes after it
      await syncing;
      if (file === null) return;
      const closing = file;
      file = null;
      try {
        if (broken === null && fsync !== 'never') fdatasyncSync(closing);
        closeSync(closing);
      } catch (error) {
        breakOff(error as Error);
      }
    },
  };
}

/** `<date>/<start>-<host>-<pid>-<random>.ndjson`: sorted by name is sorted by start. */
export function nameOf(folder: string, started: Date): string {
  const [date, time] = started.toISOString().split('T') as [string, string];
  const start = time.replace(/\D/g, '');
  const host = hostname()
    .replace(/[^\w.-]/g, '_')
    .slice(0, 60);
  return join(folder, date, `${start}-${host}-${process.pid}-${randomBytes(3).toString('hex')}.ndjson`);
}

function create(path: string): number {
  const folder = dirname(path);
  const made = mkdirSync(folder, { recursive: true });
  const file = openSync(path, 'ax');
  // the folder has the file's name, and the one above each folder that was made has that one's
  const top = made === undefined ? folder : dirname(made);
  for (let at = folder; ; at = dirname(at)) {
    syncFolder(at);
    if (at === top || at === dirname(at)) return file;
  }
}

/** A file that was synced can still be gone with its name; some file systems do not sync folders, and need not. */
function syncFolder(folder: string): void {
  const opened = openSync(folder, 'r');
  try {
    fsyncSync(opened);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EINVAL' && code !== 'EPERM' && code !== 'ENOTSUP') throw error;
  } finally {
    closeSync(opened);
  }
}
