/**
 * The one queue of the client, in three parts. Calls that are tried again sleep here, outside any endpoint's places, and
 * go first once they are due. Then the later calls of chains, each at the endpoint where its chain is at home; then the
 * first calls of new chains, in the order they came: a chain that has begun is finished before another one is begun.
 */
import type { Endpoint } from './health.ts';
import type { Ticket } from './ticket.ts';

/** How many due retries are offered a place before the others are: the rest may all be barred from it too. */
const LOOK = 16;

export interface Waiting {
  readonly size: number;
  /** how many of them sleep */
  readonly asleep: number;
  /** a call whose chain is at home at `ticket.home`, or that begins one */
  push(ticket: Ticket): void;
  /** not before `ticket.notBefore` */
  sleep(ticket: Ticket): void;
  /** moves what is due by `now` to the front */
  wake(now: number): void;
  /** offers due retries to `place`, which returns whether it took the ticket, and must not offer */
  offerDue(place: (ticket: Ticket) => boolean): void;
  /** how many wait for `home` */
  atHome(home: Endpoint): number;
  /** the one that waits longest for `home`: looked at, and taken out */
  peekAtHome(home: Endpoint): Ticket | undefined;
  takeAtHome(home: Endpoint): Ticket | undefined;
  /** the first calls of new chains, while `place` takes them */
  offerNew(place: (ticket: Ticket) => boolean): void;
  /** takes everything out */
  empty(): Ticket[];
}

export function createWaiting(): Waiting {
  const fresh = createQueue();
  const homes = new Map<Endpoint, Queue>();
  let due: Ticket[] = [];
  let asleep: Ticket[] = [];

  return {
    get size() {
      let size = fresh.size + due.length + asleep.length;
      for (const queue of homes.values()) size += queue.size;
      return size;
    },
    get asleep() {
      return asleep.length;
    },
    push(ticket) {
      if (ticket.home === null) return fresh.push(ticket);
      let queue = homes.get(ticket.home);
      if (queue === undefined) {
        queue = createQueue();
        homes.set(ticket.home, queue);
      }
      queue.push(ticket);
    },
    sleep: ticket => void asleep.push(ticket),
    wake(now) {
      if (asleep.length === 0) return;
      const stillAsleep: Ticket[] = [];
      for (const ticket of asleep) (ticket.notBefore <= now ? due : stillAsleep).push(ticket);
      asleep = stillAsleep;
    },
    offerDue(place) {
      let at = 0;
      while (at < due.length && at < LOOK) {
        if (place(due[at] as Ticket)) due.splice(at, 1);
        else at++;
      }
    },
    atHome: home => homes.get(home)?.size ?? 0,
    peekAtHome: home => homes.get(home)?.first(),
    takeAtHome: home => homes.get(home)?.take(),
    offerNew(place) {
      for (let first = fresh.first(); first !== undefined && place(first); first = fresh.first())
        fresh.take();
    },
    empty() {
      const all = [...due, ...asleep];
      for (const queue of [...homes.values(), fresh]) all.push(...queue.empty());
      [due, asleep] = [[], []];
      return all;
    },
  };
}

interface Queue {
  readonly size: number;
  push(ticket: Ticket): void;
  first(): Ticket | undefined;
  take(): Ticket | undefined;
  empty(): Ticket[];
}

function createQueue(): Queue {
  let tickets: (Ticket | undefined)[] = [];
  let head = 0;
  return {
    get size() {
      return tickets.length - head;
    },
    push: ticket => void tickets.push(ticket),
    first: () => tickets[head],
    take() {
      const ticket = tickets[head];
      if (ticket === undefined) return undefined;
      tickets[head++] = undefined;
      // Cut now and then: shifting each time would copy the queue for every call.
      if (head === tickets.length || (head >= 1024 && head * 2 >= tickets.length)) {
        tickets = tickets.slice(head);
        head = 0;
      }
      return ticket;
    },
    empty() {
      const rest = tickets.slice(head) as Ticket[];
      [tickets, head] = [[], 0];
      return rest;
    },
  };
}
