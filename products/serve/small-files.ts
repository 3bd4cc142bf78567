/** Small files of JSON, in which a server keeps what it knows: read with care, and written whole. */
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
