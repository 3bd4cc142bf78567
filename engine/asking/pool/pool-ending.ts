/**
 * What ends a pool before its work is done: a person who stops it, a broken ledger, no endpoint, or nothing but refusals.
 */
import { CallFailure } from '../../core/item/call.ts';
import { type Fatal, unavailable } from '../../core/item/failure.ts';
import type { Exchange } from '../endpoints/wire.ts';

/** Refusals before a run that had no answer is given up in the middle. */
const MIN_REFUSALS = 20;
/** Turns of the event loop in which dropped connections are down, by far. */
const MAX_TURNS = 1_000;

/** `running` are the calls at servers; `onEnd` is called once, and fails what waits; `lasts` is as in PartOptions. */
export function createEnding(
  running: () => readonly { exchange: Exchange | null }[],
  onEnd: (reason: CallFailure) => void,
  { lasts, onGivenUp }: { lasts: boolean; onGivenUp: (() => void) | undefined },
) {
  let reason: CallFailure | null = null;
  let fatal: Fatal | undefined;
  let aborted = false;
  let answered = false;
  let refused = 0;
  let lastRefusal = '';

  function end(why: CallFailure): void {
    if (reason !== null) return;
    reason = why;
    onEnd(why);
  }

  function drop(why: CallFailure): void {
    for (const ticket of running()) ticket.exchange?.abort(why);
  }

  const onlyRefusals = (): Fatal | undefined =>
    answered || refused === 0 ? undefined : noAnswers(refused, lastRefusal);

  const ending = {
    /** what every further call is told; null while the pool works */
    get reason(): CallFailure | null {
      return reason;
    },
    /** New and waiting calls fail; those at a server may still finish. */
    stop: (): void =>
      end(new CallFailure('interrupted', 'The run was stopped before this call was answered.')),
    /** `stop`, and drops the calls at servers too. */
    abort(): void {
      aborted = true;
      ending.stop();
      drop(new CallFailure('interrupted', 'The run was stopped while a server worked on this call.'));
    },
    /** Drops what servers hold too: a server that no longer answers would delay the end by its whole timeout. */
    giveUp(why: Fatal, words: string): void {
      if (reason === null && !lasts) ending.breakOff(why, words);
    },
    /** As `giveUp`, and `verdict` says it even where the run was ending anyway. */
    breakOff(why: Fatal, words: string): void {
      fatal ??= why;
      if (reason !== null) return;
      const told = interruptedBy(words);
      end(told);
      drop(told);
      onGivenUp?.();
    },
    /** New and waiting calls fail; those at a server are paid for, and may finish. `verdict` says why. */
    enough(why: Fatal, words: string): void {
      if (reason !== null) return;
      fatal ??= why;
      end(interruptedBy(words));
      onGivenUp?.();
    },
    /** A model answered: whatever is refused from now on is about single items. */
    noteAnswer(): void {
      answered = true;
    },
    /**
     * A call failed because it was refused. Where enough were refused and none was answered, the fault is not in the
     * items, and the run is given up. `pending` is how many calls have no outcome yet: while those are more than the
     * refused ones, refusals may only be what comes back first.
     */
    noteRefused(url: string, { code, message, response }: CallFailure, pending: number): void {
      if (code !== 'call-refused' || (response && !isOfKey(response.status_code))) {
        answered = true; // the model could have answered a shorter prompt, or another raw request
        return;
      }
      refused++;
      lastRefusal = `${url}: ${message}`;
      const why = refused >= MIN_REFUSALS && refused >= pending ? onlyRefusals() : undefined;
      if (why) ending.giveUp(why, 'every call was refused');
    },
    /** What ends the run though each item was accounted for. At the end a few refusals without any answer are enough. */
    verdict: (): Fatal | undefined => fatal ?? onlyRefusals(),
    /** Resolves when the calls that an abort dropped have left: they are recorded when their connections are down. */
    settled: (): Promise<void> => turnsWhile(() => aborted && running().length > 0),
  };
  return ending;
}

export type Ending = ReturnType<typeof createEnding>;

async function turnsWhile(isOut: () => boolean): Promise<void> {
  for (let turn = 0; isOut() && turn < MAX_TURNS; turn++) await new Promise(setImmediate);
}

function noAnswers(refused: number, last: string): Fatal {
  return unavailable(
    `expected answers, found none: ${refused} of the calls were refused, the last by ${last}\n` +
      'fix what the server complains about, then run again',
  );
}

/** Whether a refusal is of who asks, and not of what is asked. */
export function isOfKey(status: number): boolean {
  return status === 401 || status === 403;
}

/** What a call is told that a run given up did not wait for. */
export function interruptedBy(why: string): CallFailure {
  return new CallFailure('interrupted', `The run was given up before this call was answered: ${why}.`);
}
