/** Time that passes only when everything that is due has been done: hours of a run in seconds, the same each time. */
import type { Clock } from '../../engine/pool/clock.ts';

export interface VirtualClock extends Clock {
  /** Runs `act` at `at`, in milliseconds of this clock; the returned function calls it off. */
  at(at: number, act: () => void): () => void;
  /** Adds something that says itself when it is due, such as an engine. `due` is null while there is nothing. */
  add(source: Source): void;
  /** Lets time pass until `promise` is settled, and settles as it; rejects where nothing is due any more before that. */
  until<T>(promise: Promise<T>): Promise<T>;
}

export interface Source {
  due(): number | null;
  /** Whether anybody was told of anything: then what waits for promises acts before more time passes. */
  advance(now: number): boolean;
}

interface Timer {
  at: number;
  /** those of one moment are run in the order in which they were set */
  number: number;
  act: (() => void) | null;
}

/** `date`: milliseconds since 1970 at the beginning, for headers that name one. */
export function virtualClock(date = 0): VirtualClock {
  const timers: Timer[] = []; // a binary heap
  const sources: Source[] = [];
  let now = 0;
  let set = 0;

  function at(when: number, act: () => void): () => void {
    const timer: Timer = { at: Math.max(when, now), number: set++, act };
    push(timers, timer);
    return () => {
      timer.act = null;
    };
  }

  function next(): number | null {
    while (timers[0]?.act === null) pop(timers);
    let earliest = timers[0]?.at ?? Number.POSITIVE_INFINITY;
    for (const source of sources) earliest = Math.min(earliest, source.due() ?? Number.POSITIVE_INFINITY);
    return Number.isFinite(earliest) ? earliest : null;
  }

  return {
    now: () => now,
    date: () => date + now,
    at,
    add: source => void sources.push(source),
    after: (ms, act) => at(now + ms, act),
    every(ms, act) {
      let callOff = at(now + ms, tick);
      function tick(): void {
        callOff = at(now + ms, tick);
        act();
      }
      return { stop: () => callOff(), hold: () => {} };
    },
    async until(promise) {
      let over = false;
      const end = (): void => {
        over = true;
      };
      promise.then(end, end);
      // what waits for promises acts before the next turn of the event loop
      const acted = (): Promise<void> => new Promise(setImmediate);
      await acted();
      while (!over) {
        const then = next();
        if (then === null)
          throw new Error(`nothing is due after ${now} ms, and what is waited for is not there`);
        now = then;
        let hasActed = false;
        for (const source of sources) {
          if ((source.due() ?? Number.POSITIVE_INFINITY) <= now) hasActed = source.advance(now) || hasActed;
        }
        while (timers[0] !== undefined && timers[0].at <= now) {
          pop(timers)?.act?.();
          hasActed = true;
        }
        if (hasActed) await acted();
      }
      return promise;
    },
  };
}

const isBefore = (a: Timer, b: Timer): boolean => a.at < b.at || (a.at === b.at && a.number < b.number);

function push(heap: Timer[], timer: Timer): void {
  let place = heap.length;
  heap.push(timer);
  while (place > 0) {
    const parent = (place - 1) >> 1;
    if (!isBefore(timer, heap[parent] as Timer)) break;
    heap[place] = heap[parent] as Timer;
    place = parent;
  }
  heap[place] = timer;
}

function pop(heap: Timer[]): Timer | undefined {
  const [first] = heap;
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let place = 0;
  for (;;) {
    let child = 2 * place + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1] as Timer, heap[child] as Timer)) child++;
    if (!isBefore(heap[child] as Timer, last)) break;
    heap[place] = heap[child] as Timer;
    place = child;
  }
  heap[place] = last;
  return first;
}
