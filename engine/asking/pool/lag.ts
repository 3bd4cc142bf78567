/**
 * How late this process is itself. A busy loop reads answers late and sends the next calls late, and a process that was
 * stopped reads all of them at once: what servers seem to take then is its own time, and says nothing of them.
 */
import type { Clock } from '../endpoints/pool-clock.ts';

/** ms between the looks of the histogram; its values hold this interval as well. */
const RESOLUTION = 10;
/** How much of what was seen before still counts at each look of the pool, ten times a second. */
const KEPT = 0.8;
/** An answer of which more than this share may be our own time says nothing of its server. */
const OWN_SHARE = 0.1;
/** A call waits for the loop when it is sent and when its answer is read. */
const WAITS = 2;

/** Looks are to come every `tick` ms. On a clock that does not say how late its turns are nobody is late but by these. */
export function createLag(clock: Pick<Clock, 'delays' | 'now'>, tick: number) {
  const delays = clock.delays?.(RESOLUTION) ?? null;
  delays?.enable();
  let total = 0;
  let lookedAt = clock.now();
  let mean = 0; // ms that a turn of the loop makes others wait
  // the same since the last look, and when that was worked out: a mean costs 30 µs, an answer not much more
  let recent = 0;
  let workedOutAt = Number.NEGATIVE_INFINITY;

  /** ms that this process was late up to now, with what a look that is due has not seen yet */
  const totalAt = (now: number): number => total + Math.max(0, now - lookedAt - tick);
  /** … and made them wait since the last look: a limit that grows is moved more often than that */
  const lately = (now: number): number => {
    if (now - workedOutAt < RESOLUTION) return recent;
    workedOutAt = now;
    recent = delays === null || delays.count === 0 ? 0 : Math.max(0, delays.mean / 1e6 - RESOLUTION);
    return recent;
  };

  return {
    totalAt,
    /** At a look of the pool. */
    look(now: number): void {
      total = totalAt(now);
      lookedAt = now;
      if (delays === null || delays.count === 0) return;
      mean = KEPT * mean + (1 - KEPT) * lately(now);
      delays.reset();
    },
    /** Whether an answer at `now` to a call that took `latency` ms, and was sent at a total of `then`, tells more of us. */
    isOurs: (latency: number, then: number, now: number): boolean =>
      Math.max(totalAt(now) - then, WAITS * Math.max(mean, lately(now))) > OWN_SHARE * latency,
    close: (): void => delays?.disable(),
  };
}

export type Lag = ReturnType<typeof createLag>;
