/** A regular file that is read more than once, by offset, so that nobody need keep its lines in between. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { dataError, ioError, usageError } from '../item/failure.ts';
import { isRemote, notOnDisk } from './input-files.ts';

export const BLOCK = 1 << 20;
/** Files that are open at once, of any number: a shell may allow a process 64, and results may be in 70,000. */
const MOST_OPEN = 16;
/** Those that are open, the one used last at the end. */
const inUse: { letGo(): void }[] = [];

export interface ReadableAgain {
  path: string;
  size: number;
  /** Reads until `bytes` are there or the file ends; returns how many there were. */
  readAt(block: Buffer, from: number, bytes: number, offset: number): number;
  /** `length` bytes and the one after them: read alone, or, where places follow each other, with those after them. */
  windowOn(offset: number, length: number): { block: Buffer; from: number };
  close(): void;
}

/** Exit 65 where there is none, 64 where it is no regular file. */
export function openAgain(path: string): ReadableAgain {
  let fd: number | null = opened(path);
  const { size, dev, ino } = fstatSync(fd);
  let window = { block: Buffer.alloc(0), offset: 0 };
  let ahead = 0; // bytes to read beyond a line, while lines are read in order

  const self = {
    letGo(): void {
      if (fd !== null) closeSync(fd);
      fd = null;
      window = { block: Buffer.alloc(0), offset: 0 };
    },
  };
  use(self);

  return { path, size, readAt, windowOn, close };

  function close(): void {
    const at = inUse.indexOf(self);
    if (at >= 0) inUse.splice(at, 1);
    self.letGo();
  }

  /** The descriptor; a file that others have taken the place of is opened again, and must be the same one. */
  function descriptor(): number {
    if (fd === null) {
      fd = opened(path);
      const now = fstatSync(fd);
      if (now.dev !== dev || now.ino !== ino) throw changed(path);
      use(self);
    } else if (inUse.at(-1) !== self) use(self);
    return fd;
  }

  function windowOn(offset: number, length: number): { block: Buffer; from: number } {
    const end = window.offset + window.block.length;
    if (offset >= window.offset && offset + length + 1 <= end)
      return { block: window.block, from: offset - window.offset };
    const follows = offset >= window.offset && offset <= end;
    ahead = follows ? Math.min(BLOCK, Math.max(4096, ahead * 2)) : 0;
    const block = Buffer.allocUnsafeSlow(length + 1 + ahead);
    const got = readAt(block, 0, block.length, offset);
    if (got < length) throw shorter(path);
    window = { block: block.subarray(0, got), offset };
    return { block: window.block, from: 0 };
  }

  function readAt(block: Buffer, from: number, bytes: number, offset: number): number {
    let done = 0;
    const handle = descriptor();
    try {
      while (done < bytes) {
        const got = readSync(handle, block, from + done, bytes - done, offset + done);
        if (got === 0) break;
        done += got;
      }
    } catch (error) {
      throw ioError(`${path}: expected to read on, found ${(error as NodeJS.ErrnoException).code}`);
    }
    return done;
  }
}

/** Makes a file the one used last, and lets go of the one that was not used for the longest time. */
function use(file: { letGo(): void }): void {
  const at = inUse.indexOf(file);
  if (at >= 0) inUse.splice(at, 1);
  inUse.push(file);
  if (inUse.length > MOST_OPEN) inUse.shift()?.letGo();
}

export function changed(path: string): Error {
  return ioError(`${path}: expected the file to stay as it is while it is read, found another in its place`);
}

export function shorter(path: string): Error {
  return ioError(`${path}: expected the file to stay as it is while it is read, found it shorter`);
}

function opened(path: string): number {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EMFILE' || code === 'ENFILE')
      throw ioError(`${path}: expected to open it, found ${code}, too many open files; raise ulimit -n`);
    if (isRemote(path)) throw notOnDisk(path);
    throw dataError(`expected a readable file, found ${code === 'ENOENT' ? 'none' : code}: ${path}`);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw usageError(
    `expected a file that can be read twice, found a pipe, folder or device: ${path}; write it to a file first`,
  );
}
