/**
 * How much of an answer an item keeps. A server may send some MiB, and the next stage refuses a line of that length
 * (--max-line). So an accepted answer has a bound, and of a refused one only the beginning is kept.
 */
import { hash } from 'node:crypto';
import type { FullText, WholeAnswer } from '../core/item/item.ts';

/** Bytes of a line that an accepted answer may take, its text and what was read from it together: five fit well. */
const MOST_ACCEPTED = 1024 * 1024;
/** Bytes of a line that a refused answer may take. */
const MOST_REFUSED = 64 * 1024;
/** UTF-8 bytes that one UTF-16 unit may become inside a JSON string: \u0001 */
const WORST = 6;

/** Whether an answer is too long for its line. */
export function isTooLong(text: string, output: unknown): boolean {
  if ((output === undefined ? 1 : 2) * WORST * text.length <= MOST_ACCEPTED) return false;
  return bytesOf(text) + (output === undefined ? 0 : bytesOf(output)) > MOST_ACCEPTED;
}

/** Whether what an answer brings along takes more of its line than an answer may. */
export function takesTooMuch(value: unknown): boolean {
  return bytesOf(value) > MOST_ACCEPTED;
}

export const TOO_LONG = `expected an answer that takes at most ${MOST_ACCEPTED} bytes of its line`;

/**
 * An answer as later agents are shown it: text as it is, any other value as JSON without spaces. A step keeps no text of
 * the model that is the same.
 */
export function wordsOf(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

export interface Said {
  text: string;
  whole?: WholeAnswer | undefined;
}

/**
 * An answer as a run and a ledger take it: of one that is too long whatever it says, no more than is kept of a refused
 * one. It is refused for its length, and so need not be there to be refused again.
 */
export function saidOf({ text, whole: known }: Said): Said {
  if (known !== undefined || !isTooLong(text, undefined)) return { text, whole: known };
  const { raw, whole } = keptOf(text);
  return { text: raw, whole: whole && { ...whole, characters: text.length } };
}

/** Hex characters of SHA-256 that a step keeps of a text which is its output as JSON. */
const HASH_LENGTH = 16;

/** What a step keeps of such a text: enough to find that somebody edited the output since. */
export function hashOfText(text: string): string {
  return hash('sha256', text, 'hex').slice(0, HASH_LENGTH);
}

/** `raw` as it is kept of a refused answer; `whole` says what it is the beginning of, where it was cut. */
export function keptOf(text: string, known?: WholeAnswer): { raw: string; whole?: FullText } {
  if (known !== undefined) return { raw: text, whole: { bytes: known.bytes, sha256: known.sha256 } };
  if (WORST * text.length <= MOST_REFUSED) return { raw: text };
  let head = text.slice(0, MOST_REFUSED);
  while (bytesOf(head) > MOST_REFUSED) head = head.slice(0, head.length / 2);
  if (head.length === text.length) return { raw: text };
  // by way of bytes, since a slice of a string keeps all of it in memory; half a pair at the end becomes U+FFFD
  const raw = Buffer.from(head).toString();
  return { raw, whole: { bytes: Buffer.byteLength(text), sha256: hash('sha256', text) } };
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
