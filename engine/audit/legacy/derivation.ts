/**
 * Whether an answer came about as its record says: the text of the model with the recorded changes gives the answer, and
 * the rung is no better than those changes allow. Where the text is the answer as JSON its hash stands for it. A step with
 * neither and without changes says nothing of it (isUntold).
 */

import { type Answer, answerOf, givenBy, isRepair, list } from '../../answers/answers-of-line.ts';
import { valueEntries } from '../../answers/entries.ts';
import { READ_BACK, rungOfEntries } from '../../answers/rules.ts';
import { RUNGS, type Rung, worse } from '../../core/item/item.ts';
import { getAt, type JsonObject, parsePointer, setAt, valueAt } from '../../core/json/pointer.ts';
import { differenceIn, same } from '../../core/json/same.ts';
import { show } from '../../core/json/show.ts';
import type { Violation } from './leftovers.ts';

/** Whether it cannot be known that nobody edited an answer: its step has neither the text nor its hash, nor says so. */
export function isUntold({ output, raw, sha256, repairs, rung }: JsonObject): boolean {
  if (output === undefined || raw !== undefined || sha256 !== undefined) return false;
  return rung !== 'unknown' && list(repairs).length === 0;
}

/** The first thing in the step at `at` that does not follow from its text and its changes; null for nearly all. */
export function findInDerivation(step: JsonObject, at: string): Violation | null {
  const { raw, sha256, repairs, rung } = step;
  const isHashed = sha256 !== undefined;
  if (isHashed && typeof sha256 !== 'string') return broken('hash', `${at}/sha256`, 'text', show(sha256));
  if (
    raw === undefined &&
    !isHashed &&
    (repairs === undefined || (Array.isArray(repairs) && repairs.length === 0))
  )
    return null;
  const odd = list(repairs).findIndex(entry => !isRepair(entry));
  if (odd >= 0 || (repairs !== undefined && !Array.isArray(repairs))) {
    const [below, found] = odd >= 0 ? [`/repairs/${odd}`, list(repairs)[odd]] : ['/repairs', repairs];
    return broken('changes', at + below, 'an entry of a change: {rule, at, from, to}', show(found));
  }
  const best = rungOfEntries(list(repairs), 'coerced');
  if (RUNGS.includes(rung as Rung) && worse(rung as Rung, best) !== rung)
    return broken('rung', `${at}/rung`, `${best} at best, by its repairs`, show(rung));
  if (raw !== undefined && typeof raw !== 'string') return broken('raw', `${at}/raw`, 'text', show(raw));
  if (raw === undefined && isHashed && list(repairs).length > 0)
    return broken('raw', `${at}/raw`, 'the text that the changes were made to', 'nothing');
  const answer = answerOf(step, at);
  if (answer.isEdited) {
    const [place, what] = raw === undefined ? ['output', 'answer'] : ['raw', 'text'];
    const expected = `the ${what} of which the model's text has the hash ${sha256}`;
    return broken('edited answer', `${at}/${place}`, expected, `another: ${show(answer.output ?? raw)}`);
  }
  return answer.output === undefined ? null : (otherThanSaid(answer) ?? otherThanChanged(answer));
}

function otherThanSaid({ at, said, output, repairs }: Answer): Violation | null {
  if (said === undefined) return null;
  const given = givenBy(said, repairs, output);
  if (given === undefined) {
    const expected = 'a text that gives the answer, with the recorded changes';
    return broken('answer and raw', `${at}/raw`, expected, show(said));
  }
  const below = differenceIn(given, output);
  if (below === null) return null;
  const expected = `what raw gives with the recorded changes, ${show(valueAt(given, below))}`;
  return broken('answer and raw', `${at}/output${below}`, expected, show(valueAt(output, below)));
}

/** Each entry must end in the value that the answer has now, or in that from which the next entry at its place begins. */
function otherThanChanged({ at, output, repairs }: Answer): Violation | null {
  let value: unknown = output;
  for (const entry of valueEntries(repairs).toReversed()) {
    if (entry.rule === READ_BACK) continue;
    const tokens = parsePointer(entry.at as string);
    const parent = getAt(value, tokens.slice(0, -1));
    const found = getAt(value, tokens);
    const isThere = typeof parent === 'object' && parent !== null;
    if (!isThere || !same(found, entry.to)) {
      const expected = `a place that a change left as ${show(entry.to)} (${entry.rule})`;
      return broken('changes', `${at}/output${entry.at}`, expected, show(found));
    }
    value = setAt(value, tokens, entry.from);
  }
  return null;
}

function broken(rule: string, at: string, expected: string, got: string): Violation {
  return { code: 'not-strict', rule, at, expected, got };
}
