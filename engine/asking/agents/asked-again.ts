/** Which failures another round of asking may mend. */
import type { Code } from '../../core/item/codes.ts';
import type { Failure } from '../../core/item/item.ts';
import { refusesAnswer } from './reopen.ts';

/** What ingest finds in the place of an answer. */
const FOUND_CODES: readonly Code[] = ['sentinel-text', 'placeholder-text'];

/** Failures of asking: those that another round may mend. */
export const ASKING_CODES: readonly Code[] = [
  'no-valid-answer',
  'zero-confidence',
  'prompt-too-long',
  'call-refused',
  'no-answer',
  'answer-too-long',
  'no-such-model',
  'call-failed',
  'call-timeout',
  'call-quarantined',
  'call-crossed',
  'worker-lost',
  'interrupted',
  ...FOUND_CODES,
];

/** What a stopped run left is taken up without being told to; what failed only by --retry-failed. */
export function takesUp(failure: Failure, retryFailed: boolean): boolean {
  return failure.code === 'interrupted' || (retryFailed && isAsked(failure));
}

function isAsked(failure: Failure): boolean {
  const { code, agent } = failure;
  if (refusesAnswer(failure)) return true;
  return FOUND_CODES.includes(code) ? agent !== undefined : ASKING_CODES.includes(code);
}
