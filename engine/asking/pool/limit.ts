/**
 * How many calls an endpoint is given at once, and how many items a run has in flight. The right number of calls keeps
 * the endpoint's batch full with a small queue behind it: fewer leave the GPU idle, and what waits on a server cannot be
 * moved to another one.
 *
 * The evidence is what answers tell (learn.ts), what the server throttles (throttling.ts), and, where it has metrics, what
 * it says of its batch and its queue. That can only hold a limit down: a server that says that nothing waits may be
 * slower with every further call.
 */

import { type Clock, medianOf, type Timing } from '../endpoints/pool-clock.ts';
import { type Load, metricsPath, type Page, pageOf, readLoad } from '../endpoints/server-load.ts';
import { MAX_LIMIT } from '../endpoints/settings.ts';
import type { Lag } from './lag.ts';
import { isUsual, noteAnswered, noteOwnLag, noteRoom, type Room } from './learn.ts';
import { type Learner, noteSent, setLimit } from './learner.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
import { cameBack, climbs, noteThrottled, type Throttling } from './throttling.ts';

/** The queue behind the batch, as a share of the batch: it covers the time that an answer takes to be replaced. */
const QUEUE_LEAST = 0.05;
const QUEUE_AIM = 0.1;
const QUEUE_MOST = 0.15;
/** … and in calls, where the batch is small */
const SPARE_CALLS = 2;
const PREEMPTED_CUT = 0.9;
/** Preemption throws computed tokens away; a few at a full cache cost less than the places that avoid them. */
const PREEMPTED_SHARE = 0.02;
/**
 * A burst of prompts waits for its prefill, and is no queue. What never went away for as long as an answer takes is one
 * (the standing queue of CoDel, Nichols and Jacobson 2012), so nothing is cut on its account before that time is known.
 */
const MIN_LOOK_MS = 5_000;

/** Limit of an endpoint that is just back: one that goes away again breaks off so many calls, and not hundreds. */
const RETURN_LIMIT = 12;

/**
 * Places that live calls may have. While the limit is still growing, or is the one of an earlier run, nobody knows
 * that the server could not take more, so they are not held up; of one that is back, they may have what it had before.
 */
export function placesForLive({ learner, limit, pinned, goal }: Endpoint): number {
  if (pinned) return limit;
  if (goal > 0) return Math.max(limit, goal);
  return isOpen(learner) ? MAX_LIMIT : limit;
}

/** Live calls may go beyond it, and take it with them. */
function isOpen({ phase, isRecalled }: Learner): boolean {
  return phase === 'grow' || isRecalled;
}

/** A call was sent there; it has its place. */
export function followSent(endpoint: Endpoint, ticket: Ticket, lag: Lag, now: number): void {
  const { learner, limit, running } = endpoint;
  ticket.lateAtSent = lag.totalAt(now);
  // live calls went beyond a limit that grows: what comes now tells of a higher one
  if (running.length > limit && isOpen(learner) && !endpoint.pinned && endpoint.goal === 0)
    setLimit(learner, 2 * learner.limit, now);
  ticket.round = noteSent(endpoint.learner, now);
}

/** A call was answered there; its place is free again. `tokens`: of the answer, 0 where the server does not say. */
export function followAnswer(
  endpoint: Endpoint,
  ticket: Ticket,
  tokens: number,
  lag: Lag,
  now: number,
): void {
  const { learner } = endpoint;
  if (endpoint.goal > 0) return void (ticket.round < learner.round || growBack(endpoint, now));
  if (endpoint.pinned) return;
  const answered = {
    round: ticket.round,
    among: ticket.among,
    latency: now - ticket.sentAt,
    tokens: Math.max(1, tokens),
    here: endpoint.running.length + 1,
  };
  // that none is throttled shows, however late this process is itself
  if (climbs(learner, answered, now)) return;
  const room = roomAt(endpoint);
  if (lag.isOurs(answered.latency, ticket.lateAtSent, now)) noteOwnLag(learner, answered, now, room);
  else noteAnswered(learner, answered, now, room);
}

