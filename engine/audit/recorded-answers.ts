/**
 * The answers that a ledger has on record, to hold results to: where each is, by the key of its call (36 bytes each, in
 * typed arrays). The lines are read when they are asked for.
 */

import { createKeys } from '../asking/ledger/key-index.ts';
import { isAnswer, isSealed, keyIn } from '../asking/ledger/ledger-format.ts';
import {
  callIn,
  type LedgerDamage,
  ledgerFiles,
  linesOf,
  openLines,
  parsed,
} from '../asking/ledger/read-ledger.ts';
import type { RecordedAnswer } from '../core/item/call.ts';
import { dataError } from '../core/item/failure.ts';
import { number } from '../core/item/wording.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';

export interface RecordedCall extends RecordedAnswer {
  item: string;
  round: number;
  attempt: number;
  /** tokens */
  usage: { prompt: number; completion: number };
  /** texts were left out of the request */
  redacted: boolean;
  /** the call's own messages: of a prompt the user's, and what was said of rejected answers */
  messages: JsonObject[];
  /** of a raw request: its body */
  body?: unknown;
}

export interface Recorded {
  /** answers on record */
  readonly size: number;
  /** The first answer to a key, which is the one that is replayed; null where there is none. */
  find(key: string): RecordedCall | null;
  /** what of the ledger cannot be read, for the account */
  notes(): string[];
  close(): void;
}

/** Reads the ledger at `path` once. Exit 65 where there is none. */
export function openRecorded(path: string): Recorded {
  const keys = createKeys();
  const damages: LedgerDamage[] = [];
  let more = 0;
  const tell = (damage: LedgerDamage): void => {
    if (damage.kind === 'torn') return; // nobody used what is in it
    if (damages.length < MOST_NAMED) damages.push(damage);
    else more += 1;
  };
  const paths = ledgerFiles(path, tell);
  for (const [file, each] of paths.entries())
    for (const { at, bytes } of linesOf(each, tell))
      if (isAnswer(bytes)) keys.add(keyIn(bytes), { file, offset: at, length: bytes.length });
  const lines = openLines(paths);

  return {
    get size() {
      return keys.size;
    },
    find(key) {
      const place = keys.placeOf(key);
      if (place === null) return null;
      const line = lines.read(place);
      const where = `${paths[place.file]}: the line at byte ${place.offset}`;
      if (!isSealed(line)) throw dataError(`${where} has changed while it was read`);
      const call = callIn(line);
      // of a key the first 64 bits are kept
      if (call?.answer === undefined || call.finish === undefined || call.key !== key) return null;
      const { item, agent, round, attempt, answer, whole, logprobs, finish, redacted } = call;
      const usage = call.usage ?? { prompt: 0, completion: 0 };
      const { request } = parsed(line.toString()) ?? {};
      const { messages, body } = isObject(request) ? request : {};
      return {
        ...{ item, agent, round, attempt, text: answer, finish, usage, redacted: redacted === true },
        ...(whole && { whole }),
        ...(logprobs && { logprobs }),
        messages: Array.isArray(messages) ? messages.filter(isObject) : [],
        ...(body !== undefined && { body }),
      };
    },
    notes: () => [
      ...damages.map(({ path: file, message }) => `--ledger: ${file}: ${message}`),
      ...(more > 0 ? [`--ledger: and ${number(more)} more places that cannot be read`] : []),
    ],
    close: lines.close,
  };
}

/** Damages that are named; a file can have millions. */
const MOST_NAMED = 10;
