/** What each key has asked the gateway since the start, for the page: counted, with no text of a request. */
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../access.ts';

export interface KeyTraffic {
  owner: string;
  /** id of the key; null without keys */
  key: string | null;
  requests: number;
  /** answered with a status of 400 or more */
  refused: number;
  /** ms since 1970 */
  last: number;
}

/** Counts requests of routes that are the gateway's; the list is sorted by owner. */
export function countTraffic(app: FastifyInstance, now: () => number): () => KeyTraffic[] {
  const known = new Map<string, KeyTraffic>();
  app.addHook('onResponse', async (request, reply) => {
    const caller: Caller | null = request.caller;
    if (caller === null || request.routeOptions.config.scope !== 'chat') return;
    const { owner, key } = caller;
    const name = key ?? '';
    const traffic = known.get(name) ?? { owner, key, requests: 0, refused: 0, last: 0 };
    traffic.requests += 1;
    if (reply.statusCode >= 400) traffic.refused += 1;
    traffic.last = now();
    known.set(name, traffic);
  });
  return () => [...known.values()].sort((one, other) => (one.owner < other.owner ? -1 : 1));
}
