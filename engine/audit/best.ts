/**
 * Of lines with the same id, over any number of files, where the best one is: the better rung, of equal ones the
 * newer. Two lines with one id and different prompts are of two rows, whatever their ids say (the table was changed in
 * between): neither gives way. Nothing of the lines is kept but hashes of id and prompt: some 60 bytes an id.
 */

import { createIdTable, hashOf } from '../core/files/idset.ts';
import type { Place } from '../core/files/line-places.ts';
import { type Item, idOf, isItem, isRawRequest, RUNGS, rungOf } from '../core/item/item.ts';
import { counted } from '../core/item/wording.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { describeNamed, type Named, name, noneNamed } from './expected-ids.ts';

/** The better, the lower; two that differ in the last bit alone are as good. */
export type RankOf = (line: Item) => number;

const FAILED = RUNGS.indexOf('failed');
/** As bad as a failed line, and told apart from one. */
const REFUSED = 2 * FAILED + 1;

/** `isRefused`: a line that nobody may count is as bad as a failed one, whatever it says of itself. */
export function rankBy(isRefused: (line: Item) => boolean): RankOf {
  return line => {
    // an item that was never asked has nothing to lose
    if (isItem(line) && line.failure === undefined && !line.steps?.length) return 2 * RUNGS.length;
    const rung = RUNGS.indexOf(rungOf(line));
    return rung < FAILED && isRefused(line) ? REFUSED : 2 * rung;
  };
}

/** What became of a line: it is the best of its id so far, or is not, or has another prompt than the one at `of`. */
export type Noted = 'best' | 'worse' | { of: string };

const FIRST_ENTRIES = 1024;

export class Best {
  /** lines that gave way to another of the same id */
  replaced = 0;
  /** how many there are, in the order in which their ids first came */
  size = 0;
  readonly #files: readonly string[];
  readonly #rankOf: RankOf;
  readonly #ids = createIdTable();
  readonly #twice: Named[];
  readonly #conflicts = new Map<number, { id: string; of: string }>();
  #withoutId = 0;
  #offsets = new Float64Array(FIRST_ENTRIES);
  #lengths = new Float64Array(FIRST_ENTRIES);
  #numbers = new Uint32Array(FIRST_ENTRIES);
  #standsIn = new Uint32Array(FIRST_ENTRIES);
  #lastSeenIn = new Uint32Array(FIRST_ENTRIES);
  #prompts = new Float64Array(FIRST_ENTRIES); // NaN where a line says none
  #ranks = new Uint8Array(FIRST_ENTRIES);

  /** `files` are names, for the notes. */
  constructor(files: readonly string[], rankOf: RankOf) {
    this.#files = files;
    this.#rankOf = rankOf;
    this.#twice = files.map(noneNamed);
  }

