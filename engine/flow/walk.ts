/**
 * A walk over lines that begin alike, by several endpoints at once: each goes over a range of it, so that a beginning is
 * computed at one of them. Ranges are cut where least is shared. Whoever is through with its range takes over the end of that
 * of the one which has the most left, whole branches where there are any; so a branch is split only where an endpoint
 * would have nothing to do, and computing its beginning again costs less than what is taken over.
 */
import type { Arranged, Beginnings } from './beginnings.ts';

/** What a line costs beside the bytes that are read of it, in such bytes: its answer, and its share in each step. */
const ANSWER = 1024;
/** A beginning is kept at one endpoint where computing it at all others would cost more than this share of its lines' work. */
const DEAR = 0.02;
/** Ranges are cut within so much of them on both sides of the middle, */
const NEAR = 1 / 8;
/** and of so many lines. */
const LOOKED_AT = 4096;

interface Range {
  next: number;
  end: number;
}

/** What is known of the endpoints. */
export interface Others {
  isUp(endpoint: number): boolean;
  /** lines that it has been given and has not answered */
  inHand(endpoint: number): number;
}

export interface Taken {
  /** the line's number, from 0 */
  line: number;
  /** It shares a beginning that is worth keeping at one endpoint. */
  placed: boolean;
}

export class Walk {
  readonly #order: Uint32Array;
  /** bytes that a line of the order shares with the one before it, beyond what all lines share */
  readonly #shared: Uint32Array;
  /** work of the first so many of them */
  readonly #work: Float64Array;
  readonly #placed: Uint8Array;
  /** of an endpoint, by its number */
  readonly #ranges = new Map<number, Range>();
  /** nobody's */
  readonly #free: Range[];
  #left: number;

  /** `endpoints`: how many may take part. */
  constructor(lines: Beginnings, { order, shared }: Arranged, endpoints: number) {
    const count = order.length;
    this.#order = order;
    this.#left = count;
    this.#work = new Float64Array(count + 1);
    for (let at = 0; at < count; at++) {
      const length = lines.lengthOf(order[at] as number);
      const same = shared[at] as number;
      this.#work[at + 1] = (this.#work[at] as number) + length - same + ANSWER;
    }
    let least = Number.POSITIVE_INFINITY;
    for (let at = 1; at < count; at++) least = Math.min(least, shared[at] as number);
    this.#shared = shared.map(same => Math.max(0, same - least));
    this.#placed = this.#dear(endpoints);
    this.#free = this.#cut({ next: 0, end: count }, this.#placed.includes(1) ? endpoints : 1);
  }

  /** lines that nobody has taken */
  get left(): number {
    return this.#left;
  }

  /** Whether there is something for this endpoint to take. `others` tells of the others. */
  hasFor(endpoint: number, others: Others): boolean {
    return this.#rangeOf(endpoint, others) !== null;
  }

  take(endpoint: number, others: Others): Taken | null {
    const range = this.#rangeOf(endpoint, others);
    return range && this.#takeOf(range);
  }

