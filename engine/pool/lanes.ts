/**
 * Calls that begin something, in lanes: owners take turns, and so do the batches of an owner. So a small batch is not
 * behind a large one, and an owner with twenty batches has no more than one with one. A batch has a lane for each model
 * that it asks, since one whose servers are full must not hold up another. A run alone has one lane for each model.
 */
import type { Ticket } from './state.ts';

interface Lane extends Queue {
  readonly model: string;
}

type LanesOf = Map<string, Lane>;

export function createLanes() {
  /** Maps keep the order of insertion: who has had a turn goes to the end. */
  const owners = new Map<string, LanesOf>();
  let size = 0;

  function push(ticket: Ticket): void {
    const { owner, batch } = ticket.part.share;
    const { model } = ticket.call;
    let lanes = owners.get(owner);
    if (lanes === undefined) {
      lanes = new Map();
      owners.set(owner, lanes);
    }
    const name = `${batch}\0${model}`;
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = Object.assign(createQueue(), { model });
      lanes.set(name, lane);
    }
    lane.push(ticket);
    size++;
  }

  /** The next lane whose model has not been turned away, and whose it is; null where there is none. */
  function next(turnedAway: ReadonlySet<string>): { owner: string; name: string; lane: Lane } | null {
    for (const [owner, lanes] of owners) {
      for (const [name, lane] of lanes) if (!turnedAway.has(lane.model)) return { owner, name, lane };
    }
    return null;
  }

  function toTheEnd<V>(map: Map<string, V>, key: string): void {
    if (map.size < 2) return;
    const value = map.get(key) as V;
    map.delete(key);
    map.set(key, value);
  }

  return {
    get size(): number {
      return size;
    },
    push,
    /** Offers calls to `place`, in turns, until it has refused one of each model; how many it took. */
    offer(place: (ticket: Ticket) => boolean): number {
      if (size === 0) return 0;
      const turnedAway = new Set<string>();
      let taken = 0;
      for (let turn = next(turnedAway); turn !== null; turn = next(turnedAway)) {
        const { owner, name, lane } = turn;
        if (!place(lane.first() as Ticket)) {
          turnedAway.add(lane.model);
          continue;
        }
        lane.take();
        size--;
        taken++;
        const lanes = owners.get(owner) as LanesOf;
        if (lane.size > 0) toTheEnd(lanes, name);
        else lanes.delete(name);
        if (lanes.size > 0) toTheEnd(owners, owner);
        else owners.delete(owner);
      }
      return taken;
    },
    /** Takes out the calls that `isMeant`. */
    withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
      const out: Ticket[] = [];
      for (const [owner, lanes] of owners) {
        for (const [name, lane] of lanes) {
          out.push(...lane.withdraw(isMeant));
          if (lane.size === 0) lanes.delete(name);
        }
        if (lanes.size === 0) owners.delete(owner);
      }
      size -= out.length;
      return out;
    },
  };
}

export interface Queue {
  readonly size: number;
  push(ticket: Ticket): void;
  first(): Ticket | undefined;
  take(): Ticket | undefined;
  /** Takes out the calls that `isMeant`; the others keep their order. */
  withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[];
}

export function createQueue(): Queue {
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
    withdraw(isMeant) {
      const out: Ticket[] = [];
      const kept: Ticket[] = [];
      for (const ticket of tickets.slice(head) as Ticket[]) (isMeant(ticket) ? out : kept).push(ticket);
      [tickets, head] = [kept, 0];
      return out;
    },
  };
}
