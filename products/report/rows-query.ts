/** The way from a figure to the records behind it: a query that `fw view` takes, which a page has as `data-rows`. */
import { parsePointer } from '../../engine/core/json/pointer.ts';
import { leadsTo, type Text } from '../kit/html.ts';

/** A column of fw view and a value of it. Of one column several are any of them; of several columns all must hold. */
export type Where = readonly [column: string, value: string];

/** The column of a --group, --twins or --risk. */
export const inColumn = (name: string): string => `in.${name}`;
/** A key of the decision. */
export const outColumn = (name: string): string => `out.${name}`;

/** The name of an outcome; of a JSON Pointer the keys on the way. */
const dotted = (outcome: string): string =>
  outcome.startsWith('/') ? parsePointer(outcome).join('.') : outcome;

/** A value as it stands there: one that begins as an operator does has a backslash before it. */
export const exactly = (value: string): string => (/^[!\\]/.test(value) ? `\\${value}` : value);
/** Any value but this one. */
export const otherThan = (value: string): string => `!${exactly(value)}`;

/** `?in.region=north&out.decision=%21approve`; '' for all records. */
export function rowsQuery(where: readonly Where[]): string {
  return where
    .map(([column, value], at) => `${at === 0 ? '?' : '&'}${encoded(column)}=${encoded(value)}`)
    .join('');
}

/** Half of a pair of surrogates has no UTF-8: encodeURIComponent would throw. */
const encoded = (text: string): string => encodeURIComponent(Buffer.from(text).toString());

/** `text`, which leads to the records; plain text where nothing chooses them. */
export const rowsOf = (where: readonly Where[], text: Text): Text => leadsTo(rowsQuery(where), text);

/** Ids that one query names. */
export const MOST_IDS = 50;

/** Records by their ids, of which the first are named. */
export const byIds = (ids: readonly string[]): Where[] =>
  ids.slice(0, MOST_IDS).map((id): Where => ['id', exactly(id)]);

/** Values of one column that a query names. */
const MOST_VALUES = 20;

export interface OutcomeRows {
  /** the records that were approved, and those that were decided otherwise; null where no column of a line tells */
  approved: Where[] | null;
  others: Where[] | null;
  /** those with one outcome, as it is spelled */
  value(outcome: string): Where[];
}

/**
 * Records by what was decided. An outcome that was read out of several answers, or is that of an agent that was named, is
 * no column of a line: then nothing chooses them. Failed lines that hold a decision all the same are among them.
 */
export function outcomeRows({
  asked,
  outcomes,
  approvals,
  integrity,
}: {
  asked: { outcome: string; approve: string; agent: string | null; readOut: string | null };
  outcomes: { [value: string]: number };
  approvals: readonly string[];
  integrity: { agents: readonly unknown[] };
}): OutcomeRows {
  // lines without any answer are rows of a table, and so is their outcome a column
  const column = (integrity.agents.length === 0 ? inColumn : outColumn)(dotted(asked.outcome));
  if (asked.agent !== null || asked.readOut !== null)
    return { approved: null, others: null, value: () => [] };
  const value = (outcome: string): Where[] => [[column, exactly(outcome)]];
  const approving = new Set(approvals);
  const others = Object.keys(outcomes).filter(outcome => !approving.has(outcome));
  const anyOf = (values: readonly string[]): Where[] | null =>
    values.length === 0 || values.length > MOST_VALUES ? null : values.flatMap(value);
  const [only, ...more] = approvals;
  return {
    approved: anyOf(approvals),
    others: anyOf(others) ?? (only !== undefined && more.length === 0 ? [[column, otherThan(only)]] : null),
    value,
  };
}
