/**
 * A set of ids that forgets the ids: 128 bits of a hash each, in one typed array, since a Set of a million strings
 * costs more than all the rest of a stage. Two different ids are taken for one with a chance of n² / 2^129.
 */
import { hash } from 'node:crypto';

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
const HALF_A_PAIR = /\p{Surrogate}/u;
const NO_UTF8 = Buffer.from([0xff]);

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
      const key = old.words.subarray(at, at + WORDS);
      const to = find(key);
      words.set(key, to);
      if (numbered) numbers[to / WORDS] = old.numbers[at / WORDS]!;
    }
  }
}

/**
 * The first 128 bits of the id's SHA-256; the first word is never 0, which marks an empty slot. Half a surrogate pair
 * has no UTF-8 of its own: such an id is hashed as UTF-16, behind a byte that UTF-8 never has.
 */
function keyOf(id: string): Uint32Array {
  const bytes = HALF_A_PAIR.test(id) ? Buffer.concat([NO_UTF8, Buffer.from(id, 'utf16le')]) : id;
  const digest = hash('sha256', bytes, 'buffer');
  const key = new Uint32Array(WORDS);
  for (let word = 0; word < WORDS; word++) key[word] = digest.readUInt32LE(word * 4);
  key[0] ||= 1;
  return key;
}
