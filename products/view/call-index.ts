/**
 * Where each call of a ledger is, and the little of it that a table shows, by its key: 20 bytes a call, in runs of a million
 * that are sorted once. A Map of as many keys would be ten times that, and a hash table twice.
 *
 *   calls come in ─▶ open ─(full, or somebody asks)─▶ sorted run, sorted run, …   each searched by halves
 */

/** Of one call. `place` is any whole number below 2^39. */
export interface Entry {
  place: number;
  /** ms from sending to the end of the answer */
  ms: number;
  /** when it ended, in seconds since 1970 */
  ended: number;
  /** a small number (0 to 255) */
  note: number;
  isAnswer: boolean;
}

/** Calls of a run: an index within it and 32 bits of a key fit into one double, and so a run sorts as plain numbers. */
const FULL = 1 << 20;
const FIRST = 1 << 10;
/** Runs that came of somebody asking early are put together when there are so many. */
const MOST_SMALL = 16;
export const MOST_PLACE = 2 ** 39;

interface Columns {
  high: Uint32Array;
  low: Uint16Array;
  placeLow: Uint32Array;
  /** the upper seven bits of the place; the highest bit: it is an answer */
  placeHigh: Uint8Array;
  ms: Uint32Array;
  ended: Uint32Array;
  note: Uint8Array;
}

interface Run extends Columns {
  count: number;
}

const ANSWER = 0x80;
const TWO_32 = 2 ** 32;
const MOST_32 = TWO_32 - 1;

const made = (room: number): Columns => ({
  high: new Uint32Array(room),
  low: new Uint16Array(room),
  placeLow: new Uint32Array(room),
  placeHigh: new Uint8Array(room),
  ms: new Uint32Array(room),
  ended: new Uint32Array(room),
  note: new Uint8Array(room),
});

// Keys are SHA-256 in hex: their first 48 bits are as good as any hash of them.
const highOf = (key: string): number => Number.parseInt(key.slice(0, 8), 16) >>> 0;
const lowOf = (key: string): number => Number.parseInt(key.slice(8, 12), 16) & 0xffff;
const within = (value: number): number => (value > 0 ? Math.min(Math.round(value), MOST_32) : 0);

export class CallIndex {
  #full: Run[] = [];
  /** sorted, not full */
  #small: Run[] = [];
  #open = made(FIRST);
  #count = 0;
  #size = 0;

  /** Calls that were added. */
  get size(): number {
    return this.#size;
  }

  /** Bytes that the arrays take. */
  get bytes(): number {
    const of = ({ high, low, placeLow, placeHigh, ms, ended, note }: Columns): number =>
      [high, low, placeLow, placeHigh, ms, ended, note].reduce((sum, { byteLength }) => sum + byteLength, 0);
    return [...this.#full, ...this.#small, this.#open].reduce((sum, run) => sum + of(run), 0);
  }

  add(key: string, { place, ms, ended, note, isAnswer }: Entry): void {
    if (this.#count === this.#open.high.length) this.#open = copied(this.#open, this.#count * 2);
    const at = this.#count;
    const { high, low, placeLow, placeHigh, ...more } = this.#open;
    high[at] = highOf(key);
    low[at] = lowOf(key);
    placeLow[at] = place % TWO_32;
    placeHigh[at] = Math.floor(place / TWO_32) | (isAnswer ? ANSWER : 0);
    more.ms[at] = within(ms);
    more.ended[at] = within(ended);
    more.note[at] = note;
    this.#count += 1;
    this.#size += 1;
    if (this.#count < FULL) return;
    this.#full.push(sorted(this.#open, FULL));
    this.#open = made(FIRST);
    this.#count = 0;
  }

  /** Those whose key has the same first 48 bits, in the order in which they were added. */
  find(key: string): Entry[] {
    this.#settle();
    const found: Entry[] = [];
    const high = highOf(key);
    const low = lowOf(key);
    for (const run of this.#full) collect(run, high, low, found);
    for (const run of this.#small) collect(run, high, low, found);
    return found.sort((a, b) => a.place - b.place);
  }

  /** Sorts what came in since. */
  #settle(): void {
    if (this.#count === 0) return;
    const waiting = this.#small.reduce((sum, { count }) => sum + count, this.#count);
    if (this.#small.length < MOST_SMALL && waiting < FULL) {
      this.#small.push(sorted(this.#open, this.#count));
    } else {
      const runs = [...this.#small, { ...this.#open, count: this.#count }];
      this.#small = [];
      for (const part of parts(runs)) {
        if (part.count === FULL) this.#full.push(sorted(part, FULL));
        else this.#small.push(sorted(part, part.count));
      }
    }
    this.#open = made(FIRST);
    this.#count = 0;
  }
}

const NAMES = ['high', 'low', 'placeLow', 'placeHigh', 'ms', 'ended', 'note'] as const;

function copied(from: Columns, room: number): Columns {
  const next = made(Math.min(FULL, room));
  for (const name of NAMES) next[name].set(from[name]);
  return next;
}

/** Runs put end to end, cut into full ones and a rest. */
function parts(runs: readonly Run[]): Run[] {
  const all = runs.reduce((sum, { count }) => sum + count, 0);
  const whole = made(all);
  let at = 0;
  for (const run of runs) {
    for (const name of NAMES) whole[name].set(run[name].subarray(0, run.count), at);
    at += run.count;
  }
  const cut: Run[] = [];
  for (let from = 0; from < all; from += FULL) {
    const count = Math.min(FULL, all - from);
    const part = Object.fromEntries(NAMES.map(name => [name, whole[name].subarray(from, from + count)]));
    cut.push({ ...(part as unknown as Columns), count });
  }
  return cut;
}

/** The first `count` rows by their keys, in arrays of their own. */
function sorted(from: Columns, count: number): Run {
  const order = new Float64Array(count);
  for (let at = 0; at < count; at++) order[at] = (from.high[at] as number) * FULL + at;
  order.sort();
  const run: Run = { ...made(count), count };
  for (const name of NAMES) {
    const [source, target] = [from[name], run[name]];
    for (let at = 0; at < count; at++) target[at] = source[(order[at] as number) % FULL] as number;
  }
  return run;
}

function collect(run: Run, high: number, low: number, found: Entry[]): void {
  let from = 0;
  let to = run.count;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((run.high[middle] as number) < high) from = middle + 1;
    else to = middle;
  }
  for (let at = from; at < run.count && run.high[at] === high; at++) {
    if (run.low[at] !== low) continue;
    const upper = run.placeHigh[at] as number;
    found.push({
      place: (run.placeLow[at] as number) + (upper & (ANSWER - 1)) * TWO_32,
      ms: run.ms[at] as number,
      ended: run.ended[at] as number,
      note: run.note[at] as number,
      isAnswer: (upper & ANSWER) !== 0,
    });
  }
}
