/** Files that lose their names at once, so that nothing of them stays whatever becomes of the process. */
import { openSync, readSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ioError } from '../item/failure.ts';

let made = 0;

/** A file in `folder`, to be written and read; `what` is put there, for the message of exit 74. */
export function openUnnamed(folder: string, what: string): number {
  made += 1;
  const path = join(folder, `.fw-${process.pid}-${made}.aside`);
  let fd: number;
  try {
    fd = openSync(path, 'wx+', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw ioError(`expected to put ${what} aside in ${folder}, found ${code}; TMPDIR names another folder`);
  }
  unlinkSync(path);
  return fd;
}

/** The bytes that were written there. */
export function readBack(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; ) {
    const got = readSync(fd, bytes, at, length - at, offset + at);
    if (got === 0) throw ioError(`expected ${length} bytes that were put aside, found ${at}`);
    at += got;
  }
  return bytes;
}
