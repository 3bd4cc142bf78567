/**
 * Each answer has calls of its own: what a model said of one item, or as one agent, is nobody else's. Items of a row that
 * share a question (--share) name it, and have its calls together. Of each call 20 bytes are kept.
 */

import { hash } from 'node:crypto';
import { questionOf } from '../asking/agents/asked-once.ts';
import { createIdTable, hashOf } from '../core/files/idset.ts';
import { type Item, isRawRequest, type Step } from '../core/item/item.ts';
import type { AnswerSchemas } from './legacy/answer-schemas.ts';
import { broken, type Violation } from './legacy/leftovers.ts';

/** As a ledger knows a call. Another name is nobody's key, and says nothing. */
const KEY = /^[0-9a-f]{32}$/;

const RULE = 'call of another answer';

/** The returned function says which call of an item belongs to another answer; null for nearly all. */
export function callsOfOthers(): (item: Item) => Violation | null {
  const owners = createIdTable();
  return item => {
    const { id, steps, decision } = item;
    const own = new Set<string>();
    const answers = Array.isArray(steps) ? steps.length : 0;
    for (let at = 0; at <= answers; at++) {
      const step = at < answers ? (steps as (Step | null)[])[at] : decision;
      const { calls, shared } = step ?? ({} as Partial<Step>);
      if (!Array.isArray(calls)) continue;
      const place = at < answers ? `/steps/${at}` : '/decision';
      const uncounted = otherCount(step as Partial<Step>, place);
      if (uncounted !== null) return uncounted;
      // a line that is there twice is found by its id
      const owner = hashOf(`${shared ?? id}`) % 2 ** 32;
      for (const [nth, call] of calls.entries()) {
        if (typeof call !== 'string' || !KEY.test(call)) continue;
        if (own.has(call))
          return broken(RULE, `${place}/calls/${nth}`, 'a call of its own', 'that of another step');
        own.add(call);
        if (owners.numberOf(call, owner) !== owner)
          return broken(
            RULE,
            `${place}/calls/${nth}`,
            'a call that no other item has',
            `that of another, ${call}`,
          );
      }
    }
    return null;
  };
}

/** Each attempt is a call, and each answer but the last was rejected. */
function otherCount({ calls = [], attempts, rejected = [] }: Partial<Step>, at: string): Violation | null {
  if (calls.length === 0 || !calls.every(call => typeof call === 'string' && KEY.test(call))) return null;
  if (attempts !== calls.length)
    return broken(RULE, `${at}/attempts`, `${calls.length}, one for each call`, `${attempts}`);
  if (!Array.isArray(rejected) || rejected.length === calls.length - 1) return null;
  const expected = `the ${calls.length - 1} answers before the last`;
  return broken(RULE, `${at}/rejected`, expected, `${rejected.length}`);
}

/**
 * Answers that items of a row share (--share), or equal requests (--once): each of them has the same calls and the same
 * answer. Of each question 20 bytes are kept. The returned function says what is wrong with the shared answers of an item; null for one that shares
 * none.
 */
export function sharedAnswers(schemas: AnswerSchemas): (item: Item) => Violation | null {
  const answers = createIdTable();
  return item => {
    const { steps } = item;
    for (let at = 0; at < (steps?.length ?? 0); at++) {
      const { shared, calls, output, raw, response } = (steps as Step[])[at] ?? ({} as Step);
      if (shared === undefined) continue;
      const isRaw = isRawRequest(item.request);
      if (typeof shared !== 'string' || !(isRaw ? questionOf(item) === shared : schemas.mayShare(item, at)))
        return broken(
          'shared answer',
          `/steps/${at}/shared`,
          isRaw ? 'the name of the request' : 'the name of a question that the ordering of the item has',
          `'${shared}'`,
        );
      if (output === undefined && response === undefined) continue;
      const digest = hash('sha256', JSON.stringify([calls, output, raw, response]), 'hex');
      const known = Number.parseInt(digest.slice(0, 8), 16);
      if (answers.numberOf(shared, known) !== known)
        return broken(
          'shared answer',
          `/steps/${at}/${isRaw ? 'response' : 'output'}`,
          `the answer that other items have to ${shared}`,
          'another one',
        );
    }
    return null;
  };
}
