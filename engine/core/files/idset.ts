/**
 * A set of ids that forgets the ids: 128 bits of a hash each, in one typed array. That is 20 to 40 bytes an id, where a
 * Set of strings takes 100 and ends at 2^24. Two different ids are taken for one with a chance of n² / 2^129.
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

export const createIdSet = (): IdSet => new HashTable(WORDS);
export const createIdTable = (): IdTable => new HashTable(WORDS + 1);

class HashTable implements IdTable {
  size = 0;
  /** words of a slot: those of the key, and of a table the number behind them */
  readonly #width: number;
  #slots = FIRST_SLOTS; // a power of two
  #words: Uint32Array;

  constructor(width: number) {
    this.#width = width;
    this.#words = new Uint32Array(FIRST_SLOTS * width);
  }

  has(id: string): boolean {
    return this.#words[this.#find(keyOf(id), 0)] !== 0;
  }

  add(id: string): boolean {
    const before = this.size;
    this.numberOf(id, 0);
    return this.size > before;
  }

  numberOf(id: string, number: number): number {
    const key = keyOf(id);
    const at = this.#find(key, 0);
    if (this.#words[at] !== 0) return this.#words[at + WORDS]!;
    this.#words.set(key, at);
    if (this.#width > WORDS) this.#words[at + WORDS] = number;
    this.size += 1;
    if (this.size > this.#slots * FULLEST) this.#grow();
    return number;
  }

  /** The index of the words that hold the key at `from` of `keys`, or of the empty ones where it belongs. */
  #find(keys: Uint32Array, from: number): number {
    const words = this.#words;
    for (let slot = keys[from + 1]!; ; slot++) {
      const at = (slot & (this.#slots - 1)) * this.#width;
      if (words[at] === 0) return at;
      if (
        words[at] === keys[from] &&
        words[at + 1] === keys[from + 1] &&
        words[at + 2] === keys[from + 2] &&
        words[at + 3] === keys[from + 3]
      )
        return at;
    }
  }

  #grow(): void {
    const old = this.#words;
    this.#slots *= 2;
    this.#words = new Uint32Array(old.length * 2);
    for (let at = 0; at < old.length; at += this.#width) {
      if (old[at] === 0) continue;
      const to = this.#find(old, at);
      for (let word = 0; word < this.#width; word++) this.#words[to + word] = old[at + word]!;
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