/** What its metrics say of more calls. A burst of prompts that waits for its prefill is no queue: see `MIN_LOOK_MS`. */
function roomAt({ load, standing, learner }: Endpoint): Room {
  if (load === null) return 'unknown';
  // … but no reason to send more than what servers usually take
  const queue = isUsual(learner) ? load.waiting : Math.min(load.waiting, standing);
  return queue <= load.running * QUEUE_LEAST + SPARE_CALLS ? 'some' : 'none';
}

/** A call was throttled (429, 503), and its place is free again. */
export function followThrottled(endpoint: Endpoint, { round }: Ticket, now: number): Throttling {
  if (endpoint.goal > 0) return 'full';
  const { learner, running } = endpoint;
  const found = noteThrottled(learner, round, running.length * learner.sharers, now);
  if (found === 'none') startSmall(endpoint, now);
  return found;
}

/** What the server says of its load; null where it says nothing. */
export function followLoad(endpoint: Endpoint, load: Load | null, now: number): void {
  endpoint.load = load;
  if (endpoint.pinned || load === null) return;
  const { running, waiting, preemptions, kv } = load;
  if (waiting === 0) noteRoom(endpoint.learner, running, kv, now);
  const here = endpoint.running.length * endpoint.learner.sharers;
  endpoint.seen ??= { from: now, leastWaiting: waiting, mostHere: here, preemptions };
  const { seen } = endpoint;
  seen.leastWaiting = Math.min(seen.leastWaiting, waiting);
  seen.mostHere = Math.max(seen.mostHere, here);
  const isKnown = endpoint.latencies.count > 0;
  if (!isKnown || now - seen.from < Math.max(MIN_LOOK_MS, medianOf(endpoint.latencies))) return;
  endpoint.seen = null;
  endpoint.standing = seen.leastWaiting;
  if (preemptions - seen.preemptions > running * PREEMPTED_SHARE + SPARE_CALLS) {
    trim(endpoint, seen.mostHere * PREEMPTED_CUT, now);
  } else if (seen.leastWaiting > running * QUEUE_MOST + SPARE_CALLS) {
    // of what is in flight here so much is in the batch; who else asks this server has the rest of it
    trim(endpoint, here - (seen.leastWaiting - running * QUEUE_AIM - SPARE_CALLS), now);
  }
}

function trim(endpoint: Endpoint, to: number, now: number): void {
  const { learner } = endpoint;
  if (to >= learner.limit) return;
  learner.climb = null;
  learner.isRecalled = false;
  setLimit(learner, to, now);
}

/** The limit of an endpoint that came back doubles with each round of answers. */
function growBack(endpoint: Endpoint, now: number): void {
  const { learner, goal } = endpoint;
  learner.limit += learner.sharers;
  if (learner.limit < goal) return;
  endpoint.goal = 0;
  setLimit(learner, goal, now);
  cameBack(learner, now);
}

/** It was away, or takes nothing: it gets a few calls now, and more as it answers. */
export function startSmall(endpoint: Endpoint, now: number): void {
  const { learner } = endpoint;
  const { limit, before, climb } = learner;
  endpoint.seen = null;
  endpoint.standing = 0;
  endpoint.goal = Math.max(limit, before?.limit ?? 0, climb?.to ?? 0, endpoint.goal);
  setLimit(learner, Math.min(limit, RETURN_LIMIT), now);
  if (learner.limit >= endpoint.goal) endpoint.goal = 0;
}

/** For clients that share servers with others: each takes its part of what a server bears. */
export function createSharing(endpoints: readonly Endpoint[], clock: Clock, onChange: () => void) {
  return {
    /** So many clients ask the endpoint `url` by now, this one among them. */
    shareLimit(url: string, clients: number): void {
      for (const { url: own, learner } of endpoints) {
        if (own !== url || learner.sharers === clients) continue;
        const { phase, base, limit } = learner;
        learner.sharers = clients;
        // a limit that was only tried says nothing of all of them
        const isTried = base !== null && (phase === 'up' || phase === 'down');
        setLimit(learner, isTried ? base.limit : limit, clock.now());
      }
      onChange();
    },
  };
}

