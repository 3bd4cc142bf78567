/**
 * How late this process is itself. A busy loop reads answers late and sends the next calls late, and a process that was
 * stopped reads all of them at once: what servers seem to take then is its own time, and says nothing of them.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

/** ms between the looks of the histogram; its values hold this interval as well. */
const RESOLUTION = 10;
/** How much of what was seen before still counts at each look of the pool, ten times a second. */
const KEPT = 0.8;
/** An answer of which more than this share may be our own time says nothing of its server. */
const OWN_SHARE = 0.1;
/** A call waits for the loop when it is sent and when its answer is read. */
const WAITS = 2;

export interface Lag {
  /** ms that this process was late, over all looks */
  readonly total: number;
  /** At a look that was to come `expected` ms after the last one, and came after `took`. */
  look(took: number, expected: number): void;
  /** Whether a call that took `latency` ms, and was sent when `total` was `then`, tells more of us than of its server. */
  isOurs(latency: number, then: number): boolean;
  close(): void;
}

/** `isReal`: the clock is that of the machine. On one that is injected nobody is late but by its own looks. */
export function createLag(isReal: boolean): Lag {
  const delays: IntervalHistogram | null = isReal ? monitorEventLoopDelay({ resolution: RESOLUTION }) : null;
  delays?.enable();
  let total = 0;
  let mean = 0; // ms that a turn of the loop makes others wait
  return {
    get total() {
      return total;
    },
    look(took, expected) {
      total += Math.max(0, took - expected);
      if (delays === null || delays.count === 0) return;
      mean = KEPT * mean + (1 - KEPT) * Math.max(0, delays.mean / 1e6 - RESOLUTION);
      delays.reset();
    },
    isOurs: (latency, then) => Math.max(total - then, WAITS * mean) > OWN_SHARE * latency,
    close: () => void delays?.disable(),
  };
}
