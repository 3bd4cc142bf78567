/**
 * What holds a run up: one judgement for the closing line, for a run that makes no progress, and for a plan. It goes by sums
 * over the time that is judged, and of servers by what they say of themselves, or, where they say nothing, by how much
 * longer an answer takes the more calls were there before it.
 */
import { counted, number, percent } from '../../core/item/wording.ts';
import {
  crowdOf,
  type Diagnosis,
  type Engine,
  gainsByLimit,
  type Limit,
  promptWords,
  type Server,
} from './crowd.ts';
import { BUSY } from './run-words.ts';
import { absent, oldestWords, sumOf } from './servers.ts';

export type { Diagnosis, Limit, Server };

/** Why servers that had room were not given more, for want of items or of leave; ms each. */
export interface Room {
  /** the input had no item ready; it had no more; as many items were in flight as may be */
  starved: number;
  tail: number;
  capped: number;
  /** items that came, where these were all */
  all: number | null;
}

/** Times are ms of `ms`; averages are over it. */
export interface Snapshot extends Room {
  ms: number;
  /** nothing has ended in it */
  isStanding: boolean;
  /** this process: its one thread was busy (cores, where a plan reckons them), did not run at all, wrote the ledger */
  busy: number;
  suspendedMs: number;
  ledger: number;
  /** the output waited for its reader */
  unread: number;
  /** calls were there and no endpoint could be asked; calls waited for a place at one */
  noEndpointMs: number;
  saturatedMs: number;
  /** calls that have no place now */
  waiting: number;
  /** items in flight on average, and how many may be */
  items: number;
  itemsInFlight: number;
  endpoints: readonly Server[];
  /** of a plan, whose engines are known */
  engine?: Engine;
}

/** A cause counts from this share of the run's time on. In a standstill, the cause with the most time counts. */
const NOTICEABLE_SHARE = 0.1;
const MOSTLY_STANDING = 0.5;
/** ms in which a process mostly begins: that is over before a second process would have begun. */
const BEGINNING = 5_000;
/** Calls at a server, of the places that it has: waves leave some of them out. */
const FULL = 0.8;
/** From this share of all tries on, refusals (429, 503) or failures are what holds a run up. */
const MANY_AWAY = 0.1;
const MANY_FAILED = 0.2;
const GONE = ['not connected', 'transport'];
/** A tail that is worth telling of beside something else. */
const LONG_TAIL = 0.2;
/** A plan that is nearly all tail has too few items. */
export const TAIL_OF_TOO_FEW = 0.8;

export function diagnose(snapshot: Snapshot): Diagnosis {
  const found = snapshot.isStanding
    ? (outside(snapshot) ?? standing(snapshot))
    : (outside(snapshot, troubled(snapshot)) ?? crowded(snapshot) ?? roomy(snapshot));
  const tail = snapshot.tail / snapshot.ms;
  if (snapshot.isStanding || found.limit === 'few-items' || found.limit === 'tail' || tail < LONG_TAIL)
    return found;
  return { ...found, text: `${found.text}; ${tailWords(snapshot)}` };
}

/** What has nothing to do with how many calls servers get. An endpoint that rests because it fails is `trouble`. */
function outside(snapshot: Snapshot, trouble: Diagnosis | null = null): Diagnosis | null {
  const { ms, isStanding, busy, suspendedMs, ledger, unread, noEndpointMs, saturatedMs } = snapshot;
  const cores = busy / ms;
  // a blocked write keeps the thread busy, and blocks the process
  const isOwn = cores >= (isStanding ? MOSTLY_STANDING : BUSY) && (isStanding || ms >= BEGINNING);
  const own = isOwn ? busy - ledger : 0;
  const asleep = Math.max(0, suspendedMs - ledger);
  const part = (time: number): string => percent(time, ms);
  const held = isStanding ? ` (${counted(snapshot.items, 'item')} held back)` : '';
  const stops: [Limit, number, string][] = [
    ['disk', ledger, `the disk: writing the ledger took ${part(ledger)} of the time`],
    [
      'own-process',
      own,
      `this process: its one thread was busy ${part(busy)} of the time; share the input between several processes`,
    ],
    [
      'stopped',
      asleep,
      `this process did not run ${part(suspendedMs)} of the time: it was stopped, or the machine slept or is overloaded`,
    ],
    ['reader', unread, `the reader of the output: it was not ready ${part(unread)} of the time${held}`],
    [
      'no-endpoint',
      noEndpointMs,
      `no endpoint was available ${part(noEndpointMs)} of the time: ${absentWords(snapshot)}`,
    ],
  ];
  const [limit, most, text] = stops.reduce((most, stop) => (stop[1] > most[1] ? stop : most));
  const isMost =
    own > 0 || most >= (isStanding ? MOSTLY_STANDING : Math.max(NOTICEABLE_SHARE, saturatedMs / ms)) * ms;
  const found = isMost && most > 0 ? { limit, text } : null;
  return found === null || found.limit === 'no-endpoint' ? (trouble ?? found) : found;
}

function standing({ endpoints, waiting }: Snapshot): Diagnosis {
  const there = endpoints.filter(({ inFlight }) => inFlight > 0);
  if (there.length > 0) return { limit: 'waiting', text: `waiting for ${oldestWords(there)}` };
  return { limit: 'between-tries', text: `${counted(waiting, 'call')} between two tries` };
}

