/**
 * In which columns two runs differ, in how many pairs, and from what to what. The indexes are compared column by column, as
 * typed arrays: no line is read, and a million pairs take a second or two.
 */
import type { Joined } from './beside.ts';
import { hashOf, isNumeric } from './rows/chunk.ts';
import type { RowIndex, StoredColumn } from './rows/row-index.ts';

/** Different values of a column by which pairs are told apart at a glance. */
export const FEW = 20;

export interface PairColumn {
  name: string;
  /** pairs of which both runs have the row, and another value in it */
  differs: number;
  /** different values in both runs; Infinity: too many to be counted */
  values: number;
}

/** One column of both runs: rows have the same key where they have the same value. */
export interface Keys {
  /** by row: the number of a value (0: none), or where there are too many a number or a hash (NaN: none) */
  first: Uint32Array | Float64Array;
  second: Uint32Array | Float64Array;
  /** of numbers of values: value 1, 2 …; null for others */
  values: readonly string[] | null;
  /** that of a value, '' for none; -1 where no row has it */
  keyOf(value: string): number;
}

/** An empty text is none, as it is to the filters of the table. A column that a run does not have is empty in it. */
export function keysOf(first: RowIndex, second: RowIndex, name: string): Keys {
  const [a, b] = [columnOf(first, name), columnOf(second, name)];
  const both = [a, b].filter(column => column !== undefined);
  if (both.every(({ kind }) => kind === 'values')) return codesOf([first, a], [second, b]);
  const isNumber =
    both.every(({ kind }) => kind !== 'texts') &&
    both.every(({ kind, values }) => kind === 'numbers' || values.every(one => one === '' || isNumeric(one)));
  const ofText = (text: string): number =>
    text === '' ? Number.NaN : isNumber ? Number(text) + 0 : hashOf(text);
  return {
    first: flat(first, a, new Float64Array(first.rows).fill(Number.NaN), ofText, isNumber),
    second: flat(second, b, new Float64Array(second.rows).fill(Number.NaN), ofText, isNumber),
    values: null,
    keyOf: value => (isNumber && value !== '' && !isNumeric(value) ? -1 : ofText(value)),
  };
}

const columnOf = (index: RowIndex, name: string): StoredColumn | undefined => {
  const place = index.column(name);
  return place === undefined ? undefined : index.columns[place];
};

type Of = [index: RowIndex, column: StoredColumn | undefined];

function codesOf(first: Of, second: Of): Keys {
  const codes = new Map([['', 0]]);
  for (const [, column] of [first, second])
    for (const value of column?.values ?? []) if (!codes.has(value)) codes.set(value, codes.size);
  const keys = ([index, column]: Of): Uint32Array =>
    flat(index, column, new Uint32Array(index.rows), text => codes.get(text) ?? 0, false);
  return {
    first: keys(first),
    second: keys(second),
    values: [...codes.keys()].slice(1),
    keyOf: value => codes.get(value) ?? -1,
  };
}

const EMPTY = hashOf('');

/** The chunks of a column end to end, each value by its key. `isNumber`: a number is its own key, else its text has one. */
function flat<To extends Uint32Array | Float64Array>(
  index: RowIndex,
  column: StoredColumn | undefined,
  to: To,
  ofText: (text: string) => number,
  isNumber: boolean,
): To {
  if (column === undefined) return to;
  const place = index.column(column.name);
  const keys = Float64Array.from(column.values, ofText);
  for (const { first, columns } of index.chunks)
    for (const { column: of, kind, data } of columns) {
      if (of !== place) continue;
      for (let at = 0; at < data.length; at++) {
        const value = data[at]!;
        // a column may begin as values and go on as something else: the other array of the row is empty then
        if (kind === 'values') {
          if (value > 0) to[first + at] = keys[value - 1]!;
        } else if (!Number.isNaN(value) && !(kind === 'texts' && value === EMPTY))
          to[first + at] = kind === 'texts' ? value : isNumber ? value + 0 : hashOf(String(value));
      }
    }
  return to;
}

/** Whether both runs have the row of the pair, and another value in the column. */
export function isOther({ first, second }: Keys, joined: Joined, pair: number): boolean {
  const [a, b] = [joined.first[pair]!, joined.second[pair]!];
  return a >= 0 && b >= 0 && !Object.is(first[a], second[b]);
}

