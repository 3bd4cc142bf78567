/** A planned server in words: its flags, and what they come to. */
import { counted, number } from '../../engine/core/item/wording.ts';
import type { Preset } from '../simulator/presets.ts';
import { madeIn } from '../simulator/speculation.ts';

export function limitsWords({ limits }: Preset): string {
  const { maxNumSeqs, maxNumBatchedTokens, kvTokens, speculation } = limits;
  const drafts = speculation
    ? `; a step checks ${counted(speculation.drafted, 'drafted token')} a sequence and makes ${madeIn(speculation)} tokens`
    : '';
  return `--max-num-seqs ${maxNumSeqs} --max-num-batched-tokens ${maxNumBatchedTokens}; ${number(kvTokens)} tokens fit into the KV cache${drafts}`;
}