/** Tries that bring nothing. */
function troubled({ endpoints, noEndpointMs, ms }: Snapshot): Diagnosis | null {
  const failed = new Map<string, number>();
  for (const one of endpoints)
    for (const [kind, times] of Object.entries(one.failed)) failed.set(kind, (failed.get(kind) ?? 0) + times);
  const kinds = [...failed].sort((a, b) => b[1] - a[1]);
  const times = (some: typeof kinds): number => sumOf(some, ([, count]) => count);
  const away = kinds.filter(([kind]) => kind === 'HTTP 429' || kind === 'HTTP 503');
  // one that is gone fails what it has, and what it is asked: that is told as its absence
  const isGone = (kind: string): boolean => noEndpointMs >= NOTICEABLE_SHARE * ms && GONE.includes(kind);
  const others = kinds.filter(one => !away.includes(one) && !isGone(one[0]));
  const tries = sumOf(endpoints, one => one.answered) + times(kinds);
  const words = (some: typeof kinds): string =>
    `${percent(times(some), tries)} of the tries (${some
      .slice(0, 3)
      .map(([kind, count]) => `${number(count)} ${kind}`)
      .join(', ')})`;
  if (times(away) >= MANY_AWAY * tries && times(away) > 0) {
    return {
      limit: 'refusals',
      text: `the servers refuse calls: ${words(away)}; larger servers, or more of them, would help`,
    };
  }
  if (times(others) < MANY_FAILED * tries || times(others) === 0) return null;
  return {
    limit: 'failing',
    text: `tries that fail: ${words(others)}; \`fw doctor\` says what is wrong with an endpoint`,
  };
}

/** The servers have as much as they take, or as they are let have. */
function crowded(snapshot: Snapshot): Diagnosis | null {
  const { ms, saturatedMs, starved, tail, endpoints, engine } = snapshot;
  const isFull = saturatedMs >= Math.max(NOTICEABLE_SHARE * ms, starved, tail);
  const waited = isFull
    ? `calls waited for a place ${percent(saturatedMs, ms)} of the time (${placesWords(snapshot)})`
    : placesWords(snapshot);
  const [most, ...rest] = endpoints
    .map(server => ({ server, crowd: crowdOf(server, engine) }))
    .filter(({ server }) => server.here > 0)
    .sort((a, b) => b.server.here - a.server.here);
  if (most?.crowd) {
    const alike = rest.filter(({ crowd }) => crowd?.limit === most.crowd?.limit).length;
    const others = alike > 0 ? `, and ${counted(alike, 'other endpoint')} like it` : '';
    const { limit, text } = most.crowd;
    return { limit, text: engine ? text : `the servers: ${waited}; ${most.server.url} ${text}${others}` };
  }
  if (!isFull) return null;
  const pinned = endpoints.filter(one => one.pinned && one.here >= FULL * one.places && gainsByLimit(one));
  if (pinned[0] && pinned.length === endpoints.filter(({ here }) => here > 0).length) {
    const { url, limit } = pinned[0];
    const others = pinned.length > 1 ? `, and of ${counted(pinned.length - 1, 'other endpoint')}` : '';
    return {
      limit: 'pinned',
      text: `the limit of ${counted(limit, 'call')} that was set for ${url}${others}: ${waited}, and there is no sign that it is full; raise the limit, or leave it out`,
    };
  }
  const computing = most && !engine ? promptWords(most.server) : null;
  if (computing === null) return { limit: 'servers', text: `the servers: ${waited}` };
  return { limit: 'prompts', text: `the servers: ${waited}; ${most?.server.url} ${computing}` };
}

/** The servers could have more: why do they not? */
function roomy(snapshot: Snapshot): Diagnosis {
  const { ms, starved, tail, capped, items, itemsInFlight, all } = snapshot;
  const room = `the servers had room (${placesWords(snapshot)})`;
  const [has, may] = [number(Math.round(items)), number(itemsInFlight)];
  if (all !== null && all <= itemsInFlight)
    return {
      limit: 'few-items',
      text: `too few items: all ${number(all)} were in flight from the start, and none were left to take the place of finished ones; ${room}`,
    };
  // of a watched run it may be one item that was slow; a plan's are all alike
  if (snapshot.engine !== undefined && all !== null && tail >= TAIL_OF_TOO_FEW * ms)
    return {
      limit: 'few-items',
      text: `too few items: all ${number(all)} had begun after ${percent(ms - tail, ms)} of the time, and none were left to take the place of finished ones`,
    };
  if (capped >= tail && capped >= starved && capped > 0)
    return { limit: 'in-flight', text: `--in-flight ${may}: ${room}; raise it` };
  if (tail >= starved) return { limit: 'tail', text: `${tailWords(snapshot)}; ${room}` };
  return {
    limit: 'input',
    text: `the input: ${percent(starved, ms)} of the time it had no item ready, ${has} of ${may} were in flight on average; ${room}`,
  };
}

function tailWords({ tail, ms }: Snapshot): string {
  return `the tail: ${percent(tail, ms)} of the time only the last items were in flight, fewer and fewer; a larger run spends a smaller share on its tail, and shorter chains or answers shorten it`;
}

function placesWords({ endpoints }: Snapshot): string {
  const sum = (of: (server: Server) => number): string => number(Math.round(sumOf(endpoints, of)));
  return `${sum(({ here }) => here)} of ${sum(({ places }) => places)} places busy on average`;
}

function absentWords({ endpoints, waiting, isStanding }: Snapshot): string {
  const queue = isStanding ? `; ${counted(waiting, 'call')} in the queue` : '';
  return `${absent(endpoints)}${queue}`;
}
