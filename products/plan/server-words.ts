/** A planned server in words, and for programs: its flags, and what they come to. */
import { counted, number } from '../../engine/core/item/wording.ts';
import type { Preset } from '../simulator/presets.ts';
import { madeIn } from '../simulator/speculation.ts';

export function limitsWords(preset: Preset): string {
  const { maxNumSeqs, maxNumBatchedTokens, kvTokens } = preset.limits;
  const drafts = draftsWords(preset);
  return `--max-num-seqs ${maxNumSeqs} --max-num-batched-tokens ${maxNumBatchedTokens}; ${number(kvTokens)} tokens fit into the KV cache${drafts && `; ${drafts}`}`;
}

/** Empty where nothing is drafted. No run of a real server has checked drafts, and so the ± of a preset is not theirs. */
export function draftsWords(preset: Preset | undefined): string {
  if (preset?.limits.speculation === undefined) return '';
  const { speculation } = preset.limits;
  const { drafting = 0 } = preset.step;
  const made = Number(madeIn(speculation).toFixed(2));
  return `a step checks ${counted(speculation.drafted, 'drafted token')} of each sequence, makes ${made} and takes ${drafting} ms for drafting, which ± does not cover`;
}

export function serverJson({ limits, step }: Preset): object {
  const { maxNumSeqs, maxNumBatchedTokens, kvTokens, speculation } = limits;
  return {
    max_num_seqs: maxNumSeqs,
    max_num_batched_tokens: maxNumBatchedTokens,
    kv_tokens: kvTokens,
    ...(speculation && {
      speculative_tokens: speculation.drafted,
      tokens_per_step: madeIn(speculation),
      draft_ms: step.drafting,
    }),
  };
}
