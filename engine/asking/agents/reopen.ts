/**
 * Answers that somebody refused after they were given (`validate`, `verify`, `ingest` of older results), to be asked again:
 * the failure says which. That answer goes, and with it all that were given after it, which may have read it.
 */

import { answerOf, isAccountedFor } from '../../answers/answers-of-line.ts';
import type { Code } from '../../core/item/codes.ts';
import { type Failure, type Item, isItem, isRawRequest, type Step } from '../../core/item/item.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

/** What is said of an answer as such: the same question would give the same answer, so it is asked in a new round. */
const OF_ANSWERS: readonly Code[] = [
  'schema-mismatch',
  'null-value',
  'zero-confidence',
  'sentinel-text',
  'placeholder-text',
  'not-accepted',
];

/** Whether the failure refuses an answer that the item still has, and says which. */
function refusesAnswer({ code, agent, at }: Failure): boolean {
  return (
    agent !== undefined && typeof at === 'string' && (OF_ANSWERS.includes(code) || code === 'not-strict')
  );
}

export interface AnswerPlace {
  agent: string;
  /** JSON Pointer of the step: `/steps/1`, `/decision` */
  at: string;
}

const IN_RESULT = /^\/(?:conversation_history|all_agent_outputs)\/(\d+)(?:\/|$)/;

/** Whose answer is at a pointer into an item or a legacy result, and where the item has it; null where none is. */
export function answerPlace(line: JsonObject, pointer: string): AnswerPlace | null {
  const { steps, decision, conversation_history: turns } = line;
  const of = (value: unknown, at: string): AnswerPlace | null => {
    const { agent } = isObject(value) ? value : {};
    return typeof agent === 'string' ? { agent, at } : null;
  };
  if (isItem(line)) {
    if (isRawRequest(line.request)) return null; // its answer is nobody's to refuse
    if (pointer.startsWith('/decision/')) return of(decision, '/decision');
    const [, nth] = /^\/steps\/(\d+)\//.exec(pointer) ?? [];
    return nth === undefined || !Array.isArray(steps) ? null : of(steps[Number(nth)], `/steps/${nth}`);
  }
  if (!Array.isArray(turns)) return null;
  if (/^\/business_decision(?:\/|$)/.test(pointer)) return { agent: 'business_decision', at: '/decision' };
  const nth = /^\/final_output(?:\/|$)/.test(pointer) ? turns.length - 1 : IN_RESULT.exec(pointer)?.[1];
  return nth === undefined ? null : of(turns[Number(nth)], `/steps/${nth}`);
}

/** The item without the answer that its failure refuses, and without those after it; the same item where it refuses none. */
export function reopened(item: Item): Item {
  const { failure } = item;
  if (failure === undefined || !refusesAnswer(failure)) return item;
  const { steps = [], decision, ...rest } = item;
  const nth = /^\/steps\/(\d+)$/.exec(failure.at as string)?.[1];
  const at = nth === undefined ? steps.length : Number(nth);
  const refused = nth === undefined ? decision : steps[at];
  if (refused?.output === undefined) return item;
  const kept = steps.slice(0, at);
  // who edited an answer changed no question: the same one is asked, and a ledger has what the model had said
  const isEdited = failure.code === 'not-strict' || isAccountedFor(answerOf(refused, '')) === false;
  const again = isEdited ? [] : [failedBy(refused, failure)];
  return nth === undefined
    ? { ...rest, steps: kept, ...(again[0] && { decision: again[0] }) }
    : { ...rest, steps: [...kept, ...again] };
}

function failedBy({ agent, output, raw, problem: _, ...step }: Step, { code, message }: Failure): Step {
  const said = raw ?? (step.sha256 !== undefined ? JSON.stringify(output) : undefined);
  return {
    agent,
    ...(said !== undefined && { raw: said }),
    ...step,
    rung: 'failed',
    repairs: [],
    problem: { code, message },
  };
}

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
  'no-such-path',
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
