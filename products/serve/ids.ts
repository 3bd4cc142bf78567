/**
 * Ids of files and batches, in OpenAI's forms. Each begins with the milliseconds of its making, and no two of a process
 * begin with the same: so ids sort by age, and one is a cursor of a list even after its object is gone.
 */
import { randomBytes } from 'node:crypto';

/** in the order of their codes, so that texts of one length sort as the numbers */
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const TIME_DIGITS = 8;
const RANDOM_DIGITS = 16;

export const FILE_ID = /^file-[0-9A-Za-z]{24}$/;
export const BATCH_ID = /^batch_[0-9a-f]{32}$/;

let last = 0;

/** To ask the system for random bytes costs as much as to read a request, so it is asked for those of many ids at once. */
const AT_ONCE = 4_096;
let random = Buffer.alloc(0);
let used = 0;

/** `bytes` random bytes in hex, for names: no secret. */
export function randomHex(bytes: number): string {
  if (used + bytes > random.length) {
    random = randomBytes(AT_ONCE);
    used = 0;
  }
  used += bytes;
  return random.toString('hex', used - bytes, used);
}

/** beyond it are ids that nobody made by a clock */
const LAST_TIME = 9e13;

/** An id that is there already: those that are made from now on sort behind it, though the clock was set back meanwhile. */
export function noteId(id: string): void {
  const time = BATCH_ID.test(id)
    ? Number.parseInt(id.slice(6, 18), 16)
    : [...id.slice(5, 5 + TIME_DIGITS)].reduce((sum, digit) => 62 * sum + DIGITS.indexOf(digit), 0);
  if (time < LAST_TIME) last = Math.max(last, time);
}

function laterThanLast(now: number): number {
  last = Math.max(now, last + 1);
  return last;
}

/** `file-` and 24 letters and digits; `now` in ms since 1970. */
export function newFileId(now: number): string {
  let time = laterThanLast(now);
  let digits = '';
  for (let i = 0; i < TIME_DIGITS; i++) {
    digits = DIGITS[time % 62] + digits;
    time = Math.floor(time / 62);
  }
  // of 256 values 248 are 4 times 62: the rest would make some digits likelier
  for (let left = RANDOM_DIGITS; left > 0; ) {
    for (const byte of randomBytes(left)) {
      if (byte >= 248) continue;
      digits += DIGITS[byte % 62];
      left--;
    }
  }
  return `file-${digits}`;
}

/** `batch_` and 32 hex digits. */
export function newBatchId(now: number): string {
  return `batch_${laterThanLast(now).toString(16).padStart(12, '0')}${randomHex(10)}`;
}
