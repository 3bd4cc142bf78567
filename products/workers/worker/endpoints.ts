/**
 * The endpoints of a worker, as far as they decide what it takes: whether one can be asked, and how many workers share it.
 */

import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { isThere } from '../../../engine/asking/pool/pool-stats.ts';
import { timeWords } from '../../../engine/core/item/wording.ts';
import type { Orders, WorkerEndpoint } from '../protocol.ts';

export interface Endpoints {
  readonly mayBeAsked: boolean;
  /** one has been there, since the start */
  readonly wereThere: boolean;
  /** True once when none has been there for so long that what is in hand is better off elsewhere. */
  look(): boolean;
  /** One is there and does not do what it is asked: nothing is taken for a while. False where it rests already. */
  rest(why: string): boolean;
  share(sharing: Orders['sharing']): void;
  /** as the coordinator is told */
  told(): WorkerEndpoint[];
}

interface Options {
  outage: number;
  rest: number;
  say(message: string): void;
}

/** Models that endpoints serve now. */
export const servedBy = (pool: EndpointPool): string[] => [
  ...new Set(pool.stats().endpoints.flatMap(one => (isThere(one) ? one.models : []))),
];

export function createEndpoints(pool: EndpointPool, { outage, rest, say }: Options): Endpoints {
  let lastThere = performance.now();
  let isTold = false;
  let restsUntil = 0;
  let any = pool.stats().endpoints.some(isThere);
  let wereThere = any;
  return {
    get mayBeAsked() {
      return any && performance.now() >= restsUntil;
    },
    get wereThere() {
      return wereThere;
    },
    look() {
      const { endpoints } = pool.stats();
      const now = performance.now();
      any = endpoints.some(isThere);
      wereThere ||= any;
      if (any) {
        if (isTold) say('an endpoint is up again: taking parts');
        isTold = false;
        lastThere = now;
        return false;
      }
      if (isTold || now - lastThere < outage) return false;
      isTold = true;
      const causes = endpoints.map(({ url, cause }) => `${url} (${cause})`).join(', ');
      say(`no endpoint has been up for ${timeWords(outage)}: taking nothing until one is; ${causes}`);
      return true;
    },
    rest(why) {
      const now = performance.now();
      if (now < restsUntil) return false;
      restsUntil = now + rest;
      say(`${why}; returning the parts in hand, and taking none for ${timeWords(rest)}`);
      return true;
    },
    share(sharing) {
      for (const { url } of pool.stats().endpoints) pool.shareLimit(url, Math.max(1, sharing[url] ?? 1));
    },
    told: () =>
      pool.stats().endpoints.map(one => ({
        url: one.url,
        isUp: isThere(one),
        inFlight: one.inFlight,
        limit: one.limit,
      })),
  };
}
