/**
 * Files that are there whole or not at all, over a crash too: written beside, forced to disk, renamed, and the folder
 * forced to disk. What a client has been told is then what a restart finds.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** What touches the disk; a test puts a disk in its place that fails at any step. */
export interface Disk {
  open(path: string, flags: string, mode?: number): number;
  write(fd: number, bytes: Buffer): number;
  fsync(fd: number): void;
  close(fd: number): void;
  rename(from: string, to: string): void;
  remove(path: string): void;
}

export const DISK: Disk = {
  open: openSync,
  write: writeSync,
  fsync: fsyncSync,
  close: closeSync,
  rename: renameSync,
  remove: path => rmSync(path, { force: true }),
};

/** of whatever is written here: prompts are nobody else's */
export const OWNER_ONLY = { file: 0o600, folder: 0o700 } as const;
/** A name that ends so is of a write that was not finished. */
const UNFINISHED = '.unfinished';

/** Opens a new file in the place of whatever has its name: a link there is removed, and what it leads to stays as it is. */
export function openNew(path: string): number {
  rmSync(path, { force: true });
  return openSync(path, 'wx', OWNER_ONLY.file);
}

/** Opens a file that was kept here. A pipe in its place would be waited for, and a device never end: EINVAL. */
export function openKept(path: string): number {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw Object.assign(new Error(`EINVAL: ${path} is no file`), { code: 'EINVAL' });
}

export function readKept(path: string): Buffer {
  const fd = openKept(path);
  try {
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Writes `text` to `path` in place of what was there; throws the error of the system, and then the old file is as it was. */
export function replaceFile(path: string, text: string, disk: Disk = DISK): void {
  const beside = `${path}.${randomBytes(4).toString('hex')}${UNFINISHED}`;
  try {
    const fd = disk.open(beside, 'wx', OWNER_ONLY.file);
    try {
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; ) at += disk.write(fd, bytes.subarray(at));
      disk.fsync(fd);
    } finally {
      disk.close(fd);
    }
    disk.rename(beside, path);
  } catch (error) {
    disk.remove(beside);
    throw error;
  }
  syncFolder(dirname(path), disk);
}

/** Gives the finished file `from` the name `to`. */
export function placeFile(from: string, to: string, disk: Disk = DISK): void {
  disk.rename(from, to);
  syncFolder(dirname(to), disk);
}

/** A file that is not there is removed. */
export function removeFile(path: string, disk: Disk = DISK): void {
  disk.remove(path);
  syncFolder(dirname(path), disk);
}

export function syncFolder(path: string, disk: Disk = DISK): void {
  const fd = disk.open(path, 'r');
  try {
    disk.fsync(fd);
  } finally {
    disk.close(fd);
  }
}

/** Removes what killed processes left of their writes. */
export function removeUnfinished(folder: string): void {
  for (const name of readdirSync(folder))
    if (name.endsWith(UNFINISHED)) rmSync(join(folder, name), { force: true });
}

/** Whether the disk, or what of it this user may have, is full. */
export function isFull(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG';
}
