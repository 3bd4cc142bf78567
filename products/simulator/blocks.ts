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

export interface Blocks {
  readonly total: number;
  /** blocks that no sequence holds, cached ones among them */
  free(): number;
  /** how many blocks from the first on are cached, at most `most`; two words of `hashes` name a block */
  cached(hashes: Int32Array, most: number): number;
  /** how many of the first `count` blocks, all cached, are free now: to hold them takes as many from the free ones */
  idle(hashes: Int32Array, count: number): number;
  /** Holds the first `count` blocks, all cached: puts their numbers into `held`. */
  hold(hashes: Int32Array, count: number, held: number[]): void;
  /** Takes `count` free blocks, oldest first; what they cached is forgotten. The caller has seen that there are as many. */
  take(count: number): void;
  /**
   * Caches the blocks from `from` up to `to` of a prompt, which were taken before, and puts their numbers into `held`.
   * A block that is cached already stays a blank of its holder: nobody would find a second copy.
   */
  cache(hashes: Int32Array, from: number, to: number, held: number[]): void;
  /** Gives back a sequence's blocks, its last ones first as vLLM does: `blanks`, then those in `held`. */
  release(held: readonly number[], blanks: number): void;
}

const NONE = -1;

export function createBlocks(total: number): Blocks {
  // a node is a cached block, or a run of blanks in the free list; there are never more nodes than blocks
  const low = new Int32Array(total);
  const high = new Int32Array(total);
  const holders = new Int32Array(total);
  /** of a node in the free list: how many blocks it stands for; of a cached one 1 */
  const size = new Int32Array(total);
  const isCached = new Uint8Array(total);
  const before = new Int32Array(total);
  const after = new Int32Array(total);
  const spare = Array.from({ length: total }, (_, index) => total - 1 - index);
  let oldest = NONE;
  let newest = NONE;
  let free = 0;

  let slots = 16;
  while (slots < 2 * total) slots *= 2;
  const mask = slots - 1;
  const table = new Int32Array(slots).fill(NONE);

  /** The slot of a hash, or the empty one where it would be. */
  function slotOf(lowWord: number, highWord: number): number {
    let slot = lowWord & mask;
    for (let node = table[slot]!; node !== NONE; node = table[slot]!) {
      if (low[node] === lowWord && high[node] === highWord) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  function nodeOf(hashes: Int32Array, index: number): number {
    return table[slotOf(hashes[2 * index]!, hashes[2 * index + 1]!)]!;
  }

  function forget(node: number): void {
    let gap = slotOf(low[node]!, high[node]!);
    // linear probing stays whole when what comes after a gap moves into it, unless its own place is behind the gap
    for (let slot = (gap + 1) & mask; table[slot] !== NONE; slot = (slot + 1) & mask) {
      const home = low[table[slot]!]! & mask;
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
      table[gap] = table[slot]!;
      gap = slot;
    }
    table[gap] = NONE;
    isCached[node] = 0;
  }

  function append(node: number): void {
    before[node] = newest;
    after[node] = NONE;
    if (newest === NONE) oldest = node;
    else after[newest] = node;
    newest = node;
    free += size[node]!;
  }

  function unlink(node: number): void {
    const [left, right] = [before[node]!, after[node]!];
    if (left === NONE) oldest = right;
    else after[left] = right;
    if (right === NONE) newest = left;
    else before[right] = left;
    free -= size[node]!;
  }

  function appendBlanks(count: number): void {
    if (count === 0) return;
    if (newest !== NONE && isCached[newest] === 0) {
      size[newest]! += count;
      free += count;
      return;
    }
    const node = spare.pop()!;
    size[node] = count;
    append(node);
  }

  appendBlanks(total);

  return {
    total,
    free: () => free,
    cached(hashes, most) {
      let count = 0;
      const end = Math.min(most, hashes.length >> 1);
      while (count < end && nodeOf(hashes, count) !== NONE) count++;
      return count;
    },
    idle(hashes, count) {
      let idle = 0;
      for (let index = 0; index < count; index++) if (holders[nodeOf(hashes, index)] === 0) idle++;
      return idle;
    },
    hold(hashes, count, held) {
      for (let index = 0; index < count; index++) {
        const node = nodeOf(hashes, index);
        if (holders[node]!++ === 0) unlink(node);
        held.push(node);
      }
    },
    take(count) {
      let left = count;
      while (left > 0) {
        const node = oldest;
        if (isCached[node] === 0 && size[node]! > left) {
          size[node]! -= left;
          free -= left;
          return;
        }
        left -= size[node]!;
        unlink(node);
        if (isCached[node] === 1) forget(node);
        spare.push(node);
      }
    },
    cache(hashes, from, to, held) {
      for (let index = from; index < to; index++) {
        const [lowWord, highWord] = [hashes[2 * index]!, hashes[2 * index + 1]!];
        const slot = slotOf(lowWord, highWord);
        if (table[slot] !== NONE) continue;
        const node = spare.pop()!;
        low[node] = lowWord;
        high[node] = highWord;
        holders[node] = 1;
        size[node] = 1;
        isCached[node] = 1;
        table[slot] = node;
        held.push(node);
      }
    },
    release(held, blanks) {
      appendBlanks(blanks);
      for (let index = held.length - 1; index >= 0; index--) {
        const node = held[index]!;
        if (--holders[node]! === 0) append(node);
      }
    },
  };
}
