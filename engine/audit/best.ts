/**
 * Of lines with the same id, over any number of files, where the best one is: the better rung, of equal ones the
 * newer. Two lines with one id and different prompts are of two rows, whatever their ids say (the table was changed in
 * between): neither gives way. Nothing of the lines is kept but hashes of id and prompt: some 60 bytes an id.
 */

import { createIdTable, hashOf } from '../core/files/idset.ts';
import type { Place } from '../core/files/line-places.ts';
import { type Item, idOf, isItem, isRawRequest, RUNGS, rungOf } from '../core/item/item.ts';
import { number } from '../core/item/wording.ts';
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

export interface Best {
  /** Notes a line of file `which`. One with another prompt has an entry of its own, which `conflictAt` knows. */
  note(which: number, place: Place, line: Item): Noted;
  /** `file:line` of the line whose id an entry has, with another prompt; undefined for any other entry. */
  conflictAt(entry: number): string | undefined;
  /** Whether a line that was read again has the id that it had. */
  isStill(entry: number, line: Item): boolean;
  /** The number of the file that has the best line of an id; -1 where there is none. */
  fileOf(id: string): number;
  /** how many there are, in the order in which their ids first came */
  readonly size: number;
  at(entry: number): { file: number; place: Place };
  /** lines that gave way to another of the same id */
  readonly replaced: number;
  /** How many of the best lines nobody may count though they say of themselves that they are results. */
  refused(): number;
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
  let standsIn = new Uint32Array(FIRST_ENTRIES);
  let lastSeenIn = new Uint32Array(FIRST_ENTRIES);
  let prompts = new Float64Array(FIRST_ENTRIES); // NaN where a line says none
  let ranks = new Uint8Array(FIRST_ENTRIES);
  let size = 0;
  const conflicts = new Map<number, { id: string; of: string }>();

  return {
    note(which, place, line) {
      const id = idOf(line);
      const rank = rankOf(line);
      if (id === null) withoutId += 1;
      const prompt = promptOf(line);
      const entry = id === null ? size : ids.numberOf(id, size);
      if (entry === size) {
        add(which, place, { rank, prompt });
        return 'best';
      }
      const known = prompts[entry] as number;
      if (!Number.isNaN(known) && !Number.isNaN(prompt) && known !== prompt) {
        const number = numbers[entry] as number;
        const of = `${files[standsIn[entry] as number]}${number > 0 ? `:${number}` : ''}`;
        conflicts.set(size, { id: id as string, of });
        add(which, place, { rank, prompt });
        return { of };
      }
      if (Number.isNaN(known)) prompts[entry] = prompt;
      if (lastSeenIn[entry] === which) name(twice[which] as Named, id as string);
      lastSeenIn[entry] = which;
      replaced += 1;
      if (rank >> 1 > (ranks[entry] as number) >> 1) return 'worse';
      put(entry, which, place, rank);
      return 'best';
    },
    conflictAt: entry => conflicts.get(entry)?.of,
    isStill(entry, line) {
      const id = idOf(line);
      const conflict = conflicts.get(entry);
      if (conflict !== undefined) return conflict.id === id;
      return id === null || (ids.has(id) && ids.numberOf(id, 0) === entry);
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
    refused: () => ranks.subarray(0, size).reduce((sum, rank) => sum + (rank === REFUSED ? 1 : 0), 0),
    get replaced() {
      return replaced;
    },
    notes() {
      const notes: string[] = [];
      if (replaced > 0)
        notes.push(`${number(replaced)} ${lines(replaced)} replaced by a better or newer one`);
      for (const [which, named] of twice.entries()) {
        if (named.count > 0) notes.push(`ids more than once in ${files[which]}: ${describeNamed(named)}`);
      }
      if (conflicts.size > 0) {
        const named = noneNamed();
        for (const { id } of conflicts.values()) name(named, id);
        notes.push(
          `ids with two different prompts, the later lines marked as failed: ${describeNamed(named)}; were rows of the table moved in between?`,
        );
      }
      if (withoutId > 0)
        notes.push(
          `${number(withoutId)} ${lines(withoutId)} without an id ${withoutId === 1 ? 'was kept as it is' : 'were kept as they are'}`,
        );
      return notes;
    },
  };

  function add(file: number, place: Place, { rank, prompt }: { rank: number; prompt: number }): void {
    if (size === ranks.length) grow();
    lastSeenIn[size] = file;
    prompts[size] = prompt;
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
    standsIn = copied(new Uint32Array(room), standsIn);
    lastSeenIn = copied(new Uint32Array(room), lastSeenIn);
    prompts = copied(new Float64Array(room), prompts);
    ranks = copied(new Uint8Array(room), ranks);
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

const lines = (count: number): string => (count === 1 ? 'line' : 'lines');
