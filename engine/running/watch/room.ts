/** Why servers that had room were not given more: for want of items, before the end of the input and after it, or of leave. */

import type { EndpointPool } from '../../asking/pool/part.ts';
import type { Account } from '../../core/item/account.ts';
import { doneOf } from './run-facts.ts';

/** ms each */
export interface Room {
  /** the input had no item ready; it had no more; as many items were in flight as may be */
  starved: number;
  tail: number;
  capped: number;
  /** items that came, where these were all */
  all: number | null;
}

export interface RoomWatch {
  /** regularly, and at the end; `now` in ms */
  look(now: number): void;
  room(): Room;
}

/** Items in flight, of those that may be: waves leave some of them out. */
const FULL = 0.8;

export function watchRoom(account: Account, pool: Pick<EndpointPool, 'stats' | 'itemsInFlight'>): RoomWatch {
  const sums = { starved: 0, tail: 0, capped: 0 };
  let last: { now: number; saturatedMs: number } | null = null;
  return {
    look(now) {
      const { saturatedMs } = pool.stats();
      if (last !== null) {
        // what waited for a place had the servers full
        const free = Math.max(0, now - last.now - (saturatedMs - last.saturatedMs));
        const { endedAt, times } = account;
        const since = endedAt === null ? 0 : Math.min(free, now - endedAt);
        const inFlight = account.read - account.aside - doneOf(account);
        sums.tail += since;
        if (inFlight >= FULL * pool.itemsInFlight) sums.capped += free - since;
        else if (times.blockedSince === null) sums.starved += free - since;
      }
      last = { now, saturatedMs };
    },
    room: () => ({ ...sums, all: account.endedAt === null ? null : account.read - account.aside }),
  };
}
