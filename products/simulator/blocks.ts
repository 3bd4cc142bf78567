/**
 * The KV cache, in blocks of tokens, with the prefix cache on top of it: vLLM's block pool. A block is free when no
 * sequence holds it; a free block keeps what it cached until it is taken, and the one that has been free longest is taken
 * first. So the order in which blocks became free is the whole of the eviction policy.
 *
 *   free, oldest first:   [ 4 blanks ]─[ prompt block ]─[ prompt block ]─[ 9 blanks ]      held by sequences: the rest
 *
 * A blank (a block of generated tokens, or one that was never used) can serve nobody again, so blanks are counted and
 * not kept one by one: what a sequence generates costs no work here until it ends. Everything lies in typed arrays,
 * because a plan of some hundred thousand calls moves tens of millions of blocks.
 */

const NONE = -1;

export class Blocks {
  readonly total: number;
  // a node is a cached block, or a run of blanks in the free list; there are never more nodes than blocks
  readonly #low: Int32Array;
  readonly #high: Int32Array;
  readonly #holders: Int32Array;
  /** of a node in the free list: how many blocks it stands for; of a cached one 1 */
  readonly #size: Int32Array;
  readonly #isCached: Uint8Array;
  readonly #before: Int32Array;
  readonly #after: Int32Array;
  readonly #spare: number[];
  /** nodes by their hash */
  readonly #table: Int32Array;
  readonly #mask: number;
  #oldest = NONE;
  #newest = NONE;
  #free = 0;

  constructor(total: number) {
    this.total = total;
    this.#low = new Int32Array(total);
    this.#high = new Int32Array(total);
    this.#holders = new Int32Array(total);
    this.#size = new Int32Array(total);
    this.#isCached = new Uint8Array(total);
    this.#before = new Int32Array(total);
    this.#after = new Int32Array(total);
    this.#spare = Array.from({ length: total }, (_, index) => total - 1 - index);
    let slots = 16;
    while (slots < 2 * total) slots *= 2;
    this.#mask = slots - 1;
    this.#table = new Int32Array(slots).fill(NONE);
    this.#appendBlanks(total);
  }

  /** blocks that no sequence holds, cached ones among them */
  get free(): number {
    return this.#free;
  }

  /** how many blocks from the first on are cached, at most `most`; two words of `hashes` name a block */
  cached(hashes: Int32Array, most: number): number {
    let count = 0;
    const end = Math.min(most, hashes.length >> 1);
    while (count < end && this.#nodeOf(hashes, count) !== NONE) count++;
    return count;
  }

  /** how many of the first `count` blocks, all cached, are free now: to hold them takes as many from the free ones */
  idle(hashes: Int32Array, count: number): number {
    let idle = 0;
    for (let index = 0; index < count; index++) if (this.#holders[this.#nodeOf(hashes, index)] === 0) idle++;
    return idle;
  }

  /** Holds the first `count` blocks, all cached: puts their numbers into `held`. */
  hold(hashes: Int32Array, count: number, held: number[]): void {
    for (let index = 0; index < count; index++) {
      const node = this.#nodeOf(hashes, index);
      if (this.#holders[node]!++ === 0) this.#unlink(node);
      held.push(node);
    }
  }

  /** Takes `count` free blocks, oldest first; what they cached is forgotten. The caller has seen that there are as many. */
  take(count: number): void {
    let left = count;
    while (left > 0) {
      const node = this.#oldest;
      if (this.#isCached[node] === 0 && this.#size[node]! > left) {
        this.#size[node]! -= left;
        this.#free -= left;
        return;
      }
      left -= this.#size[node]!;
      this.#unlink(node);
      if (this.#isCached[node] === 1) this.#forget(node);
      this.#spare.push(node);
    }
  }

  /**
   * Caches the blocks from `from` up to `to` of a prompt, which were taken before, and puts their numbers into `held`.
   * A block that is cached already stays a blank of its holder: nobody would find a second copy.
   */
  cache(hashes: Int32Array, from: number, to: number, held: number[]): void {
    for (let index = from; index < to; index++) {
      const [low, high] = [hashes[2 * index]!, hashes[2 * index + 1]!];
      const slot = this.#slotOf(low, high);
      if (this.#table[slot] !== NONE) continue;
      const node = this.#spare.pop()!;
      this.#low[node] = low;
      this.#high[node] = high;
      this.#holders[node] = 1;
      this.#size[node] = 1;
      this.#isCached[node] = 1;
      this.#table[slot] = node;
      held.push(node);
    }
  }

  /** Gives back a sequence's blocks, its last ones first as vLLM does: `blanks`, then those in `held`. */
  release(held: readonly number[], blanks: number): void {
    this.#appendBlanks(blanks);
    for (let index = held.length - 1; index >= 0; index--) {
      const node = held[index]!;
      if (--this.#holders[node]! === 0) this.#append(node);
    }
  }

  /** The slot of a hash, or the empty one where it would be. */
  #slotOf(low: number, high: number): number {
    const table = this.#table;
    let slot = low & this.#mask;
    for (let node = table[slot]!; node !== NONE; node = table[slot]!) {
      if (this.#low[node] === low && this.#high[node] === high) break;
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }

  #nodeOf(hashes: Int32Array, index: number): number {
    return this.#table[this.#slotOf(hashes[2 * index]!, hashes[2 * index + 1]!)]!;
  }

  #forget(node: number): void {
    const [table, low, mask] = [this.#table, this.#low, this.#mask];
    let gap = this.#slotOf(low[node]!, this.#high[node]!);
    // linear probing stays whole when what comes after a gap moves into it, unless its own place is behind the gap
    for (let slot = (gap + 1) & mask; table[slot] !== NONE; slot = (slot + 1) & mask) {
      const home = low[table[slot]!]! & mask;
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
      table[gap] = table[slot]!;
      gap = slot;
    }
    table[gap] = NONE;
    this.#isCached[node] = 0;
  }

  #append(node: number): void {
    this.#before[node] = this.#newest;
    this.#after[node] = NONE;
    if (this.#newest === NONE) this.#oldest = node;
    else this.#after[this.#newest] = node;
    this.#newest = node;
    this.#free += this.#size[node]!;
  }

  #unlink(node: number): void {
    const [left, right] = [this.#before[node]!, this.#after[node]!];
    if (left === NONE) this.#oldest = right;
    else this.#after[left] = right;
    if (right === NONE) this.#newest = left;
    else this.#before[right] = left;
    this.#free -= this.#size[node]!;
  }

  #appendBlanks(count: number): void {
    if (count === 0) return;
    if (this.#newest !== NONE && this.#isCached[this.#newest] === 0) {
      this.#size[this.#newest]! += count;
      this.#free += count;
      return;
    }
    const node = this.#spare.pop()!;
    this.#size[node] = count;
    this.#append(node);
  }
}
