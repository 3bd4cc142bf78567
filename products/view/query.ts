/**
 * What a page of fw view shows, as its address: filters, order, columns, a text, a place. Whoever has the same files and
 * the address (without the token) sees the same rows.
 *
 *   ?rung=failed&in.group=a&in.group=b&tokens.out=100..&failure=!&sort=-tokens.out&show=id&show=failure&q=late&from=200
 */

/** One value, a row without a value, or a range of numbers with both ends in it. */
export type Test = { is: string } | { none: true } | { low: number | null; high: number | null };

/** Tests of one column: any of those without `not` holds, and none of those with it. */
export interface Filter {
  column: string;
  not: boolean;
  test: Test;
}

export interface Query {
  filters: readonly Filter[];
  sort: { column: string; down: boolean } | null;
  /** the columns that are shown, in this order; none: those that the page chooses */
  show: readonly string[];
  /** what the lines hold, '' for no search */
  text: string;
  /** the place of the first row that is shown, from 0 */
  from: number;
}

export const ALL_ROWS: Query = { filters: [], sort: null, show: [], text: '', from: 0 };

/** Keys that are no columns: no column has such a name, since all but the fixed ones have a point in it. */
const RESERVED: ReadonlySet<string> = new Set(['sort', 'show', 'q', 'from', 'token']);
/** Parts of an address; the rest would be of no use to anybody. */
const MOST = 500;

/** Reads the part of an address behind `?`. Whatever it is, it is a query: what is no number where one belongs counts as 0. */
export function queryOf(search: string | URLSearchParams): Query {
  const parts = [...(typeof search === 'string' ? new URLSearchParams(search) : search)].slice(0, MOST);
  const last = (key: string): string => parts.findLast(([name]) => name === key)?.[1] ?? '';
  const sort = last('sort');
  const from = last('from');
  const down = sort.startsWith('-');
  return {
    filters: parts
      .filter(([name]) => !RESERVED.has(name) && name !== '')
      .map(([column, value]) => ({ column, ...testOf(value) })),
    sort: sort === '' || sort === '-' ? null : { column: down ? sort.slice(1) : sort, down },
    show: [...new Set(parts.filter(([name, value]) => name === 'show' && value !== '').map(([, value]) => value))],
    text: last('q'),
    from: /^\d{1,15}$/.test(from) ? Number(from) : 0,
  };
}

/** The keys and values of an address, also for the hidden fields of a form. */
export function partsOf({ filters, sort, show, text, from }: Query): [key: string, value: string][] {
  return [
    ...filters.map(({ column, not, test }): [string, string] => [column, `${not ? '!' : ''}${textOfTest(test)}`]),
    ...(sort === null ? [] : [['sort', `${sort.down ? '-' : ''}${sort.column}`] as [string, string]]),
    ...show.map((column): [string, string] => ['show', column]),
    ...(text === '' ? [] : [['q', text] as [string, string]]),
    ...(from === 0 ? [] : [['from', String(from)] as [string, string]]),
  ];
}

/** `?…`, or '' for all rows as they are. */
export function addressOf(query: Query): string {
  const search = new URLSearchParams(partsOf(query)).toString();
  return search === '' ? '' : `?${search}`;
}

const RANGE = /^(-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)?\.\.(-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)?$/;

function testOf(value: string): Pick<Filter, 'not' | 'test'> {
  const not = value.startsWith('!');
  const text = not ? value.slice(1) : value;
  if (text === '') return { not, test: { none: true } };
  if (text.startsWith('\\')) return { not, test: text === '\\' ? { none: true } : { is: text.slice(1) } };
  const [, low, high] = RANGE.exec(text) ?? [];
  if (low === undefined && high === undefined) return { not, test: { is: text } };
  return { not, test: { low: low === undefined ? null : Number(low), high: high === undefined ? null : Number(high) } };
}

function textOfTest(test: Test): string {
  if ('none' in test) return '';
  if ('low' in test) return `${test.low ?? ''}..${test.high ?? ''}`;
  const isPlain = !/^[!\\]/.test(test.is) && 'is' in testOf(test.is).test;
  return isPlain ? test.is : `\\${test.is}`;
}

export const sameTest = (a: Test, b: Test): boolean => textOfTest(a) === textOfTest(b);

/** In words: `= deny`, `≠ deny`, `from 1 to 2`, `has none`. */
export function wordsOf({ not, test }: Filter): string {
  if ('none' in test) return not ? 'has a value' : 'has none';
  if ('is' in test) return `${not ? '≠' : '='} ${test.is}`;
  const { low, high } = test;
  const range =
    low === null ? `at most ${high}` : high === null ? `at least ${low}` : `from ${low} to ${high}`;
  return not ? `not ${range}` : range;
}
