/** What a ledger adds to a row of the table: how long its calls took, where the last one went, and when it ended. */
import { answersIn } from '../../engine/answers/answers-of-line.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import type { LedgerFacts } from './ledger-facts.ts';

/** They are looked up for the rows that are shown: no index has them, so that rows are not chosen or sorted by them. */
export const LEDGER_COLUMNS = ['seconds', 'endpoint', 'at'] as const;

/** Calls of one row that are looked up. */
const MOST_CALLS = 100;

export function ledgerFields(facts: Pick<LedgerFacts, 'brief'>, line: JsonObject): [string, string][] {
  const keys = answersIn(line).flatMap(({ calls }) => calls);
  const found = keys.slice(0, MOST_CALLS).flatMap(key => facts.brief(key) ?? []);
  const [first] = found;
  if (first === undefined) return [];
  const last = found.reduce((latest, one) => (one.ended >= latest.ended ? one : latest), first);
  return [
    ['seconds', found.reduce((sum, { seconds }) => sum + seconds, 0).toFixed(2)],
    ['endpoint', last.endpoint],
    ['at', new Date(last.ended * 1000).toISOString().slice(0, 19)],
  ];
}
