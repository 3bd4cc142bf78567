/**
 * Answers that items of a row share (--share): each of them has the same calls and the same answer. Of each question 20
 * bytes are kept.
 */
import { hash } from 'node:crypto';
import { createIdTable } from '../core/files/idset.ts';
import type { Item, Step } from '../core/item/item.ts';
import type { AnswerSchemas } from './legacy/answer-schemas.ts';
import type { Violation } from './legacy/leftovers.ts';

/** The returned function says what is wrong with the shared answers of an item; null for one that shares none. */
export function sharedAnswers(schemas: AnswerSchemas): (item: Item) => Violation | null {
  const answers = createIdTable();
  return item => {
    const { steps } = item;
    for (let at = 0; at < (steps?.length ?? 0); at++) {
      const { shared, calls, output, raw } = (steps as Step[])[at] ?? ({} as Step);
      if (shared === undefined) continue;
      if (typeof shared !== 'string' || !schemas.mayShare(item, at))
        return broken(
          at,
          'shared',
          'the name of a question that the ordering of the item has',
          `'${shared}'`,
        );
      if (output === undefined) continue;
      const said = hash('sha256', JSON.stringify([calls, output, raw]), 'hex');
      const known = Number.parseInt(said.slice(0, 8), 16);
      if (answers.numberOf(shared, known) !== known)
        return broken(at, 'output', `the answer that other items have to ${shared}`, 'another one');
    }
    return null;
  };
}

function broken(at: number, key: string, expected: string, got: string): Violation {
  return { code: 'not-strict', rule: 'shared answer', at: `/steps/${at}/${key}`, expected, got };
}
