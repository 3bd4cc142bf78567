/**
 * A part of a pool: who asks. A run has a pool of its own, and is its only part. A server has one pool, with a part for
 * each batch and one for its gateway: each has a ledger, an account and an end of its own. Endpoints, places and what is
 * learned of them are shared.
 */
import { type Answer, type AsksWith, type Call, CallFailure, type Pool } from '../../core/item/call.ts';
import type { Fatal } from '../../core/item/failure.ts';
import type { Usage } from '../../core/item/item.ts';
import type { Say } from '../../core/item/say.ts';
import type { Clock, Timing } from '../endpoints/pool-clock.ts';
import type { PoolSettings } from '../endpoints/settings.ts';
import type { OpenWire } from '../endpoints/wire.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { CallRecord } from '../ledger/ledger-format.ts';
import type { Sharing } from './limit.ts';
import type { Membership } from './membership.ts';
import type { Memory } from './memory.ts';
import { createEnding } from './pool-ending.ts';
import type { CallTimes, Endpoint, Part, Share, Sums, Ticket } from './pool-state.ts';
import type { PoolStats } from './pool-stats.ts';
import { createKnownAnswers, recordingOf } from './recording.ts';
import type { Bounds } from './spending.ts';
import type { Telling } from './tell.ts';

export type { Change } from './membership.ts';
export type { KeptEndpoint, Memory } from './memory.ts';
export type { Bounds } from './spending.ts';
export type { Told } from './tell.ts';

/** Everybody has the same share where a pool has one part. */
export const ALONE: Share = { owner: '', batch: '', weight: 1 };

export interface PartOptions {
  /** Answers on record are taken from here, and every try is recorded. */
  ledger?: Ledger | undefined;
  /** what its ledger says that it asks, and requests mean that name none; the pool's own unless given */
  model?: string | undefined;
  share?: Share | undefined;
  /** It never gives up: each call fails alone. For a gateway. */
  lasts?: boolean | undefined;
  /** Told each try of its calls that has ended, with or without an answer, as it goes on record. */
  onTry?: ((record: CallRecord) => void) | undefined;
  /** Called once when this part gives up in the middle of its work: nothing new is to be taken. */
  onGivenUp?: (() => void) | undefined;
}

/** With a ledger, that no endpoint is there ends the run only when a call has to be asked. */
export interface PoolOptions extends PoolSettings, PartOptions {
  /** --wait: how long to wait for a first endpoint, and later for one to come back, in ms */
  wait?: number;
  /** It is that of a server: it begins without endpoints where none is there, and waits for them without an end. */
  lasting?: boolean;
  /** what a run may spend; a server's keys have budgets in its place */
  bounds?: Bounds | null | undefined;
  /** told the time of each answer, in ms */
  onAnswer?: (url: string, latency: number) => void;
  /** told to a person: an endpoint that is gone, a refusal that is news */
  warn: Say;
  /** stops the pool, as `stop` does */
  signal?: AbortSignal;
  /**
   * the models that agents name, and whether one of them names none, and asks for `model`. Where nobody asks for any,
   * requests name their own.
   */
  models?: readonly string[];
  needsDefault?: boolean;
  /** bytes that an answer may have on the wire */
  maxBody?: number;
  /** places at each endpoint that are kept free for live calls, at most half */
  reserve?: number;
  /** ms to the first token of live calls, which batches beside them follow; by what those have alone unless given */
  liveTtft?: number | null | undefined;
  openWire?: OpenWire;
  clock?: Clock;
  timing?: Partial<Timing>;
  random?: () => number;
}

/** What a pool offers those who run it; those who ask see item's Pool alone. */
export interface EndpointPool extends Pool, Telling, Sharing, Memory, Membership {
  /** For the record: what a further stage on this pool asks with. */
  asksWith(asksWith: AsksWith): void;
  /** Ends the run with `fatal`; `why` is what calls are told that are not answered: that the ledger is broken, unless given. */
  giveUp(fatal: Fatal, why?: string): void;
  /** tokens of prompt and answer together, where the servers say */
  readonly maxModelLength: number | undefined;
  /** What ends the run though each item was accounted for: no endpoint, or nothing but refusals. Ask it at the end. */
  verdict(): Fatal | undefined;
  stats(): PoolStats;
  /**
   * A part of this pool, as if it were another one: with a ledger, an account and an end of its own. After `onGivenUp`
   * its calls fail as `interrupted`, so that items in flight come out with what they have, and `verdict` says why.
   */
  part(options: PartOptions): EndpointPool;
  /** Asks for somebody who may go away. */
  ask(call: Call): Asked;
  /** From now on new and waiting calls fail as `interrupted`; those at a server may still finish. */
  stop(): void;
  /** `stop`, and drops the calls at servers too: the servers see it and stop computing. */
  abort(): void;
}

/** A call of somebody who may go away. */
export interface Asked {
  answer: Promise<Answer>;
  /** It fails as `interrupted`, and its server stops computing. */
  cancel(why?: string): void;
  /** ms that it waited until it was first sent; null until then */
  readonly waited: number | null;
}

/** `why` where what was answered could not be put on record. */
export const LEDGER_BROKEN = 'the ledger could not be written';

/** How the message of a call begins that no server took in time; what the servers did follows it. */
export const NO_PLACE = 'no server had a place in time';

/** What a pool offers that is of one part alone. */
export function ofPart({ ledger, ending, times }: Part) {
  const own: Pick<
    EndpointPool,
    'onRecord' | 'stop' | 'abort' | 'judge' | 'asksWith' | 'acceptedBefore' | 'giveUp' | 'verdict'
  > = {
    onRecord: ledger,
    stop: ending.stop,
    abort: ending.abort,
    judge(key, rung, code, mending) {
      times.mending += mending;
      ledger?.judge(key, rung, code);
    },
    asksWith: asksWith => ledger?.stage(asksWith),
    acceptedBefore: asksWith => ledger?.acceptedBefore(asksWith) ?? [],
    giveUp: (fatal, why = LEDGER_BROKEN) => ending.breakOff(fatal, why),
    verdict: ending.verdict,
  };
  return own;
}

/** `failWaiting` fails the calls of a part that wait for a place. */
export function createPart(
  { ledger, model, share = ALONE, lasts = false, onTry, onGivenUp }: PartOptions,
  endpoints: readonly Endpoint[],
  clock: Clock,
  failWaiting: (part: Part, reason: CallFailure) => void,
  salt = 0,
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
    unnamed: model || null,
    share,
    salt,
    known: createKnownAnswers(ledger),
    recording: recordingOf(ledger, clock, { owner: share.owner, onTry }),
    ending: createEnding(running, reason => failWaiting(part, reason), { lasts, onGivenUp }),
    counts,
    times,
    answered({ askedAt, firstSentAt, sentAt }, { usage: used }, now) {
      answered++;
      addUsage(usage, used);
      const first = firstSentAt ?? sentAt;
      times.waiting += first - askedAt;
      times.retrying += sentAt - first;
      times.asking += now - sentAt;
    },
    paid({ counts: { usage: there } }, used) {
      addUsage(usage, used);
      addUsage(there, used);
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

function addUsage(sum: Required<Usage>, { prompt, completion, cached = 0 }: Usage): void {
  sum.prompt += prompt;
  sum.completion += completion;
  sum.cached += cached;
}