  /** The next one of anybody: no endpoint is up. */
  takeAny(): Taken | null {
    const range = [...this.#free, ...this.#ranges.values()].find(({ next, end }) => next < end);
    return range === undefined ? null : this.#takeOf(range);
  }

  #takeOf(range: Range): Taken {
    const at = range.next++;
    this.#left -= 1;
    return { line: this.#order[at] as number, placed: this.#placed[at] === 1 };
  }

  #rangeOf(endpoint: number, others: Others): Range | null {
    const own = this.#ranges.get(endpoint);
    if (own !== undefined && own.next < own.end) return own;
    if (this.#left === 0) return null;
    while (this.#free[0] && this.#free[0].next === this.#free[0].end) this.#free.shift();
    const range = this.#free.shift() ?? this.#takenOver(endpoint, others);
    if (range !== null) this.#ranges.set(endpoint, range);
    return range;
  }

  /**
   * What an endpoint has left that is gone; else of the one with the most left as much as makes both even, from the end of its
   * range, or of the next one, where that cannot be split.
   */
  #takenOver(thief: number, others: Others): Range | null {
    const all: { range: Range; lines: number }[] = [];
    for (const [whose, range] of this.#ranges) {
      if (range.next === range.end) continue;
      if (!others.isUp(whose)) {
        this.#ranges.delete(whose);
        return range;
      }
      all.push({ range, lines: range.end - range.next + others.inHand(whose) });
    }
    const inHand = others.inHand(thief);
    for (const { range, lines } of all.sort((a, b) => b.lines - a.lines)) {
      const more = Math.min(range.end - range.next - 1, Math.floor((lines - inHand) / 2));
      const at = more < 1 ? null : this.#cutFor(range, more);
      if (at === null) continue;
      const rest = { next: at, end: range.end };
      range.end = at;
      return rest;
    }
    return null;
  }

  /**
   * Where to cut off about so many lines of the end of a range; null where computing a beginning again costs more than it
   * takes over. Where that is so near the goal, whole branches further off are better than nothing to do.
   */
  #cutFor(range: Range, more: number): number | null {
    const { next, end } = range;
    const goal = end - more;
    const near = this.#cutNear(range, goal, Math.floor(more * NEAR));
    if ((this.#shared[near] as number) <= this.#workOf({ next: near, end })) return near;
    for (let step = 1; step <= Math.min(LOOKED_AT, end - next); step++)
      for (const at of [goal + step, goal - step]) {
        if (at <= next || at >= end) continue;
        const work = this.#workOf({ next: at, end });
        // … but not where the other would be through before
        if ((this.#shared[at] as number) <= Math.min(work, this.#workOf(range) - work)) return at;
      }
    return null;
  }

  #workOf({ next, end }: Range): number {
    return (this.#work[end] as number) - (this.#work[next] as number);
  }

  /** About the same work in each. */
  #cut(range: Range, parts: number): Range[] {
    const cut: Range[] = [];
    const rest = { ...range };
    for (let left = parts; left > 1; left--) {
      const at = this.#middle(rest, left);
      if (at === null) break;
      cut.push({ next: rest.next, end: at });
      rest.next = at;
    }
    cut.push(rest);
    return cut;
  }

  /** Where a range is best cut, so that one of `parts` parts of its work is before that; null where it is too short. */
  #middle(range: Range, parts: number): number | null {
    const { next, end } = range;
    if (end - next < 2) return null;
    const goal = (this.#work[next] as number) + this.#workOf(range) / parts;
    let low = next + 1;
    let high = end - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#work[middle] as number) < goal) low = middle + 1;
      else high = middle;
    }
    return this.#cutNear(range, low, Math.floor(((end - next) / parts) * NEAR));
  }

  /** Where the least is shared, of the places at most `away` from `goal`, the nearest one. */
  #cutNear({ next, end }: Range, goal: number, away: number): number {
    let best = goal;
    for (let step = 1; step <= Math.min(LOOKED_AT, away); step++)
      for (const at of [goal - step, goal + step])
        if (at > next && at < end && (this.#shared[at] as number) < (this.#shared[best] as number)) best = at;
    return best;
  }

  /** Which lines of the order share a beginning that is dear: by the intervals of lines that share at least so much. */
  #dear(endpoints: number): Uint8Array {
    const count = this.#order.length;
    const dear = new Uint8Array(count);
    if (endpoints < 2) return dear;
    const open: Range[] = [{ next: 0, end: 0 }]; // where it begins, and (as `end`) how much it shares
    let done = 0; // lines before this are marked as they will be
    for (let at = 1; at <= count; at++) {
      const same = at < count ? (this.#shared[at] as number) : 0;
      let from = at - 1;
      for (let top = open.at(-1) as Range; top.end > same; top = open.at(-1) as Range) {
        open.pop();
        from = top.next;
        const work = (this.#work[at] as number) - (this.#work[from] as number);
        if ((endpoints - 1) * top.end <= DEAR * work) continue;
        dear.fill(1, Math.max(from, done), at);
        if (from <= done) done = at;
      }
      if ((open.at(-1) as Range).end < same) open.push({ next: from, end: same });
    }
    return dear;
  }
}
