/**
 * A part of a pool: who asks. A run has a pool of its own, and is its only part. A server has one pool, with a part for
 * each batch and one for its gateway: each has a ledger, an account and an end of its own. Endpoints, places and what is
 * learned of them are shared.
 */
import { CallFailure } from '../item/call.ts';
import type { Usage } from '../item/item.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from './clock.ts';
import { createEnding } from './ending.ts';
import { createKnownAnswers, recordingOf } from './recording.ts';
import type { CallTimes, Endpoint, Part, Share, Sums, Ticket } from './state.ts';

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

/** `failWaiting` fails the calls of a part that wait for a place. */
export function createPart(
  { ledger, share = ALONE, lasts = false, onGivenUp }: PartOptions,
  endpoints: readonly Endpoint[],
  clock: Clock,
  failWaiting: (part: Part, reason: CallFailure) => void,
): Part {
  const times: CallTimes = { waiting: 0, asking: 0, retrying: 0, writing: 0, mending: 0 };
  const failed: Sums['failed'] = {};
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
      if (code !== undefined) failed[code] = (failed[code] ?? 0) + 1;
      const first = firstSentAt ?? now;
      times.waiting += first - askedAt;
      // nothing was wrong with a call that a stop found at a server
      times[code === 'interrupted' && causes === null ? 'asking' : 'retrying'] += now - first;
    },
    sums: () => ({
      calls: counts.calls,
      replayed: part.known.replayed,
      answered,
      failed: { ...failed },
      retries: counts.retries,
      usage: { ...usage },
      times: { ...times },
      ledger: ledger?.blocked ?? 0,
    }),
  };
  return part;
}
