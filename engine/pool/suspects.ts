/**
 * Calls that kill servers. Who was in flight at the deaths of two endpoints may be the cause of both, and must not be
 * sent to a third one in company: it is tried alone, at an endpoint that has nothing else. One that kills there too is
 * quarantined; all others were only standing by.
 */
import type { Endpoint } from './health.ts';
import type { Ticket } from './ticket.ts';

/** A failed call counts as standing by when its endpoint is found dead within this time, in ms. */
const SOON = 5_000;
/** Deaths of different endpoints after which a call is a suspect. */
const DEATHS = 2;
/** failed calls that are remembered for each endpoint */
const REMEMBERED = 4_096;

export interface Suspects {
  readonly size: number;
  /** no endpoint is kept free, and none has to be */
  readonly idle: boolean;
  /** A call broke off at an endpoint, which may be dead. */
  noteBroken(endpoint: Endpoint, ticket: Ticket, now: number): void;
  /** Lets go of the calls that no death can be told of any more. */
  forget(now: number): void;
  /** The endpoint is dead: who broke off there just now was there. Returns them: they lost a try for nothing. */
  noteDeath(endpoint: Endpoint, now: number): Ticket[];
  /** Takes a call that is to be tried again, if it is a suspect. */
  take(ticket: Ticket): boolean;
  /**
   * The endpoint that is kept free for suspects, `send` being told when it is empty; `usable` are those that may be
   * asked. While it returns an endpoint, nobody else may take a place there.
   */
  next(usable: readonly Endpoint[], send: (ticket: Ticket, endpoint: Endpoint) => void): Endpoint | null;
  /** whether the call is tried alone right now */
  isAlone(ticket: Ticket): boolean;
  /** takes everything out */
  empty(): Ticket[];
}

export function createSuspects(): Suspects {
  const broken = new Map<Endpoint, { ticket: Ticket; at: number }[]>();
  const deaths = new WeakMap<Ticket, Set<Endpoint>>();
  let waiting: Ticket[] = [];
  let reserved: Endpoint | null = null;
  let alone: Ticket | null = null;

  return {
    get size() {
      return waiting.length;
    },
    get idle() {
      return waiting.length === 0 && reserved === null && alone === null;
    },
    noteBroken(endpoint, ticket, now) {
      const recent = broken.get(endpoint) ?? [];
      broken.set(endpoint, recent);
      if (recent.length >= REMEMBERED) recent.shift();
      recent.push({ ticket, at: now });
    },
    forget(now) {
      for (const [endpoint, recent] of broken) {
        const from = recent.findIndex(({ at }) => now - at <= SOON);
        if (from < 0) broken.delete(endpoint);
        else if (from > 0) recent.splice(0, from);
      }
    },
    noteDeath(endpoint, now) {
      const there = (broken.get(endpoint) ?? []).filter(({ at }) => now - at <= SOON);
      broken.delete(endpoint);
      for (const { ticket } of there) {
        const where = deaths.get(ticket) ?? new Set();
        deaths.set(ticket, where.add(endpoint));
      }
      return there.map(({ ticket }) => ticket);
    },
    take(ticket) {
      if ((deaths.get(ticket)?.size ?? 0) < DEATHS) return false;
      waiting.push(ticket);
      return true;
    },
    next(usable, send) {
      if (alone !== null && alone.at === null) alone = null;
      if (alone !== null) return alone.at;
      if (waiting.length === 0) {
        reserved = null;
        return null;
      }
      // the one with the least to finish is free the soonest
      if (reserved === null || !usable.includes(reserved)) {
        reserved = usable.reduce<Endpoint | null>(
          (least, one) => (least === null || one.running.length < least.running.length ? one : least),
          null,
        );
      }
      if (reserved !== null && reserved.running.length === 0) {
        alone = waiting.shift() as Ticket;
        send(alone, reserved);
      }
      return reserved;
    },
    isAlone: ticket => ticket === alone,
    empty() {
      const all = waiting;
      waiting = [];
      return all;
    },
  };
}
