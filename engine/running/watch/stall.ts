/**
 * A run without progress, and why: nothing was finished for a while though calls wait or the output is not read. Said
 * once, with the part that holds it up, and once more when it runs again.
 */

import type { EndpointStats } from '../../asking/pool/pool-stats.ts';
import { timeWords } from '../../core/item/wording.ts';
import { diagnose, type Limit, type Snapshot } from './diagnosis.ts';
import { sumOf } from './servers.ts';

/** What is seen at one look; times in ms, sums since the start. */
export interface RunState {
  now: number;
  /** calls and items that have ended: it grows as long as the run moves */
  finished: number;
  /** since when the output waits for its reader; null while it does not */
  blockedSince: number | null;
  /** items that are in this process */
  items: number;
  /** calls that have no place at a server */
  waiting: number;
  /** time that this process spent in writes of the ledger, and CPU that it used */
  ledger: number;
  cpu: number;
  /** the longest that the event loop did not come round since the last look */
  lag: number;
  endpoints: readonly EndpointStats[];
}

/** Nothing finished for so long is a stall … */
const PATIENCE = 10_000;
/** … but an answer may take this many times what answers took lately, there or at other endpoints. */
const SLOW = 3;
/** Of the time in which the event loop did not come round, the share of CPU from which on it was this process itself. */
const MOSTLY = 0.5;

/** Returns what is to be said at each look, null where there is nothing. */
export function createStallWatch(begun: RunState): (state: RunState) => string | null {
  let since = begun;
  let late = 0; // time since then in which the event loop did not come round
  let last = begun;
  let stalled = false;

  return state => {
    const { now, finished, lag } = state;
    const before = last;
    last = state;
    if (finished !== since.finished || !isWorking(state)) {
      const stood = now - since.now;
      since = state;
      late = 0;
      if (stalled) {
        stalled = false;
        return `running again, after ${timeWords(stood)} without progress`;
      }
      // a call that ended just before the loop was blocked, or just after, hides that none could end meanwhile
      const cause = lag >= PATIENCE && isWorking(before) ? ownCauseOf(state, before, lag, lag) : null;
      return cause && `nothing has finished for ${timeWords(lag)}: ${cause}`;
    }
    late += lag;
    if (stalled) return null;
    const cause = causeOf(state, since, late);
    if (cause === null) return null;
    stalled = true;
    return `nothing has finished for ${timeWords(now - since.now)}: ${cause}`;
  };
}

function isWorking({ blockedSince, waiting, endpoints }: RunState): boolean {
  return blockedSince !== null || waiting + sumOf(endpoints, one => one.inFlight) > 0;
}

/** Null where it is too early to say. */
function causeOf(state: RunState, since: RunState, late: number): string | null {
  const { now, endpoints } = state;
  const stood = now - since.now;
  if (stood < PATIENCE) return null;
  const { limit, text } = diagnose(snapshotOf(state, since, stood, late));
  const isPatient = limit === 'waiting' && stood < patienceWith(endpoints);
  return isPatient ? null : text;
}

/** What this process did itself in `ms` up to the sight, `late` of them in which its event loop did not come round; null where that is not most of them. */
function ownCauseOf(state: RunState, since: RunState, ms: number, late: number): string | null {
  const { limit, text } = diagnose({ ...snapshotOf(state, since, ms, late), unread: 0, noEndpointMs: 0 });
  return OWN.includes(limit) ? text : null;
}

const OWN: readonly Limit[] = ['disk', 'own-process', 'stopped'];

function snapshotOf(state: RunState, since: RunState, ms: number, late: number): Snapshot {
  const { now, blockedSince, endpoints, waiting, items, ledger } = state;
  const isOwn = state.cpu - since.cpu >= late * MOSTLY;
  const isNone = endpoints.every(({ inFlight, state }) => inFlight === 0 && state !== 'up');
  return {
    ms,
    isStanding: true,
    busy: isOwn ? late : 0,
    suspendedMs: isOwn ? 0 : late,
    ledger: ledger - since.ledger,
    unread: blockedSince === null ? 0 : Math.min(ms, now - blockedSince),
    noEndpointMs: isNone ? ms : 0,
    saturatedMs: 0,
    starved: 0,
    tail: 0,
    capped: 0,
    waiting,
    items,
    itemsInFlight: items,
    all: null,
    endpoints: endpoints.map(one => ({ ...one, here: one.inFlight, places: one.limit })),
  };
}

function patienceWith(endpoints: readonly EndpointStats[]): number {
  const there = endpoints.filter(({ inFlight }) => inFlight > 0);
  const known = there.every(({ medianLatency }) => medianLatency !== null) ? there : endpoints;
  return Math.max(PATIENCE, ...known.map(({ medianLatency }) => SLOW * (medianLatency ?? 0)));
}
