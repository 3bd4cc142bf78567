/**
 * What is due next: a binary heap whose entries know their place, so that one that is called off leaves at once. Ties
 * go by the number, to be the same in every run.
 */

export interface Entry {
  /** when it is due: a step, or a time */
  at: number;
  /** order of arrival */
  readonly number: number;
  /** where it is in the agenda; −1 outside */
  place: number;
}

const isBefore = (a: Entry, b: Entry) => a.at < b.at || (a.at === b.at && a.number < b.number);

export class Agenda<E extends Entry> {
  readonly #heap: E[] = [];

  get size(): number {
    return this.#heap.length;
  }

  first(): E | undefined {
    return this.#heap[0];
  }

  /** `at` is set by the caller */
  push(entry: E): void {
    this.#up(entry, this.#heap.length);
  }

  remove(entry: E): void {
    const { place } = entry;
    entry.place = -1;
    const last = this.#heap.pop()!;
    if (last === entry) return;
    if (isBefore(last, entry)) this.#up(last, place);
    else this.#down(last, place);
  }

  #up(entry: E, start: number): void {
    let place = start;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!isBefore(entry, this.#heap[parent]!)) break;
      this.#set(this.#heap[parent]!, place);
      place = parent;
    }
    this.#set(entry, place);
  }

  #down(entry: E, start: number): void {
    const heap = this.#heap;
    let place = start;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, entry)) break;
      this.#set(heap[child]!, place);
      place = child;
    }
    this.#set(entry, place);
  }

  #set(entry: E, place: number): void {
    this.#heap[place] = entry;
    entry.place = place;
  }
}
