/** Two runs that are looked at beside each other: which rows belong together, made once both have been read. */
import { DIFFERS, type Joined, joinRuns, type RunHashes } from './beside.ts';
import { differingIn, type PairColumn } from './pair-columns.ts';
import type { Query } from './query.ts';
import { hashOf } from './rows/chunk.ts';
import type { Run } from './rows/run.ts';
import { hiddenValuesIn, type View } from './view.ts';

/** Why a pair is looked at: by what it differs, or that it is none. */
export const WAYS = ['decision', 'rung', 'text', 'first', 'second', 'same'] as const;
export type Way = (typeof WAYS)[number];

/** The pairs of what was chosen by the columns of the table: all of them, where nothing was. */
export interface PairsOf {
  joined: Joined;
  /** those that differ in most columns of few values first */
  order: Int32Array;
  /** in which they differ */
  columns: PairColumn[];
  ways: Record<Way, number>;
  /** what was chosen by the columns: without what is hidden or not there */
  query: Query;
  /** what of the address could not be done */
  problems: string[];
  isSearching: boolean;
}

export class Pairs {
  readonly first: Run;
  readonly second: Run;
  #joined: Joined | null = null;
  #version = '';
  #counted: Pick<PairsOf, 'order' | 'columns' | 'ways'> | null = null;
  #of = '';

  constructor(first: Run, second: Run) {
    this.first = first;
    this.second = second;
  }

  /** Null while one of them is still read. */
  joined(): Joined | null {
    if (!this.first.state().done || !this.second.state().done) return null;
    const version = `${this.first.index.version} ${this.second.index.version}`;
    if (version !== this.#version) {
      this.#joined = joinRuns(hashesOf(this.first), hashesOf(this.second));
      this.#version = version;
    }
    return this.#joined;
  }

  /** The pairs whose row, that of the first run where it has one, is as `query` wants it; null while one is still read. */
  async of(view: View, query: Query): Promise<PairsOf | null> {
    const joined = this.joined();
    if (joined === null) return null;
    const selected = await view.select({ ...query, sort: null });
    const { filters, text } = selected.query;
    const { searching } = selected;
    const of = JSON.stringify([this.#version, filters, text, searching?.bytes, view.sample?.rows.length]);
    if (of !== this.#of || this.#counted === null) {
      const isAll = filters.length === 0 && text === '' && !view.isSampling;
      const pairs = isAll
        ? joined.order
        : joined.order.filter(isIn(joined, selected, view.isSampling ? null : await this.#alone(selected)));
      const indexes = [this.first.index, this.second.index] as const;
      const ways = waysIn(joined, pairs);
      this.#counted = { ...differingIn(indexes, joined, pairs, name => !view.isHidden(name)), ways };
      this.#of = of;
    }
    const isSearching = searching !== null && !searching.done;
    return { joined, ...this.#counted, query: selected.query, problems: selected.problems, isSearching };
  }

  /** The rows of the second run that are as the query wants them: 1. */
  async #alone({ query }: { query: Query }): Promise<Uint8Array> {
    const found = await this.second.select({ ...query, sort: null });
    return marked(this.second.index.rows, found);
  }

  /** Values of hidden columns, of any row of both. */
  hiddenValues(view: View): string[] {
    const isHidden = (name: string): boolean => view.isHidden(name);
    return [this.first, this.second].flatMap(({ index }) => hiddenValuesIn(index, isHidden));
  }
}

type Rows = { count: number; at(place: number): number };

function marked(rows: number, { count, at }: Rows): Uint8Array {
  const marks = new Uint8Array(rows);
  for (let place = 0; place < count; place++) marks[at(place)] = 1;
  return marks;
}

/** A pair is there by its row in the first run; one that the second has alone by that, or not at all (null). */
function isIn(
  { first, second }: Joined,
  selected: Rows,
  alone: Uint8Array | null,
): (pair: number) => boolean {
  const marks = marked(first.length, selected);
  return pair => {
    const row = first[pair] as number;
    return row >= 0 ? marks[row] === 1 : alone?.[second[pair] as number] === 1;
  };
}

/** Whether the pair differs by this, or is there in one run alone. */
export function isBy({ first, second, differs }: Joined, pair: number, way: Way): boolean {
  const [a, b] = [first[pair] as number, second[pair] as number];
  if (way === 'first') return b === -1;
  if (way === 'second') return a === -1;
  if (a === -1 || b === -1) return false;
  const by = differs[pair] as number;
  return way === 'same' ? by === 0 : (by & DIFFERS[way]) > 0;
}

/** By what a pair differs: of both runs `decision`, `rung`, `text`, or `same`; else the run that alone has it. */
export const waysOf = (joined: Joined, pair: number): Way[] => WAYS.filter(way => isBy(joined, pair, way));

function waysIn(joined: Joined, pairs: Int32Array): Record<Way, number> {
  const ways: Record<Way, number> = { decision: 0, rung: 0, text: 0, first: 0, second: 0, same: 0 };
  for (const way of WAYS) for (const pair of pairs) if (isBy(joined, pair, way)) ways[way] += 1;
  return ways;
}

/** What the index has of each row, end to end. */
function hashesOf(run: Run): RunHashes {
  const { index } = run;
  const { rows, chunks, gone } = index;
  const [ids, decided, said] = [run.hashes('ids'), run.hashes('decided'), run.hashes('said')];
  const hashes = { ids, decided, said, rungs: new Float64Array(rows).fill(Number.NaN) };
  const column = index.column('rung');
  const rungs = column === undefined ? [] : (index.columns[column]?.values ?? []).map(hashOf);
  for (const { first, columns } of chunks) {
    const own = columns.find(each => each.column === column);
    own?.data.forEach((code, at) => {
      hashes.rungs[first + at] = rungs[code - 1] ?? Number.NaN;
    });
  }
  // a row that was read again, longer, has its new place
  for (const row of gone) hashes.ids[row] = Number.NaN;
  return { ...hashes, gone };
}
