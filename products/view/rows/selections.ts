/** What was selected, kept for as long as somebody goes back and forth between a few selections. */
import type { OpenFile } from './open-file.ts';
import type { RowIndex } from './row-index.ts';
import { type Counts, countsOf, selectRows, type Wanted } from './selection.ts';
import { type Searching, TextSearch } from './text-search.ts';

/** Rows that were selected, in order. */
export interface Selection {
  count: number;
  /** row of the one at `place` */
  at(place: number): number;
  /** place of a row; -1 where it is not among them */
  indexOf(row: number): number;
  counts(column: string, most: number): Counts;
  /** null: nothing is searched for */
  searching: Searching | null;
}

export interface Query extends Wanted {
  /** searched for in the text of the rows; '' for nothing */
  text: string;
}

interface Kept {
  version: number;
  marks: number;
  rows: Uint32Array;
}

/** Selections that are kept: a person goes back and forth between a few. */
const MOST_KEPT = 3;
/** Searches whose marks are kept, a byte a row each. */
const MOST_SEARCHES = 3;

export class Selections {
  readonly #index: RowIndex;
  readonly #files: readonly OpenFile[];
  readonly #maxLine: number;
  readonly #kept = new Map<string, Kept>();
  readonly #searches = new Map<string, TextSearch>();

  constructor(index: RowIndex, files: readonly OpenFile[], maxLine: number) {
    this.#maxLine = maxLine;
    this.#index = index;
    this.#files = files;
  }

  /** What there is by now; a search goes on behind it. */
  of({ filters, sort, text }: Query): Selection {
    if (filters.length === 0 && sort === null && text === '' && this.#index.gone.size === 0)
      return allOf(this.#index);
    const search = text === '' ? null : this.#searchFor(text);
    const key = JSON.stringify([filters, sort, text]);
    const kept = this.#kept.get(key);
    const marks = search?.bytes ?? 0;
    let rows = kept?.rows;
    if (rows === undefined || kept?.version !== this.#index.version || kept.marks !== marks) {
      rows = selectRows(this.#index, { filters, sort }, search?.hits ?? null);
      this.#keep(key, { version: this.#index.version, marks, rows });
    }
    return selectionOf(
      this.#index,
      rows,
      sort !== null,
      search && { done: search.done, bytes: search.bytes },
    );
  }

  /** Resolves when the text was looked for in all that there is, or after `ms`. */
  async searched(text: string, ms: number): Promise<void> {
    if (text === '') return;
    const search = this.#searchFor(text);
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      search.run(),
      new Promise<void>(resolve => {
        timer = setTimeout(resolve, ms);
      }),
    ]);
    clearTimeout(timer);
  }

  #searchFor(text: string): TextSearch {
    let search = this.#searches.get(text);
    if (search === undefined) {
      search = new TextSearch(this.#index, this.#files, text, this.#maxLine);
      this.#searches.set(text, search);
      const [oldest] = this.#searches.keys();
      if (this.#searches.size > MOST_SEARCHES && oldest !== undefined) {
        this.#searches.get(oldest)?.stop();
        this.#searches.delete(oldest);
      }
    }
    void search.run();
    return search;
  }

  #keep(key: string, kept: Kept): void {
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST_KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }

  stop(): void {
    for (const search of this.#searches.values()) search.stop();
  }
}

function selectionOf(
  index: RowIndex,
  rows: Uint32Array,
  isSorted: boolean,
  searching: Searching | null,
): Selection {
  return {
    count: rows.length,
    at: place => rows[place] as number,
    indexOf: row => (isSorted ? rows.indexOf(row) : placeOf(rows, row)),
    counts: (column, most) => countsOf(index, rows, column, most),
    searching,
  };
}

/** All rows, in the order of the files. */
function allOf(index: RowIndex): Selection {
  const { rows } = index;
  return {
    count: rows,
    at: place => place,
    indexOf: row => (row < rows ? row : -1),
    counts: (column, most) => countsOf(index, rows, column, most),
    searching: null,
  };
}

/** In ascending rows. */
function placeOf(rows: Uint32Array, row: number): number {
  let low = 0;
  let high = rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = rows[middle]!;
    if (found === row) return middle;
    if (found < row) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
