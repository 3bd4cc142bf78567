/** What is judged, and what comes of it. */

import type { Said } from '../../asking/endpoints/server-load.ts';
import type { ConcurrencyLevel, EndpointStats } from '../../asking/pool/pool-stats.ts';
import type { Usage } from '../../core/item/item.ts';

export type Limit =
  | 'own-process'
  | 'stopped'
  | 'disk'
  | 'reader'
  | 'no-endpoint'
  | 'between-tries'
  | 'waiting'
  | 'refusals'
  | 'failing'
  | 'kv'
  | 'slots'
  | 'prompts'
  | 'pinned'
  | 'servers'
  | 'input'
  | 'tail'
  | 'few-items'
  | 'in-flight'
  | 'batch'
  | 'computing'
  | 'reading';

export interface Diagnosis {
  limit: Limit;
  text: string;
}

/** What is known of a server over that time. */
export interface Server
  extends Pick<
    EndpointStats,
    'url' | 'state' | 'cause' | 'pausedFor' | 'inFlight' | 'oldest' | 'load' | 'limit' | 'pinned' | 'failed'
  > {
  answered: number;
  /** calls there, and places, on average */
  here: number;
  places: number;
  /** what it said of itself, on average, and counts in all; null where it says nothing */
  said: SaidOf | null;
  /** tokens of its answers; absent in a plan */
  usage?: Usage;
  levels: readonly ConcurrencyLevel[];
}

/** The counts of tokens are absent in a plan, and 0 where a server does not say them. */
export type SaidOf = Pick<Said, 'running' | 'waiting' | 'kv' | 'preemptions'> & Partial<Said>;
