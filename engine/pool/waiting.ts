/**
 * The one queue of the client. First tries leave in the order they came; a call that is tried again sleeps here,
 * outside any endpoint's places, and goes before the first tries once it is due.
 */
import type { Ticket } from './ticket.ts';

/** How many due retries are offered a place before the first tries are: the rest may all be barred from it too. */
const LOOK = 16;

export interface Waiting {
  readonly size: number;
  push(ticket: Ticket): void;
  /** not before `ticket.notBefore` */
  sleep(ticket: Ticket): void;
  /** moves what is due by `now` to the front */
  wake(now: number): void;
  /** offers tickets in their order until `place` takes no more; it returns whether it took the ticket, and must not offer */
  offer(place: (ticket: Ticket) => boolean): void;
  /** takes everything out */
  empty(): Ticket[];
}

export function createWaiting(): Waiting {
  let first: (Ticket | undefined)[] = [];
  let head = 0;
  let due: Ticket[] = [];
  let asleep: Ticket[] = [];

  function offerDue(place: (ticket: Ticket) => boolean): void {
    let at = 0;
    while (at < due.length && at < LOOK) {
      if (place(due[at] as Ticket)) due.splice(at, 1);
      else at++;
    }
  }

  return {
    get size() {
      return first.length - head + due.length + asleep.length;
    },
    push: ticket => void first.push(ticket),
    sleep: ticket => void asleep.push(ticket),
    wake(now) {
      if (asleep.length === 0) return;
      const stillAsleep: Ticket[] = [];
      for (const ticket of asleep) (ticket.notBefore <= now ? due : stillAsleep).push(ticket);
      asleep = stillAsleep;
    },
    offer(place) {
      if (due.length > 0) offerDue(place);
      while (head < first.length && place(first[head] as Ticket)) {
        first[head++] = undefined;
        // Cut now and then: shifting each time would copy the queue for every call.
        if (head === first.length || (head >= 1024 && head * 2 >= first.length)) {
          first = first.slice(head);
          head = 0;
        }
      }
    },
    empty() {
      const all = [...due, ...asleep, ...(first.slice(head) as Ticket[])];
      [first, due, asleep, head] = [[], [], [], 0];
      return all;
    },
  };
}
