/**
 * The queue of calls: who goes next, and where. It is here and not on the servers, since a request that waits there cannot
 * be moved. Live calls go first, since somebody waits for them. Calls that are tried again sleep here, outside any
 * endpoint's places, and go next once they are due. Then the later calls of chains, each at the endpoint where its chain is at home, or elsewhere where the home is far behind.
 * Then the first calls of new chains, wherever they would be done the soonest: a chain that has begun is finished before
 * another one is begun. Places are taken with a call in hand.
 *
 * Chains of one row (its orderings) ask each agent about the same prompt, so that they have one home: where the first of
 * them was sent. They leave it only for an endpoint that would have nothing to do otherwise, new rows among it.
 */

import type { Call, Placing } from '../../core/item/call.ts';
import { sockets } from '../endpoints/wire.ts';
import { choose, createHomes, isForOthers, loadOf } from './choose.ts';
import { isLastUsable, isUsable, placesFor, placesOf } from './health.ts';
import { createLanes, Queue } from './lanes.ts';
import type { Suspects } from './outage.ts';
import { type Endpoint, hashOf, type Ticket } from './pool-state.ts';
import { serves } from './raw.ts';

/**
 * A chain leaves its home when another endpoint has room and would be done so many times sooner. Below that, the prefix
 * cache at home is worth the wait.
 */
const FAR_BEHIND = 1.5;
/**
 * As many new chains as there are places wait here while there is more input. Fewer than this share of them are the last
 * of it. These begin before others continue, since a chain that begins last is alone in the end, call by call.
 */
const LAST_CHAINS_SHARE = 0.75;

/** As many calls are under way as there may be connections: endpoints may have room, but this process has none. */
const isFull = (): boolean => sockets.busy >= sockets.most;

export class Dispatch {
  readonly #endpoints: readonly Endpoint[];
  readonly #suspects: Suspects;
  readonly #send: (ticket: Ticket, endpoint: Endpoint, now: number) => void;
  readonly #waiting = createWaiting();
  readonly #homes: ReturnType<typeof createHomes>;
  #pumping = false;
  // What one round goes by. These are no locals of it, since a round is run for every call and every answer.
  #at = 0;
  #reserved: Endpoint | null = null;

  constructor(
    endpoints: readonly Endpoint[],
    suspects: Suspects,
    send: (ticket: Ticket, endpoint: Endpoint, now: number) => void,
  ) {
    this.#endpoints = endpoints;
    this.#suspects = suspects;
    this.#send = send;
    this.#homes = createHomes(endpoints);
  }

  /** calls that wait for a place, and of these those that do not sleep until they are tried again */
  get waiting(): number {
    return this.#waiting.size + this.#suspects.size;
  }

  get awake(): number {
    return this.waiting - this.#waiting.asleep;
  }

  /** Where items of a part are to be asked that are still to come, by what begins alike. */
  placing(salt: number): Placing {
    const endpoints = this.#endpoints;
    const serve = (endpoint: Endpoint | undefined, model: string): boolean => {
      const call = { model, ...(model === '' && { anywhere: true as const }) };
      return endpoint !== undefined && serves(endpoint, call) && !this.#isForOthers(endpoint, call);
    };
    return {
      servedBy: model => endpoints.filter(endpoint => serve(endpoint, model)).length,
      serves: (at, model) => serve(endpoints[at], model),
      isUp: at => endpoints[at]?.state === 'up',
      inHand: at => this.#inHand(endpoints[at]),
      hungriest: may => this.#hungriest(may),
      settle: (name, at) => this.#homes.note((hashOf(name) ^ salt) >>> 0, endpoints[at]),
    };
  }

