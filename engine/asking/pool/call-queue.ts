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

import { sockets } from '../endpoints/wire.ts';
import { choose, createHomes, loadOf } from './choose.ts';
import { isLastUsable, isUsable, placesFor, placesOf } from './health.ts';
import { createLanes, createQueue, type Queue } from './lanes.ts';
import type { Suspects } from './outage.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
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

export function createDispatch(
  endpoints: readonly Endpoint[],
  suspects: Suspects,
  send: (ticket: Ticket, endpoint: Endpoint, now: number) => void,
) {
  const waiting = createWaiting();
  const homes = createHomes(endpoints);
  let pumping = false;

  /** As many calls are under way as there may be connections: endpoints may have room, but this process has none. */
  const isFull = (): boolean => sockets.busy >= sockets.most;

  function hasRoom(endpoint: Endpoint, isLast: boolean, now: number): boolean {
    if (endpoint === reserved || !isUsable(endpoint, now)) return false;
    return endpoint.running.length < placesFor(endpoint, isLast, BATCH);
  }

  // What one round goes by. These are no locals of it, since a round is run for every call and every answer.
  let at = 0;
  let reserved: Endpoint | null = null;

  function placesOfAll(): number {
    let places = 0;
    for (const { limit } of endpoints) places += limit;
    return places;
  }

  function place(ticket: Ticket): boolean {
    if (isFull()) return false;
    const endpoint = choose(endpoints, ticket, at, reserved);
    if (endpoint !== null) depart(ticket, endpoint);
    return endpoint !== null;
  }

  /** The first call of a row makes its home there and then: the others are right behind it. */
  function depart(ticket: Ticket, endpoint: Endpoint): void {
    if (ticket.call.row !== undefined && homeOf(ticket) === null) homes.note(ticket.hash, endpoint);
    send(ticket, endpoint, at);
  }

  /** Raw calls have none: each is alone, and two batches may give theirs the same names. */
  function homeOf({ hash, call }: Ticket): Endpoint | null {
    const home = call.raw ? null : homes.of(hash);
    return home?.state === 'up' && serves(home, call) ? home : null;
  }

  /** The first call of a chain: at the home of its row, where it has one by now. */
  function placeNew(ticket: Ticket): boolean {
    ticket.home = ticket.call.row === undefined ? null : homeOf(ticket);
    if (ticket.home === null) return place(ticket);
    waiting.push(ticket);
    return true;
  }

  // its endpoint may have been found dead while it slept: then it is a suspect by now
  const placeDue = (ticket: Ticket): boolean => suspects.take(ticket) || place(ticket);
  const sendAlone = (ticket: Ticket, endpoint: Endpoint): void => send(ticket, endpoint, at);

  function give(now: number): void {
    at = now;
    reserved = suspects.idle
      ? null
      : suspects.next(
          endpoints.filter(endpoint => isUsable(endpoint, now)),
          sendAlone,
        );
    waiting.offerLive(place);
    waiting.offerDue(placeDue);
    const isEnding = waiting.fresh < LAST_CHAINS_SHARE * placesOfAll();
    if (isEnding) {
      waiting.offerNew(placeNew);
      goOn(now, 'new');
    }
    goOn(now, 'later');
    goOn(now, 'new');
    if (waiting.offerNew(placeNew) > 0) goOn(now, 'new');
    // a place that is left has nobody of its own: now it may take the calls of rows that are at home elsewhere
    goOn(now, 'later', true);
    goOn(now, 'new', true);
  }

  /** Calls whose chain, or row, is at home somewhere: later calls of chains, or the first ones of new chains. */
  function goOn(now: number, which: 'later' | 'new', mayLeave = false): void {
    const isLast = isLastUsable(endpoints, now);
    for (const home of endpoints) {
      for (;;) {
        const ticket = isFull() ? undefined : waiting.peekAtHome(home, which);
        if (ticket === undefined) break;
        const other = choose(endpoints, ticket, now, reserved);
        const stays = hasRoom(home, isLast, now);
        if (other === null && !stays) break;
        const leaves =
          (mayLeave || ticket.call.row === undefined) &&
          other !== null &&
          other !== home &&
          isFarBehind(home, other, isLast, now);
        if (!stays && !leaves) break;
        waiting.takeAtHome(home, which);
        depart(ticket, leaves ? other : home);
      }
    }
  }

  function isFarBehind(home: Endpoint, other: Endpoint, isLast: boolean, now: number): boolean {
    if (!isUsable(home, now)) return true;
    const known = home.latencies.count > 0 && other.latencies.count > 0;
    const wait = 1 + waiting.atHome(home) / placesOf(home, isLast);
    return (
      wait * loadOf(home, placesOf(home, isLast), known) >
      FAR_BEHIND * loadOf(other, placesOf(other, isLast), known)
    );
  }

  return {
    /** calls that wait for a place, and of these those that do not sleep until they are tried again */
    get waiting(): number {
      return waiting.size + suspects.size;
    },
    get awake(): number {
      return waiting.size + suspects.size - waiting.asleep;
    },
    push(ticket: Ticket): void {
      if (ticket.call.live) return waiting.pushLive(ticket);
      ticket.home = homeOf(ticket);
      waiting.push(ticket);
    },
    /** tried again, not before `ticket.notBefore` */
    sleep: (ticket: Ticket): void => waiting.sleep(ticket),
    wake: (now: number): void => waiting.wake(now),
    /** Gives places to whoever may have one. */
    pump(now: number): void {
      if (pumping) return;
      pumping = true;
      try {
        if (waiting.size + suspects.size > 0) give(now);
      } finally {
        pumping = false;
      }
    },
    /** A chain is at home where it was answered last; a row stays where it is. */
    noteHome({ hash, call }: Ticket, endpoint: Endpoint): void {
      if (call.row === undefined && !call.raw) homes.note(hash, endpoint);
    },
    /** Takes out the calls that `isMeant`. */
    withdraw: (isMeant: (ticket: Ticket) => boolean): Ticket[] => [
      ...waiting.withdraw(isMeant),
      ...suspects.withdraw(isMeant),
    ],
  };
}

/** a call that waits at its home is none of the live ones */
const BATCH = {} as const;

/** Due retries that are offered a place before other calls. If these may not have it, the others hardly may. */
const OFFERED_RETRIES = 16;

export function createWaiting() {
  const fresh = createLanes();
  const live = createLanes();
  const later = new Map<Endpoint, Queue>();
  /** first calls of chains whose row has a home */
  const siblings = new Map<Endpoint, Queue>();
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
    /** how many begin a chain, at the home of its row too */
    get fresh(): number {
      return fresh.size + sizeOf(siblings);
    },
    /** a call whose chain is at home at `ticket.home`, or that begins one */
    push(ticket: Ticket): void {
      if (ticket.home === null) return fresh.push(ticket);
      const homes = ticket.call.begins ? siblings : later;
      let queue = homes.get(ticket.home);
      if (queue === undefined) {
        queue = createQueue();
        homes.set(ticket.home, queue);
      }
      queue.push(ticket);
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

/** Whether it took the call; it must not offer. */
type Place = (ticket: Ticket) => boolean;

function sizeOf(queues: ReadonlyMap<Endpoint, Queue>): number {
  let size = 0;
  for (const queue of queues.values()) size += queue.size;
  return size;
}

export type Waiting = ReturnType<typeof createWaiting>;
