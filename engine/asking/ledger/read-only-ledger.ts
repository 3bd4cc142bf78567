/** A ledger that is only looked into: without a lock, and without a file of its own. */
import { existsSync } from 'node:fs';
import type { Answer, OnRecord } from '../../core/item/call.ts';
import { nameFor } from './answer-identity.ts';
import { filesOf } from './files.ts';
import { createKeys } from './key-index.ts';
import { answersOf, openLines, readRecord } from './record.ts';

export interface Recorded extends OnRecord {
  /** of the last run */
  readonly lastModel: string | undefined;
  /** The answer to the call of this key; `model`: who was asked, where the request names nobody. */
  find(key: string, model?: string): Answer | null;
  close(): void;
}

/** Of `path`, a folder or one file; nothing is on record where it is not there. Exit 65 where it is damaged. */
export function openRecorded(path: string, warn: (message: string) => void): Recorded {
  const paths = existsSync(path) ? filesOf(path) : [];
  const keys = createKeys();
  const record = readRecord(paths, keys, { warn });
  const lines = openLines(paths);
  const answerAt = answersOf(paths, keys, lines);
  return {
    lastRound: record.lastRound,
    lastModel: record.header?.model,
    has: key => keys.placeOf(key) !== null,
    find: (key, model) => answerAt(key, model === undefined ? key : nameFor(key, model)),
    close: lines.close,
  };
}
