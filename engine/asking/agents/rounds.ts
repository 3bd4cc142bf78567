/**
 * What a ledger says of the rounds of a step: --retry-failed asks a failed step in the next round. The same command again
 * begins in the first one, and goes on through what later rounds have got.
 */

import type { Check } from '../../answers/schema-check.ts';
import { kindsOf, nameOf } from '../../answers/schema-words.ts';
import type { Pool } from '../../core/item/call.ts';
import type { Rejected } from '../../core/item/item.ts';
import type { Agent, AskAgain } from './agent-file.ts';
import { type Bodies, firstSample, type Opening, type Sample, seedOf } from './request-body.ts';

export interface Asking {
  agent: Agent;
  pool: Pool;
  own: Bodies;
  options: { seed: number };
}

export interface AttemptedStep {
  id: string;
  /** the name of the question, where several items share it */
  shared?: string | undefined;
  /** what the seed is made of in place of the id: twins have the same */
  twin?: string | undefined;
  context: string;
  opening?: Opening | undefined;
  round: number;
}

/** The body and the key of an attempt (1-based) in the round of `asked`. */
export function attemptRequest(
  { agent, own, options }: Asking,
  { id, shared, twin, context, opening, round }: AttemptedStep,
  attempt: number,
  sample: Sample,
): ReturnType<Bodies['bodyOf']> {
  const identity = { id: shared ?? id, agent: agent.key, round, attempt };
  const seed = seedOf(options.seed, twin === undefined ? identity : { ...identity, id: twin });
  const { rejected, temperature } = sample; // no spread: it costs more than the rest
  return own.bodyOf({ context, opening, rejected, temperature, seed }, identity);
}

/** The first later round that the ledger has an answer of, null where it has none; looked up once, when it is wanted. */
export function laterRound(asking: Asking, asked: AttemptedStep): () => number | null {
  const lastRound = asking.pool.onRecord?.lastRound ?? 0;
  let known: number | null | undefined;
  return () => {
    if (known !== undefined) return known;
    known = null;
    // a round in which nobody answered has left no answer, and the next one may have
    for (let round = asked.round + 1; round <= lastRound && known === null; round++)
      if (isOnRecord(asking, { ...asked, round }, 1, firstSample(asking.agent))) known = round;
    return known;
  };
}

/**
 * Whether this attempt is on record though --attempts of this run would not ask it: the recovery may have had more of them,
 * also for the answers behind the one that had failed.
 */
export function wasRecovered(asking: Asking, asked: AttemptedStep, attempt: number, sample: Sample): boolean {
  return Boolean(asking.pool.onRecord?.lastRound) && isOnRecord(asking, asked, attempt, sample);
}

function isOnRecord(asking: Asking, asked: AttemptedStep, attempt: number, sample: Sample): boolean {
  return asking.pool.onRecord?.has(attemptRequest(asking, asked, attempt, sample).key) === true;
}

/**
 * After `redone` answers that only had a value which is asked again: a fresh sample, for telling the model which confidence
 * we would like to read would be putting it into its mouth. Null where all temperatures are used up.
 */
export function sampleAfresh(again: AskAgain | undefined, redone: number): Sample | null {
  const temperature = again?.temperatures[redone - 1];
  return temperature === undefined ? null : { temperature };
}

const CUT_OFF = 'it was cut off at the limit of tokens. Be shorter';

/** What a model is told of an answer that was refused, before it is asked again. Other words ask everything again. */
export function complaintOf({ code, message, whole }: Rejected, { text, schema }: Check): string {
  if (text) {
    const cause =
      code === 'truncated' ? CUT_OFF : code === 'empty-answer' ? 'there was no text in it' : message;
    return `That answer cannot be used: ${cause}. Answer again${text.isFree ? '' : ', and with nothing else'}.`;
  }
  const name = nameOf(kindsOf(schema));
  const cause =
    code === 'truncated'
      ? CUT_OFF
      : code === 'no-json-found'
        ? whole === undefined
          ? `there was no JSON ${name} in it`
          : 'it was far too long'
        : message;
  return `That answer cannot be used: ${cause}. Answer again with exactly one JSON ${name} that fits, and nothing else.`;
}
