/**
 * Texts in the order of their ranks, whatever the order in which they come. Those that come early wait: some MiB in memory,
 * the others on disk. So one slow line holds up neither the run nor its memory.
 */
import { closeSync } from 'node:fs';
import { type OnBroken, writeWhole } from '../../core/files/ndjson-out.ts';
import { letGo } from '../../core/files/origin.ts';
import { openUnnamed, readBack } from '../../core/files/put-aside.ts';
import type { Fatal } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';

/** Characters that wait in memory, where nobody says how many. */
const NEAR = 8 * 1024 * 1024;
const IN_MEMORY = -1;
const FIRST_ROOM = 1024;

/** `folder` is for what waits on disk; nothing is made there before something does. `near`: characters that wait in memory. */
export class InOrder {
  readonly #folder: string;
  readonly #near: number;
  /** a binary heap by rank, three numbers a text: its rank, where it stands, and how long it is */
  #heap = new Float64Array(3 * FIRST_ROOM);
  #count = 0;
  #due = 1;
  readonly #texts = new Map<number, string>();
  #characters = 0;
  #numbered = 0;
  #fd: number | null = null;
  #written = 0;

  constructor(folder: string, near = NEAR) {
    this.#folder = folder;
    this.#near = near;
  }

  /** Ranks are 1, 2, 3, …; one that is not to be waited for (a second of a rank, or a lower one) is next. */
  add(rank: number, text: string): void {
    if (this.#texts.size === 0 || this.#characters + text.length <= this.#near) {
      this.#texts.set(this.#numbered, text);
      this.#characters += text.length;
      this.#insert(rank, this.#numbered++, IN_MEMORY);
    } else {
      this.#fd ??= openUnnamed(this.#folder, 'lines that came early');
      const bytes = Buffer.from(text);
      writeWhole(this.#fd, bytes, `lines put aside in ${this.#folder}`);
      this.#insert(rank, this.#written, bytes.length);
      this.#written += bytes.length;
    }
  }

  /** The next text, or null where it has not come yet. */
  next(): string | null {
    const [rank, place, length] = this.#heap as unknown as [number, number, number];
    if (this.#count === 0 || rank > this.#due) return null;
    this.#remove();
    if (rank === this.#due) this.#due += 1;
    const text =
      length === IN_MEMORY ? this.#taken(place) : readBack(this.#fd as number, place, length).toString();
    if (this.#count === 0 && this.#written > 0) {
      this.close(); // what has gone on needs no place
      this.#written = 0;
    }
    return text;
  }

  /** No more will come: what is left is next, whatever is missing before it. */
  finish(): void {
    this.#due = Number.POSITIVE_INFINITY;
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  #taken(place: number): string {
    const text = this.#texts.get(place) as string;
    this.#texts.delete(place);
    this.#characters -= text.length;
    return text;
  }

  #rankAt(at: number): number {
    return this.#heap[3 * at] as number;
  }

  #move(from: number, to: number): void {
    const heap = this.#heap;
    for (let part = 0; part < 3; part++) heap[3 * to + part] = heap[3 * from + part]!;
  }

  #insert(rank: number, place: number, length: number): void {
    if (3 * this.#count === this.#heap.length) {
      const larger = new Float64Array(2 * this.#heap.length);
      larger.set(this.#heap);
      this.#heap = larger;
    }
    let at = this.#count++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#rankAt(parent) <= rank) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#heap.set([rank, place, length], 3 * at);
  }

  /** Takes the first one out: the last one sinks from its place. */
  #remove(): void {
    this.#count -= 1;
    const last = this.#count;
    const rank = this.#rankAt(last);
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= last) break;
      if (child + 1 < last && this.#rankAt(child + 1) < this.#rankAt(child)) child += 1;
      if (this.#rankAt(child) >= rank) break;
      this.#move(child, at);
      at = child;
    }
    this.#move(last, at);
  }
}

/** Characters of lines that waited and leave before the event loop has its turn. */
const AT_ONCE = 4 * 1024 * 1024;

export interface Turns {
  /** Takes the line of an item, whose source is needed no longer; false where lines whose turn it is have not all left: wait for `ready`. */
  add(item: Item, text: string): boolean;
  ready(act: () => void): void;
  /** Resolves when all lines have left. */
  end(): Promise<void>;
}

export interface Leaving {
  /** null: each leaves at once */
  order: InOrder | null;
  emit(text: string): void;
  /** whether the reader takes more without waiting, and what tells when it does again */
  isOpen(): boolean;
  ready(act: () => void): void;
  onBroken: OnBroken;
}

export function inTurns({ order, emit, isOpen, ready, onBroken }: Leaving): Turns {
  let isBehind = false; // lines whose turn it is have not left yet

  function pump(): void {
    isBehind = false;
    for (let left = AT_ONCE; isOpen(); ) {
      const text = order?.next() ?? null;
      if (text === null) return;
      emit(text);
      left -= text.length;
      if (left <= 0) break;
    }
    isBehind = true;
  }
  function caughtUp(act: () => void): void {
    try {
      pump();
    } catch (error) {
      return onBroken(error as Fatal);
    }
    if (!isOpen()) ready(() => caughtUp(act));
    else if (isBehind) setImmediate(caughtUp, act);
    else act();
  }

  return {
    add(item, text) {
      const { row } = item;
      letGo(item);
      if (order === null || !isRow(row)) emit(text);
      else {
        order.add(row, text);
        if (!isBehind) pump();
      }
      return isOpen() && !isBehind;
    },
    ready: caughtUp,
    async end() {
      order?.finish();
      if (order) await new Promise<void>(resolve => caughtUp(resolve));
      order?.close();
    },
  };
}

const isRow = (row: unknown): row is number => Number.isSafeInteger(row) && (row as number) > 0;
