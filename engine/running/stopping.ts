/**
 * How a run is stopped: the first call takes nothing new and gives what is in flight its grace, a second one ends at
 * once. A stage that asks nothing and reads a pipe drains it: its neighbour has been told too, and has last items to
 * send. After a second call it waits for those a moment longer, or they would be lost with what was paid for them.
 */
import type { Account } from '../core/item/account.ts';
import { Fatal } from '../core/item/failure.ts';

/** Who stops a run, for messages, such as SIGINT, and the exit code that it ends with. */
export interface Stopper {
  name: string;
  exit: number;
}

interface Stoppable {
  account: Account;
  say(message: string): void;
  /** ms for the calls in flight */
  grace: number;
  /** what becomes of them, where that is not up to this process */
  atStop?: string | undefined;
  /** models are asked, or the items are made here: nothing new is taken, and nothing drained */
  takesItsOwn(): boolean;
  /** the input is a file, so its rest may stay unread */
  readsFile: boolean;
}

export interface Stopping {
  /** aborted: leave files unread */
  reading: AbortSignal;
  /** aborted: take no further item to ask about */
  asking: AbortSignal;
  /** aborted: abandon what is in flight */
  flight: AbortSignal;
  /** rejects where the run ends at once: it was stopped twice, or its output is broken */
  broken: Promise<never>;
  breakOff(error: Fatal): void;
  stop(by: Stopper): void;
  /** who ends the run before its input does */
  readonly by: Stopper | null;
  /** the whole input was read when the run was stopped */
  readonly hadAll: boolean;
  /** Reads nothing more and asks nothing more; calls in flight may finish. */
  giveUp(): void;
  /**
   * The flow is over: aborts all three. Calls of `stop` from here on do not kill the process before its files have
   * their names: what is returned rejects LAST_WORDS after the first of them.
   */
  over(): Promise<never>;
  release(): void;
}

/** ms that a neighbour who is told to end at once has to send its last items */
const LAST_ITEMS = 2_000;
/** ms that the last lines have to leave after a second signal */
const LAST_WORDS = 2_000;

export function createStopping({ account, say, grace, atStop, takesItsOwn, readsFile }: Stoppable): Stopping {
  const reading = new AbortController();
  const asking = new AbortController();
  const flight = new AbortController();
  let hadAll = false;
  reading.signal.addEventListener('abort', () => {
    hadAll = account.endedAt !== null;
  });
  const broken = rejectable();
  const hurried = rejectable();

  let isOver = false;
  let calls = 0;
  let drains = false; // what comes through a pipe, until its end
  let ending: Stopper | null = null;
  let timer: NodeJS.Timeout | undefined;
  const endAtOnce = (by: Stopper): void => {
    ending = by;
    flight.abort();
    broken.reject(new Fatal(by.exit, `stopped by ${by.name}`));
  };
  const first = (by: Stopper): void => {
    if (takesItsOwn()) asking.abort();
    if (!asking.signal.aborted && !readsFile) {
      drains = true;
      reading.abort();
      return say(`${by.name}: reading the rest of the input (again: stop at once)`);
    }
    if (account.read === 0) return endAtOnce(by); // nothing was taken yet, so nothing can finish
    ending = by;
    reading.abort();
    const words = atStop ?? `calls in flight have ${grace / 1000} s`;
    say(`${by.name}: no new items; ${words} (again: stop at once)`);
    timer = setTimeout(() => flight.abort(), grace);
  };
  const again = (by: Stopper): void => {
    if (!drains) return endAtOnce(by);
    drains = false;
    timer = setTimeout(endAtOnce, LAST_ITEMS, by);
    say(`${by.name}: reading the rest of the input for ${LAST_ITEMS / 1000} s at most (again: stop at once)`);
  };
  const giveUp = (): void => {
    reading.abort();
    asking.abort();
  };
  return {
    reading: reading.signal,
    asking: asking.signal,
    flight: flight.signal,
    broken: broken.promise,
    breakOff: broken.reject,
    get by() {
      return ending;
    },
    get hadAll() {
      return hadAll;
    },
    stop(by) {
      calls += 1;
      if (isOver)
        void after(LAST_WORDS).then(() => hurried.reject(new Fatal(by.exit, `stopped by ${by.name}`)));
      else if (calls === 1) first(by);
      else again(by);
    },
    giveUp,
    over() {
      isOver = true;
      giveUp();
      flight.abort();
      clearTimeout(timer);
      return hurried.promise;
    },
    release: () => clearTimeout(timer),
  };
}

/** Resolves when the last lines have had their time after a second signal. */
export const lastWords = (): Promise<void> => after(LAST_WORDS);

function after(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms).unref());
}

/** A promise that is only raced: what rejects it when nobody waits for it any more is no bug. */
function rejectable(): { promise: Promise<never>; reject(error: Fatal): void } {
  let reject: (error: Fatal) => void = () => {};
  const promise = new Promise<never>((_resolve, refuse) => {
    reject = refuse;
  });
  promise.catch(() => {});
  return { promise, reject: error => reject(error) };
}
