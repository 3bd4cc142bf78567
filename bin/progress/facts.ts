/** What a person is shown of a run that asks, put together at each look from the account and the pool's counts. */
import type { Account } from '../../engine/flow/account.ts';
import { RUNGS } from '../../engine/flow/item.ts';
import type { EndpointStats, PoolStats } from '../../engine/pool/stats.ts';
import { type Counts, createEstimate, createRecent, type Eta } from './recent.ts';

export interface Facts {
  /** items that have left, failed ones included */
  done: number;
  /** how many will leave; null where nobody can tell */
  total: number | null;
  inFlight: number;
  /** by code, the most frequent first */
  failed: [code: string, times: number][];
  eta: Eta | null;
  /** ms until all items that are known of have left, at the rate of the last minutes; null where it is too early to say */
  work: number | null;
  /** a second each, over the last seconds */
  rates: Counts;
  retries: number;
  /** null without a ledger */
  replayed: number | null;
  endpoints: readonly EndpointStats[];
}

/** Looks at the run; `now` in ms. Rates are as good as the looks are regular. */
export type Look = (now: number) => Facts;

/** `total` tells how many items are to come out, given how many were left out; null where it is not known. */
export function createLook(
  account: Account,
  stats: () => PoolStats,
  total: (aside: number) => number | null,
): Look {
  const recent = createRecent();
  const estimate = createEstimate();
  return now => {
    const { answered, replayed, retries, usage, endpoints } = stats();
    const done = doneOf(account);
    const { prompt, cached, completion } = usage;
    const busy = performance.eventLoopUtilization().active;
    recent.add(now, { items: done, calls: answered, prompt, cached, completion, busy });
    estimate.add(now, done);
    const counted = total(account.aside);
    // an input that grows has more than was counted
    const known = counted !== null && counted >= account.read - account.aside ? counted : null;
    const rates = recent.rates();
    // the last calls of a run have nothing in common with the rate before
    const moves = known !== null && known > done && rates.items > 0;
    const inFlight = account.read - done - account.aside;
    const eta = estimate.eta(known === null ? inFlight : known - done);
    return {
      done,
      total: known,
      inFlight,
      failed: [...account.failures]
        .map(([code, { times }]): [string, number] => [code, times])
        .sort((a, b) => b[1] - a[1]),
      eta: moves ? eta : null,
      work: eta?.left ?? null,
      rates,
      retries,
      replayed,
      endpoints,
    };
  };
}

export function doneOf({ rungs }: Account): number {
  return RUNGS.reduce((sum, rung) => sum + rungs[rung], 0);
}
