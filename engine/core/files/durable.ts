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
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
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
  return openSync(path, 'wx+', OWNER_ONLY.file);
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
  const beside = nameBeside(path);
  try {
    writeForced(beside, Buffer.from(text), disk);
    disk.rename(beside, path);
  } catch (error) {
    disk.remove(beside);
    throw error;
  }
  syncFolder(dirname(path), disk);
}

/** Writes `bytes` to `path` once and for all: false where it is there already. `link` is exclusive, on NFS too. */
export function writeOnce(path: string, bytes: Buffer): boolean {
  const beside = nameBeside(path);
  try {
    writeForced(beside, bytes, DISK);
    linkSync(beside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    // over NFS the answer to our own link may be lost, and the second try finds the first
    if (statSync(beside).nlink !== 2) return false;
  } finally {
    rmSync(beside, { force: true });
  }
  syncFolder(dirname(path));
  return true;
}

const nameBeside = (path: string): string => `${path}.${randomBytes(4).toString('hex')}${UNFINISHED}`;

function writeForced(path: string, bytes: Buffer, disk: Disk): void {
  const fd = disk.open(path, 'wx', OWNER_ONLY.file);
  try {
    for (let at = 0; at < bytes.length; ) at += disk.write(fd, bytes.subarray(at));
    disk.fsync(fd);
  } finally {
    disk.close(fd);
  }
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

/**
 * Makes a folder, with `mode` where it has one, and those above it that are missing; throws the error of the system.
 * Node's own `recursive` never returns where making a folder ends with ENOENT though the one above it is there, as in
 * /proc.
 */
export function makeFolder(path: string, mode?: number): void {
  if (isFolder(path)) return;
  if (!isFolder(dirname(path)) && dirname(path) !== path) makeFolder(dirname(path));
  try {
    mkdirSync(path, mode === undefined ? undefined : { mode });
  } catch (error) {
    if (!isFolder(path)) throw error; // another run may have made it in between
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
