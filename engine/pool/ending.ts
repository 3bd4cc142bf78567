/** How a pool ends before its work is done: stopped by a person, aborted, or given up with what a person has to know. */
import { CallFailure } from '../flow/call.ts';
import type { Fatal } from '../flow/failure.ts';
import { type Endpoint, whenDropped } from './health.ts';
import { interruptedBy } from './ticket.ts';

export interface Ending {
  /** what every further call is told; null while the pool works */
  readonly reason: CallFailure | null;
  /** why it was given up */
  readonly verdict: Fatal | undefined;
  /** New and waiting calls fail; those at a server may still finish. */
  stop(): void;
  /** `stop`, and drops the calls at servers too. */
  abort(): void;
  /** Drops what servers hold too: one that no longer answers would hold up the end for its whole timeout. */
  giveUp(fatal: Fatal, why: string): void;
  /** as `giveUp`, and `verdict` says it even where the run was ending anyway */
  breakOff(fatal: Fatal, why: string): void;
  /** Resolves when the calls that an abort dropped have left. */
  settled(): Promise<void>;
}

/** `onEnd` is called once, and fails what waits. */
export function createEnding(
  endpoints: readonly Endpoint[],
  onEnd: (reason: CallFailure) => void,
  onGivenUp: (() => void) | undefined,
): Ending {
  let reason: CallFailure | null = null;
  let verdict: Fatal | undefined;
  let aborted = false;

  function end(why: CallFailure): void {
    if (reason !== null) return;
    reason = why;
    onEnd(why);
  }

  function drop(why: CallFailure): void {
    for (const { running } of endpoints) for (const ticket of running.slice()) ticket.exchange?.abort(why);
  }

  const ending: Ending = {
    get reason() {
      return reason;
    },
    get verdict() {
      return verdict;
    },
    stop: () => end(new CallFailure('interrupted', 'The run was stopped before this call was answered.')),
    abort() {
      aborted = true;
      ending.stop();
      drop(new CallFailure('interrupted', 'The run was stopped while a server worked on this call.'));
    },
    giveUp(fatal, why) {
      if (reason !== null) return;
      verdict ??= fatal;
      const told = interruptedBy(why);
      end(told);
      drop(told);
      onGivenUp?.();
    },
    breakOff(fatal, why) {
      verdict ??= fatal;
      ending.giveUp(fatal, why);
    },
    settled: async () => {
      if (aborted) await whenDropped(endpoints);
    },
  };
  return ending;
}
