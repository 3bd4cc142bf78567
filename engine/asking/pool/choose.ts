/** Which endpoint takes a call: what is known at this moment, and the endpoint that answered its chain last. */
import type { Call } from '../../core/item/call.ts';
import { medianOf } from '../endpoints/pool-clock.ts';
import { MAX_LIMIT } from '../endpoints/settings.ts';
import { isFailing, isLastUsable, isUsable, placesFor, placesOf } from './health.ts';
import { isMuteSoFar } from './mute.ts';
import { type Endpoint, mix, type Ticket } from './pool-state.ts';
import { serves } from './raw.ts';

/**
 * The endpoint that would be done the soonest with what it has and this call, or null where none has a place. Ties are
 * broken by a hash of the item's id and the endpoint, so that rows in a regular order never line up with endpoints. The
 * endpoint that failed a call last is left out while another one may be asked, even if that one is full at the moment; so
 * are those that left it unanswered, and for a call that somebody waits for those that answer nothing so far.
 * `reserved` is always left out.
 */
export function choose(
  endpoints: readonly Endpoint[],
  ticket: Ticket,
  now: number,
  reserved: Endpoint | null = null,
): Endpoint | null {
  const isLast = isLastUsable(endpoints, now);
  let candidates = 0;
  let heard = 0;
  let known = true;
  let open = ticket.call.live !== undefined;
  for (const endpoint of endpoints) {
    if (!mayTake(endpoint, ticket, now, endpoints) || endpoint === reserved) continue;
    if (endpoint !== ticket.avoid) candidates++;
    // the one that is left out for its failure is nobody to ask in the place of those that are silent
    if (endpoint !== ticket.avoid && !isSilentTo(ticket, endpoint)) heard++;
    if (endpoint.latencies.count === 0) known = false;
    if (open && placesFor(endpoint, isLast, ticket.call) < MAX_LIMIT) open = false;
  }
  // full now or not, another endpoint is to be asked next time
  const avoid = candidates > 0 ? ticket.avoid : null;
  let best: Endpoint | null = null;
  let bestLoad = Number.POSITIVE_INFINITY;
  let bestTie = 0;
  for (const endpoint of endpoints) {
    if (endpoint === reserved || !mayTake(endpoint, ticket, now, endpoints)) continue;
    if (endpoint === avoid || (heard > 0 && isSilentTo(ticket, endpoint))) continue;
    const places = placesFor(endpoint, isLast, ticket.call);
    const outstanding = endpoint.running.length;
    if (outstanding >= places) continue;
    // a limit that holds no live call says nothing of what its server can do beside another one
    const usual = ticket.call.live && !open ? placesOf(endpoint, isLast) : places;
    const load = loadOf(endpoint, usual, known);
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
  return ((endpoint.running.length + 1) / places) * (known ? Math.max(1, medianOf(endpoint.latencies)) : 1);
}

function isSilentTo({ call, unanswered }: Ticket, endpoint: Endpoint): boolean {
  return unanswered?.includes(endpoint) === true || (call.live !== undefined && isMuteSoFar(endpoint));
}

function mayTake(endpoint: Endpoint, ticket: Ticket, now: number, all: readonly Endpoint[]): boolean {
  if (!isUsable(endpoint, now) || !serves(endpoint, ticket.call)) return false;
  // what another one has refused may be asked here
  return (
    ticket.refusedAt !== null || !isForOthers(endpoint, ticket.call, { all, now, since: ticket.askedAt })
  );
}

/**
 * Whether an endpoint that is paid by the token leaves a call to those that cost the same however much they do: while one of
 * them that serves its model is up and does not fail. From a time on it helps them: so long after the run began; in a server,
 * once the call has waited so long `since` it was asked.
 */
export function isForOthers(
  { helps }: Endpoint,
  call: Pick<Call, 'model' | 'anywhere'>,
  { all, now, since = now }: { all: readonly Endpoint[]; now: number; since?: number },
): boolean {
  if (helps === null || now - (helps.begun ?? since) >= helps.after) return false;
  return all.some(
    other => other.helps === null && other.state === 'up' && !isFailing(other) && serves(other, call),
  );
}

/** Several times the items that anyone keeps in flight. */
const HOMES = 1 << 16;

/**
 * Where each chain is at home: the endpoint that answered its last call, whose prefix cache may hold what its next one
 * begins with. A table of fixed size: a home that is forgotten costs a preference and nothing else.
 */
export function createHomes(endpoints: readonly Endpoint[]) {
  const hashes = new Uint32Array(HOMES);
  const homes = new Uint16Array(HOMES); // 1 + index; 0 is none
  return {
    /** The home of a chain, by the hash of its item's id (32 bits). */
    of(hash: number): Endpoint | null {
      const at = hash & (HOMES - 1);
      if (hashes[at] !== hash) return null;
      return endpoints[(homes[at] as number) - 1] ?? null;
    },
    note(hash: number, endpoint: Endpoint | undefined): void {
      const at = hash & (HOMES - 1);
      hashes[at] = hash;
      homes[at] = endpoint === undefined ? 0 : endpoints.indexOf(endpoint) + 1;
    },
    /** The endpoint at `index` is taken out: those behind it move up. */
    forget(index: number): void {
      for (let at = 0; at < HOMES; at++) {
        const home = homes[at] as number;
        if (home === index + 1) homes[at] = 0;
        else if (home > index + 1) homes[at] = home - 1;
      }
    },
  };
}
