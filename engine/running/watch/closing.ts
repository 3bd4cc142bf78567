/**
 * The last lines of a run that asked: where the time of its items went, which part held it up, and what each endpoint
 * did. From sums over all calls and items, so that a short phase counts for what it was.
 */

import type { EndpointPool } from '../../asking/pool/part.ts';
import type { EndpointStats, PoolStats } from '../../asking/pool/pool-stats.ts';
import { type Account, itemTime, type Times } from '../../core/item/account.ts';
import { counted, number, percent } from '../../core/item/wording.ts';
import { diagnose, type Room, type Snapshot } from './diagnosis.ts';
import { doneOf } from './run-facts.ts';
import { sumOf } from './servers.ts';

export interface Closing {
  stats: PoolStats;
  times: Times;
  beginnings?: Account['beginnings'];
  /** by the clock of the times, ms */
  now: number;
  /** share of the time in which this process's one thread had something to do, 0 to 1 */
  loop: number;
  /** items that may be in flight at a time */
  itemsInFlight: number;
  room: Room;
}

/** Endpoints that get a line of their own: where there are more, those that failed most, and a sum of the others. */
const OWN_LINES = 3;

/** None where nothing was asked. */
export function closingLines(closing: Closing): string[] {
  const { stats } = closing;
  if (stats.calls === 0) return [];
  return [
    `time: ${timeWordsOf(closing)} · bottleneck: ${diagnose(snapshotOf(closing)).text}`,
    ...sharedLine(closing),
    ...endpointLines(stats),
    ...withoutLine(stats),
  ];
}

/** What servers that were asked do not have, and what the run did instead. */
function withoutLine({ endpoints }: PoolStats): string[] {
  const asked = endpoints.filter(one => one.answered > 0);
  const mute = asked.filter(({ lacks }) => lacks?.metrics);
  const formless = asked.filter(({ lacks }) => (lacks?.formless ?? 0) > 0);
  const who = (group: readonly EndpointStats[]): string =>
    asked.length === 1
      ? ''
      : ` at ${group.length === 1 ? group[0]?.url : `${group.length} of ${counted(asked.length, 'endpoint')}`}`;
  const parts: string[] = [];
  if (mute.length > 0) {
    const set = mute.every(({ pinned }) => pinned);
    parts.push(
      `no load at /metrics${who(mute)}: ${set ? 'patience' : 'limits and patience'} followed its answers alone`,
    );
  }
  if (formless.length > 0)
    parts.push(
      `no guided decoding${who(formless)}: ${counted(
        sumOf(formless, ({ lacks }) => lacks?.formless ?? 0),
        'try',
        'tries',
      )} without the form of the answer, which was checked all the same`,
    );
  return parts.length === 0 ? [] : [`without: ${parts.join(' · ')}`];
}

/** A share of repeated text that is worth a line. */
const WORTH_SAYING = 0.05;

/** What servers had to compute but once, beside what they might have. */
function sharedLine({
  stats,
  beginnings: { bytes, repeated } = { bytes: 0, repeated: 0 },
}: Closing): string[] {
  if (repeated === 0 || repeated < WORTH_SAYING * bytes) return [];
  const said = stats.endpoints.flatMap(endpoint => endpoint.said ?? []);
  const prompts = sumOf(said, one => one.prompts);
  const { prompt, cached } = stats.usage;
  const had =
    prompts > 0
      ? `${percent(
          sumOf(said, one => one.cached),
          prompts,
        )} of the prompt tokens were in the servers' caches (/metrics)`
      : cached > 0
        ? `${percent(cached, prompt)} of the prompt tokens were in the servers' caches`
        : 'the servers do not say what was in their caches';
  return [`shared: ${had} · ${percent(repeated, bytes)} of the items' text begins as another item's does`];
}

function timeWordsOf({ stats, times, now }: Closing): string {
  const { asking, waiting, retrying, mending, writing } = stats.times;
  const whole = itemTime(times, now);
  const parts: [string, number][] = [
    ['asking', asking],
    ['waiting for a place', waiting + times.passed],
    ['retries', retrying],
    ['mending', mending],
    ['writing', writing + times.unread],
  ];
  const suspended = (whole * stats.suspendedMs) / stats.since;
  if (suspended > whole / 200) parts.push(['while this process was suspended', suspended]);
  if (times.ordered > whole / 200) parts.push(['waiting for earlier items (--ordered)', times.ordered]);
  const other = whole - sumOf(parts, ([, ms]) => ms);
  if (other > whole / 100) parts.push(['between calls', other]);
  const [[first, ms] = ['', 0], ...rest] = parts;
  return [
    `${percent(ms, whole)} of item time ${first}`,
    ...rest.map(([name, of]) => `${percent(of, whole)} ${name}`),
  ].join(', ');
}

