/** What a pool is given, and what it offers those who run it; those who ask see flow's Pool alone. */
import type { AsksWith, Pool } from '../flow/call.ts';
import type { Fatal } from '../flow/failure.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock, Timing } from './clock.ts';
import type { PoolSettings } from './endpoints.ts';
import type { PoolStats } from './stats.ts';
import type { OpenWire } from './wire.ts';

export interface PoolOptions extends PoolSettings {
  /**
   * Answers on record are taken from here, and every try is recorded. That no endpoint is there then ends the run only
   * when a call has to be asked.
   */
  ledger?: Ledger;
  /** --wait: how long to wait for a first endpoint, and later for one to come back, in ms */
  wait?: number;
  /** told the time of each answer, in ms */
  onAnswer?: (url: string, latency: number) => void;
  /** told to a person: an endpoint that is gone, a refusal that is news */
  warn: (message: string) => void;
  /**
   * Called once when the pool gives up in the middle of a run: nothing new is to be taken. Every call fails as
   * `interrupted` from then on, so that the items in flight come out with what they have, and `verdict` says why.
   */
  onGivenUp?: () => void;
  /** stops the pool, as `stop` does */
  signal?: AbortSignal;
  /** the models that agents name, and whether one of them names none */
  models?: readonly string[];
  needsDefault?: boolean;
  /** ask the slowest calls twice once nothing waits */
  hedge?: boolean;
  openWire?: OpenWire;
  clock?: Clock;
  timing?: Partial<Timing>;
  random?: () => number;
}

export interface EndpointPool extends Pool {
  /** For the record: what a further stage on this pool asks with. */
  asksWith(asksWith: AsksWith): void;
  /** Ends the run with `fatal`: for who finds that the ledger is broken. */
  giveUp(fatal: Fatal): void;
  /** tokens of prompt and answer together, where the servers say */
  readonly maxModelLength: number | undefined;
  /** What ends the run though each item was accounted for: no endpoint, or nothing but refusals. Ask it at the end. */
  verdict(): Fatal | undefined;
  stats(): PoolStats;
  /** From now on new and waiting calls fail as `interrupted`; those at a server may still finish. */
  stop(): void;
  /** `stop`, and drops the calls at servers too: the servers see it and stop computing. */
  abort(): void;
}
