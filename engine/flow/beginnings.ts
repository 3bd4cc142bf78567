/**
 * What the requests of many lines begin with, and the order in which lines that begin alike are neighbours. A server
 * computes a beginning once for all requests that share it, as long as its cache holds it: so what is asked next should
 * begin as what was asked last. The order is a walk, depth first, of the tree of beginnings; branches, and lines in them,
 * stay in the order in which they came. Lines that share nothing stay where they were.
 *
 * A beginning is named by hashes of itself up to some lengths, each of all characters before it. A few dozen bytes a line.
 */
import type { Begins } from '../core/item/call.ts';
import type { Item } from '../core/item/item.ts';
import { exact, small } from './numbers.ts';

/**
 * Bytes up to which beginnings are compared: a server shares blocks of 16 tokens, and a few hundred bytes are the least
 * that is worth it. Further on an eighth of the length is as exact as it gets.
 */
const LENGTHS = lengthsUpTo(256 * 1024);

function lengthsUpTo(most: number): number[] {
  const lengths: number[] = [];
  for (let at = 256; at <= most; at += Math.max(256, (at >> 3) & ~0xff)) lengths.push(at);
  return lengths;
}

/** What is hashed is written here first: characters of a text one by one cost ten times as much as words of its bytes. */
const scratch = Buffer.allocUnsafeSlow(LENGTHS.at(-1) as number);
const words = new Uint32Array(scratch.buffer);
const END_OF_TEXT = 0x1f;

export interface Arranged {
  /** the lines by their numbers, from 0 */
  order: Uint32Array;
  /** bytes that each line of `order` shares with the one before it */
  shared: Uint32Array;
  /** those of all lines, and those of them that are shared */
  bytes: number;
  repeated: number;
}

/** What the stage that asks says of an item; null of one that failed, or of which it cannot tell: it says itself what is wrong. */
export function beginningOf(item: Item, begins: (item: Item) => Begins | null): Begins | null {
  if (item.failure !== undefined) return null;
  try {
    return begins(item);
  } catch {
    return null;
  }
}

/** What its request says; nothing where that cannot be told. */
export function textsIn(begins: Begins | null): readonly string[] {
  try {
    return begins?.texts() ?? [];
  } catch {
    return [];
  }
}

/** The beginnings of lines, in the order in which they came. */
export class Beginnings {
  readonly #hashes = small();
  /** where the hashes of each line end */
  readonly #ends = exact();
  readonly #lengths = small();

  get count(): number {
    return this.#lengths.count;
  }

  /** `texts`: what a request says, in the order in which a server reads it. */
  add(texts: readonly string[]): void {
    let bytes = 0;
    let length = 0;
    for (const text of texts) {
      length += text.length + 1;
      if (bytes + 3 > scratch.length) continue; // what follows is not compared
      bytes += scratch.write(text, bytes);
      if (bytes < scratch.length) scratch[bytes++] = END_OF_TEXT;
    }
    let hash = 0x811c9dc5;
    let at = 0;
    for (let level = 0; (LENGTHS[level] as number) <= bytes; level++) {
      for (const end = (LENGTHS[level] as number) / 4; at < end; at++)
        hash = Math.imul(hash ^ (words[at] as number), 0x85ebca6b) ^ (hash >>> 13);
      this.#hashes.push(hash);
    }
    this.#lengths.push(Math.max(length, bytes));
    this.#ends.push(this.#hashes.count);
  }

  /** its bytes, or where they are many its characters */
  lengthOf(line: number): number {
    return this.#lengths.at(line);
  }

  arranged(): Arranged {
    const order = new Uint32Array(this.count);
    for (let line = 0; line < order.length; line++) order[line] = line;
    const shared = new Uint32Array(order.length);
    // segments of `order` that begin alike, and at how many of the lengths that is known
    const segments = order.length > 1 ? [0, order.length, 0] : [];
    while (segments.length > 0) {
      const level = segments.pop() as number;
      const to = segments.pop() as number;
      const from = segments.pop() as number;
      this.#divide(order, shared, { from, to, level }, segments);
    }
    let bytes = 0;
    let repeated = 0;
    for (let line = 0; line < order.length; line++) {
      bytes += this.lengthOf(line);
      repeated += shared[line] as number;
    }
    return { order, shared, bytes, repeated };
  }

  /** Divides lines that are alike up to `level` by what they have there. */
  #divide(order: Uint32Array, shared: Uint32Array, segment: Segment, segments: number[]): void {
    const { from, to } = segment;
    let { level } = segment;
    while (this.#areAlike(order, from, to, level)) level += 1;
    const upToHere = level === 0 ? 0 : (LENGTHS[level - 1] as number);
    const size = to - from;
    // of classes in a row: by what they are alike, and within them, and among them, in the order in which they came
    const bits = Math.max(1, Math.ceil(Math.log2(size)));
    const place = 2 ** bits;
    const rest = 2 ** Math.max(0, 32 + bits - 53); // of very many lines, some bits of a hash do
    const keys = new Float64Array(size);
    for (let at = 0; at < size; at++) {
      const hash = this.#hashAt(order[from + at] as number, level);
      // a line that ends before is alone
      keys[at] = (hash === null ? 2 ** 32 + at : Math.floor(hash / rest)) * place + at;
    }
    keys.sort();
    // where the classes begin in `keys`, and, by the first line of each, which they are
    const starts: number[] = [];
    for (let at = 0, before = -1; at < size; at++) {
      const name = Math.floor((keys[at] as number) / place);
      if (name !== before) starts.push(at);
      before = name;
    }
    const byFirst = new Float64Array(starts.length);
    for (const [index, at] of starts.entries())
      byFirst[index] = ((keys[at] as number) % place) * place + index;
    byFirst.sort();
    const lines = order.slice(from, to);
    let next = from;
    for (const key of byFirst) {
      const index = key % place;
      const at = starts[index] as number;
      const members = (starts[index + 1] ?? size) - at;
      if (next > from) shared[next] = upToHere;
      if (members > 1) segments.push(next, next + members, level + 1);
      for (let member = 0; member < members; member++)
        order[next++] = lines[(keys[at + member] as number) % place] as number;
    }
  }

  #areAlike(order: Uint32Array, from: number, to: number, level: number): boolean {
    const first = this.#hashAt(order[from] as number, level);
    if (first === null) return false;
    for (let at = from + 1; at < to; at++)
      if (this.#hashAt(order[at] as number, level) !== first) return false;
    return true;
  }

  #hashAt(line: number, level: number): number | null {
    const at = (line === 0 ? 0 : this.#ends.at(line - 1)) + level;
    return at < this.#ends.at(line) ? this.#hashes.at(at) : null;
  }
}

interface Segment {
  from: number;
  to: number;
  level: number;
}
