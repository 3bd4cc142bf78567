/**
 * Calls that begin something, in lanes: owners take turns, and so do the batches of an owner, each as often as it weighs. So
 * a small batch is not behind a large one, and an owner with twenty batches has no more than one with one. A batch has a lane
 * for each model that it asks, since one whose servers are full must not hold up another. A run alone has one lane for each
 * model. Live calls take turns by who asks them: the gateway is one part, and its clients are the owners.
 *
 * Of the lanes of an owner the one with the least pass is next, and a turn adds 1/weight to it (stride scheduling, after
 * Waldspurger and Weihl, 1995).
 */
import type { Share, Ticket } from './pool-state.ts';

/** A class, since a lane that is empty goes: a run with room has a new one for each item that begins. */
export class Queue {
  #tickets: (Ticket | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#tickets.length - this.#head;
  }

  push(ticket: Ticket): void {
    this.#tickets.push(ticket);
  }

  first(): Ticket | undefined {
    return this.#tickets[this.#head];
  }

  take(): Ticket | undefined {
    const ticket = this.#tickets[this.#head];
    if (ticket === undefined) return undefined;
    this.#tickets[this.#head++] = undefined;
    const { length } = this.#tickets;
    // Cut now and then: shifting each time would copy the queue for every call.
    if (this.#head === length) this.#tickets.length = this.#head = 0;
    else if (this.#head >= 1024 && this.#head * 2 >= length) {
      this.#tickets = this.#tickets.slice(this.#head);
      this.#head = 0;
    }
    return ticket;
  }

  /** Takes out the calls that `isMeant`; the others keep their order. */
  withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
    const out: Ticket[] = [];
    const kept: Ticket[] = [];
    for (const ticket of this.#tickets.slice(this.#head) as Ticket[])
      (isMeant(ticket) ? out : kept).push(ticket);
    this.#tickets = kept;
    this.#head = 0;
    return out;
  }
}

class Lane extends Queue {
  readonly owner: Owner;
  /** of the batch and the model */
  readonly name: string;
  readonly model: string;
  /** its weight may change from one turn to the next */
  readonly share: Share;
  pass: number;

  constructor(owner: Owner, name: string, model: string, share: Share) {
    super();
    this.owner = owner;
    this.name = name;
    this.model = model;
    this.share = share;
    this.pass = owner.pass + this.stride;
  }

  get stride(): number {
    return 1 / this.share.weight;
  }
}

interface Owner {
  readonly name: string;
  /** by name; of lanes with the same pass the first is next */
  lanes: Map<string, Lane>;
  /** the pass of the lane that was served last: new ones begin here */
  pass: number;
}

export function createLanes() {
  /** Maps keep the order of insertion: who has had a turn goes to the end. */
  const owners = new Map<string, Owner>();
  let size = 0;

  function push(ticket: Ticket): void {
    const { share } = ticket.part;
    const { owner: own, batch } = share;
    const { model, caller: whose = own } = ticket.call;
    let owner = owners.get(whose);
    if (owner === undefined) {
      owner = { name: whose, lanes: new Map(), pass: 0 };
      owners.set(whose, owner);
    }
    const name = `${batch}\0${model}`;
    let lane = owner.lanes.get(name);
    if (lane === undefined) {
      lane = new Lane(owner, name, model, share);
      owner.lanes.set(name, lane);
    }
    lane.push(ticket);
    size++;
  }

  /** The next lane whose model has not been turned away; null where there is none. */
  function next(turnedAway: ReadonlySet<string>): Lane | null {
    for (const { lanes } of owners.values()) {
      let first: Lane | null = null;
      for (const lane of lanes.values())
        if (!turnedAway.has(lane.model) && (first === null || lane.pass < first.pass)) first = lane;
      if (first !== null) return first;
    }
    return null;
  }

  /** Takes the first call out of a lane, whose turn it was. */
  function take(lane: Lane): Ticket {
    const ticket = lane.take() as Ticket;
    size--;
    const { owner, name } = lane;
    // one that was turned away for long has not saved up turns
    owner.pass = Math.max(owner.pass, lane.pass);
    lane.pass = owner.pass + lane.stride;
    if (lane.size === 0) owner.lanes.delete(name);
    if (owners.size === 1 && owner.lanes.size > 0) return ticket;
    owners.delete(owner.name);
    if (owner.lanes.size > 0) owners.set(owner.name, owner);
    return ticket;
  }

  return {
    get size(): number {
      return size;
    },
    push,
    /** The call whose turn it is: looked at, and taken out. */
    first: (): Ticket | undefined => next(NONE)?.first(),
    take(): Ticket | undefined {
      const lane = next(NONE);
      return lane === null ? undefined : take(lane);
    },
    /** Offers calls to `place`, in turns, until it has refused one of each model; how many it took. */
    offer(place: (ticket: Ticket) => boolean): number {
      if (size === 0) return 0;
      let turnedAway = NONE;
      let taken = 0;
      for (let lane = next(turnedAway); lane !== null; lane = next(turnedAway)) {
        if (!place(lane.first() as Ticket)) {
          turnedAway = new Set([...turnedAway, lane.model]);
          continue;
        }
        take(lane);
        taken++;
      }
      return taken;
    },
    /** Takes out the calls that `isMeant`. */
    withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
      const out: Ticket[] = [];
      for (const [whose, { lanes }] of owners) {
        for (const [name, lane] of lanes) {
          out.push(...lane.withdraw(isMeant));
          if (lane.size === 0) lanes.delete(name);
        }
        if (lanes.size === 0) owners.delete(whose);
      }
      size -= out.length;
      return out;
    },
  };
}

const NONE: ReadonlySet<string> = new Set();
