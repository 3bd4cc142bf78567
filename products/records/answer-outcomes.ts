/** What was made of the answers of a ledger, by key, in typed arrays: a million of them take some 50 MB. */

import { createKeys, nameIn, nameOfVerdict } from '../../engine/asking/ledger/key-index.ts';
import { isAnswer, isVerdict } from '../../engine/asking/ledger/ledger-format.ts';
import { linesOf, parsed, type Tell } from '../../engine/asking/ledger/read-ledger.ts';
import { RUNGS } from '../../engine/core/item/item.ts';

export interface Verdict {
  rung: string;
  code?: string;
}

export interface Answers {
  /** keys that have an answer; of requests that name no model, with each model that was asked */
  readonly size: number;
  /** Here and below `name` is what an answer is found by: see `nameOfCall`. */
  has(name: string): boolean;
  /** The last verdict on the answer; null where nobody has judged it. */
  verdictOf(name: string): Verdict | null;
  /** Whether the answer at byte `at` of file number `file` is the one that is replayed: the first of its name. */
  isFirst(name: string, file: number, at: number): boolean;
  /** verdicts on answers that are not there */
  readonly stray: number;
}

/** The number beside a key has one byte. */
const MAX_COUNT = 255;

export function readAnswers(paths: readonly string[], tell: Tell): Answers {
  const keys = createKeys();
  const verdicts: Verdict[] = RUNGS.map(rung => ({ rung }));
  const numbers = new Map<string, number>(RUNGS.map((rung, index) => [rung, index + 1]));
  let stray = 0;

  function numberOf({ rung, code }: Verdict): number {
    const name = code === undefined ? rung : `${rung} ${code}`;
    const known = numbers.get(name);
    if (known !== undefined) return known;
    // verdicts of fw have far fewer codes: what is beyond them is somebody's invention
    if (verdicts.length === MAX_COUNT) return numbers.get(rung) ?? MAX_COUNT;
    verdicts.push(code === undefined ? { rung } : { rung, code });
    numbers.set(name, verdicts.length);
    return verdicts.length;
  }

  for (const [file, path] of paths.entries()) {
    for (const { at, bytes, header } of linesOf(path, tell)) {
      if (isAnswer(bytes)) keys.add(nameIn(bytes, header), { file, offset: at, length: bytes.length });
      else if (isVerdict(bytes)) {
        const line = parsed(bytes.toString()) ?? {};
        const { verdict, key, code } = line;
        if (typeof verdict !== 'string' || typeof key !== 'string') continue;
        const name = keys.placeOf(key) === null ? nameOfVerdict(line, header) : key;
        if (keys.placeOf(name) === null) stray += 1;
        keys.note(name, numberOf({ rung: verdict, ...(typeof code === 'string' && { code }) }));
      }
    }
  }

  return {
    get size() {
      return keys.size;
    },
    get stray() {
      return stray;
    },
    has: key => keys.placeOf(key) !== null,
    verdictOf: key => verdicts[keys.noteOf(key) - 1] ?? null,
    isFirst(key, file, at) {
      const place = keys.placeOf(key);
      return place?.file === file && place.offset === at;
    },
  };
}
