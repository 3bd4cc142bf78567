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

export interface Agenda<E extends Entry> {
  readonly size: number;
  /** `at` is set by the caller */
  push(entry: E): void;
  first(): E | undefined;
  remove(entry: E): void;
}

export function createAgenda<E extends Entry>(): Agenda<E> {
  const heap: E[] = [];
  const before = (a: E, b: E) => a.at < b.at || (a.at === b.at && a.number < b.number);
  const set = (entry: E, place: number) => {
    heap[place] = entry;
    entry.place = place;
  };

  function up(entry: E, start: number): void {
    let place = start;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!before(entry, heap[parent]!)) break;
      set(heap[parent]!, place);
      place = parent;
    }
    set(entry, place);
  }

  function down(entry: E, start: number): void {
    let place = start;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, entry)) break;
      set(heap[child]!, place);
      place = child;
    }
    set(entry, place);
  }

  return {
    get size() {
      return heap.length;
    },
    push: entry => up(entry, heap.length),
    first: () => heap[0],
    remove(entry) {
      const { place } = entry;
      entry.place = -1;
      const last = heap.pop()!;
      if (last === entry) return;
      if (before(last, entry)) up(last, place);
      else down(last, place);
    },
  };
}
