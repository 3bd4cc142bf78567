/** Workers that say hello and take nothing, though there is something for them: they wait at another Redis. */

import type { createWorkers } from './known-workers.ts';
import type { PlannedWork } from './shard-work.ts';

/** ms that a pointer waits for a worker that has nothing to do, before it is said */
const PATIENCE = 30_000;

interface Sources {
  works: ReadonlyMap<string, PlannedWork>;
  workers: ReturnType<typeof createWorkers>;
}

/** Asked now and then: what there is to say, each worker once. */
export function createElsewhere({ works, workers }: Sources): (now: number) => string[] {
  const told = new Set<string>();
  return now => {
    const lines: string[] = [];
    for (const { task, parts, isEnded } of works.values()) {
      const offers = [...parts.out].flatMap(({ offer, lease }) => (lease === null && offer ? offer.at : []));
      if (isEnded || !offers.some(at => now - at > PATIENCE)) continue;
      for (const { worker, held, since, endpoints } of workers.serving(task.models, now)) {
        if (held.length > 0 || now - since < PATIENCE || told.has(worker)) continue;
        if (!endpoints.some(({ isUp }) => isUp)) continue; // it has said itself why it waits
        told.add(worker);
        lines.push(
          `${worker} takes nothing, though there is work for it; does it wait at the same Redis (--redis, --redis-prefix)?`,
        );
      }
    }
    if (told.size > MOST_TOLD) told.clear();
    return lines;
  };
}

const MOST_TOLD = 10_000;
