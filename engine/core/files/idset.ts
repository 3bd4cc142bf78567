/**
 * A set of ids that forgets the ids: 128 bits of a hash each, in one typed array, since a Set of a million strings
 * costs more than all the rest of a stage. Two different ids are taken for one with a chance of n² / 2^129.
 */
import { randomFillSync } from 'node:crypto';

export interface IdSet {
  /** False where the id was there already. */
  add(id: string): boolean;
  has(id: string): boolean;
  readonly size: number;
}

/** An id set that remembers a number for each id. */
export interface IdTable extends IdSet {
  /** The number of an id; where the id is new, it is given `number` (below 2^32). */
  numberOf(id: string, number: number): number;
}

const WORDS = 4;
const FIRST_SLOTS = 1024;
/** beyond this share of full slots, probing takes longer than it is worth */
const FULLEST = 0.8;

export const createIdSet = (): IdSet => createTable(false);
export const createIdTable = (): IdTable => createTable(true);

function createTable(numbered: boolean): IdTable {
  let slots = FIRST_SLOTS; // a power of two
  let words = new Uint32Array(slots * WORDS);
  let numbers = new Uint32Array(numbered ? slots : 0);
  let size = 0;

  return {
    add(id) {
      const key = keyOf(id);
      const at = find(key);
      if (isFull(at)) return false;
      put(key, at, 0);
      return true;
    },
    numberOf(id, number) {
      const key = keyOf(id);
      const at = find(key);
      if (isFull(at)) return numbers[at / WORDS]!;
      put(key, at, number);
      return number;
    },
    has: id => isFull(find(keyOf(id))),
    get size() {
      return size;
    },
  };

  function put(key: Uint32Array, at: number, number: number): void {
    words.set(key, at);
    if (numbered) numbers[at / WORDS] = number;
    size += 1;
    if (size > slots * FULLEST) grow();
  }

  /** The index of the words that hold the key, or of the empty ones where it belongs. */
  function find(key: Uint32Array): number {
    let slot = key[1]! & (slots - 1);
    for (;;) {
      const at = slot * WORDS;
      if (!isFull(at)) return at;
      if (
        words[at] === key[0] &&
        words[at + 1] === key[1] &&
        words[at + 2] === key[2] &&
        words[at + 3] === key[3]
      )
        return at;
      slot = (slot + 1) & (slots - 1);
    }
  }

  function isFull(at: number): boolean {
    return words[at] !== 0;
  }

  function grow(): void {
    const old = { words, numbers };
    slots *= 2;
    words = new Uint32Array(slots * WORDS);
    numbers = new Uint32Array(numbered ? slots : 0);
    for (let at = 0; at < old.words.length; at += WORDS) {
      if (old.words[at] === 0) continue;
      let slot = old.words[at + 1]! & (slots - 1); // no two are the same, so the first empty one is the key's
      while (isFull(slot * WORDS)) slot = (slot + 1) & (slots - 1);
      const to = slot * WORDS;
      for (let word = 0; word < WORDS; word++) words[to + word] = old.words[at + word]!;
      if (numbered) numbers[slot] = old.numbers[at / WORDS]!;
    }
  }
}

/** 52 bits of a hash of a text, for this process alone: two texts are taken for one with a chance of 2^-52. */
export function hashOf(text: string): number {
  const [a, b] = keyOf(text) as unknown as [number, number];
  return a * 2 ** 20 + (b >>> 12);
}

/** Random for each process: who writes ids cannot know it, and so cannot make two that are taken for one. */
const seed = randomFillSync(new Uint32Array(WORDS));
const key = new Uint32Array(WORDS);

/**
 * 128 bits for an id; the first word is never 0, which marks an empty slot. The same array each time.
 *
 * The permutation of HalfSipHash (Aumasson and Bernstein, 2012), one round for every two characters and three at the
 * end, from a secret state; all of the state is the key. These keys never leave the process, so chance is the only
 * adversary; on ids of 60 characters SHA-256 takes four times as long, 3 % of a whole verification.
 */
function keyOf(id: string): Uint32Array {
  let [a, b, c, d] = seed as unknown as [number, number, number, number];
  const end = id.length + (id.length & 1);
  for (let at = 0; at < end + 8; at += 2) {
    // beyond the end charCodeAt is NaN, which counts as 0; the length tells `a` from `a\0`, and three zeros close
    const word = at < end ? id.charCodeAt(at) | (id.charCodeAt(at + 1) << 16) : at === end ? id.length : 0;
    d ^= word;
    a = (a + b) | 0;
    b = ((b << 5) | (b >>> 27)) ^ a;
    a = (a << 16) | (a >>> 16);
    c = (c + d) | 0;
    d = ((d << 8) | (d >>> 24)) ^ c;
    a = (a + d) | 0;
    d = ((d << 7) | (d >>> 25)) ^ a;
    c = (c + b) | 0;
    b = ((b << 13) | (b >>> 19)) ^ c;
    c = (c << 16) | (c >>> 16);
    a ^= word;
  }
  key[0] = a || 1;
  key[1] = b;
  key[2] = c;
  key[3] = d;
  return key;
}