export function snapshotOf({ stats, times, now, loop, itemsInFlight, room }: Closing): Snapshot {
  const { since, suspendedMs, ledger, noEndpointMs, saturatedMs, waiting, endpoints } = stats;
  return {
    ms: since,
    isStanding: false,
    busy: loop * since,
    suspendedMs,
    ledger,
    unread: times.blocked,
    noEndpointMs,
    saturatedMs,
    ...room,
    waiting,
    items: itemTime(times, now) / since,
    itemsInFlight,
    endpoints: endpoints.map(one => ({ ...one, here: busyOf(one) / since, places: one.places / since })),
  };
}

/** Time in places that calls had. Places are counted at ticks, so that the last moments of calls may have none. */
const busyOf = ({ busy, places }: EndpointStats): number => Math.min(busy, places);

function endpointLines({ endpoints, since }: PoolStats): string[] {
  const words = (group: readonly EndpointStats[]): string => {
    const failed = new Map<string, number>();
    for (const one of group)
      for (const [kind, times] of Object.entries(one.failed))
        failed.set(kind, (failed.get(kind) ?? 0) + times);
    const kinds = [...failed].sort((a, b) => b[1] - a[1]).map(([kind, times]) => `${number(times)} ${kind}`);
    const tokens = sumOf(group, one => one.usage.completion);
    const others = sumOf(group, one => one.otherModel);
    const parts = [
      `${counted(
        sumOf(group, one => one.answered),
        'answer',
      )}${others > 0 ? ` (${number(others)} as another model)` : ''}`,
      `${number(Math.round((tokens * 1000) / since))} tokens/s out`,
      `${percent(
        sumOf(group, busyOf),
        sumOf(group, one => one.places),
      )} busy`,
    ];
    const seen = group.flatMap(one => one.gpuOverall?.use ?? []);
    if (seen.length > 0) {
      const use = sumOf(seen, share => share) / seen.length;
      parts.push(`${seen.length > 1 ? 'GPUs' : 'GPU'} ${percent(use, 1)} busy on average`);
    }
    if (kinds.length > 0) parts.push(`tries that failed: ${kinds.slice(0, 5).join(', ')}`);
    return parts.join(' · ');
  };
  const failures = (one: EndpointStats): number => sumOf(Object.values(one.failed), times => times);
  const own =
    endpoints.length <= OWN_LINES
      ? endpoints
      : [...endpoints].sort((a, b) => failures(b) - failures(a)).slice(0, OWN_LINES - 1);
  const others = endpoints.filter(one => !own.includes(one));
  const lines = own.map(one => `${one.url}: ${words([one])}`);
  if (others.length > 0) lines.push(`${counted(others.length, 'more endpoint')}: ${words(others)}`);
  return lines;
}

/** Items in flight, of those that may be: waves leave some of them out. */
const FULL = 0.8;

export function watchRoom(account: Account, pool: Pick<EndpointPool, 'stats' | 'itemsInFlight'>) {
  const sums = { starved: 0, tail: 0, capped: 0 };
  let last: { now: number; saturatedMs: number } | null = null;
  return {
    /** regularly, and at the end; `now` in ms */
    look(now: number): void {
      const { saturatedMs } = pool.stats();
      if (last !== null) {
        // what waited for a place had the servers full
        const free = Math.max(0, now - last.now - (saturatedMs - last.saturatedMs));
        const { endedAt, times } = account;
        const since = endedAt === null ? 0 : Math.min(free, now - endedAt);
        const inFlight = account.read - account.aside - doneOf(account);
        sums.tail += since;
        if (inFlight >= FULL * pool.itemsInFlight) sums.capped += free - since;
        else if (times.blockedSince === null) sums.starved += free - since;
      }
      last = { now, saturatedMs };
    },
    room: (): Room => ({ ...sums, all: account.endedAt === null ? null : account.read - account.aside }),
  };
}
