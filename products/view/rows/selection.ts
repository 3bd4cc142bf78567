/**
 * Which rows are shown, in which order: filters over the typed arrays of the index, sorting by a column, counts of values.
 * It follows the index as that grows; what was asked for is worked out anew only where rows came in.
 */
import { type Chunk, type ColumnKind, hashOf, isNumeric } from './chunk.ts';
import type { PlacedChunk, RowIndex, StoredColumn } from './row-index.ts';
import { sorted } from './sort-rows.ts';

/** One value, or a range of numbers with open ends (null); `isNot`: all but these. */
export type Test = { isNot: boolean } & ({ value: string } | { from: number | null; to: number | null });

export interface Filter {
  column: string;
  /** any of those that are not negated, and none of those that are */
  tests: readonly Test[];
}

export interface Wanted {
  filters: readonly Filter[];
  sort: { column: string; isDown: boolean } | null;
}

export interface Counts {
  kind: ColumnKind;
  /** the most frequent first */
  values: { value: string; count: number }[];
  /** rows with other values, and without one */
  others: number;
  none: number;
  /** of numbers */
  low: number | null;
  high: number | null;
}

const NONE: Counts = { kind: 'values', values: [], others: 0, none: 0, low: null, high: null };

/** The rows that pass `filters` and, where it is given, `hits` (1: it does), in order. */
export function selectRows(index: RowIndex, { filters, sort }: Wanted, hits: Uint8Array | null): Uint32Array {
  const rows = new Uint32Array(index.rows);
  const compiled = filters.map(filter => compile(index, filter));
  let count = 0;
  for (const chunk of index.chunks) {
    const passes = new Uint8Array(chunk.rows).fill(1);
    for (const filter of compiled) filter(chunk, passes);
    for (let at = 0, row = chunk.first; at < chunk.rows; at++, row++)
      if (passes[at] === 1 && (hits === null || hits[row] === 1)) rows[count++] = row;
  }
  let selected = rows.subarray(0, count);
  if (index.gone.size > 0) selected = selected.filter(row => !index.gone.has(row));
  return sort === null ? selected.slice() : sorted(index, selected, sort);
}

type Passing = (chunk: PlacedChunk, passes: Uint8Array) => void;

function compile(index: RowIndex, { column: name, tests }: Filter): Passing {
  const column = index.column(name);
  const wanted = tests.filter(({ isNot }) => !isNot).map(toCheck);
  const refused = tests.filter(({ isNot }) => isNot).map(toCheck);
  const check: Check = {
    text: value =>
      (wanted.length === 0 || wanted.some(({ text }) => text(value))) &&
      !refused.some(({ text }) => text(value)),
    number: value =>
      (wanted.length === 0 || wanted.some(each => each.number(value))) &&
      !refused.some(each => each.number(value)),
    hash: value =>
      (wanted.length === 0 || wanted.some(({ hash }) => hash(value))) &&
      !refused.some(({ hash }) => hash(value)),
  };
  const ofNone = check.text('');
  // an id is in no dictionary: the index has a hash of each
  if (name === 'id') return (chunk, passes) => byHash(chunk.ids, passes, check);
  const isRange = tests.some(test => !('value' in test));
  // the index has hashes of texts, which are in no order: no rows, and not those that were known before there were too many
  if (isRange && column !== undefined && index.columns[column]?.kind === 'texts')
    return (_chunk, passes) => void passes.fill(0);
  const ofValues = column === undefined ? null : passingValues(index.columns[column] as StoredColumn, check);
  return (chunk, passes) => {
    const data = chunk.columns.filter(each => each.column === column);
    if (data.length === 0) return void (ofNone || passes.fill(0));
    if (data.length > 1) return byAny(data, passes, ofValues as Uint8Array, check);
    const [only] = data as [Chunk['columns'][number]];
    if (only.kind === 'texts') byHash(only.data as Float64Array, passes, check);
    else
      for (let at = 0; at < passes.length; at++) {
        const value = only.data[at]!;
        const isIn = only.kind === 'values' ? ofValues![value] === 1 : check.number(value);
        if (!isIn) passes[at] = 0;
      }
  };
}

