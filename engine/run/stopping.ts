/**
 * How a run is stopped: the first call takes nothing new and gives what is in flight its grace, a second one ends at
 * once. A stage that asks nothing and reads a pipe drains it: its neighbour has been told too, and has last items to
 * send. After a second call it waits for those a moment longer, or they would be lost with what was paid for them.
 */
import { Fatal } from '../item/failure.ts';

/** Who stops a run, for messages, such as SIGINT, and the exit code that it ends with. */
export interface Stopper {
  name: string;
  exit: number;
}

export interface Stoppable {
  stop: AbortController;
  /** Takes no further item to ask about; false where nothing is asked and what comes through a pipe is drained. */
  halt(): boolean;
  quit: AbortController;
  say(message: string): void;
  breakOff(error: Fatal): void;
  /** ms */
  grace: number;
  /** nothing was taken yet, so nothing can finish */
  idle(): boolean;
}

export interface Stopping {
  stop(by: Stopper): void;
  /** who ends the run before its input does */
  readonly by: Stopper | null;
  release(): void;
}

/** ms that a neighbour who is told to end at once has to send its last items */
const LAST_ITEMS = 2_000;

export function stopping(run: Stoppable): Stopping {
  const { stop, halt, quit, say, breakOff, grace, idle } = run;
  let seen = false;
  let drains = false; // what comes through a pipe, until its end
  let ending: Stopper | null = null;
  let timer: NodeJS.Timeout | undefined;
  return {
    get by() {
      return ending;
    },
    stop(by) {
      const again = seen;
      seen = true;
      if (!again && !halt()) {
        drains = true;
        stop.abort();
        return say(`${by.name}: reading the rest of the input (again: stop at once)`);
      }
      const end = (): void => {
        ending = by;
        quit.abort();
        breakOff(new Fatal(by.exit, `stopped by ${by.name}`));
      };
      if (again && drains) {
        drains = false;
        timer = setTimeout(end, LAST_ITEMS);
        return say(`${by.name}: the rest of the input has ${LAST_ITEMS / 1000} s (again: stop at once)`);
      }
      if (again || idle()) return end();
      ending = by;
      stop.abort();
      say(`${by.name}: no new items; calls in flight have ${grace / 1000} s (again: stop at once)`);
      timer = setTimeout(() => quit.abort(), grace);
    },
    release: () => clearTimeout(timer),
  };
}
