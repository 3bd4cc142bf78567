/**
 * What a person, a page and Prometheus are told of works and workers: the figures, and, while a run or a server waits for
 * workers, who comes and goes, and what to do where nobody does.
 */
import { counted, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { type KnownWorker, mayTake, type Workers } from './known-workers.ts';
import type { Part } from './part-states.ts';
import type { PlannedWork } from './shard-work.ts';

export type { KnownWorker };

export type DeskStats = ReturnType<typeof statsOf>;
export type WorkStats = ReturnType<typeof workStatsOf>;

interface Sources {
  workers: Workers;
  /** ms since 1970 */
  now: number;
  /** ms since 1970; null before the first */
  lastResult: number | null;
  isQueueUp: boolean;
}

export function statsOf(works: readonly PlannedWork[], { workers, now, ...said }: Sources) {
  const rate = workers.rate(now);
  const here = workers.alive(now);
  const shards = { planned: 0, offered: 0, unserved: 0, running: 0, done: 0 };
  // of models that none who is there has, nor anybody had: nothing is to be started for them
  const isUnserved = (models: readonly string[]): boolean =>
    workers.lack(models, now) && !workers.haveHad(models);
  const all = works.map(work => workStatsOf(work, shards, { here, isUnserved }));
  const running = all.reduce((sum, one) => sum + one.running, 0);
  const unserved = all.reduce((sum, one) => sum + one.unserved, 0);
  const queued = all.reduce((sum, one) => sum + one.lines - one.done, 0) - running - unserved;
  return {
    workers: workers.all(),
    /** those that were heard of within a lease */
    here,
    alive: here.length,
    shards,
    queuedLines: queued,
    runningLines: running,
    unservedLines: unserved,
    /** seconds that one worker would need; null while no rate is known */
    queuedSeconds: secondsOf(queued, rate),
    runningSeconds: secondsOf(running, rate),
    ...said,
    works: all,
  };
}

const secondsOf = (lines: number, rate: number | null): number | null =>
  lines === 0 ? 0 : rate === null ? null : lines / rate;

function workStatsOf(
  { id, task, parts, lines, shards, groups, isEnded }: PlannedWork,
  sums: Record<'planned' | 'offered' | 'unserved' | 'running' | 'done', number>,
  { here, isUnserved }: { here: readonly KnownWorker[]; isUnserved(models: readonly string[]): boolean },
) {
  const holders = new Set<string>();
  let [running, unserved] = [0, 0];
  /** models of lines that wait and that nobody here may take; null where there are none */
  let lacking: string[] | null = null;
  const offers = new Map<string, Part[]>();
  for (const part of parts.out)
    if (part.lease === null) offers.set(part.group, [...(offers.get(part.group) ?? []), part]);
  for (const [group, models] of groups) {
    const waiting = parts.waitingIn(group);
    const offered = offers.get(group) ?? [];
    if (waiting.list.length + offered.length === 0) continue;
    if (!here.some(one => mayTake(one, models))) lacking = [...(lacking ?? []), ...models];
    if (isUnserved(models) && !isEnded) {
      sums.unserved += waiting.list.length + offered.length;
      unserved += offered.reduce((sum, one) => sum + one.lines.length, waiting.lines);
    } else {
      sums.planned += waiting.list.length;
      sums.offered += offered.length;
    }
  }
  for (const { lease, lines } of parts.out) {
    if (lease === null) continue;
    sums.running += 1;
    holders.add(lease.worker);
    running += Math.max(0, lines.length - lease.done);
  }
  sums.done += parts.done.shards;
  const { label, owner, models } = task;
  return {
    ...{ id, label, owner, models, lines, shards },
    /** lines that workers have, without those that are answered */
    running,
    /** that no worker will take, as far as is known; and the models that nobody here has, of lines that wait */
    ...{ unserved, lacking },
    done: parts.done.lines,
    shardsDone: parts.done.shards,
    /** that hold parts of it */
    workers: holders.size,
  };
}

/** ms without a worker after which it is said, and ms until it is said again */
const PATIENCE = 10_000;
const AGAIN = 10 * 60_000;
/** workers that come and go are named so often in that time: of a thousand nobody wants to read */
const MOST = 40;
/** … and in the sum at the end */
const FEW = 8;

/** `isAwaited`: a worker is wanted before there is any work. */
export function createNews(how: string, isAwaited = false) {
  const known = new Map<string, string>();
  let told = 0;
  let toldSince = Number.NEGATIVE_INFINITY;
  let idleSince: number | null = null;
  let nextWord = 0;

  function comeAndGo(here: readonly KnownWorker[], now: number): string[] {
    const lines: string[] = [];
    for (const one of here)
      if (!known.has(one.worker)) lines.push(`worker ${nameOf(one)} is here: ${placesOf(one)}`);
    for (const [worker, name] of known)
      if (!here.some(one => one.worker === worker)) lines.push(`worker ${name} has gone`);
    known.clear();
    for (const one of here) known.set(one.worker, nameOf(one));
    if (now - toldSince >= AGAIN) {
      told = 0;
      toldSince = now;
    }
    const heard = lines.slice(0, Math.max(0, MOST - told));
    told += lines.length;
    if (heard.length < lines.length && told - lines.length < MOST)
      heard.push('many workers come and go: for ten minutes no more are named; the metrics count them');
    return heard;
  }

  return {
    /** What there is to say now; asked once a second or so. `now` in ms since 1970. */
    look({ here, works, isQueueUp }: DeskStats, now: number): string[] {
      const lines = comeAndGo(here, now);
      const isServed = ({ models }: { models: readonly string[] }) => here.some(one => mayTake(one, models));
      const lacking = works.flatMap(work => (work.lacking === null ? [] : [work.lacking]));
      const wanted = [...new Set(lacking.flat())];
      const isEarly = isAwaited && works.length === 0 && !isServed({ models: [] });
      if ((lacking.length === 0 && !isEarly) || !isQueueUp) idleSince = null;
      else {
        idleSince ??= now;
        if (now - idleSince >= PATIENCE && now >= nextWord) {
          nextWord = now + AGAIN;
          lines.push(here.length === 0 ? `no worker is here; start some: ${how}` : unserved(here, wanted));
        }
      }
      return lines;
    },
  };
}

/** Who has handed in how much, for the end. */
export function createHandedIn() {
  const took = new Map<string, { name: string; lines: number }>();
  return {
    note({ workers }: DeskStats): void {
      for (const one of workers) took.set(one.worker, { name: nameOf(one), lines: one.took });
    },
    words(): string[] {
      const each = [...took.values()].filter(({ lines }) => lines > 0).sort((a, b) => b.lines - a.lines);
      if (each.length === 0) return [];
      const sum = each.reduce((all, { lines }) => all + lines, 0);
      const named = each.slice(0, FEW).map(({ name, lines }) => `${name} ${number(lines)}`);
      const more = each.length > FEW ? [`${number(each.length - FEW)} more`] : [];
      return [
        `${counted(each.length, 'worker')} handed in ${counted(sum, 'line')}: ${[...named, ...more].join(', ')}`,
      ];
    },
  };
}

function unserved(alive: readonly KnownWorker[], wanted: readonly string[]): string {
  const all = new Set(alive.flatMap(({ models }) => models));
  const more = all.size > FEW ? [`${number(all.size - FEW)} more`] : [];
  const served = [...[...all].slice(0, FEW).map(visible), ...more].join(', ');
  return `expected a worker that serves ${wanted.map(visible).join(' and ')}, found none: ${counted(alive.length, 'worker')} with ${served || 'no model'}`;
}

const nameOf = ({ host, pid }: KnownWorker): string => `${visible(host)}/${pid}`;

function placesOf({ endpoints, models, places }: KnownWorker): string {
  const served = models.length === 0 ? 'no model yet' : visible(models.slice(0, 3).join(', '));
  return `${counted(endpoints.length, 'endpoint')}, ${counted(places, 'place')}, ${served}`;
}
