/** Every rule by which fw changes what a model said, in the order in which they apply, with the rung that each leads to. */
import { type Rung, worse } from '../core/item/item.ts';
import { MENDS } from './mend.ts';
import { COERCIONS } from './written-forms.ts';

/** The one rule that puts a value of ours; a step that needed it is `defaulted`. */
const FILLS = {
  'null-default':
    'A null or a missing value becomes what the file of defaults says (null-fix, or chain --on-invalid default).',
} as const;

export interface RuleLine {
  rung: Rung;
  line: string;
}

const of = (rules: Readonly<Record<string, string>>, rung: Rung): [string, RuleLine][] =>
  Object.entries(rules).map(([name, line]) => [name, { rung, line }]);

export const RULES: ReadonlyMap<string, RuleLine> = new Map([
  ...of(MENDS, 'repaired'),
  ...of(COERCIONS, 'coerced'),
  ...of(FILLS, 'defaulted'),
]);

/** Marks an answer that was read back from a legacy result. It changes nothing: the text of the model is not known. */
export const READ_BACK = 'read-back';
/** An agent's name in a legacy result, where the item has another spelling of it. */
export const AGENT_NAME = 'agent-name';

/** Entries beside the rules of answers: they are made where results are written or read, and none can be left out. */
const OF_RESULTS: ReadonlyMap<string, RuleLine> = new Map([
  [
    READ_BACK,
    {
      rung: 'unknown',
      line: 'Read back from a legacy result: the value is known, the text of the model is not.',
    },
  ],
  [
    AGENT_NAME,
    {
      rung: 'clean',
      line: 'In a legacy result an agent has its own name; the item, and what later agents read, keep the spelling of the model.',
    },
  ],
]);

/** What an entry of a record says: a rule of answers, or one of results. */
export function entryLine(name: string): RuleLine | undefined {
  return RULES.get(name) ?? OF_RESULTS.get(name);
}

/** The best rung that an answer with these entries may have; `strange` is that of a rule which this version does not have. */
export function rungOfEntries(entries: readonly unknown[], strange: Rung): Rung {
  return entries.reduce<Rung>((rung, entry) => {
    const rule = (entry as { rule?: unknown } | null)?.rule;
    return worse(rung, (typeof rule === 'string' ? entryLine(rule)?.rung : undefined) ?? strange);
  }, 'clean');
}

/** The rules as a table for a person: name, rung, what it does. */
export function describeRules(): string {
  const widest = Math.max(...[...RULES.keys()].map(name => name.length));
  const rows = [...RULES].map(
    ([name, { rung, line }]) => `${name.padEnd(widest)}  ${rung.padEnd('defaulted'.length)}  ${line}\n`,
  );
  return rows.join('');
}
