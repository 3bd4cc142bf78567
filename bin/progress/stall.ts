/**
 * A run that stands still, and why: nothing was finished for a while though calls wait or the output is not read. Said
 * once, with the part that holds it up, and once more when it goes on.
 */
import { cut, number } from '../../engine/flow/account.ts';
import { visible } from '../../engine/flow/visible.ts';
import type { EndpointStats } from '../../engine/pool/stats.ts';
import { counted, percent, sumOf, timeWords } from './words.ts';

/** What is seen at one look; times in ms, sums since the start. */
export interface Sight {
  now: number;
  /** calls and items that have ended: it grows as long as the run moves */
  finished: number;
  /** since when the output waits for its reader; null while it does not */
  blockedSince: number | null;
  /** items that are in this process */
  items: number;
  /** calls that have no place at a server */
  waiting: number;
  /** time that this process stood in writes of the ledger, and CPU that it used */
  ledger: number;
  cpu: number;
  /** the longest that the event loop did not come round since the last look */
  lag: number;
  endpoints: readonly EndpointStats[];
}

/** Nothing finished for so long is a stall … */
const PATIENCE = 10_000;
/** … but an answer may take this many times what answers took lately, and so long while none is known. */
const SLOW = 3;
const UNKNOWN = 30_000;
/** What took this share of the time is what took the time. */
const MOST = 0.5;

/** Returns what is to be said at each look, null where there is nothing. */
export function createStallWatch(begun: Sight): (sight: Sight) => string | null {
  let since = begun;
  let late = 0; // time since then in which the event loop did not come round
  let last = begun;
  let stalled = false;

  return sight => {
    const { now, finished, lag } = sight;
    const before = last;
    last = sight;
    if (finished !== since.finished || !isWorking(sight)) {
      const stood = now - since.now;
      since = sight;
      late = 0;
      if (stalled) {
        stalled = false;
        return `goes on, after it stood still for ${timeWords(stood)}`;
      }
      // what ended just before the loop stood, or as soon as it went on, hides that nothing could end meanwhile
      const cause = lag >= PATIENCE && isWorking(before) ? ownCauseOf(sight, before, lag, lag) : null;
      return cause && `nothing has finished for ${timeWords(lag)}: ${cause}`;
    }
    late += lag;
    if (stalled) return null;
    const cause = causeOf(sight, since, late);
    if (cause === null) return null;
    stalled = true;
    return `nothing has finished for ${timeWords(now - since.now)}: ${cause}`;
  };
}

function isWorking({ blockedSince, waiting, endpoints }: Sight): boolean {
  return blockedSince !== null || waiting + sumOf(endpoints, one => one.inFlight) > 0;
}

/** Null where it is too early to say. */
function causeOf(sight: Sight, since: Sight, late: number): string | null {
  const { now, blockedSince, endpoints, waiting, items } = sight;
  const stood = now - since.now;
  if (stood < PATIENCE) return null;
  if (blockedSince !== null && now - blockedSince >= stood * MOST) {
    return `the output is not read (${counted(items, 'item')} held back); whoever reads it is slow or stopped`;
  }
  const own = ownCauseOf(sight, since, stood, late);
  if (own !== null) return own;
  const there = endpoints.filter(({ inFlight }) => inFlight > 0);
  const oldest = there.reduce<EndpointStats | undefined>(
    (old, one) => ((one.oldest ?? 0) > (old?.oldest ?? -1) ? one : old),
    undefined,
  );
  if (oldest === undefined) {
    return endpoints.some(({ state }) => state === 'up')
      ? `${counted(waiting, 'call')} between two tries`
      : `no endpoint: ${absentWords(endpoints)}; ${counted(waiting, 'call')} in the queue`;
  }
  return stood < patienceWith(there) ? null : serverWords(oldest, there.length - 1);
}

/** What of `stood` ms this process took itself, `late` of them in which its event loop did not come round; null where it was not most of them. */
function ownCauseOf(sight: Sight, since: Sight, stood: number, late: number): string | null {
  const ledger = sight.ledger - since.ledger;
  if (ledger >= stood * MOST) return `the disk: writing the ledger took ${timeWords(ledger)} of it`;
  if (late < stood * MOST) return null;
  const cpu = sight.cpu - since.cpu;
  return cpu >= late * MOST
    ? `this process: its event loop did not come round for ${timeWords(late)}, at ${percent(cpu, stood)} of a core`
    : `this process did not run for ${timeWords(late)}: it was stopped, or the machine slept or has too much to do`;
}

function patienceWith(there: readonly EndpointStats[]): number {
  const medians = there.map(({ medianLatency }) => medianLatency);
  if (medians.includes(null)) return UNKNOWN;
  return Math.max(PATIENCE, SLOW * Math.max(...(medians as number[])));
}

function absentWords(endpoints: readonly EndpointStats[]): string {
  const first = endpoints.find(({ state }) => state !== 'up') ?? endpoints[0];
  if (first === undefined) return 'none is named';
  const { url, state, cause, pausedFor } = first;
  const how = state === 'paused' ? `paused for another ${timeWords(pausedFor)}` : state;
  const why = state === 'up' || cause === '' ? '' : ` (${visible(cut(cause, 200))})`;
  const others = endpoints.length > 1 ? `, and ${endpoints.length - 1} more` : '';
  return `${url} is ${how}${why}${others}`;
}

function serverWords({ url, inFlight, oldest, load }: EndpointStats, others: number): string {
  const said = load
    ? `; it says ${number(load.running)} running, ${number(load.waiting)} waiting, KV ${percent(load.kv, 1)}`
    : '';
  const more = others > 0 ? `, and ${others} more with calls` : '';
  return `waiting for ${url}: ${counted(inFlight, 'call')} there, the oldest for ${timeWords(oldest ?? 0)}${said}${more}`;
}
