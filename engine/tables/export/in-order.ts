/**
 * Texts in the order of their ranks, whatever the order in which they come. Those that come early wait: some MiB in memory,
 * the others on disk. So one slow line holds up neither the run nor its memory.
 */
import { closeSync } from 'node:fs';
import { writeWhole } from '../../core/files/ndjson-out.ts';
import { openUnnamed, readBack } from '../../core/files/put-aside.ts';

export interface InOrder {
  /** Ranks are 1, 2, 3, …; one that is not to be waited for (a second of a rank, or a lower one) is next. */
  add(rank: number, text: string): void;
  /** The next text, or null where it has not come yet. */
  next(): string | null;
  /** No more will come: what is left is next, whatever is missing before it. */
  finish(): void;
  close(): void;
}

/** Characters that wait in memory. */
const NEAR = 8 * 1024 * 1024;
const IN_MEMORY = -1;
const FIRST_ROOM = 1024;

/** `folder` is for what waits on disk; nothing is made there before something does. */
export function inOrder(folder: string, near = NEAR): InOrder {
  // a binary heap by rank: where each text stands, and how long it is
  let ranks = new Float64Array(FIRST_ROOM);
  let places = new Float64Array(FIRST_ROOM);
  let lengths = new Float64Array(FIRST_ROOM);
  let count = 0;
  let due = 1;
  const texts = new Map<number, string>();
  let characters = 0;
  let numbered = 0;
  let fd: number | null = null;
  let written = 0;

  return {
    add(rank, text) {
      if (count === ranks.length) grow();
      if (texts.size === 0 || characters + text.length <= near) {
        texts.set(numbered, text);
        characters += text.length;
        insert(rank, numbered++, IN_MEMORY);
      } else {
        fd ??= openUnnamed(folder, 'lines that came early');
        const bytes = Buffer.from(text);
        writeWhole(fd, bytes, `lines put aside in ${folder}`);
        insert(rank, written, bytes.length);
        written += bytes.length;
      }
    },
    next() {
      if (count === 0 || (ranks[0] as number) > due) return null;
      const [rank, place, length] = [ranks[0], places[0], lengths[0]] as [number, number, number];
      remove();
      if (rank === due) due += 1;
      const text = length === IN_MEMORY ? taken(place) : readBack(fd as number, place, length).toString();
      if (count === 0 && fd !== null && written > 0) {
        closeSync(fd); // what has gone on needs no place
        fd = null;
        written = 0;
      }
      return text;
    },
    finish() {
      due = Number.POSITIVE_INFINITY;
    },
    close() {
      if (fd !== null) closeSync(fd);
      fd = null;
    },
  };

  function taken(place: number): string {
    const text = texts.get(place) as string;
    texts.delete(place);
    characters -= text.length;
    return text;
  }

  function insert(rank: number, place: number, length: number): void {
    let at = count++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((ranks[parent] as number) <= rank) break;
      move(parent, at);
      at = parent;
    }
    put(at, rank, place, length);
  }

  /** Takes the first one out. */
  function remove(): void {
    count -= 1;
    const [rank, place, length] = [ranks[count], places[count], lengths[count]] as [number, number, number];
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= count) break;
      if (child + 1 < count && (ranks[child + 1] as number) < (ranks[child] as number)) child += 1;
      if ((ranks[child] as number) >= rank) break;
      move(child, at);
      at = child;
    }
    put(at, rank, place, length);
  }

  function move(from: number, to: number): void {
    put(to, ranks[from] as number, places[from] as number, lengths[from] as number);
  }

  function put(at: number, rank: number, place: number, length: number): void {
    ranks[at] = rank;
    places[at] = place;
    lengths[at] = length;
  }

  function grow(): void {
    ranks = larger(ranks);
    places = larger(places);
    lengths = larger(lengths);
  }
}

function larger(from: Float64Array): Float64Array<ArrayBuffer> {
  const to = new Float64Array(from.length * 2);
  to.set(from);
  return to;
}
