/** A clock that stands still until a test moves it. */
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';

export interface ManualClock extends Clock {
  /** lets `ms` pass in steps of `step`, running what falls due */
  pass(ms: number, step?: number): void;
  /** timers that wait */
  readonly timers: number;
  held: boolean;
  /**
   * Lets a little time pass with each turn of the event loop until `done` is settled: servers and client share the loop,
   * so that real sockets keep up however busy the machine is.
   */
  turning<T>(done: Promise<T>): Promise<T>;
}

/** ms; an exchange over a real socket takes some turns */
const TURN = 4;
const MOST_TURNS = 1_000_000;

export function manualClock(): ManualClock {
  let now = 1_000;
  const timers = new Set<{ at: number; every: number; run: () => void }>();
  const add = (ms: number, every: number, run: () => void) => {
    const timer = { at: now + ms, every, run };
    timers.add(timer);
    return () => void timers.delete(timer);
  };
  const hold = (on: boolean) => {
    clock.held = on;
  };
  const clock: ManualClock = {
    now: () => now,
    date: () => Date.UTC(2026, 0, 1) + now,
    every: (ms, run) => ({ stop: add(ms, ms, run), hold: on => hold(on) }),
    after: (ms, run) => add(ms, 0, run),
    pass(ms, step = 500) {
      for (const end = now + ms; now < end; ) {
        now = Math.min(end, now + step);
        for (const timer of [...timers]) {
          if (timer.at > now || !timers.has(timer)) continue;
          if (timer.every > 0) timer.at = now + timer.every;
          else timers.delete(timer);
          timer.run();
        }
      }
    },
    get timers() {
      return timers.size;
    },
    held: false,
    async turning(done) {
      let over = false;
      const settled = done.finally(() => {
        over = true;
      });
      settled.catch(() => {}); // it is returned below
      for (let turn = 0; !over; turn++) {
        if (turn > MOST_TURNS)
          throw new Error(`not settled after ${(MOST_TURNS * TURN) / 1000} s of this clock`);
        await new Promise(setImmediate);
        clock.pass(TURN, TURN);
      }
      return settled;
    },
  };
  return clock;
}
