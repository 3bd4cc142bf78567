/**
 * A part of a pool: who asks. A run has a pool of its own, and is its only part. A server has one pool, with a part for
 * each batch and one for its gateway: each has a ledger, an account and an end of its own. Endpoints, places and what is
 * learned of them are shared.
 */
import { type Answer, CallFailure } from '../item/call.ts';
import type { Code } from '../item/codes.ts';
import type { Usage } from '../item/item.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from './clock.ts';
import { createEnding, type Ending } from './ending.ts';
import { createKnownAnswers, type KnownAnswers, type Recording, recordingOf } from './recording.ts';
import type { Endpoint, Ticket } from './state.ts';

/** Who shares the places with others: owners take turns, and so do the batches of an owner. */
export interface Share {
  owner: string;
  batch: string;
}

/** Everybody has the same share where a pool has one part. */
export const ALONE: Share = { owner: '', batch: '' };

export interface PartOptions {
  /** Answers on record are taken from here, and every try is recorded. */
  ledger?: Ledger | undefined;
  share?: Share | undefined;
  /** It never gives up: each call fails alone. For a gateway. */
  lasts?: boolean | undefined;
  /** Called once when this part gives up in the middle of its work: nothing new is to be taken. */
  onGivenUp?: (() => void) | undefined;
}

/** Where the time of calls went, in ms, over all calls that have ended. */
export interface CallTimes {
  /** from the question until it was first sent: no place was free */
  waiting: number;
  /** at a server, of tries that were answered, and of calls that a stop found there at their first */
  asking: number;
  /** of what was sent again: from the first try to the last one; of what failed, all since the first */
  retrying: number;
  /** until the ledger had an answer */
  writing: number;
  /** what its asker says that it took to find, mend and check the JSON of answers */
  mending: number;
}

/** What a part has asked. */
export interface Sums {
  calls: number;
  /** calls that were answered from the ledger, and are not among the others; null without one */
  replayed: number | null;
  answered: number;
  /** calls that ended without an answer, by the code of their failure */
  failed: Partial<Record<Code, number>>;
  retries: number;
  usage: Required<Usage>;
  times: CallTimes;
  /** ms in which this process waited for writes of the ledger */
  ledger: number;
}

export interface Part {
  readonly ledger: Ledger | undefined;
  readonly share: Share;
  readonly known: KnownAnswers;
  readonly recording: Recording;
  readonly ending: Ending;
  readonly counts: { calls: number; outstanding: number; retries: number };
  readonly times: CallTimes;
  /** `ticket` was answered at `now`, by the try that is under way. */
  answered(ticket: Ticket, answer: Answer, now: number): void;
  /** `ticket` ended without an answer. */
  failed(ticket: Ticket, reason: Error, now: number): void;
  /** A copy, free to keep. */
  sums(): Sums;
}

/** `failWaiting` fails the calls of a part that wait for a place. */
export function createPart(
  { ledger, share = ALONE, lasts = false, onGivenUp }: PartOptions,
  endpoints: readonly Endpoint[],
  clock: Clock,
  failWaiting: (part: Part, reason: CallFailure) => void,
): Part {
  const times: CallTimes = { waiting: 0, asking: 0, retrying: 0, writing: 0, mending: 0 };
  const failed = new Map<Code, number>();
  const usage: Required<Usage> = { prompt: 0, completion: 0, cached: 0 };
  const counts = { calls: 0, outstanding: 0, retries: 0 };
  let answered = 0;
  const running = (): Ticket[] =>
    endpoints.flatMap(endpoint => endpoint.running.filter(ticket => ticket.part === part));
  const part: Part = {
    ledger,
    share,
    known: createKnownAnswers(ledger),
    recording: recordingOf(ledger, clock),
    ending: createEnding(running, reason => failWaiting(part, reason), { lasts, onGivenUp }),
    counts,
    times,
    answered({ askedAt, firstSentAt, sentAt }, { usage: used }, now) {
      answered++;
      usage.prompt += used.prompt;
      usage.completion += used.completion;
      usage.cached += used.cached ?? 0;
      const first = firstSentAt ?? sentAt;
      times.waiting += first - askedAt;
      times.retrying += sentAt - first;
      times.asking += now - sentAt;
    },
    failed({ askedAt, firstSentAt, causes }, reason, now) {
      const code = reason instanceof CallFailure ? reason.code : undefined;
      if (code !== undefined) failed.set(code, (failed.get(code) ?? 0) + 1);
      const first = firstSentAt ?? now;
      times.waiting += first - askedAt;
      // nothing was wrong with a call that a stop found at a server
      times[code === 'interrupted' && causes === null ? 'asking' : 'retrying'] += now - first;
    },
    sums: () => ({
      calls: counts.calls,
      replayed: part.known.replayed,
      answered,
      failed: Object.fromEntries(failed),
      retries: counts.retries,
      usage: { ...usage },
      times: { ...times },
      ledger: ledger?.blocked ?? 0,
    }),
  };
  return part;
}
