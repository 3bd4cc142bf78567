/**
 * What `keep` of the config says: how long, and how much of it, a server keeps of what it stores; and how much room it leaves
 * on its disk. A number alone is the days of files, as it was before there was anything else to say.
 */
import { Fatal, usageError } from '../../../engine/core/item/failure.ts';

export interface Keep {
  /** ms that output files are kept; and input files, unless they say so themselves */
  files: number;
  /** ms after its end that a batch is kept, and bytes of all that have ended; null: for ever, and all */
  batches: number | null;
  batchBytes: number | null;
  /** ms that a day of the gateway's record is kept, and bytes of all of it */
  record: number | null;
  recordBytes: number | null;
}

/** As the file has it: days, and bytes as a number or a text such as 200GB. */
export interface KeepFile {
  files?: number;
  batches?: number;
  batches_bytes?: number | string;
  record?: number;
  record_bytes?: number | string;
}

const DAY = 24 * 3_600_000;
/** As at OpenAI. */
const FILES = 30;

export function keepOf(said: number | KeepFile | undefined): Keep {
  const file = typeof said === 'number' ? { files: said } : (said ?? {});
  const { files = FILES, batches, batches_bytes, record, record_bytes } = file;
  return {
    files: files * DAY,
    batches: batches === undefined ? null : batches * DAY,
    batchBytes: batches_bytes === undefined ? null : bytesOf(batches_bytes, 'keep.batches_bytes'),
    record: record === undefined ? null : record * DAY,
    recordBytes: record_bytes === undefined ? null : bytesOf(record_bytes, 'keep.record_bytes'),
  };
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 },
  ...{ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 },
};

/** Of 10GB, 1.5TiB, or a whole number of bytes. Exit 64, naming `where`, for what is none. */
export function bytesOf(text: number | string, where: string): number {
  const [, count, unit = 'B'] = /^(\d{1,15}(?:\.\d{1,6})?) ?([kKMGT]i?B|B)?$/.exec(String(text).trim()) ?? [];
  const bytes = Math.floor(Number(count) * (UNITS[unit] ?? Number.NaN));
  if (Number.isSafeInteger(bytes)) return bytes;
  throw usageError(`${where}: expected bytes, such as 10GB or 500MiB, found '${String(text).slice(0, 60)}'`);
}

/** For people: three digits, in the units of disks. */
export function bytesWords(bytes: number): string {
  const step = Math.min(4, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const unit = ['bytes', 'kB', 'MB', 'GB', 'TB'][step];
  return step === 0 ? `${bytes} bytes` : `${Number((bytes / 1000 ** step).toPrecision(3))} ${unit}`;
}

/** Whether `error` is one that a person can mend, as what a disk says is. */
export const isExpected = (error: unknown): boolean =>
  error instanceof Fatal || (error as NodeJS.ErrnoException).code !== undefined;
