/**
 * What is looked at: the rows of a query, or of a sample drawn once from them, without the columns that are hidden. All
 * pages ask here, so that what is hidden is hidden on each.
 */
import { nearest } from '../../engine/core/item/wording.ts';
import { fieldsOfRows, type RowFields } from './cells.ts';
import { drawOf, type Sample } from './draw.ts';
import { LEDGER_COLUMNS } from './ledger-columns.ts';
import type { LedgerFacts } from './ledger-facts.ts';
import type { Query } from './query.ts';
import type { RowIndex } from './rows/row-index.ts';
import type { Column, Run } from './rows/run.ts';
import type { Counts, Filter } from './rows/selection.ts';
import type { Selection } from './rows/selections.ts';
import type { Searching } from './rows/text-search.ts';
import { countsOfFew } from './sample-counts.ts';

/** The rows of a query at one moment. */
export interface Selected {
  /** what was chosen: without what is hidden */
  query: Query;
  count: number;
  /** rows that it was chosen from */
  of: number;
  at(index: number): number;
  /** the place of a row; -1 where it is not among them */
  indexOf(row: number): number;
  counts(column: string, most: number): Counts;
  searching: Searching | null;
  /** what of the address could not be done */
  problems: string[];
}

/** values of a hidden column that other columns are looked through for */
const MOST_HIDDEN = 1_000;
/** counts of columns that are kept; each is of some dozen values */
const MOST_COUNTS = 200;
/** ms that a page waits for a text to be found; it goes on behind */
const SEARCH_FOR = 150;

/** Characters of a text that is searched for. */
const LONGEST_TEXT = 1_000;

/** The column of what was judged, which is in no file: all other names have a point in them, or are ours. */
export const VERDICT = 'verdict';

export interface ViewOptions {
  run: Run;
  facts: LedgerFacts | null;
  hide: readonly string[];
  /** null: all rows are looked at */
  sample: { size: number; seed: number; by: string | null; where: Query } | null;
}

export class View {
  readonly run: Run;
  /** what a ledger says of calls; null without one */
  readonly facts: LedgerFacts | null;
  readonly hide: readonly string[];
  readonly #hidden: ReadonlySet<string>;
  readonly #asked: ViewOptions['sample'];
  #drawing: Promise<void> | undefined;
  #sample: Sample | null = null;
  #drawn: RowFields[] = [];
  readonly #counts = new Map<string, Counts>();

  constructor({ run, facts, hide, sample }: ViewOptions) {
    this.run = run;
    this.facts = facts;
    this.hide = hide;
    this.#hidden = new Set(hide);
    this.#asked = sample;
  }

  /** The rows that were drawn; null where none were asked for, or not all rows have been read yet. */
  get sample(): Sample | null {
    return this.#sample;
  }

  get isSampling(): boolean {
    return this.#asked !== null;
  }

  /** Draws the sample once all rows have been read. Rejects where it cannot be drawn, as a usage error. */
  drawn(): Promise<void> {
    this.#drawing ??= this.#draw();
    return this.#drawing;
  }

  async allRead(): Promise<void> {
    while (!this.run.state().done) await this.run.grown(this.run.state().rows, 60_000);
  }

