/**
 * Work of models that no worker has. While nobody is there it waits, since the worker that has them may be on its way. Where
 * workers are there, and none has them for ten minutes in all, nobody will: a name was mistyped, or the lines name
 * models of different workers. Then its lines fail, and it keeps nothing started any more.
 */
import { counted } from '../../engine/core/item/wording.ts';
import { type createWorkers, mayTake } from './known-workers.ts';
import type { PlannedWork } from './shard-work.ts';

/** ms beside workers without its models; a worker has a model to load, too */
const PATIENCE = 10 * 60_000;

export function createUnserved(
  { works, workers }: { works: ReadonlyMap<string, PlannedWork>; workers: ReturnType<typeof createWorkers> },
  say: (message: string) => void,
) {
  const waited = new WeakMap<PlannedWork, number>();
  /** `elapsed`: ms since the last look */
  return (now: number, elapsed: number): void => {
    // one that names none is still finding out
    const here = workers.alive(now).filter(({ models, isStopping }) => models.length > 0 && !isStopping);
    if (here.length === 0) return;
    for (const work of works.values()) {
      const { models } = work.task;
      if (work.isEnded || models.length === 0) continue;
      const isServed = here.some(one => mayTake(one, models));
      const isHeld = [...work.parts.out].some(({ lease }) => lease !== null);
      if (isServed || isHeld) {
        waited.delete(work);
        continue;
      }
      const so = (waited.get(work) ?? 0) + elapsed;
      waited.set(work, so);
      if (so < PATIENCE) continue;
      const wanted =
        models.length === 1 ? `the model ${models[0]}` : `all of the models ${models.join(', ')}`;
      const message = `expected a worker that serves ${wanted}, found none among ${counted(here.length, 'worker')} for ${PATIENCE / 60_000} minutes`;
      say(`${work.task.label}: ${message}; what is left of it fails`);
      work.end({ stage: 'sharding', code: 'no-such-model', message });
    }
  };
}
