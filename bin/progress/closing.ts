/**
 * The last lines of a run that asked: where the time of its items went, which part held it up, and what each endpoint
 * did. From sums over all calls and items, so that a short phase counts for what it was.
 */
import { number } from '../../engine/flow/account.ts';
import type { Times } from '../../engine/flow/times.ts';
import type { EndpointStats, PoolStats } from '../../engine/pool/stats.ts';
import { BUSY, percent, sumOf } from './words.ts';

export interface Closing {
  stats: PoolStats;
  times: Times;
  /** share of the time in which this process's one thread had something to do, 0 to 1 */
  loop: number;
  /** items that may be in flight at a time */
  itemsInFlight: number;
}

/** Endpoints that get a line of their own: where there are more, those that failed most, and a sum of the others. */
const OWN_LINES = 3;

/** None where nothing was asked. */
export function closingLines(closing: Closing): string[] {
  const { stats } = closing;
  if (stats.calls === 0) return [];
  return [`time: ${timeWordsOf(closing)} · bottleneck: ${bottleneckOf(closing)}`, ...endpointLines(stats)];
}

function timeWordsOf({ stats, times }: Closing): string {
  const { asking, waiting, retrying, mending, writing } = stats.times;
  const whole = times.items;
  const parts: [string, number][] = [
    ['asking', asking],
    ['waiting for a place', waiting + times.passed],
    ['retries', retrying],
    ['mending', mending],
    ['writing', writing + times.unread],
  ];
  const stood = (whole * stats.stood) / stats.since;
  if (stood > whole / 200) parts.push(['while this process stood still', stood]);
  if (times.ordered > whole / 200) parts.push(['waiting for earlier items (--ordered)', times.ordered]);
  const other = whole - sumOf(parts, ([, ms]) => ms);
  if (other > whole / 100) parts.push(['between calls', other]);
  const [[first, ms] = ['', 0], ...rest] = parts;
  return [
    `${percent(ms, whole)} of item time ${first}`,
    ...rest.map(([name, of]) => `${percent(of, whole)} ${name}`),
  ].join(', ');
}

/** What held up a run for less of its time held up nothing. */
const SOME = 0.1;
/** Items in flight on average, of those that may be: waves and the end of a run leave some of them out. */
const FULL = 0.8;

export function bottleneckOf({ stats, times, loop, itemsInFlight }: Closing): string {
  const { since, endpoints } = stats;
  if (loop >= BUSY) return `this process, whose one thread was busy ${percent(loop, 1)} of the time`;
  const average = (ms: number): string => number(Math.round(ms / since));
  const places = `${average(sumOf(endpoints, one => one.busy))} of ${average(sumOf(endpoints, one => one.places))} places busy on average`;
  const stops: [ms: number, words: (share: string) => string][] = [
    [stats.full, share => `the servers: calls waited for a place ${share} of the time (${places})`],
    [stats.without, share => `no endpoint could be asked ${share} of the time`],
    [stats.ledger, share => `the disk: writing the ledger took ${share} of the time`],
    [
      stats.stood,
      share => `this process did not run ${share} of the time: it was stopped, or the machine slept`,
    ],
    [times.blocked, share => `the reader of the output, which was not ready ${share} of the time`],
  ];
  const [ms, words] = stops.reduce((most, stop) => (stop[0] > most[0] ? stop : most));
  if (ms >= SOME * since) return words(percent(ms, since));
  return times.items >= FULL * itemsInFlight * since
    ? `--in-flight ${number(itemsInFlight)}: the servers had room (${places})`
    : `too few items at a time, ${average(times.items)} on average: the servers had room (${places})`;
}

function endpointLines({ endpoints, since }: PoolStats): string[] {
  const words = (group: readonly EndpointStats[]): string => {
    const failed = new Map<string, number>();
    for (const one of group)
      for (const [kind, times] of Object.entries(one.failed))
        failed.set(kind, (failed.get(kind) ?? 0) + times);
    const kinds = [...failed].sort((a, b) => b[1] - a[1]).map(([kind, times]) => `${number(times)} ${kind}`);
    const tokens = sumOf(group, one => one.usage.completion);
    const parts = [
      `${number(sumOf(group, one => one.answered))} answers`,
      `${number(Math.round((tokens * 1000) / since))} tokens/s out`,
      `${percent(
        sumOf(group, one => one.busy),
        sumOf(group, one => one.places),
      )} busy`,
    ];
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
  if (others.length > 0) lines.push(`${others.length} more endpoints: ${words(others)}`);
  return lines;
}
