/**
 * The way from a figure to the records behind it: a query that `fw view` takes. A page has it as `data-rows` of an `<a>`
 * without href, which is plain text in the file alone; `fw view FILES --report PAGE` makes a link of it.
 */
import { html, type Text } from '../kit/html.ts';

/** A column of fw view and a value of it. Of one column several are any of them; of several columns all must hold. */
export type Where = readonly [column: string, value: string];

/** The column of a --group, --twins or --risk. */
export const inColumn = (name: string): string => `in.${name}`;
/** The column of the outcome: its name, or, of a pointer into the decision, the keys on the way. */
export const outColumn = (outcome: string): string =>
  `out.${outcome.startsWith('/') ? outcome.slice(1).replaceAll('/', '.') : outcome}`;

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
export function rowsOf(where: readonly Where[], text: Text): Text {
  return where.length === 0 || text === '' ? text : html`<a data-rows="${rowsQuery(where)}">${text}</a>`;
}

/** Ids that one query names. */
export const MOST_IDS = 50;

/** Records by their ids, of which the first are named. */
export const byIds = (ids: readonly string[]): Where[] =>
  ids.slice(0, MOST_IDS).map((id): Where => ['id', exactly(id)]);