  /** Notes a line of file `which`. One with another prompt has an entry of its own, which `conflictAt` knows. */
  note(which: number, place: Place, line: Item): Noted {
    const id = idOf(line);
    const rank = this.#rankOf(line);
    if (id === null) this.#withoutId += 1;
    const prompt = promptOf(line);
    const entry = id === null ? this.size : this.#ids.numberOf(id, this.size);
    if (entry === this.size) {
      this.#add(which, place, { rank, prompt });
      return 'best';
    }
    const known = this.#prompts[entry] as number;
    if (!Number.isNaN(known) && !Number.isNaN(prompt) && known !== prompt) {
      const number = this.#numbers[entry] as number;
      const of = `${this.#files[this.#standsIn[entry] as number]}${number > 0 ? `:${number}` : ''}`;
      this.#conflicts.set(this.size, { id: id as string, of });
      this.#add(which, place, { rank, prompt });
      return { of };
    }
    if (Number.isNaN(known)) this.#prompts[entry] = prompt;
    if (this.#lastSeenIn[entry] === which) name(this.#twice[which] as Named, id as string);
    this.#lastSeenIn[entry] = which;
    this.replaced += 1;
    if (rank >> 1 > (this.#ranks[entry] as number) >> 1) return 'worse';
    this.#put(entry, which, place, rank);
    return 'best';
  }

  /** `file:line` of the line whose id an entry has, with another prompt; undefined for any other entry. */
  conflictAt(entry: number): string | undefined {
    return this.#conflicts.get(entry)?.of;
  }

  /** Whether a line that was read again has the id that it had. */
  isStill(entry: number, line: Item): boolean {
    const id = idOf(line);
    const conflict = this.#conflicts.get(entry);
    if (conflict !== undefined) return conflict.id === id;
    return id === null || (this.#ids.has(id) && this.#ids.numberOf(id, 0) === entry);
  }

  /** The number of the file that has the best line of an id; -1 where there is none. */
  fileOf(id: string): number {
    return this.#ids.has(id) ? (this.#standsIn[this.#ids.numberOf(id, 0)] as number) : -1;
  }

  at(entry: number): { file: number; place: Place } {
    const offset = this.#offsets[entry] as number;
    const length = this.#lengths[entry] as number;
    const number = this.#numbers[entry] as number;
    return { file: this.#standsIn[entry] as number, place: { offset, length, number } };
  }

  /** How many of the best lines nobody may count though they say of themselves that they are results. */
  refused(): number {
    return this.#ranks.subarray(0, this.size).reduce((sum, rank) => sum + (rank === REFUSED ? 1 : 0), 0);
  }

  /** What was found, for the account. */
  notes(): string[] {
    const notes: string[] = [];
    const lines = (count: number): string => counted(count, 'line');
    if (this.replaced > 0) notes.push(`${lines(this.replaced)} replaced by a better or newer one`);
    for (const [which, named] of this.#twice.entries())
      if (named.count > 0) notes.push(`ids more than once in ${this.#files[which]}: ${describeNamed(named)}`);
    if (this.#conflicts.size > 0) {
      const named = noneNamed();
      for (const { id } of this.#conflicts.values()) name(named, id);
      notes.push(
        `ids with two different prompts, the later lines marked as failed: ${describeNamed(named)}; were rows of the table moved in between?`,
      );
    }
    const count = this.#withoutId;
    if (count > 0)
      notes.push(
        `${lines(count)} without an id ${count === 1 ? 'was kept as it is' : 'were kept as they are'}`,
      );
    return notes;
  }

  #add(file: number, place: Place, { rank, prompt }: { rank: number; prompt: number }): void {
    if (this.size === this.#ranks.length) this.#grow();
    this.#lastSeenIn[this.size] = file;
    this.#prompts[this.size] = prompt;
    this.#put(this.size++, file, place, rank);
  }

  #put(entry: number, file: number, { offset, length, number }: Place, rank: number): void {
    this.#offsets[entry] = offset;
    this.#lengths[entry] = length;
    this.#numbers[entry] = number;
    this.#standsIn[entry] = file;
    this.#ranks[entry] = rank;
  }

  #grow(): void {
    const room = this.#ranks.length * 2;
    this.#offsets = copied(new Float64Array(room), this.#offsets);
    this.#lengths = copied(new Float64Array(room), this.#lengths);
    this.#numbers = copied(new Uint32Array(room), this.#numbers);
    this.#standsIn = copied(new Uint32Array(room), this.#standsIn);
    this.#lastSeenIn = copied(new Uint32Array(room), this.#lastSeenIn);
    this.#prompts = copied(new Float64Array(room), this.#prompts);
    this.#ranks = copied(new Uint8Array(room), this.#ranks);
  }
}

function promptOf(line: JsonObject): number {
  const { prompt, request, initial_prompt } = line;
  if (isItem(line) && prompt === undefined) {
    const other = isRawRequest(request) ? request : line.messages;
    if (other !== undefined) return hashOf(JSON.stringify(other));
  }
  const asked = isItem(line) ? prompt : initial_prompt;
  return typeof asked === 'string' ? hashOf(asked) : Number.NaN;
}

function copied<T extends { set(from: T): void }>(to: T, from: T): T {
  to.set(from);
  return to;
}
