/** What a pool is made with. */
import type { Clock, Timing } from '../endpoints/pool-clock.ts';
import type { PoolSettings } from '../endpoints/settings.ts';
import type { OpenWire } from '../endpoints/wire.ts';
import type { PartOptions } from './part.ts';

/** With a ledger, that no endpoint is there ends the run only when a call has to be asked. */
export interface PoolOptions extends PoolSettings, PartOptions {
  /** --wait: how long to wait for a first endpoint, and later for one to come back, in ms */
  wait?: number;
  /** It is that of a server: it begins without endpoints where none is there, and waits for them without an end. */
  lasting?: boolean;
  /** told the time of each answer, in ms */
  onAnswer?: (url: string, latency: number) => void;
  /** told to a person: an endpoint that is gone, a refusal that is news */
  warn: (message: string) => void;
  /** stops the pool, as `stop` does */
  signal?: AbortSignal;
  /** the models that agents name, and whether one of them names none */
  models?: readonly string[];
  needsDefault?: boolean;
  /** bytes that an answer may have on the wire */
  maxBody?: number;
  /** places at each endpoint that are kept free for live calls, at most half */
  reserve?: number;
  openWire?: OpenWire;
  clock?: Clock;
  timing?: Partial<Timing>;
  random?: () => number;
}