/** A chunk in which a column began as values and went on as numbers or texts. */
function byAny(data: Chunk['columns'], passes: Uint8Array, ofValues: Uint8Array, check: Check): void {
  for (let at = 0; at < passes.length; at++) {
    const has = data.find(({ kind, data: of }) => (kind === 'values' ? of[at] !== 0 : !Number.isNaN(of[at])));
    const value = has?.data[at] ?? Number.NaN;
    const isIn =
      has === undefined
        ? check.text('')
        : has.kind === 'values'
          ? ofValues[value] === 1
          : has.kind === 'numbers'
            ? check.number(value)
            : check.hash(value);
    if (!isIn) passes[at] = 0;
  }
}

function byHash(hashes: Float64Array, passes: Uint8Array, check: Check): void {
  for (let at = 0; at < passes.length; at++) if (!check.hash(hashes[at]!)) passes[at] = 0;
}

/** Whether a value passes, however the index has it. */
interface Check {
  /** '' where there is none */
  text(value: string): boolean;
  /** NaN where there is none */
  number(value: number): boolean;
  hash(value: number): boolean;
}

function toCheck(test: Test): Check {
  if ('value' in test) {
    const { value } = test;
    const asNumber = isNumeric(value) ? Number(value) : Number.NaN;
    const hash = value === '' ? Number.NaN : hashOf(value);
    return {
      text: text => text === value,
      number: number => (value === '' ? Number.isNaN(number) : number === asNumber),
      hash: found => (value === '' ? Number.isNaN(found) : found === hash),
    };
  }
  const { from, to } = test;
  const isIn = (number: number): boolean =>
    !Number.isNaN(number) && (from === null || number >= from) && (to === null || number <= to);
  return { text: text => isNumeric(text) && isIn(Number(text)), number: isIn, hash: () => false };
}

/** By the number of a value: whether it passes. */
function passingValues({ values }: StoredColumn, check: Check): Uint8Array {
  const passing = new Uint8Array(values.length + 1);
  passing[0] = check.text('') ? 1 : 0;
  values.forEach((value, at) => {
    passing[at + 1] = check.text(value) ? 1 : 0;
  });
  return passing;
}

/** How often each value of a column is there among `rows`; a number: among so many from the first on. */
export function countsOf(index: RowIndex, rows: Uint32Array | number, name: string, most: number): Counts {
  const place = index.column(name);
  const total = typeof rows === 'number' ? rows : rows.length;
  if (place === undefined) return { ...NONE, none: total };
  const { kind, values } = index.columns[place] as StoredColumn;
  const counts = new Float64Array(values.length + 1);
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  let large = 0;
  let chunk: PlacedChunk | undefined;
  let data: Chunk['columns'] = [];
  for (let at = 0; at < total; at++) {
    const row = typeof rows === 'number' ? at : rows[at]!;
    if (chunk === undefined || row < chunk.first || row >= chunk.first + chunk.rows) {
      chunk = index.chunkOf(row);
      data = chunk.columns.filter(each => each.column === place);
    }
    for (const { kind: of, data: each } of data) {
      const value = each[row - chunk.first]!;
      if (of === 'values') counts[value]! += 1;
      else if (!Number.isNaN(value)) {
        large += 1;
        if (of === 'texts') continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
  }
  const isNumbers = values.every(value => value === '' || isNumeric(value));
  const found: { value: string; count: number }[] = [];
  let filled = 0;
  values.forEach((value, at) => {
    const count = counts[at + 1]!;
    if (count === 0 || value === '') return;
    filled += count;
    found.push({ value, count });
    if (!isNumbers) return;
    low = Math.min(low, Number(value));
    high = Math.max(high, Number(value));
  });
  found.sort((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
  const shown = found.slice(0, most);
  const others = filled + large - shown.reduce((sum, { count }) => sum + count, 0);
  const isRange = low <= high;
  return {
    kind,
    values: shown,
    others,
    none: total - filled - large,
    low: isRange ? low : null,
    high: isRange ? high : null,
  };
}
