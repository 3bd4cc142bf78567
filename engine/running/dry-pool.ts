/** A pool that asks nobody: it answers what is on record, and notes what would be asked. */

import type { Recorded } from '../asking/ledger/ledger.ts';
import { type Call, CallFailure, type Pool } from '../core/item/call.ts';

export interface DryPool extends Pool {
  /** calls that the ledger has answered, and those that it could not */
  readonly replayed: number;
  readonly missed: number;
  /** the first call to each agent that it could not answer; to each URL, of raw requests */
  readonly first: ReadonlyMap<string, Call>;
}

/** A call that is not on record fails as `call-failed`, which no ledger has: who does not read it goes on. */
export function dryPool(model: string, recorded: Recorded | null): DryPool {
  const first = new Map<string, Call>();
  let replayed = 0;
  let missed = 0;
  return {
    model,
    itemsInFlight: 1,
    onRoom() {},
    async call(call) {
      const answer = recorded?.find(call.key, call.model === '' ? model : undefined);
      if (answer) {
        replayed += 1;
        return answer;
      }
      missed += 1;
      if (!first.has(call.agent)) first.set(call.agent, call);
      throw new CallFailure('call-failed', 'It is not on record, and a dry run asks nothing.');
    },
    ...(recorded && { onRecord: recorded }),
    judge() {},
    close: async () => recorded?.close(),
    first,
    get replayed() {
      return replayed;
    },
    get missed() {
      return missed;
    },
  };
}
