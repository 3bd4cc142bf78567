/** A column of a group of rows, entry by entry: its levels, and the value where there is one. */
import type { Dictionary, Values } from './encoded.ts';
import type { Levels, Page, Pages, Room } from './pages.ts';

/** Makes of what is in the file what JSON has. */
export type Shape = (values: Values) => unknown;

/** Values and nulls that one row may have, of all its columns whose values come again. */
const MOST_ENTRIES = 1 << 22;

/**
 * What is left of them in the row, and of the characters of its lists and structs: a short page may say one long text a
 * million times, and a decimal of four bytes be a thousand digits.
 */
export class Entries {
  #left = MOST_ENTRIES;
  readonly #most: number;
  #characters: number;

  /** `most`: characters, as JSON has them */
  constructor(most: number) {
    this.#most = most;
    this.#characters = most;
  }

  row(): void {
    this.#left = MOST_ENTRIES;
    this.#characters = this.#most;
  }

  take(): void {
    if (--this.#left < 0) throw new Error(`a row of more than ${MOST_ENTRIES} values`);
  }

  /** Of what was made: no more than JSON needs for it. */
  weigh(characters: number): void {
    this.#characters -= characters;
  }

  /** characters so far */
  get weight(): number {
    return this.#most - this.#characters;
  }

  /** The row is longer than it may be, and what comes now is not kept. */
  get isOver(): boolean {
    return this.#characters < 0;
  }
}

/** For all columns together. */
export interface Bounds {
  /** of the pages that are held */
  room: Room;
  /** of the row */
  entries: Entries;
}

export class Leaf {
  readonly most: number;
  readonly deepest: number;
  readonly #pages: Pages;
  readonly #room: Room;
  readonly entries: Entries;
  readonly #shape: Shape;
  #page: Page | null = null;
  #leftOfPage = 0;
  /** read, and not begun */
  #queue: Page[] = [];
  #isOver = false;
  /** rows of which the first entry was read, and those that were taken */
  #rows = 0;
  #taken = 0;
  #isBegun = false;
  /** of the entry; behind the last one 0 and -1 */
  repetition = 0;
  definition = -1;
  /** of the entry, where it has one */
  values: Values | null = null;

  constructor(pages: Pages, levels: Levels, { room, entries }: Bounds, shape: Shape) {
    this.#pages = pages;
    this.most = levels.most;
    this.deepest = levels.deepest;
    this.#room = room;
    this.entries = entries;
    this.#shape = shape;
  }

  /** Rows that are read to their ends; at least one, but behind the last. */
  async ready(): Promise<number> {
    for (;;) {
      const ready = this.#rows - this.#taken - (this.#isOver || this.deepest === 0 ? 0 : 1);
      if (ready > 0 || this.#isOver) return ready;
      const page = await this.#pages.next();
      if (page === null) this.#isOver = true;
      else {
        this.#queue.push(page);
        const { repetitionsAgain: again, count } = page;
        this.#rows += again === null ? count : again.zeros(count);
        if (this.#rows === 0) throw new Error('values before the first row');
      }
    }
  }

  /** The next row begins. Where nothing comes several times, its only entry is the current one. */
  row(): void {
    this.#taken += 1;
    if (this.deepest === 0 || !this.#isBegun) this.step();
    this.#isBegun = true;
    if (this.repetition !== 0) throw new Error('a row that begins within another');
  }

  /** The next entry. */
  step(): void {
    if (this.#leftOfPage === 0 && !this.#turn()) {
      this.repetition = 0;
      this.definition = -1;
      return;
    }
    this.#leftOfPage -= 1;
    const { repetitions, definitions, values } = this.#page!;
    this.repetition = repetitions === null ? 0 : repetitions.next();
    this.definition = definitions === null ? 0 : definitions.next();
    if (this.deepest > 0) this.entries.take();
    if (this.definition > this.most || this.repetition > this.deepest)
      throw new Error('a level that is too high');
    if (this.definition === this.most) values.next();
    this.values = values;
  }

  /** The value of the entry. */
  value(): unknown {
    const values = this.values!;
    return values.index < 0 ? this.#shape(values) : this.#known(values);
  }

  /** Throws an Error where there are more rows than the group has. */
  end(): void {
    if (this.#leftOfPage > 0 || this.#queue.length > 0 || this.#rows > this.#taken)
      throw new Error('more rows than the others');
    this.#drop();
  }

  #known(values: Values): unknown {
    const { made } = this.#page!.dictionary as Dictionary;
    if (made === null) return this.#shape(values);
    const { index } = values;
    made[index] ??= this.#shape(values);
    return made[index];
  }

  #turn(): boolean {
    this.#drop();
    this.#page = this.#queue.shift() ?? null;
    this.#leftOfPage = this.#page?.count ?? 0;
    return this.#page !== null;
  }

  #drop(): void {
    if (this.#page !== null) this.#room.give(this.#page.held);
    this.#page = null;
  }
}
