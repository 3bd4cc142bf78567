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

export type Appended = (error: Fatal | null, at: number, length: number) => void;

/** ms between two looks at whether the file is still there */
const LOOK = 1_000;
/** What a person does after the ledger could not be written to its end. */
const AGAIN = 'then run the same command again: what is in the ledger is not asked for again';

/** A write beyond this goes out before the turn ends. */
const FLUSH_BYTES = 1 << 20;

export const createWriter = (options: WriterOptions): Writer => new Writer(options);

export class Writer {
  readonly #options: WriterOptions;
  #file: number | null = null;
  #bytes = Buffer.allocUnsafe(FLUSH_BYTES);
  #filled = 0;
  #waiting: { done: Appended; at: number; length: number }[] = [];
  /** bytes of the file */
  #written = 0;
  #lookedAt = performance.now();
  #due: NodeJS.Immediate | null = null;
  #syncDue: NodeJS.Timeout | null = null;
  /** a sync that is under way */
  #syncing: Promise<void> | null = null;
  #broken: Fatal | null = null;
  #closed = false;
  #blocked = 0;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** ms that this process has stood in writes so far, and in syncs where they come before anybody is told */
  get blocked(): number {
    return this.#blocked;
  }

  /** Makes the file with its first lines, if it is not there yet. What stood in the way, or does by now. */
  begin(): Fatal | null {
    this.#begin();
    if (this.#file === null) this.#flush();
    return this.#broken;
  }

  /**
   * `done` is called once the line is written, with the byte where it begins and its length without the newline; or
   * with what stood in its way.
   */
  append(line: string | LineWithBytes, done?: Appended): void {
    if (this.#broken !== null || this.#closed)
      return done?.(this.#broken ?? ioError(`${this.#options.path}: the ledger is closed`), 0, 0);
    this.#begin();
    const at = this.#filled;
    this.#put(line);
    if (done) this.#waiting.push({ done, at: this.#written + at, length: this.#filled - at - 1 });
    if (this.#filled >= FLUSH_BYTES) this.#flush();
    else this.#due ??= setImmediate(() => this.#flush());
  }

  /** Writes nothing more, and says why to whoever appends. */
  breakOff(error: Fatal): void {
    // what was answered by then is kept: the file is this run's own
    if (this.#broken === null) this.#flush();
    this.#break(error);
  }

  /** Writes and syncs what is left; what is appended after that is told so, and is not written. */
  async close(): Promise<void> {
    if (this.#closed) return;
    if (this.#broken === null) this.#flush();
    this.#closed = true;
    if (this.#syncDue !== null) clearTimeout(this.#syncDue);
    // an error of the disk is told once: to the sync that is under way, not to the one that comes after it
    await this.#syncing;
    if (this.#file === null) return;
    const file = this.#file;
    this.#file = null;
    try {
      if (this.#broken === null) this.#look(file);
      if (this.#broken === null && this.#options.fsync !== 'never') fdatasyncSync(file);
      closeSync(file);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #begin(): void {
    if (this.#file !== null || this.#filled > 0 || this.#broken !== null) return;
    for (const first of this.#options.head()) this.#put(first);
  }

  #put(line: string | LineWithBytes): void {
    const room = this.#filled + roomFor(line);
    if (room > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, room));
      this.#bytes.copy(larger, 0, 0, this.#filled);
      this.#bytes = larger;
    }
    this.#filled = writeSealed(line, this.#bytes, this.#filled);
  }

  #flush(): void {
    if (this.#due !== null) clearImmediate(this.#due);
    this.#due = null;
    if (this.#filled === 0) return;
    const { path, ownFolder = false, fsync } = this.#options;
    const waiting = this.#waiting;
    this.#waiting = [];
    const since = performance.now();
    try {
      this.#file ??= create(path, ownFolder);
      const filled = this.#filled;
      for (let at = 0; at < filled; ) at += writeSync(this.#file, this.#bytes, at, filled - at);
      this.#written += filled;
      if (since - this.#lookedAt >= LOOK) this.#look(this.#file);
      if (fsync === 'always') fdatasyncSync(this.#file);
      else if (fsync !== 'never') this.#syncDue ??= setTimeout(() => this.#sync(), fsync);
    } catch (error) {
      this.#fail(error as Error);
    }
    this.#blocked += performance.now() - since;
    this.#filled = 0;
    if (this.#bytes.length > 4 * FLUSH_BYTES) this.#bytes = Buffer.allocUnsafe(FLUSH_BYTES);
    for (const { done, at, length } of waiting) done(this.#broken, at, length);
  }

  /** Throws where the file is no longer there under its name, or shorter than what was written to it. */
  #look(open: number): void {
    this.#lookedAt = performance.now();
    const { ino, dev, size } = fstatSync(open);
    const there = statSync(this.#options.path, { throwIfNoEntry: false });
    if (there === undefined || there.ino !== ino || there.dev !== dev)
      throw new Error('it was removed or moved while this run wrote to it');
    if (size < this.#written)
      throw new Error(`it was cut to ${size} of ${this.#written} bytes while this run wrote to it`);
  }

  #sync(): void {
    this.#syncDue = null;
    const file = this.#file;
    if (file === null) return;
    if (this.#syncing !== null) {
      // a slow disk is not asked again while it works
      this.#syncDue = setTimeout(() => this.#sync(), this.#options.fsync as number);
      return;
    }
    this.#syncing = new Promise(resolve => {
      fdatasync(file, error => {
        this.#syncing = null;
        if (error) this.#fail(error);
        resolve();
      });
    });
  }

  #fail({ code, message }: NodeJS.ErrnoException): void {
    const mend =
      code === 'EMFILE' || code === 'ENFILE'
        ? 'raise the limit of open files (ulimit -n)'
        : code === undefined
          ? 'make sure that nothing else changes the ledger'
          : 'fix the disk';
    const { path } = this.#options;
    this.#break(ioError(`${path}: the ledger cannot be written: ${message}\n${mend}, ${AGAIN}`));
  }

  #break(error: Fatal): void {
    if (this.#broken !== null) return;
    this.#broken = error;
    this.#options.onBroken(error);
  }
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