  async #draw(): Promise<void> {
    if (this.#asked === null) return;
    await this.allRead();
    const { by } = this.#asked;
    const sample = await drawOf(this.run, { ...this.#asked, by: by === null ? null : this.named(by) });
    const drawn: RowFields[] = [];
    while (drawn.length < sample.rows.length)
      drawn.push(...(await fieldsOfRows(this.run, sample.rows.slice(drawn.length))));
    this.#drawn = drawn;
    this.#sample = sample;
  }

  /** The fields of the sample, in the order in which it was drawn. */
  get drawnFields(): readonly RowFields[] {
    return this.#drawn;
  }

  /** A column of the input may be named without its `in.`. */
  named(column: string): string {
    const known = new Set(this.run.columns().map(({ name }) => name));
    return !known.has(column) && known.has(`in.${column}`) ? `in.${column}` : column;
  }

  /** The row of a number as an address has it; null where there is none, or it is not in the sample: that is all that a judge is to see. */
  shownRow(text: string): number | null {
    if (!/^\d{1,15}$/.test(text) || Number(text) >= this.run.state().rows) return null;
    if (this.isSampling && !this.#sample?.rows.includes(Number(text))) return null;
    return Number(text);
  }

  isHidden(column: string): boolean {
    return this.#hidden.has(column) || (column.startsWith('in.') && this.#hidden.has(column.slice(3)));
  }

  /** The columns that may be shown. */
  columns(): Column[] {
    const known = this.facts === null ? [] : LEDGER_COLUMNS;
    const ofLedger = known.map((name): Column => ({ name, kind: 'texts', distinct: 0 }));
    const columns = [...this.#ids(), ...this.run.columns(), ...ofLedger];
    return this.hide.length === 0 ? columns : columns.filter(({ name }) => !this.isHidden(name));
  }

  /** No index has all ids: it has a hash of each, so that one can be looked for and none be listed. */
  #ids(): Column[] {
    const kinds = this.run.index.columns.find(({ name }) => name === 'kind')?.values ?? [];
    return kinds.some(kind => kind !== 'row')
      ? [{ name: 'id', kind: 'texts', distinct: this.run.index.rows }]
      : [];
  }

  /** Values of hidden columns, of any row: the first ones, where they are many. */
  hiddenValues(): string[] {
    return this.hide.length === 0 ? [] : hiddenValuesIn(this.run.index, name => this.isHidden(name));
  }

  /** What --hide names and no file has: nothing would be hidden, and nobody would notice. */
  hiddenInVain(): string[] {
    if (!this.run.state().done || this.hide.length === 0) return [];
    const names = this.run.columns().map(({ name }) => name);
    return this.hide
      .filter(name => !names.some(one => one === name || one === `in.${name}`))
      .map(name => `--hide ${name}: ${noSuch(name, names)}; nothing is hidden by it`);
  }

  async select(asked: Query): Promise<Selected> {
    const problems: string[] = [];
    const columns = this.columns();
    const query = this.#possible(asked, columns, problems);
    const selection = await this.run.select(query, SEARCH_FOR);
    const whole = {
      query,
      of: this.run.index.rows - this.run.index.gone.size,
      indexOf: (row: number) => selection.indexOf(row),
      at: (index: number) => selection.at(index),
      counts: (column: string, most: number) => this.#countsOf(query, selection, column, most),
      count: selection.count,
      searching: selection.searching,
      problems,
    };
    return this.#asked === null ? whole : this.#within(whole, columns);
  }

  /** They do not hang on the order, and somebody who goes back and forth asks for the same ones again. */
  #countsOf({ filters, text }: Query, selection: Selection, column: string, most: number): Counts {
    const { version } = this.run.index;
    const key = JSON.stringify([version, selection.searching?.bytes, filters, text, column, most]);
    const found = this.#counts.get(key) ?? selection.counts(column, most);
    this.#counts.delete(key);
    this.#counts.set(key, found);
    const [oldest] = this.#counts.keys();
    if (this.#counts.size > MOST_COUNTS && oldest !== undefined) this.#counts.delete(oldest);
    return found;
  }

  /** Of the rows of a query those of the sample: in its order where the query has none. */
  #within(whole: Selected, columns: readonly Column[]): Selected {
    const place = new Map(this.#drawn.map(({ row }, at) => [row, at]));
    const there: number[] = [];
    if (place.size > 0) {
      for (let at = 0; at < whole.count; at++) {
        const row = whole.at(at);
        if (place.has(row)) there.push(row);
      }
    }
    const placeOf = (row: number): number => place.get(row) as number;
    const rows = whole.query.sort === null ? there.sort((a, b) => placeOf(a) - placeOf(b)) : there;
    const kinds = new Map(columns.map(({ name, kind }) => [name, kind]));
    return {
      ...whole,
      of: place.size,
      count: rows.length,
      at: index => rows[index] as number,
      indexOf: row => rows.indexOf(row),
      counts: (column, most) =>
        countsOfFew(
          rows.map(row => this.#drawn[placeOf(row)]?.fields.get(column)),
          kinds.get(column) ?? 'values',
          most,
        ),
    };
  }

  /** Without what is hidden or not there, each of which is told. */
  #possible(query: Query, columns: readonly Column[], problems: string[]): Query {
    const names = columns.map(({ name }) => name);
    const known = new Set(names);
    const isThere = (column: string): boolean => {
      if (this.isHidden(column)) problems.push(`The column ${column} is hidden.`);
      else if (this.facts !== null && isOfLedger(column))
        problems.push(
          `The column ${column} is the ledger's: it can be shown, and not be chosen or sorted by.`,
        );
      else if (!known.has(column)) problems.push(`There is ${noSuch(column, names)}.`);
      else return true;
      return false;
    };
    const own = (column: string): string => (known.has(column) ? column : this.#asInput(column, known));
    if (query.text.length > LONGEST_TEXT)
      problems.push(`Only the first ${LONGEST_TEXT} characters of the text are searched for.`);
    const kinds = new Map(columns.map(({ name, kind }) => [name, kind]));
    const isOrdered = (column: string, what: string): boolean => {
      if (kinds.get(column) !== 'texts') return true;
      problems.push(
        `The column ${column} has too many different texts, or too long ones: no row is ${what} by it.`,
      );
      return false;
    };
    // a column that is not there chooses no rows: all of them would look like an answer
    const keep = ({ column, tests }: Filter): boolean => {
      if (tests.some(test => !('value' in test))) isOrdered(column, 'in a range');
      return isThere(column) || !this.isHidden(column);
    };
    if (query.text !== '' && this.hide.length > 0)
      problems.push(
        'Nothing is searched for while columns are hidden: what is found would tell what they hold.',
      );
    const sort = query.sort && { ...query.sort, column: own(query.sort.column) };
    return {
      ...query,
      filters: query.filters.map(filter => ({ ...filter, column: own(filter.column) })).filter(keep),
      sort: sort !== null && isThere(sort.column) && isOrdered(sort.column, 'sorted') ? sort : null,
      show: query.show
        .map(own)
        .filter(column => column === VERDICT || this.#isShown(column) || isThere(column)),
      text: this.hide.length > 0 ? '' : query.text.slice(0, LONGEST_TEXT),
    };
  }

  /** Of the ledger, to be looked up for the rows that are shown. */
  #isShown(column: string): boolean {
    return this.facts !== null && isOfLedger(column) && !this.isHidden(column);
  }

  #asInput(column: string, known: ReadonlySet<string>): string {
    return known.has(`in.${column}`) ? `in.${column}` : column;
  }
}

const isOfLedger = (column: string): boolean => LEDGER_COLUMNS.some(name => name === column);

/** The values of a row that a judge must not see. */
export const hiddenIn = (view: Pick<View, 'isHidden'>, { fields }: Pick<RowFields, 'fields'>): string[] =>
  [...fields].filter(([name]) => view.isHidden(name)).map(([, value]) => value);

/** Values of the hidden columns of an index: the first ones, where they are many. */
export const hiddenValuesIn = ({ columns }: RowIndex, isHidden: (name: string) => boolean): string[] =>
  columns
    .filter(({ name }) => isHidden(name))
    .flatMap(({ values }) => values.slice(0, MOST_HIDDEN))
    .filter(value => value !== '');

export function noSuch(column: string, names: readonly string[]): string {
  const near = nearest(column, names);
  return `no column ${column} in these files${near === null ? '' : `; the nearest is ${near}`}`;
}
