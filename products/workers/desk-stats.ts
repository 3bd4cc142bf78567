/** What a person, a page and Prometheus are told of works and workers. */

import type { createWorkers, KnownWorker } from './known-workers.ts';
import type { PlannedWork } from './shard-work.ts';

export interface DeskStats {
  workers: KnownWorker[];
  /** those that were heard of within a lease */
  here: KnownWorker[];
  alive: number;
  shards: { planned: number; offered: number; running: number; done: number };
  queuedLines: number;
  runningLines: number;
  /** seconds that one worker would need; null while no rate is known */
  queuedSeconds: number | null;
  runningSeconds: number | null;
  /** ms since 1970; null before the first */
  lastResult: number | null;
  isQueueUp: boolean;
  works: WorkStats[];
}

export interface WorkStats {
  id: string;
  label: string;
  owner: string;
  models: string[];
  lines: number;
  done: number;
  shards: number;
  shardsDone: number;
  /** lines that workers have, without those that are answered */
  running: number;
  /** that hold parts of it */
  workers: number;
}

interface Sources {
  workers: ReturnType<typeof createWorkers>;
  /** ms since 1970 */
  now: number;
  lastResult: number | null;
  isQueueUp: boolean;
}

export function statsOf(works: readonly PlannedWork[], { workers, now, ...said }: Sources): DeskStats {
  const rate = workers.rate(now);
  const here = workers.alive(now);
  const shards = { planned: 0, offered: 0, running: 0, done: 0 };
  const all = works.map(work => workStatsOf(work, shards));
  const running = all.reduce((sum, one) => sum + one.running, 0);
  const queued = all.reduce((sum, one) => sum + one.lines - one.done, 0) - running;
  return {
    workers: workers.all(),
    here,
    alive: here.length,
    shards,
    queuedLines: queued,
    runningLines: running,
    queuedSeconds: secondsOf(queued, rate),
    runningSeconds: secondsOf(running, rate),
    ...said,
    works: all,
  };
}

const secondsOf = (lines: number, rate: number | null): number | null =>
  lines === 0 ? 0 : rate === null ? null : lines / rate;

function workStatsOf({ id, task, parts, lines, shards }: PlannedWork, sums: DeskStats['shards']): WorkStats {
  const holders = new Set<string>();
  let running = 0;
  sums.planned += parts.waiting.parts;
  for (const { lease, lines } of parts.out) {
    if (lease === null) {
      sums.offered += 1;
      continue;
    }
    sums.running += 1;
    holders.add(lease.worker);
    running += Math.max(0, lines.length - lease.done);
  }
  sums.done += parts.done.shards;
  const { label, owner, models } = task;
  return {
    ...{ id, label, owner, models, lines, shards, running },
    done: parts.done.lines,
    shardsDone: parts.done.shards,
    workers: holders.size,
  };
}
