/** Which endpoint takes a call: a function of what is known at this moment, and nothing else. */
import { type Endpoint, isUsable, medianLatency, placesOf } from './health.ts';
import { mix, type Ticket } from './ticket.ts';

/**
 * The endpoint that would be done the soonest with what it has and this call, or null where none has a place. Ties are broken by a hash of the item's id and the endpoint, so that rows in a regular order never
 * line up with endpoints. The endpoint that failed a call last is left out while another one may be asked at all, be it
 * full at the moment. `reserved` is left out always.
 */
export function choose(
  endpoints: readonly Endpoint[],
  ticket: Ticket,
  now: number,
  reserved: Endpoint | null = null,
): Endpoint | null {
  let candidates = 0;
  let known = true;
  for (const endpoint of endpoints) {
    if (!mayTake(endpoint, ticket, now) || endpoint === reserved) continue;
    if (endpoint !== ticket.avoid) candidates++;
    if (endpoint.timed === 0) known = false;
  }
  // full now or not, another endpoint is to be asked next time
  const avoid = candidates > 0 ? ticket.avoid : null;
  const isLast = isLastUsable(endpoints, now);
  let best: Endpoint | null = null;
  let bestLoad = Number.POSITIVE_INFINITY;
  let bestTie = 0;
  for (const endpoint of endpoints) {
    if (endpoint === avoid || endpoint === reserved || !mayTake(endpoint, ticket, now)) continue;
    const places = placesOf(endpoint, isLast);
    const outstanding = endpoint.running.length;
    if (outstanding >= places) continue;
    const load = loadOf(endpoint, places, known);
    if (load > bestLoad) continue;
    const tie = mix(ticket.hash ^ endpoint.salt);
    if (load < bestLoad || tie > bestTie) {
      best = endpoint;
      bestLoad = load;
      bestTie = tie;
    }
  }
  return best;
}

/**
 * How long one more call would take here, in ms, or as a share of its places where not all are `known`. By Little's law
 * an endpoint drains its places in the time of an answer.
 */
export function loadOf(endpoint: Endpoint, places: number, known: boolean): number {
  return ((endpoint.running.length + 1) / places) * (known ? Math.max(1, medianLatency(endpoint)) : 1);
}

function mayTake(endpoint: Endpoint, { call }: Ticket, now: number): boolean {
  return isUsable(endpoint, now) && endpoint.models.has(call.model);
}

/** Whether at most one endpoint could be asked now: it is never closed, whatever it does. */
export function isLastUsable(endpoints: readonly Endpoint[], now: number): boolean {
  let usable = 0;
  for (const endpoint of endpoints) if (isUsable(endpoint, now)) usable++;
  return usable <= 1;
}
