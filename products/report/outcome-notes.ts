/** What a reader should know of the values that were met: which are outcomes, which are none, and where a name was mistyped. */
import { usageError } from '../../engine/core/item/failure.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { show } from '../../engine/core/json/show.ts';
import type { Collected } from './collect.ts';
import { type Asked, ruleOf } from './report-names.ts';
import { canonical, mostOf, type Tally } from './values.ts';

const approvalsOf = ({ approvals, approve }: Asked): readonly string[] => approvals ?? [approve];

/** Values that a message names. */
const NAMED = 10;

/** `"deny" (40), nothing (3) and 2 others`. */
function valuesOf(tally: Tally): string {
  const named = mostOf(tally, NAMED).map(
    ([value, count]) => `${value === '' ? 'nothing' : show(value)} (${number(count)})`,
  );
  const more = tally.counts.size - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other')}` : ''}${tally.others > 0 ? ' and more' : ''}`;
}

/**
 * Exit 64 where nothing that was read has the outcome, where no value can be told to be an approval or not, and where a
 * schema knows no such approval. `keys`: the names that the outcome could have; `allowed`: what the schemas allow.
 */
export function expectOutcomes(
  collected: Collected,
  about: { allowed: Iterable<ReadonlySet<string>>; agents: ReadonlySet<string>; keys: readonly string[] },
): void {
  const { seen, outcomes, noOutcomes, approvals, fate, asked } = collected;
  if (seen.length === 0) return;
  const { agent, outcome } = asked;
  if (agent !== undefined && !about.agents.has(agent)) {
    const there = [...about.agents].map(show).join(', ') || 'none, since no line has answers';
    throw usageError(`--agent: expected an agent of these lines, found '${agent}'; there are: ${there}`);
  }
  const unknown = fate.left.get('unknown-outcome') ?? 0;
  const blank = fate.left.get('blank-outcome') ?? 0;
  if (outcomes.counts.size === 0 && blank > 0 && unknown === 0) {
    const { keys } = about;
    const there = keys.length === 0 ? '' : `; there are: ${keys.slice(0, 40).map(show).join(', ')}`;
    throw usageError(`--outcome: expected lines with '${outcome}', found none${there}`);
  }
  const { otherwise, isTold } = ruleOf(asked);
  const allowed = new Set([...about.allowed].flatMap(values => [...values]));
  if (
    allowed.size > 0 &&
    approvals.size === 0 &&
    !approvalsOf(asked).some(value => allowed.has(canonical(value)))
  )
    throw usageError(
      `--approve: expected a value of '${outcome}', found '${asked.approve}'; the schema has: ${[...allowed].slice(0, 40).map(show).join(', ')}`,
    );
  // with words that nobody explained, a rate of 0 or 100 % says that a name was mistyped, or a denial is called otherwise
  if (unknown === 0 || (outcomes.counts.size > 0 && (isTold || allowed.size > 0))) return;
  const found = `found ${valuesOf(noOutcomes)}`;
  if (approvals.size === 0)
    throw usageError(
      `--approve: expected '${asked.approve}'${otherwise ? ` and what is otherwise (${otherwise.slice(0, 6).join(', ')})` : ''} in '${outcome}', ${found}; name the approvals with --approve, and the denials with --deny`,
    );
  if (outcomes.counts.size === approvals.size)
    throw usageError(
      `--deny: expected the values of '${outcome}' that count as denials, ${found}; name them: what is not named is no outcome`,
    );
}

/** What is said of the values before any figure. */
export function outcomeNotes({ outcomes, noOutcomes, approvals, fate, asked }: Collected): string[] {
  const notes: string[] = [];
  if (outcomes.counts.size > 0 && approvals.size === 0)
    notes.push(
      `nobody was approved: no '${asked.outcome}' is '${asked.approve}'; there are: ${valuesOf(outcomes)}`,
    );
  const spelled = [...outcomes.counts.keys()].filter(
    value => approvals.has(value) && !approvalsOf(asked).includes(value),
  );
  if (spelled.length > 0)
    notes.push(
      `${spelled.slice(0, NAMED).map(show).join(', ')}: counted as '${asked.approve}', which is spelled otherwise`,
    );
  const blank = fate.left.get('blank-outcome') ?? 0;
  const unknown = fate.left.get('unknown-outcome') ?? 0;
  if (blank + unknown > 0)
    notes.push(
      `${counted(blank + unknown, 'record')} without an outcome left out, and no denials: ${valuesOf(noOutcomes)}${unknown > 0 ? '; --deny names values that are outcomes' : ''}`,
    );
  return notes;
}