/** The columns of what came out: a column of what was asked is the same in both, or the runs are of other rows. */
const OWN = ['rung', 'failure', 'status', 'finish'];
const rankOf = (name: string): number =>
  name.startsWith('out.') ? 0 : OWN.includes(name) ? 1 : name.startsWith('step.') ? 2 : 3;

/**
 * Each column of what came out in which some of `pairs` differ: those of few values first, decisions before steps, and of
 * these the one that differs least. `order`: the pairs, those that differ in most columns of few values first.
 */
export function differingIn(
  [first, second]: readonly [RowIndex, RowIndex],
  joined: Joined,
  pairs: Int32Array,
  isShown: (column: string) => boolean,
): { columns: PairColumn[]; order: Int32Array } {
  const names = new Set([...first.columns, ...second.columns].map(({ name }) => name));
  const scores = new Uint8Array(joined.first.length);
  const columns: PairColumn[] = [];
  for (const name of names) {
    if (rankOf(name) === 3 || !isShown(name)) continue;
    const keys = keysOf(first, second, name);
    const values = keys.values?.length ?? Number.POSITIVE_INFINITY;
    const weight = values > FEW ? 0 : rankOf(name) < 2 ? DECIDED : 1;
    let differs = 0;
    for (const pair of pairs) {
      if (!isOther(keys, joined, pair)) continue;
      differs += 1;
      if (weight > 0 && scores[pair]! + weight <= MOST_SCORE) scores[pair]! += weight;
    }
    if (differs > 0) columns.push({ name, differs, values });
  }
  const isMany = ({ values }: PairColumn): number => (values > FEW ? 1 : 0);
  columns.sort(
    (a, b) =>
      isMany(a) - isMany(b) ||
      rankOf(a.name) - rankOf(b.name) ||
      (isMany(a) === 1 ? a.values - b.values || 0 : 0) ||
      a.differs - b.differs,
  );
  return { columns, order: byScore(pairs, scores) };
}

/** What a column of the decision counts against one of a step, and the most that is counted. */
const DECIDED = 16;
const MOST_SCORE = 255;

/** The highest first; those of one score stay in their order. */
function byScore(pairs: Int32Array, scores: Uint8Array): Int32Array {
  const starts = new Uint32Array(MOST_SCORE + 2);
  for (const pair of pairs) starts[MOST_SCORE - scores[pair]! + 1]! += 1;
  for (let score = 1; score < starts.length; score++) starts[score]! += starts[score - 1]!;
  const order = new Int32Array(pairs.length);
  for (const pair of pairs) order[starts[MOST_SCORE - scores[pair]!]!++] = pair;
  return order;
}

export interface Move {
  /** in the first run, and in the second; '' for none */
  from: string;
  to: string;
  count: number;
}

/** From which value to which, the most frequent first; null where the column has too many values. */
export function movesIn(keys: Keys, joined: Joined, pairs: Int32Array): Move[] | null {
  const { values, first, second } = keys;
  if (values === null) return null;
  const width = values.length + 1;
  const counts = new Map<number, number>();
  for (const pair of pairs) {
    if (!isOther(keys, joined, pair)) continue;
    const move = first[joined.first[pair]!]! * width + second[joined.second[pair]!]!;
    counts.set(move, (counts.get(move) ?? 0) + 1);
  }
  const textOf = (code: number): string => (code === 0 ? '' : (values[code - 1] as string));
  const moves = [...counts].map(([move, count]) => ({
    ...{ from: textOf(Math.floor(move / width)), to: textOf(move % width) },
    count,
  }));
  return moves.sort((a, b) => b.count - a.count || (`${a.from} ${a.to}` < `${b.from} ${b.to}` ? -1 : 1));
}

/** Those of `pairs` that differ in the column; with `from` and `to` (null: any) those that have these values. */
export function pairsOther(
  keys: Keys,
  joined: Joined,
  pairs: Int32Array,
  { from, to }: { from: string | null; to: string | null },
): Int32Array {
  const [a, b] = [from, to].map(value => (value === null ? null : keys.keyOf(value)));
  return pairs.filter(
    pair =>
      isOther(keys, joined, pair) &&
      (a === null || Object.is(keys.first[joined.first[pair]!], a)) &&
      (b === null || Object.is(keys.second[joined.second[pair]!], b)),
  );
}
