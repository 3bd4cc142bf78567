/** Time that passes only when everything that is due has been done: hours of a run in seconds, the same each time. */
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { Agenda, type Entry } from './event-queue.ts';

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

/** Those of one moment are run in the order in which they were set. */
interface Timer extends Entry {
  act: () => void;
}

/** `date`: milliseconds since 1970 at the beginning, for headers that name one. */
export function virtualClock(date = 0): VirtualClock {
  const timers = new Agenda<Timer>();
  const sources: Source[] = [];
  let now = 0;
  let set = 0;

  function at(when: number, act: () => void): () => void {
    const timer: Timer = { at: Math.max(when, now), number: set++, place: -1, act };
    timers.push(timer);
    return () => {
      if (timer.place >= 0) timers.remove(timer);
    };
  }

  function next(): number | null {
    let earliest = timers.first()?.at ?? Number.POSITIVE_INFINITY;
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
        for (let timer = timers.first(); timer !== undefined && timer.at <= now; timer = timers.first()) {
          timers.remove(timer);
          timer.act();
          hasActed = true;
        }
        if (hasActed) await acted();
      }
      return promise;
    },
  };
}
