/** Where the links of a page lead: on a server to other choices, in a static folder to its own pages alone. */
import { addressOf, type Query } from './query.ts';

export interface Links {
  /** the table with these choices; null where there is no such page */
  rows(query: Query): string | null;
  item(row: number, query: Query): string;
}

export const LIVE = {
  rows: (query: Query): string => `/${addressOf(query)}`,
  item: (row: number, query: Query): string => `/item/${row}${addressOf({ ...query, from: 0 })}`,
} satisfies Links;

export const STILL: Links = {
  rows: () => null,
  item: row => `row-${row + 1}.html`,
};
