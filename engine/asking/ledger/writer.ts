/**
 * Appending to a ledger: what comes in one turn of the event loop goes out in one write, and whoever appended is told
 * once that write has returned. fsync runs behind, every so often: what the machine had not put on disk when its power
 * went is asked again. After any error of the disk nothing more is written: a line behind a torn one would be damage.
 * A file that was removed or cut while it was written to is such an error too: the system says nothing of it by itself.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  statSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { type Fatal, ioError } from '../../core/item/failure.ts';
import { type LineWithBytes, roomFor, writeSealed } from './ledger-format.ts';

/** milliseconds between two syncs; `always` syncs before anybody is told, `never` leaves it to the system */
export type Fsync = number | 'always' | 'never';

export interface WriterOptions {
  /** made by `begin`, or as the first line is written, and never opened again */
  path: string;
  /** the folder of the file is the ledger's own, and so for its owner alone, as the file is */
  ownFolder?: boolean;
  fsync: Fsync;
  /** the first lines of the file */
  head: () => string[];
  /** called once, with what every append from then on is told */
  onBroken: (error: Fatal) => void;
}

export interface Writer {
  /** ms that this process has stood in writes so far, and in syncs where they come before anybody is told */
  readonly blocked: number;
  /** Makes the file with its first lines, if it is not there yet. What stood in the way, or does by now. */
  begin(): Fatal | null;
  /**
   * `done` is called once the line is written, with the byte where it begins and its length without the newline; or
   * with what stood in its way.
   */
  append(line: string | LineWithBytes, done?: Appended): void;
  /** Writes nothing more, and says why to whoever appends. */
  breakOff(error: Fatal): void;
  /** Writes and syncs what is left; what is appended after that is told so, and is not written. */
  close(): Promise<void>;
}

export type Appended = (error: Fatal | null, at: number, length: number) => void;

/** ms between two looks at whether the file is still there */
const LOOK = 1_000;
/** What a person does after the ledger could not be written to its end. */
const AGAIN = 'then give the same command again: what is in the ledger is not asked again';

/** A write beyond this goes out before the turn ends. */
const FLUSH_BYTES = 1 << 20;

export function createWriter({ path, ownFolder = false, fsync, head, onBroken }: WriterOptions): Writer {
  let file: number | null = null;
  let bytes = Buffer.allocUnsafe(FLUSH_BYTES);
  let filled = 0;
  let waiting: { done: Appended; at: number; length: number }[] = [];
  /** bytes of the file */
  let written = 0;
  let lookedAt = performance.now();
  let due: NodeJS.Immediate | null = null;
  let syncDue: NodeJS.Timeout | null = null;
  /** a sync that is under way */
  let syncing: Promise<void> | null = null;
  let broken: Fatal | null = null;
  let closed = false;
  let blocked = 0;

  function put(line: string | LineWithBytes): void {
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
      file ??= create(path, ownFolder);
      for (let at = 0; at < filled; ) at += writeSync(file, bytes, at, filled - at);
      written += filled;
      if (since - lookedAt >= LOOK) look(file);
      if (fsync === 'always') fdatasyncSync(file);
      else if (fsync !== 'never') syncDue ??= setTimeout(sync, fsync);
    } catch (error) {
      fail(error as Error);
    }
    blocked += performance.now() - since;
    filled = 0;
    if (bytes.length > 4 * FLUSH_BYTES) bytes = Buffer.allocUnsafe(FLUSH_BYTES);
    for (const { done, at, length } of told) done(broken, at, length);
  }

  /** Throws where the file is no longer there under its name, or shorter than what was written to it. */
  function look(open: number): void {
    lookedAt = performance.now();
    const { ino, dev, size } = fstatSync(open);
    const there = statSync(path, { throwIfNoEntry: false });
    if (there === undefined || there.ino !== ino || there.dev !== dev)
      throw new Error('it was removed or moved while this run wrote to it');
    if (size < written)
      throw new Error(`it was cut to ${size} of ${written} bytes while this run wrote to it`);
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
        if (error) fail(error);
        resolve();
      });
    });
  }

  function fail(error: Error): void {
    const { code } = error as NodeJS.ErrnoException;
    const mend =
      code === 'EMFILE' || code === 'ENFILE'
        ? 'raise the limit of open files (ulimit -n)'
        : code === undefined
          ? 'make sure that nothing else changes the ledger'
          : 'mend the disk';
    breakOff(ioError(`${path}: the ledger cannot be written: ${error.message}\n${mend}, ${AGAIN}`));
  }

  function breakOff(error: Fatal): void {
    if (broken !== null) return;
    broken = error;
    onBroken(broken);
  }

  function begin(): void {
    if (file !== null || filled > 0 || broken !== null) return;
    for (const first of head()) put(first);
  }

  return {
    get blocked() {
      return blocked;
    },
    begin() {
      begin();
      if (file === null) flush();
      return broken;
    },
    breakOff(error) {
      // what was answered by then is kept: the file is this run's own
      if (broken === null) flush();
      breakOff(error);
    },
    append(line, done) {
      if (broken !== null || closed) return done?.(broken ?? ioError(`${path}: the ledger is closed`), 0, 0);
      begin();
      const at = filled;
      put(line);
      if (done) waiting.push({ done, at: written + at, length: filled - at - 1 });
      if (filled >= FLUSH_BYTES) flush();
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
        if (broken === null) look(closing);
        if (broken === null && fsync !== 'never') fdatasyncSync(closing);
        closeSync(closing);
      } catch (error) {
        fail(error as Error);
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

function create(path: string, ownFolder: boolean): number {
  const folder = dirname(path);
  const made = mkdirSync(folder, { recursive: true, ...(ownFolder && { mode: 0o700 }) });
  const file = openSync(path, 'ax', 0o600);
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
