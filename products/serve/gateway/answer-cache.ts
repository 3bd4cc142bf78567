/**
 * Answers to requests that were asked before: `cache: 1h` of the config. Only what a server would answer alike is taken
 * (temperature 0 or a seed, not streamed), and the answer is read from the ledger's line that has it. Memory keeps where
 * that line is; a server that was started again begins without any.
 */

import { hash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { isSealed } from '../../../engine/asking/ledger/ledger-format.ts';
import { answerIn } from '../../../engine/asking/ledger/read-ledger.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';

/** Where a line of the ledger is: its file, byte and length. */
export interface Place {
  path: string;
  at: number;
  length: number;
}

export interface Cached {
  text: string;
  /** ms since it was answered */
  age: number;
}

/** Some 200 bytes each. */
const MOST = 100_000;

/** `lasts`: ms that an answer is taken again. */
export function createCache(lasts: number, now: () => number) {
  const known = new Map<string, Place & { since: number }>();
  const expected = new Map<string, string>();
  return {
    /** What such a request of an owner is known by; null where it may be answered another way the next time. */
    questionOf(
      owner: string,
      path: string,
      { temperature, seed, stream }: JsonObject,
      body: Buffer,
    ): string | null {
      const isAlike = temperature === 0 || Number.isInteger(seed);
      return isAlike && stream !== true
        ? hash('sha256', Buffer.concat([Buffer.from(`${JSON.stringify(owner)}\n${path}\n`), body]), 'hex')
        : null;
    },
    find(question: string): Cached | null {
      const place = known.get(question);
      if (place === undefined) return null;
      const age = now() - place.since;
      const text = age >= 0 && age < lasts ? textAt(place) : null;
      if (text !== null) return { text, age };
      known.delete(question);
      return null;
    },
    /** The answer to the call `key` will be one to `question`. */
    expect: (key: string, question: string) => void expected.set(key, question),
    /** It got none. */
    forget: (key: string) => void expected.delete(key),
    /** An answer is on record. */
    note(key: string, place: Place): void {
      const question = expected.get(key);
      if (question === undefined) return;
      expected.delete(key);
      known.delete(question);
      known.set(question, { ...place, since: now() });
      const [oldest] = known.keys();
      if (known.size > MOST && oldest !== undefined) known.delete(oldest);
    },
  };
}

export type Cache = ReturnType<typeof createCache>;

/** null where the line is gone, was changed, or has the beginning of an answer only. */
function textAt({ path, at, length }: Place): string | null {
  const line = Buffer.allocUnsafe(length);
  try {
    const file = openSync(path, 'r');
    try {
      if (readSync(file, line, 0, length, at) < length || !isSealed(line)) return null;
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
  const answer = answerIn(line);
  return answer === null || answer.whole ? null : answer.text;
}
