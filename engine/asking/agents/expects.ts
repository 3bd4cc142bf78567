/**
 * Whether items are of the kind that a folder of agents is for: `expects` in its folder.yaml, a JSON Schema of an item's
 * `input`. Agents answer whatever they are asked, so a support ticket judged as a loan looks like any other result.
 */

import { compileSchema } from '../../answers/schema.ts';
import { ItemFailure, usageError } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import { summarise } from '../../core/json/show.ts';
import type { Agents } from './load-agents.ts';

/** Looks at an item before it is asked about. Throws Fatal (64), or ItemFailure (`unexpected-input`). */
export type Guard = (item: Item) => void;

/**
 * The first item with columns decides. Does it fit, a later one that does not is damaged, and fails alone. Does it not,
 * agents that nobody named for this run are not asked (64), and those that somebody named are, with a warning. Items without columns,
 * and those that were read from legacy results, whose columns may have been lost, are only warned of.
 */
export function inputGuard(agents: Agents, warn: (message: string) => void): Guard {
  const { expects, folder, naming } = agents;
  const namedBy = naming?.by ?? null;
  if (expects === undefined) return () => {};
  const check = compileSchema(expects.schema, expects.path);
  const what = typeof expects.schema.title === 'string' ? ` (${expects.schema.title})` : '';
  let verdict: 'fits' | 'does not' | null = null;
  let warned = false;
  const warnOnce = (message: string): void => {
    if (!warned) warn(message);
    warned = true;
  };
  return item => {
    const { input } = item;
    if (input === undefined) {
      if (namedBy === null)
        warnOnce(
          `the item ${item.id} has no columns (input), so it is unknown whether the agents of ${folder} are meant for it${what}`,
        );
      return;
    }
    if (verdict === 'does not') return;
    const problems = check(input);
    if (problems.length === 0) {
      if (!isReadBack(item)) verdict = 'fits';
      return;
    }
    const found = `found the item ${item.id} with other columns: ${summarise(problems)}`;
    const expected = `expected items with the columns that the agents of ${folder} are for${what}`;
    if (isReadBack(item)) return warnOnce(`${expected}, ${found}`);
    if (verdict === 'fits') throw new ItemFailure('unexpected-input', `${expected}, ${found}`);
    if (namedBy !== null) {
      verdict = 'does not';
      return warnOnce(`${expected}, ${found}; they are asked anyway, as ${namedBy} says`);
    }
    throw usageError(
      `${expected}, ${found}\n` +
        `name your own agents with ${naming?.option}FOLDER, or ${naming?.else} (docs/agents.md)\n` +
        `to ask these anyway: ${naming?.option}${folder}`,
    );
  };
}

/** Of legacy results: an answer that was read back has the mark of that. */
function isReadBack({ steps = [], decision }: Item): boolean {
  return [...steps, ...(decision ? [decision] : [])].some(({ repairs }) =>
    repairs?.some(({ rule }) => rule === 'read-back'),
  );
}
