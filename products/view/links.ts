/** Where the links of a page lead: on a server to other choices, in a static folder to its own pages alone. */
import { addressOf, type Query } from './query.ts';

export interface Links {
  /** the table with these choices; null where there is no such page */
  rows(query: Query): string | null;
  item(row: number, query: Query): string;
  /** the line as it is; null where there is no such page */
  raw(row: number): string | null;
}

export const LIVE = {
  rows: (query: Query): string => `/${addressOf(query)}`,
  item: (row: number, query: Query): string => `/item/${row}${addressOf({ ...query, from: 0 })}`,
  raw: (row: number): string => `/item/${row}/raw`,
} satisfies Links;

export const STILL: Links = {
  rows: () => null,
  item: row => `row-${row + 1}.html`,
  raw: () => null,
};
