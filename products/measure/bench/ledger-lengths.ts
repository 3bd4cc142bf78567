/** The lengths that a run really had, from its ledger: prompts and answers are made up, their tokens are not. */

import { callsOf, ledgerFiles, type Tell } from '../../../engine/asking/ledger/read-ledger.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { counted } from '../../../engine/core/item/wording.ts';

export interface Lengths {
  /** in words, for the report */
  source: string;
  /** tokens of prompt and answer of each call, in the order of the ledger */
  pairs: readonly (readonly [prompt: number, answer: number])[];
}

/** More than a benchmark of an hour asks; all are held in memory. */
const MOST = 1_000_000;
/** Beyond the context of any model: then a server counts something else. */
const MOST_TOKENS = 10_000_000;

/** Of the calls that were answered, and whose tokens the server counted. Exit 65 where there are none. */
export function lengthsIn(path: string, tell: Tell): Lengths {
  const pairs: [number, number][] = [];
  for (const file of ledgerFiles(path, tell)) {
    for (const { call } of callsOf(file, tell)) {
      const { prompt = 0, completion = 0 } = (call.outcome === 'answer' && call.usage) || {};
      const areCounts = prompt >= 1 && completion >= 1 && prompt <= MOST_TOKENS && completion <= MOST_TOKENS;
      if (areCounts && pairs.length < MOST) pairs.push([prompt, completion]);
    }
  }
  if (pairs.length === 0)
    throw dataError(`--ledger ${path}: expected answers with their tokens, found none; run some items first`);
  return { source: `the lengths of ${counted(pairs.length, 'call')} of ${path}`, pairs };
}
