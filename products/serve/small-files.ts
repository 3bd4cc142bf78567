/** Small files that a server reads or keeps what it knows in: read with care, again when they have changed, written whole. */
import { existsSync, statSync } from 'node:fs';
import { readKept, replaceFile } from '../../engine/core/files/durable.ts';
import { ioError } from '../../engine/core/item/failure.ts';

/** The record that a file of this server has; null where it is none. Exit 74 where it cannot be read. */
export function readRecord<T>(path: string, isOne: (record: T | null) => boolean): T | null {
  try {
    const record = JSON.parse(readKept(path).toString()) as T;
    return isOne(record) ? record : null;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== undefined) throw ioError(`expected to read ${path}, found ${message}`);
    return null;
  }
}

/** The same of what is no loss: null where it cannot be read, or is not there. */
export function recalled<T>(path: string, isOne: (record: unknown) => boolean): T | null {
  try {
    return readRecord<T>(path, isOne);
  } catch {
    return null;
  }
}

/** … and what is wrong with it is told; null where it is not there. `read` throws where it is none. */
export function recalledBy<T>(
  path: string,
  read: (value: unknown) => T,
  onWrong: (why: string) => void,
): T | null {
  try {
    return existsSync(path) ? read(JSON.parse(readKept(path).toString())) : null;
  } catch (error) {
    onWrong((error as Error).message.split('\n', 1)[0] as string);
    return null;
  }
}

/** Writes `text` each `ms` and at `stop`, where it has changed; what the disk does not take is told once. */
export function keepFile(path: string, text: () => string, ms: number, onBroken: (why: string) => void) {
  let last = '';
  let isTold = false;
  function keep(): void {
    const now = text();
    if (now === last) return;
    try {
      replaceFile(path, now);
      last = now;
      isTold = false;
    } catch (error) {
      if (!isTold) onBroken((error as Error).message);
      isTold = true;
    }
  }
  const timer = setInterval(keep, ms).unref();
  return {
    keep,
    stop(): void {
      clearInterval(timer);
      keep();
    },
  };
}

/** Changes with the file that is there. One that is not costs no error: keys are looked at with each request. */
export function stateOfFile(path: string): string {
  try {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (stat === undefined) return 'none';
    const { dev, ino, size, mtimeNs, ctimeNs } = stat;
    return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code as string;
  }
}