  /** of an endpoint that is gone: nothing */
  #inHand(endpoint: Endpoint | undefined): number {
    if (endpoint === undefined) return 0;
    return endpoint.running.length + this.#waiting.atHome(endpoint);
  }

  #hungriest(may: (endpoint: number) => boolean): number | null {
    let best: number | null = null;
    let least = Number.POSITIVE_INFINITY;
    for (let at = 0; at < this.#endpoints.length; at++) {
      const endpoint = this.#endpoints[at] as Endpoint;
      if (endpoint.state !== 'up') continue;
      const load = this.#inHand(endpoint) / placesOf(endpoint, false);
      if (load >= least || endpoint.isShut || !may(at)) continue;
      best = at;
      least = load;
    }
    return best;
  }

  push(ticket: Ticket): void {
    if (ticket.call.live) return this.#waiting.pushLive(ticket);
    ticket.home = this.#homeOf(ticket);
    this.#waiting.push(ticket);
  }

  /** Tried again, not before `ticket.notBefore`. */
  sleep(ticket: Ticket): void {
    this.#waiting.sleep(ticket);
  }

  wake(now: number): void {
    this.#waiting.wake(now);
  }

  /** Gives places to whoever may have one. */
  pump(now: number): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      if (this.waiting > 0) this.#give(now);
    } finally {
      this.#pumping = false;
    }
  }

  /** A chain is at home where it was answered last; a row stays where it is. */
  noteHome({ hash, call }: Ticket, endpoint: Endpoint): void {
    if (call.row === undefined && !call.raw) this.#homes.note(hash, endpoint);
  }

  /** Nothing new goes to this endpoint: what waits there waits elsewhere. */
  leaveHome(endpoint: Endpoint): void {
    for (const ticket of this.#waiting.leave(endpoint)) this.push(ticket);
  }

  /** It is taken out of the endpoints, where it was at `at`. */
  forget(at: number): void {
    this.#homes.forget(at);
  }

  /** Whether a call waits that `isMeant`. */
  has(isMeant: (ticket: Ticket) => boolean): boolean {
    let found = false;
    // they all stay
    this.withdraw(ticket => {
      found ||= isMeant(ticket);
      return false;
    });
    return found;
  }

  /** Takes out the calls that `isMeant`. */
  withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
    return [...this.#waiting.withdraw(isMeant), ...this.#suspects.withdraw(isMeant)];
  }

  #give(now: number): void {
    this.#at = now;
    this.#reserved = this.#suspects.idle
      ? null
      : this.#suspects.next(
          this.#endpoints.filter(endpoint => isUsable(endpoint, now)),
          (ticket, endpoint) => this.#send(ticket, endpoint, now),
        );
    this.#waiting.offerLive(this.#place);
    this.#waiting.offerDue(this.#placeDue);
    if (this.#waiting.siblings > 0) this.#waiting.offerNew(this.#placeBeside);
    const isEnding = this.#waiting.fresh < LAST_CHAINS_SHARE * this.#placesOfAll();
    if (isEnding) {
      this.#waiting.offerNew(this.#placeNew);
      this.#goOn(now, 'new');
    }
    this.#goOn(now, 'later');
    this.#goOn(now, 'new');
    if (this.#waiting.offerNew(this.#placeNew) > 0) this.#goOn(now, 'new');
    // a place that is left has nobody of its own: now it may take the calls of rows that are at home elsewhere
    this.#goOn(now, 'later', true);
    this.#goOn(now, 'new', true);
  }

  /** Calls whose chain, or row, is at home somewhere: later calls of chains, or the first ones of new chains. */
  #goOn(now: number, which: 'later' | 'new', mayLeave = false): void {
    const isLast = isLastUsable(this.#endpoints, now);
    for (const home of this.#endpoints) {
      for (;;) {
        const ticket = isFull() ? undefined : this.#waiting.peekAtHome(home, which);
        if (ticket === undefined) break;
        const other = choose(this.#endpoints, ticket, now, this.#reserved);
        const stays = this.#hasRoom(home, isLast, now);
        if (other === null && !stays) break;
        const leaves =
          (mayLeave || (which === 'later' && ticket.call.row === undefined)) &&
          other !== null &&
          other !== home &&
          this.#isFarBehind(home, other, isLast, now);
        if (!stays && !leaves) break;
        this.#waiting.takeAtHome(home, which);
        this.#depart(ticket, leaves ? other : home);
      }
    }
  }

  #isFarBehind(home: Endpoint, other: Endpoint, isLast: boolean, now: number): boolean {
    if (!isUsable(home, now)) return true;
    const known = home.latencies.count > 0 && other.latencies.count > 0;
    const there = placesOf(other, isLast);
    // a limit that still grows says nothing of what its server can do beside another one
    const here = Math.max(placesOf(home, isLast), home.learner.phase === 'grow' ? there : 0);
    const wait = 1 + this.#waiting.atHome(home) / here;
    return wait * loadOf(home, here, known) > FAR_BEHIND * loadOf(other, there, known);
  }

  #hasRoom(endpoint: Endpoint, isLast: boolean, now: number): boolean {
    if (endpoint === this.#reserved || !isUsable(endpoint, now)) return false;
    return endpoint.running.length < placesFor(endpoint, isLast, BATCH);
  }

  #placesOfAll(): number {
    let places = 0;
    for (const { limit } of this.#endpoints) places += limit;
    return places;
  }

  readonly #place = (ticket: Ticket): boolean => {
    if (isFull()) return false;
    const endpoint = choose(this.#endpoints, ticket, this.#at, this.#reserved);
    if (endpoint !== null) this.#depart(ticket, endpoint);
    return endpoint !== null;
  };

  /**
   * Calls at home go before those that have none. So that a batch of which nothing begins alike has its turns beside one that
   * has homes, its calls get some too: wherever there is the least to do.
   */
  readonly #placeBeside = (ticket: Ticket): boolean => {
    if (ticket.part.salt === 0) return false;
    const at = this.#hungriest(one => {
      const endpoint = this.#endpoints[one] as Endpoint;
      return serves(endpoint, ticket.call) && !this.#isForOthers(endpoint, ticket.call);
    });
    if (at === null) return false;
    ticket.home = this.#endpoints[at] as Endpoint;
    this.#waiting.push(ticket);
    return true;
  };

  /** The first call of a chain: at the home of its row, where it has one by now. */
  readonly #placeNew = (ticket: Ticket): boolean => {
    ticket.home = this.#homeOf(ticket);
    if (ticket.home === null) return this.#place(ticket);
    this.#waiting.push(ticket);
    return true;
  };

  // its endpoint may have been found dead while it slept: then it is a suspect by now
  readonly #placeDue = (ticket: Ticket): boolean => this.#suspects.take(ticket) || this.#place(ticket);

  /** The first call of a row makes its home there and then: the others are right behind it. */
  #depart(ticket: Ticket, endpoint: Endpoint): void {
    if (ticket.call.row !== undefined && this.#homeOf(ticket) === null)
      this.#homes.note(ticket.hash, endpoint);
    this.#send(ticket, endpoint, this.#at);
  }

  #homeOf({ hash, call }: Ticket): Endpoint | null {
    const home = this.#homes.of(hash);
    if (home?.state !== 'up' || !serves(home, call)) return null;
    return home.helps !== null && this.#isForOthers(home, call) ? null : home;
  }

  #isForOthers(endpoint: Endpoint, call: Pick<Call, 'model' | 'anywhere'>): boolean {
    return isForOthers(endpoint, call, { all: this.#endpoints, now: this.#at });
  }
}