export type Sharing = ReturnType<typeof createSharing>;

/** Looks in a row that may be missed before what was said last is too old to go by. */
const MAX_MISSED_LOOKS = 3;

export interface Looking {
  endpoints: readonly Endpoint[];
  clock: Clock;
  timing: Timing;
  /** null: the endpoint says nothing of its load, or has not for some time */
  onLoad: (endpoint: Endpoint, load: Load | null) => void;
  /** what a look found: null where there are no metrics, undefined where nothing was answered */
  onPage?: (endpoint: Endpoint, page: Page | null | undefined) => void;
}

/**
 * The returned function is called at each tick and reads the metrics of the endpoints that are due. A server without
 * them is asked again now and then, for it may have been a proxy that was not ready. One that had them before has them
 * still, whatever became of one look.
 */
export function lookAtLoads({ endpoints, clock, timing, onLoad, onPage }: Looking): (now: number) => void {
  const looking = new Set<Endpoint>();
  const next = new WeakMap<Endpoint, number>();
  const missed = new WeakMap<Endpoint, number>(); // of those that have said something

  function look(endpoint: Endpoint): void {
    looking.add(endpoint);
    const settle = (page: Page | null | undefined, isSettled = true): void => {
      if (!looking.delete(endpoint)) return; // it was given up, and answered then
      callOff();
      if (isSettled || page === undefined) onPage?.(endpoint, page);
      const load = page ? readLoad(page) : null;
      const misses = load ? 0 : (missed.get(endpoint) ?? Number.NaN) + 1;
      if (!Number.isNaN(misses)) missed.set(endpoint, misses);
      const wait = !Number.isNaN(misses) ? timing.look : isSettled ? timing.lookAgain : timing.lookSoon;
      next.set(endpoint, clock.now() + wait);
      if (load !== null || !(misses < MAX_MISSED_LOOKS)) onLoad(endpoint, load);
    };
    const callOff = clock.after(timing.probeTimeout, () => {
      settle(undefined, false);
      exchange.abort(new Error('no metrics in time'));
    });
    const exchange = endpoint.wire.send({ method: 'GET', path: metricsPath(endpoint.prefix) }, outcome => {
      if (outcome instanceof Error) settle(undefined, false);
      else settle(outcome.status === 200 ? pageOf(outcome.body) : null, outcome.status < 500);
    });
  }

  return now => {
    for (const endpoint of endpoints) {
      if (!isAtWork(endpoint) || looking.has(endpoint)) continue;
      if (now >= (next.get(endpoint) ?? 0)) look(endpoint);
    }
  };
}

/** It may be asked, or has calls that are judged by what it says of itself. */
const isAtWork = ({ state, running }: Endpoint): boolean =>
  state === 'up' || (state === 'drained' && running.length > 0);

/** Items that wait for calls of others, as a multiple of those that have calls: they too take memory. */
const MOST_LISTENING = 8;

/** Items in flight where all is on record and nothing is asked. */
const REPLAYED_ITEMS = 64;

/**
 * How many items may be in flight: `set`, or twice the limits, for while an item is between two calls another one has
 * its place. They follow the limits, because a limit that finds no items to fill it is never learned.
 * Items that wait for a call of another one count beside them, since they have no call of their own.
 */
export function createItems(
  endpoints: readonly Endpoint[],
  set: number | undefined,
  listening: () => number = () => 0,
) {
  const listeners = new Set<() => void>();
  const countNow = (): number =>
    set ?? (2 * endpoints.reduce((sum, { limit }) => sum + limit, 0) || REPLAYED_ITEMS);
  let most = countNow();
  return {
    get most() {
      return set ?? most + Math.min(listening(), MOST_LISTENING * most);
    },
    /** There may be room for more, since an item waits for a call of another one. */
    tell(): void {
      if (set === undefined) for (const listener of listeners) listener();
    },
    /** Limits may have moved. */
    recount(): void {
      const before = most;
      most = countNow();
      if (most > before) for (const listener of listeners) listener();
    },
    /** `listener` is told when there is room for more, until what is returned is called. */
    onRoom(listener: () => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
