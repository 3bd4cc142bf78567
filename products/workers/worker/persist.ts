/** Asking again what was not heard. */
import { setTimeout as pause } from 'node:timers/promises';
import { backoff } from '../../../engine/asking/endpoints/pool-clock.ts';
import { Unheard } from './coordinator-client.ts';

export interface Persisting {
  /** aborted: what is not heard by now is thrown */
  signal: AbortSignal;
  /** ms after which what is not heard is thrown; for ever unless given */
  within?: number;
  /** ms between two tries, at first and at most */
  first?: number;
  most?: number;
}

const FIRST = 200;
const MOST = 5_000;

/** Asks until it is heard, or refused. */
export async function persist<T>(
  ask: () => Promise<T>,
  { signal, within = Number.POSITIVE_INFINITY, first = FIRST, most = MOST }: Persisting,
): Promise<T> {
  const begun = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Unheard)) throw error;
      const wait = backoff(tries, first, most, Math.random);
      if (signal.aborted || performance.now() + wait - begun > within) throw error;
      await pause(wait, undefined, { signal }).catch(() => {});
      if (signal.aborted) throw error;
    }
  }
}
