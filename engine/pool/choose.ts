/** Which endpoint takes a call: a function of what is known at this moment, and nothing else. */
import { type Endpoint, isUsable } from './health.ts';
import { mix, type Ticket } from './ticket.ts';

/**
 * The endpoint with the least outstanding calls relative to its limit, or null where none has a place. Ties are broken
 * by a hash of the item's id and the endpoint, so that rows in a regular order never line up with endpoints. The
 * endpoint that failed a call last is left out while another one may be asked at all, be it full at the moment.
 */
export function choose(endpoints: readonly Endpoint[], ticket: Ticket, now: number): Endpoint | null {
  let best: Endpoint | null = null;
  let bestLoad = Number.POSITIVE_INFINITY;
  let bestTie = 0;
  let others = false;
  for (let i = 0; i < endpoints.length; i++) {
    const endpoint = endpoints[i] as Endpoint;
    if (!isUsable(endpoint, now) || endpoint === ticket.avoid) continue;
    others = true;
    const outstanding = endpoint.running.length;
    if (outstanding >= endpoint.limit) continue;
    const load = outstanding / endpoint.limit;
    if (load > bestLoad) continue;
    const tie = mix(ticket.hash ^ endpoint.salt);
    if (load < bestLoad || tie > bestTie) {
      best = endpoint;
      bestLoad = load;
      bestTie = tie;
    }
  }
  const { avoid } = ticket;
  if (!others && avoid !== null && isUsable(avoid, now) && avoid.running.length < avoid.limit) return avoid;
  return best;
}
