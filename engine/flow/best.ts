/**
 * Of lines with the same id, over any number of files, where the best one stands: the better rung, of equal ones the
 * newer. Nothing of the lines is kept but that and a hash of the id: some 50 bytes an id.
 */
import { number } from './account.ts';
import { describeNamed, type Named, name, noneNamed } from './expected.ts';
import { createIdTable } from './idset.ts';
import { type Item, idOf, isItem, RUNGS, rungOf } from './item.ts';
import type { Place } from './scan.ts';

/** The better, the lower. */
export type RankOf = (line: Item) => number;

/** `isRefused`: a line that nobody may count is as bad as a failed one, whatever it says of itself. */
export function rankBy(isRefused: (line: Item) => boolean): RankOf {
  return line => {
    // an item that was never asked has nothing to lose
    if (isItem(line) && line.failure === undefined && !line.steps?.length) return RUNGS.length;
    return RUNGS.indexOf(isRefused(line) ? 'failed' : rungOf(line));
  };
}

export interface Best {
  /** Notes a line of file `which`; false where an earlier one is better. */
  note(which: number, place: Place, line: Item): boolean;
  /** The file in which the best line of an id stands; -1 where there is none. */
  fileOf(id: string): number;
  /** how many there are, in the order in which their ids first came */
  readonly size: number;
  at(entry: number): { file: number; place: Place };
  /** lines that gave way to another of the same id */
  readonly replaced: number;
  /** What was found, for the account. */
  notes(): string[];
}

const FIRST_ENTRIES = 1024;

/** `files` are names, for the notes. */
export function createBest(files: readonly string[], rankOf: RankOf): Best {
  const ids = createIdTable();
  const twice = files.map(noneNamed);
  let replaced = 0;
  let withoutId = 0;
  let offsets = new Float64Array(FIRST_ENTRIES);
  let lengths = new Float64Array(FIRST_ENTRIES);
  let numbers = new Uint32Array(FIRST_ENTRIES);
  let standsIn = new Uint16Array(FIRST_ENTRIES);
  let lastSeenIn = new Uint16Array(FIRST_ENTRIES);
  let ranks = new Uint8Array(FIRST_ENTRIES);
  let size = 0;

  return {
    note(which, place, line) {
      const id = idOf(line);
      const rank = rankOf(line);
      if (id === null) withoutId += 1;
      const entry = id === null ? size : ids.numberOf(id, size);
      if (entry === size) {
        add(which, place, rank);
        return true;
      }
      if (lastSeenIn[entry] === which) name(twice[which] as Named, id as string);
      lastSeenIn[entry] = which;
      replaced += 1;
      if (rank > (ranks[entry] as number)) return false;
      put(entry, which, place, rank);
      return true;
    },
    fileOf: id => (ids.has(id) ? (standsIn[ids.numberOf(id, 0)] as number) : -1),
    get size() {
      return size;
    },
    at: entry => ({
      file: standsIn[entry] as number,
      place: {
        offset: offsets[entry] as number,
        length: lengths[entry] as number,
        number: numbers[entry] as number,
      },
    }),
    get replaced() {
      return replaced;
    },
    notes() {
      const notes: string[] = [];
      if (replaced > 0) notes.push(`${number(replaced)} lines gave way to a better or newer one`);
      for (const [which, named] of twice.entries()) {
        if (named.count > 0) notes.push(`ids more than once in ${files[which]}: ${describeNamed(named)}`);
      }
      if (withoutId > 0) notes.push(`${number(withoutId)} lines without an id were kept as they are`);
      return notes;
    },
  };

  function add(file: number, place: Place, rank: number): void {
    if (size === ranks.length) grow();
    lastSeenIn[size] = file;
    put(size++, file, place, rank);
  }

  function put(entry: number, file: number, place: Place, rank: number): void {
    offsets[entry] = place.offset;
    lengths[entry] = place.length;
    numbers[entry] = place.number;
    standsIn[entry] = file;
    ranks[entry] = rank;
  }

  function grow(): void {
    const room = ranks.length * 2;
    offsets = copied(new Float64Array(room), offsets);
    lengths = copied(new Float64Array(room), lengths);
    numbers = copied(new Uint32Array(room), numbers);
    standsIn = copied(new Uint16Array(room), standsIn);
    lastSeenIn = copied(new Uint16Array(room), lastSeenIn);
    ranks = copied(new Uint8Array(room), ranks);
  }
}

function copied<T extends { set(from: T): void }>(to: T, from: T): T {
  to.set(from);
  return to;
}