/** a call that waits at its home is none of the live ones */
const BATCH = {} as const;

/** Due retries that are offered a place before other calls. If these may not have it, the others hardly may. */
const OFFERED_RETRIES = 16;

export function createWaiting() {
  const fresh = createLanes();
  const live = createLanes();
  const later = new Map<Endpoint, Queue>();
  /** first calls of chains that have a home: that of their row, or of what they begin with */
  const siblings = new Map<Endpoint, ReturnType<typeof createLanes>>();
  let due: Ticket[] = [];
  let asleep: Ticket[] = [];

  return {
    get size(): number {
      return live.size + fresh.size + due.length + asleep.length + sizeOf(later) + sizeOf(siblings);
    },
    /** how many of them sleep */
    get asleep(): number {
      return asleep.length;
    },
    /** how many wait at a home to begin something */
    get siblings(): number {
      return sizeOf(siblings);
    },
    /** how many begin a chain, at the home of its row too */
    get fresh(): number {
      return fresh.size + sizeOf(siblings);
    },
    /** a call whose chain is at home at `ticket.home`, or that begins one */
    push(ticket: Ticket): void {
      if (ticket.home === null) return fresh.push(ticket);
      if (ticket.call.begins || ticket.call.raw) queueOf(siblings, ticket.home, createLanes).push(ticket);
      else queueOf(later, ticket.home, () => new Queue()).push(ticket);
    },
    /** a live call */
    pushLive: (ticket: Ticket): void => live.push(ticket),
    /** not before `ticket.notBefore` */
    sleep: (ticket: Ticket): void => void asleep.push(ticket),
    /** moves what is due by `now` to the front */
    wake(now: number): void {
      if (asleep.length === 0) return;
      const stillAsleep: Ticket[] = [];
      for (const ticket of asleep) (ticket.notBefore <= now ? due : stillAsleep).push(ticket);
      asleep = stillAsleep;
    },
    /** live calls, while `place` takes them */
    offerLive: (place: Place): number => live.offer(place),
    /** offers due retries to `place`, which returns whether it took the ticket, and must not offer */
    offerDue(place: Place): void {
      let at = 0;
      while (at < due.length && at < OFFERED_RETRIES) {
        if (place(due[at] as Ticket)) due.splice(at, 1);
        else at++;
      }
    },
    /** how many wait for `home` */
    atHome: (home: Endpoint): number => (later.get(home)?.size ?? 0) + (siblings.get(home)?.size ?? 0),
    /** the one that waits longest for `home`, of later calls or of first ones: looked at, and taken out */
    peekAtHome: (home: Endpoint, which: 'later' | 'new'): Ticket | undefined =>
      (which === 'new' ? siblings : later).get(home)?.first(),
    takeAtHome: (home: Endpoint, which: 'later' | 'new'): Ticket | undefined =>
      (which === 'new' ? siblings : later).get(home)?.take(),
    /** takes out what waits for `home`, which has no queue from then on */
    leave(home: Endpoint): Ticket[] {
      const out = [...(later.get(home)?.withdraw(ALL) ?? []), ...(siblings.get(home)?.withdraw(ALL) ?? [])];
      later.delete(home);
      siblings.delete(home);
      return out;
    },
    /** the first calls of new chains, while `place` takes them; how many it took */
    offerNew: (place: Place): number => fresh.offer(place),
    /** takes out the calls that `isMeant` */
    withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
      const out = [...live.withdraw(isMeant), ...due.filter(isMeant), ...asleep.filter(isMeant)];
      due = due.filter(ticket => !isMeant(ticket));
      asleep = asleep.filter(ticket => !isMeant(ticket));
      for (const queue of [...later.values(), ...siblings.values(), fresh])
        out.push(...queue.withdraw(isMeant));
      return out;
    },
  };
}

const ALL = (): boolean => true;

/** Whether it took the call; it must not offer. */
type Place = (ticket: Ticket) => boolean;

function queueOf<Q>(queues: Map<Endpoint, Q>, home: Endpoint, create: () => Q): Q {
  let queue = queues.get(home);
  if (queue === undefined) {
    queue = create();
    queues.set(home, queue);
  }
  return queue;
}

/** Asked for every call and every answer, and most of the time of one endpoint or none. */
function sizeOf(queues: ReadonlyMap<Endpoint, { readonly size: number }>): number {
  if (queues.size === 0) return 0;
  let size = 0;
  for (const queue of queues.values()) size += queue.size;
  return size;
}

export type Waiting = ReturnType<typeof createWaiting>;
