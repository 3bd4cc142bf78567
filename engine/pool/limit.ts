/**
 * How many calls an endpoint is given at once. The right number is what keeps its batch full with a small queue behind
 * it: fewer leave the GPU idle, and what waits on a server cannot be moved to another one.
 *
 * The evidence is what the server says of its batch and its queue, and what it sends away. Latency is none: it follows
 * the length of answers. Where a server says nothing, the limit stays where it began, is cut when calls are sent away
 * and comes back step by step.
 */
import { type Endpoint, medianLatency } from './health.ts';

export const MOST = 65_535;

/** What a server says of itself, as of one look at its metrics. */
export interface Load {
  /** requests in the batch, and requests that wait for a place in it */
  running: number;
  waiting: number;
  /** share of the KV cache in use, 0 to 1; 0 where it is not said */
  kv: number;
  /** since the server began */
  preemptions: number;
}

/** The queue behind the batch, as a share of the batch: it covers the time that an answer takes to be replaced. */
const QUEUE_LEAST = 0.05;
const QUEUE_AIM = 0.1;
const QUEUE_MOST = 0.15;
/** … and in calls, where the batch is small */
const FEW = 2;

/** A raise while nothing waits: a tenth at each look, so that a batch of 1024 is found from 256 in 15 looks. */
const RAISE = 1.1;
/** The way back after a cut at a server that says nothing, as a share of where it began, at each look. */
const STEP = 0.05;
const CUT_AWAY = 0.9;
const CUT_PREEMPTED = 0.9;
/** Preemption throws computed tokens away; a few at a full cache cost less than the places that avoid them. */
const PREEMPTED = 0.02;
/** What was sent before a cut may still be sent away: one burst is one piece of evidence, in ms. */
const ONE_BURST = 1_000;
/** What a server took when it sent calls away holds for so long, in ms. */
const FORGOTTEN = 30_000;
/**
 * A burst of prompts waits for its prefill, and is no queue. What never went away for as long as an answer takes is one
 * (the standing queue of CoDel, Nichols and Jacobson 2012), so nothing is cut on its account before that time is known.
 */
const INTERVAL = 5_000;

/** Places of an endpoint that is just back: one that goes away again breaks off so many calls, and not hundreds. */
const SMALL = 12;

/** What was seen since `from`. */
export interface Seen {
  from: number;
  leastWaiting: number;
  /** calls here at a time */
  mostHere: number;
  preemptions: number;
}

/** A call was sent away (429, 503): what still runs there is what the server takes. */
export function cutAway(endpoint: Endpoint, now: number): void {
  if (endpoint.pinned) return;
  const taken = Math.min(endpoint.limit, endpoint.running.length);
  endpoint.ceiling = taken;
  setLimit(endpoint, now - endpoint.cutAt < ONE_BURST ? taken : taken * CUT_AWAY);
  endpoint.cutAt = now;
}

/** A look at the server; null where it says nothing of itself. `wanted`: calls wait in the client for a place. */
export function followLoad(endpoint: Endpoint, load: Load | null, now: number, wanted: boolean): void {
  endpoint.load = load;
  if (endpoint.pinned) return;
  if (load === null) return followNothing(endpoint, now, wanted);
  const { running, waiting, preemptions } = load;
  const here = endpoint.running.length;
  endpoint.seen ??= { from: now, leastWaiting: waiting, mostHere: here, preemptions };
  const { seen } = endpoint;
  seen.leastWaiting = Math.min(seen.leastWaiting, waiting);
  seen.mostHere = Math.max(seen.mostHere, here);
  const known = endpoint.timed > 0;
  if (known && now - seen.from >= Math.max(INTERVAL, medianLatency(endpoint))) {
    endpoint.seen = null;
    if (preemptions - seen.preemptions > running * PREEMPTED + FEW) {
      endpoint.cutAt = now;
      return setLimit(endpoint, Math.min(endpoint.limit, seen.mostHere) * CUT_PREEMPTED);
    }
    if (seen.leastWaiting > running * QUEUE_MOST + FEW) {
      // of what is in flight here so much is in the batch; who else asks this server has the rest of it
      return setLimit(
        endpoint,
        Math.min(endpoint.limit, here - (seen.leastWaiting - running * QUEUE_AIM - FEW)),
      );
    }
  }
  if (endpoint.goal > endpoint.limit) return;
  const isFull = here >= Math.floor(endpoint.limit) - 1;
  if (wanted && isFull && waiting <= running * QUEUE_LEAST) raise(endpoint, endpoint.limit * RAISE + 1, now);
}

/** Where calls were sent away the next steps are single ones: each that is too far costs calls that go twice. */
function raise(endpoint: Endpoint, to: number, now: number): void {
  if (now - endpoint.cutAt < ONE_BURST) return;
  if (now - endpoint.cutAt > FORGOTTEN) endpoint.ceiling = MOST;
  setLimit(endpoint, endpoint.limit < endpoint.ceiling ? Math.min(to, endpoint.ceiling) : endpoint.limit + 1);
}

/** After an answer: an endpoint that came back gets its places back as it proves itself, doubling with each round of answers. */
export function growBack(endpoint: Endpoint): void {
  if (endpoint.limit < endpoint.goal) endpoint.limit += 1;
  else endpoint.goal = 0;
}

/** It was away, and is back: what it may have now is little, and the rest follows its answers. */
export function startSmall(endpoint: Endpoint): void {
  endpoint.goal = Math.max(endpoint.limit, endpoint.goal);
  endpoint.limit = Math.min(endpoint.limit, SMALL);
  endpoint.seen = null;
}

function followNothing(endpoint: Endpoint, now: number, wanted: boolean): void {
  if (!wanted || endpoint.limit >= endpoint.start) return;
  raise(endpoint, Math.min(endpoint.start, endpoint.limit + Math.max(1, endpoint.start * STEP)), now);
}

function setLimit(endpoint: Endpoint, limit: number): void {
  endpoint.limit = Math.min(MOST, Math.max(1, limit));
}
