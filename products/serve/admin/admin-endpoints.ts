/** The endpoints of a server, as admins see and drain them. Shared by the API and the page. */
import type { EndpointStats } from '../../../engine/asking/pool/pool-stats.ts';
import { badRequest, kept, notFound } from '../errors.ts';
import type { Parts } from '../server-context.ts';
import type { Actor } from './acts.ts';

type EndpointParts = Pick<Parts, 'pool' | 'endpoints' | 'acts'>;

export function endpointShown(one: EndpointStats, { endpoints }: Pick<Parts, 'endpoints'>) {
  const drained = endpoints.whoDrained(one.url);
  return {
    ...{ url: one.url, object: 'endpoint', state: one.leaving ? 'leaving' : one.state, cause: one.cause },
    ...{ models: one.models, in_flight: one.inFlight, limit: one.limit, limit_is_set: one.pinned },
    ...{ running: one.load?.running ?? null, waiting: one.load?.waiting ?? null },
    drained: drained && { by: drained.by, at: drained.at },
  };
}

export const endpointsShown = (parts: EndpointParts) =>
  parts.pool.stats().endpoints.map(one => endpointShown(one, parts));

/** `act` at an endpoint; returns how it is then. 404 where there is no such endpoint, 400 where it is so already. */
export function turnEndpoint(parts: EndpointParts, actor: Actor, act: 'drain' | 'resume', url: string) {
  const { endpoints, acts } = parts;
  const before = endpointsShown(parts).find(one => one.url === url && one.state !== 'leaving');
  if (before === undefined) throw notFound('No endpoint of this server has this URL.', 'url');
  const isDrained = before.drained !== null;
  if (isDrained === (act === 'drain'))
    throw badRequest(`This endpoint is ${isDrained ? '' : 'not '}drained.`, 'url', 'invalid_status');
  kept(() => (act === 'drain' ? endpoints.drain(url, actor.caller.owner) : endpoints.resume(url)));
  const after = endpointsShown(parts);
  const left = after.filter(({ state }) => state === 'up' || state === 'paused').length;
  const words =
    act === 'drain'
      ? `drained ${url}: its ${before.in_flight} calls finish, nothing new goes there; ${left} of ${after.length} endpoints take calls`
      : `resumed ${url}: it is asked once it answers`;
  acts.note(actor, `endpoint.${act === 'drain' ? 'drained' : 'resumed'}`, words, { target: url });
  return after.find(one => one.url === url) ?? before;
}
