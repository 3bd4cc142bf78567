/**
 * --hedge: when nothing waits any more and a few calls hold up the end, each of the slowest is asked at another endpoint
 * too. The first of the two to answer is the answer, which favours short answers: hence off unless asked for.
 */
import { CallFailure } from '../flow/call.ts';
import { choose } from './choose.ts';
import { type Endpoint, medianLatency } from './health.ts';
import type { Ticket } from './ticket.ts';

/** A call that takes so many times the median of the fastest endpoint is slow. */
const SLOW = 3;

export interface Hedges {
  /** Sends twins of the slowest calls to endpoints that have room. */
  sweep(now: number): void;
  /** Whether what became of `ticket` does not matter, since its twin goes on; after an answer the twin is dropped. */
  leftToTwin(ticket: Ticket, answered: boolean): boolean;
}

export function createHedges(
  on: boolean,
  endpoints: readonly Endpoint[],
  send: (ticket: Ticket, endpoint: Endpoint, now: number) => void,
): Hedges {
  return {
    sweep(now) {
      if (!on) return;
      const known = endpoints.filter(({ timed }) => timed > 0).map(medianLatency);
      const slow = SLOW * Math.min(...known); // nothing is known: infinite
      for (const endpoint of endpoints) {
        // a copy, since a twin that fails on the spot changes what runs
        for (const ticket of endpoint.running.slice()) {
          if (ticket.twin !== null || now - ticket.sentAt <= slow) continue;
          const other = choose(endpoints, ticket, now, endpoint);
          if (other === null) return;
          const twin: Ticket = { ...ticket, at: null, exchange: null, twin: ticket };
          ticket.twin = twin;
          send(twin, other, now);
        }
      }
    },
    leftToTwin(ticket, answered) {
      const { twin } = ticket;
      if (twin === null) return false;
      ticket.twin = null;
      twin.twin = null;
      if (answered) {
        twin.over = true;
        twin.exchange?.abort(new CallFailure('interrupted', TOO_LATE));
      }
      return true;
    },
  };
}

const TOO_LATE = 'Another endpoint answered the same call first.';
