/**
 * What the orderings of one row have in common. Two orderings that begin alike ask the same questions up to where they
 * part: the same agent, the same context, the same sampling. With --share such a question has one name, and so one seed,
 * one key, one call and one line of the ledger.
 */
import type { Call } from '../../core/item/call.ts';
import type { Item } from '../../core/item/item.ts';
import { arrangementOf, askedBy, wrongArrangement } from './arrangement.ts';
import type { Agents } from './load-agents.ts';
import { orderingLabel } from './orderings.ts';

/**
 * The id of an item in two parts: what all orderings of its row have in common, and what tells them apart. `ingest` ends
 * ids with `/` and the ordering, and after that `#` and the number of a sample. Samples are never shared.
 */
export interface RowId {
  row: string;
  /** `/risk-data`; '' where the id does not say the ordering */
  label: string;
  /** `#2`; '' for none */
  sample: string;
}

export function rowIdOf({ id, ordering, sample }: Item, agents: Agents): RowId {
  const whole = id as string;
  const ending = Number.isSafeInteger(sample) ? `#${sample}` : '';
  const isSample = ending !== '' && whole.endsWith(ending);
  const text = isSample ? whole.slice(0, -ending.length) : whole;
  const rest = isSample ? ending : '';
  const isFrom = (label: string): boolean => text.endsWith(label) && text.length > label.length;
  // as ingest writes it, and as a legacy result without its table is known
  const labels = ordering?.length ? [`/${orderingLabel(ordering, agents)}`, `/${ordering.join()}`] : [];
  const label = labels.find(isFrom) ?? '';
  return { row: text.slice(0, text.length - label.length), label, sample: rest };
}

/**
 * The name of the question that `asked` decide (keys of agents; the last is the one who is asked), for all items of a row
 * whose ordering begins so: `50acc2a3e4e6/risk-data-*`; where nobody is shown anybody, for all items of the row. Null where nobody shares it: fewer than two agents are left,
 * so that the rest of the ordering is settled.
 */
export function sharedName({ row, sample }: RowId, asked: readonly string[], agents: Agents): string | null {
  if (agents.agents.length - asked.length < 2) return null;
  return `${row}/${orderingLabel(asked, agents)}-*${sample}`;
}

/** Whether other items may ask the same. */
export const isSharedCall = ({ item, row }: Call): boolean => row !== undefined && item.includes('-*');

/** Whether `name` is one that an item of this ordering may have for its step number `at` (from 0). */
export function isSharedName(name: unknown, item: Item, at: number, agents: Agents): boolean {
  if (!Array.isArray(item.ordering) || typeof item.id !== 'string' || wrongArrangement(item)) return false;
  const asked = askedBy(item.ordering, arrangementOf(item), at);
  return asked !== null && sharedName(rowIdOf(item, agents), asked, agents) === name;
}
