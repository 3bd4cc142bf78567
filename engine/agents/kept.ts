/**
 * How much of an answer an item keeps. A server may send 16 MiB, and a line of that length is one that the next stage
 * refuses (--max-line): so an answer that is accepted has a bound, and of a refused one only the beginning is kept.
 */
import { hash } from 'node:crypto';
import type { Whole } from '../flow/item.ts';

/** Bytes of a line that an accepted answer may take, its text and what was read from it together: five fit well. */
const MOST_ACCEPTED = 1024 * 1024;
/** Bytes of a line that a refused answer may take. */
const MOST_REFUSED = 64 * 1024;
/** UTF-8 bytes that one UTF-16 unit may become inside a JSON string: \u0001 */
const WORST = 6;

/** Whether an answer is too long for its line. */
export function isTooLong(text: string, output: object | undefined): boolean {
  if (2 * WORST * text.length <= MOST_ACCEPTED) return false;
  return bytesOf(text) + (output === undefined ? 0 : bytesOf(output)) > MOST_ACCEPTED;
}

export const TOO_LONG = `expected an answer that takes at most ${MOST_ACCEPTED} bytes of its line`;

/** `raw` as it is kept of a refused answer; `whole` says what it is the beginning of, where it was cut. */
export function keptOf(text: string): { raw: string; whole?: Whole } {
  if (WORST * text.length <= MOST_REFUSED) return { raw: text };
  let head = text.slice(0, MOST_REFUSED);
  while (bytesOf(head) > MOST_REFUSED) head = head.slice(0, head.length / 2);
  if (head.length === text.length) return { raw: text };
  // by way of bytes, since a slice of a string keeps all of it in memory; half a pair at the end becomes U+FFFD
  const raw = Buffer.from(head).toString();
  return { raw, whole: { bytes: Buffer.byteLength(text), sha256: hash('sha256', text) } };
}

function bytesOf(value: object | string): number {
  return Buffer.byteLength(JSON.stringify(value));
}
