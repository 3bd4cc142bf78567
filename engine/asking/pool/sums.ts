/** What became of the calls of one who asks, as sums. */
import type { Code } from '../../core/item/codes.ts';
import type { Usage } from '../../core/item/item.ts';

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
