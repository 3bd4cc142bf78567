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

/** ms that a neighbour who is told to end at once has to send its last items */
const LAST_ITEMS = 2_000;
/** ms that the last lines have to leave after a second signal */
const LAST_WORDS = 2_000;

export class Stopping {
  readonly #is: Stoppable;
  readonly #reading = new AbortController();
  readonly #asking = new AbortController();
  readonly #flight = new AbortController();
  readonly #broken = rejectable();
  readonly #hurried = rejectable();
  #isOver = false;
  #calls = 0;
  #drains = false; // what comes through a pipe, until its end
  #timer: NodeJS.Timeout | undefined;
  /** aborted: leave files unread */
  readonly reading: AbortSignal = this.#reading.signal;
  /** aborted: take no further item to ask about */
  readonly asking: AbortSignal = this.#asking.signal;
  /** aborted: abandon what is in flight */
  readonly flight: AbortSignal = this.#flight.signal;
  /** rejects where the run ends at once: it was stopped twice, or its output is broken */
  readonly broken = this.#broken.promise;
  readonly breakOff = this.#broken.reject;
  /** who ends the run before its input does */
  by: Stopper | null = null;
  /** the whole input was read when the run was stopped */
  hadAll = false;

  constructor(stoppable: Stoppable) {
    this.#is = stoppable;
    this.reading.addEventListener('abort', () => {
      this.hadAll = stoppable.account.endedAt !== null;
    });
  }

  readonly stop = (by: Stopper): void => {
    this.#calls += 1;
    if (this.#isOver) void after(LAST_WORDS).then(() => this.#hurried.reject(stoppedBy(by)));
    else if (this.#calls === 1) this.#first(by);
    else this.#again(by);
  };

  /** Reads nothing more and asks nothing more; calls in flight may finish. */
  readonly giveUp = (): void => {
    this.#reading.abort();
    this.#asking.abort();
  };

  /**
   * The flow is over: aborts all three. Calls of `stop` from here on do not kill the process before its files have
   * their names: what is returned rejects LAST_WORDS after the first of them.
   */
  over(): Promise<never> {
    this.#isOver = true;
    this.giveUp();
    this.#flight.abort();
    this.release();
    return this.#hurried.promise;
  }

  release(): void {
    clearTimeout(this.#timer);
  }

  #first(by: Stopper): void {
    const { account, say, grace, atStop, takesItsOwn, readsFile } = this.#is;
    if (takesItsOwn()) this.#asking.abort();
    if (!this.asking.aborted && !readsFile) {
      this.#drains = true;
      this.#reading.abort();
      return say(`${by.name}: reading the rest of the input (again: stop at once)`);
    }
    if (account.read === 0) return this.#endAtOnce(by); // nothing was taken yet, so nothing can finish
    this.by = by;
    this.#reading.abort();
    const words = atStop ?? `calls in flight have ${grace / 1000} s`;
    say(`${by.name}: no new items; ${words} (again: stop at once)`);
    this.#timer = setTimeout(() => this.#flight.abort(), grace);
  }

  #again(by: Stopper): void {
    if (!this.#drains) return this.#endAtOnce(by);
    this.#drains = false;
    this.#timer = setTimeout(() => this.#endAtOnce(by), LAST_ITEMS);
    this.#is.say(
      `${by.name}: reading the rest of the input for ${LAST_ITEMS / 1000} s at most (again: stop at once)`,
    );
  }

  #endAtOnce(by: Stopper): void {
    this.by = by;
    this.#flight.abort();
    this.#broken.reject(stoppedBy(by));
  }
}

const stoppedBy = ({ name, exit }: Stopper): Fatal => new Fatal(exit, `stopped by ${name}`);

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
