/**
 * What a page of fw view shows, as its address: filters, order, columns, a text, a place. Whoever has the same files and
 * the address (without the token) sees the same rows.
 *
 *   ?rung=failed&in.group=a&in.group=b&tokens.out=100..&failure=!&sort=-tokens.out&show=id&show=failure&q=late&from=200
 */
import type { Filter, Test } from './rows/selection.ts';
import type { Query as Wanted } from './rows/selections.ts';

export interface Query extends Wanted {
  /** the columns that are shown, in this order; none: those that the page chooses */
  show: readonly string[];
  /** the place of the first row that is shown, from 0 */
  from: number;
}

export const ALL_ROWS: Query = { filters: [], sort: null, show: [], text: '', from: 0 };

/** Keys that are no columns: no column has such a name, since all but our own have a point in it. */
const RESERVED: ReadonlySet<string> = new Set(['sort', 'show', 'q', 'from', 'token']);
/** Parts of an address; the rest would be of no use to anybody. */
const MOST = 20_000;

/** Reads the part of an address behind `?`. Whatever it is, it is a query. */
export function queryOf(search: string | URLSearchParams): Query {
  const parts = [...(typeof search === 'string' ? new URLSearchParams(search) : search)].slice(0, MOST);
  const last = (key: string): string => parts.findLast(([name]) => name === key)?.[1] ?? '';
  const [sort, from] = [last('sort'), last('from')];
  const isDown = sort.startsWith('-');
  const filters = new Map<string, Test[]>();
  const show = new Set<string>();
  for (const [name, value] of parts) {
    if (name === 'show' && value !== '') show.add(value);
    if (RESERVED.has(name) || name === '') continue;
    filters.set(name, [...(filters.get(name) ?? []), testOf(value)]);
  }
  return {
    filters: [...filters].map(([column, tests]) => ({ column, tests })),
    sort: sort === '' || sort === '-' ? null : { column: isDown ? sort.slice(1) : sort, isDown },
    show: [...show],
    text: last('q'),
    from: /^\d{1,15}$/.test(from) ? Number(from) : 0,
  };
}

/** The keys and values of an address, also for the hidden fields of a form. */
export function partsOf({ filters, sort, show, text, from }: Query): [key: string, value: string][] {
  const parts: [string, string][] = [];
  for (const { column, tests } of filters) for (const test of tests) parts.push([column, textOfTest(test)]);
  if (sort !== null) parts.push(['sort', `${sort.isDown ? '-' : ''}${sort.column}`]);
  for (const column of show) parts.push(['show', column]);
  if (text !== '') parts.push(['q', text]);
  if (from !== 0) parts.push(['from', String(from)]);
  return parts;
}

/** `?…`, or '' for all rows as they are. */
export function addressOf(query: Query): string {
  const search = new URLSearchParams(partsOf(query)).toString();
  return search === '' ? '' : `?${search}`;
}

/** A filter as it is given to --where: `COLUMN=VALUE`, by the same rules. Null where there is no `=`. */
export function partOf(text: string): [column: string, value: string] | null {
  const at = text.indexOf('=');
  return at < 1 ? null : [text.slice(0, at), text.slice(at + 1)];
}

const NUMBER = String.raw`-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?`;
const RANGE = new RegExp(`^(${NUMBER})?\\.\\.(${NUMBER})?$`);

function testOf(value: string): Test {
  const isNot = value.startsWith('!');
  const text = isNot ? value.slice(1) : value;
  if (text.startsWith('\\')) return { isNot, value: text.slice(1) };
  const [, from, to] = RANGE.exec(text) ?? [];
  if (from === undefined && to === undefined) return { isNot, value: text };
  return { isNot, from: from === undefined ? null : Number(from), to: to === undefined ? null : Number(to) };
}

export function textOfTest(test: Test): string {
  const not = test.isNot ? '!' : '';
  if (!('value' in test)) return `${not}${test.from ?? ''}..${test.to ?? ''}`;
  const { value } = test;
  const isPlain = !/^[!\\]/.test(value) && 'value' in testOf(value);
  return `${not}${isPlain ? '' : '\\'}${value}`;
}

/** The tests of one column. */
export const testsOf = ({ filters }: Query, column: string): readonly Test[] =>
  filters.filter(filter => filter.column === column).flatMap(({ tests }) => tests);

/** The same with other tests of one column, from its first row on. */
export function withTests(query: Query, column: string, tests: readonly Test[]): Query {
  const isKnown = query.filters.some(filter => filter.column === column);
  const filters: Filter[] = isKnown
    ? query.filters.map(filter => (filter.column === column ? { column, tests } : filter))
    : [...query.filters, { column, tests }];
  return { ...query, from: 0, filters: filters.filter(filter => filter.tests.length > 0) };
}

/** In words: `= deny`, `≠ deny`, `from 1 to 2`, `has none`. */
export function wordsOf(test: Test): string {
  const { isNot } = test;
  if ('value' in test)
    return test.value === '' ? (isNot ? 'has a value' : 'has none') : `${isNot ? '≠' : '='} ${test.value}`;
  const { from, to } = test;
  const range = from === null ? `at most ${to}` : to === null ? `at least ${from}` : `from ${from} to ${to}`;
  return isNot ? `not ${range}` : range;
}
