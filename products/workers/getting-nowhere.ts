/**
 * Parts that do not come back, workers that get nowhere, and works that nobody can do.
 *
 * A request may take its worker with it, and each one after that: it is found by giving its part out to be asked alone, and
 * halving that, until it is one line (`Blame`). A worker may say hello and answer nothing (`Standing`), or wait at another
 * Redis (`elsewhere`). And no worker may have the models of a work (`unserved`).
 */
import { counted } from '../../engine/core/item/wording.ts';
import type { Keeping } from './keeping.ts';
import { mayTake, type Workers } from './known-workers.ts';
import type { Lease, Part } from './part-states.ts';
import type { PlannedWork } from './shard-work.ts';

type Say = (message: string) => void;
type Works = ReadonlyMap<string, PlannedWork>;

export interface HeldPart {
  work: PlannedWork;
  part: Part;
}

/** `3 lines in 2 parts` */
export function partsWords(held: readonly HeldPart[]): string {
  const lines = held.reduce((sum, { part }) => sum + part.lines.length, 0);
  return `${counted(lines, 'line')} in ${counted(held.length, 'part')}`;
}

/** A part is suspect where so many workers were lost with it or could not do it; a line alone fails by name. */
const MOST_TRIES = 3;

export class Blame {
  readonly #say: Say;
  readonly #disk: Keeping;

  constructor(say: Say, disk: Keeping) {
    this.#say = say;
    this.#disk = disk;
  }

  /** A worker is lost with all that it has. Of several parts that it had begun nobody knows which was the cause. */
  lostWith(held: readonly HeldPart[], why: string): void {
    const begun = begunOf(held);
    for (const one of held) {
      const { work, part } = one;
      if (begun.length === 1 && begun[0] === one) this.lost(work, part, why);
      else {
        if (begun.includes(one)) part.doubts += 1;
        back(work, part);
      }
    }
  }

  /** A part that was not brought back, and was itself the cause as far as anybody knows. */
  lost(work: PlannedWork, part: Part, why: string): void {
    part.tries += 1;
    back(work, part);
    if (work.isEnded) return;
    const { lines, tries, isSuspect, root } = part;
    if (lines.length === 1 && tries >= MOST_TRIES) {
      const message = `expected a worker that answers this line, found ${tries} that did not come back with it; the last: ${why}`;
      this.#say(`a line of shard ${root} of ${work.task.label} fails: ${message}`);
      this.#disk.tried(() => work.fail(part, { stage: 'sharding', code: 'worker-lost', message }));
    } else if (lines.length > 1 && isSuspect) {
      const middle = Math.ceil(lines.length / 2);
      this.#say(`shard ${root} of ${work.task.label}, ${lines.length} lines of it, is cut in halves: ${why}`);
      const halves = [lines.slice(0, middle), lines.slice(middle)];
      this.#disk.tried(() =>
        work.cut(
          part,
          halves.map(lines => ({ lines, isSuspect: true })),
        ),
      );
    }
  }
}

/** It waits again. */
function back(work: PlannedWork, part: Part): void {
  part.isSuspect ||= part.tries + part.doubts >= MOST_TRIES;
  work.parts.back(part);
  work.look();
}

/** Of what a worker has: a part that is asked alone waits until all else is handed in. */
function begunOf(held: readonly HeldPart[]): readonly HeldPart[] {
  const others = held.filter(({ part }) => !part.isSuspect);
  if (others.length > 0) return others;
  const takenAt = ({ part }: HeldPart): number => (part.lease as Lease).at;
  return [...held].sort((a, b) => takenAt(a) - takenAt(b)).slice(0, 1);
}

/** ms without a line more that has an answer, and without anything handed in */
const STILL = 3_600_000;

/**
 * Workers that say hello and get nowhere. What such a one has goes to others, and nobody is blamed: its calls may be that
 * long. So each part that goes round stays twice as long with the next one.
 */
export class Standing {
  readonly #workers: Workers;
  readonly #say: Say;
  readonly #moved = new Map<string, { answered: number; at: number }>();
  readonly #left = new WeakMap<Part, { worker: string | null; times: number }>();

  constructor(workers: Workers, say: Say) {
    this.#workers = workers;
    this.#say = say;
  }

  /** Whether it went from this worker, which has not taken it again. */
  isLeftBy(part: Part, worker: string): boolean {
    return this.#left.get(part)?.worker === worker;
  }

  taken(part: Part): void {
    const before = this.#left.get(part);
    if (before !== undefined) before.worker = null;
  }

  /** Looks at who holds what; `away` ms nobody could be heard. */
  look(byWorker: ReadonlyMap<string, readonly HeldPart[]>, now: number, away: number): void {
    for (const worker of this.#moved.keys()) if (!byWorker.has(worker)) this.#moved.delete(worker);
    for (const [worker, held] of byWorker) {
      const done = held.reduce(
        (sum, { part }) => sum + Math.min(part.lease?.done ?? 0, part.lines.length),
        0,
      );
      const answered = (this.#workers.of(worker)?.took ?? 0) + done;
      const before = this.#moved.get(worker);
      if (before?.answered !== answered) {
        this.#moved.set(worker, { answered, at: now });
        continue;
      }
      before.at = Math.min(now, before.at + Math.max(0, away));
      const since = Math.max(before.at, ...held.map(({ part }) => part.lease?.at ?? now));
      if (now - since < STILL * 2 ** Math.max(...held.map(({ part }) => this.#timesOf(part)))) continue;
      this.#say(
        `${worker} is there and has answered nothing for ${Math.round((now - since) / 60_000)} minutes; ` +
          `what it has goes to others: ${partsWords(held)}`,
      );
      for (const { work, part } of held) {
        this.#left.set(part, { worker, times: this.#timesOf(part) + 1 });
        work.parts.back(part);
      }
    }
  }

  #timesOf(part: Part): number {
    return this.#left.get(part)?.times ?? 0;
  }
}

/** ms that a pointer waits for a worker that has nothing to do, before it is said */
const UNTAKEN = 30_000;
const MOST_TOLD = 10_000;

/**
 * Workers that say hello and take nothing, though there is something for them: they wait at another Redis. Asked now and
 * then: what there is to say, each worker once.
 */
export function elsewhere(works: Works, workers: Workers): (now: number) => string[] {
  const told = new Set<string>();
  return now => {
    const lines: string[] = [];
    for (const { task, parts, isEnded } of works.values()) {
      const offers = [...parts.out].flatMap(({ offer, lease }) => (lease === null && offer ? offer.at : []));
      if (isEnded || !offers.some(at => now - at > UNTAKEN)) continue;
      for (const { worker, held, since, endpoints } of workers.serving(task.models, now)) {
        if (held.length > 0 || now - since < UNTAKEN || told.has(worker)) continue;
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

/** ms beside workers without its models; a worker has a model to load, too */
const PATIENCE = 10 * 60_000;

/**
 * Work of models that no worker has. While nobody is there it waits, since the worker that has them may be on its way. Where
 * workers are there, and none has them for ten minutes in all, nobody will: a name was mistyped, or the lines name
 * models of different workers. Then its lines fail, and it keeps nothing started any more. `elapsed`: ms since the last look.
 */
export function unserved(works: Works, workers: Workers, say: Say): (now: number, elapsed: number) => void {
  const waited = new WeakMap<PlannedWork, number>();
  return (now, elapsed) => {
    // one that names none is still finding out
    const here = workers.alive(now).filter(({ models, isStopping }) => models.length > 0 && !isStopping);
    if (here.length === 0) return;
    for (const work of works.values()) {
      const { models } = work.task;
      if (work.isEnded || models.length === 0) continue;
      const isServed = here.some(one => mayTake(one, models));
      const isHeld = [...work.parts.out].some(({ lease }) => lease !== null);
      const ms = isServed || isHeld ? 0 : (waited.get(work) ?? 0) + elapsed;
      waited.set(work, ms);
      if (ms < PATIENCE) continue;
      const wanted =
        models.length === 1 ? `the model ${models[0]}` : `all of the models ${models.join(', ')}`;
      const message = `expected a worker that serves ${wanted}, found none among ${counted(here.length, 'worker')} for ${PATIENCE / 60_000} minutes`;
      say(`${work.task.label}: ${message}; what is left of it fails`);
      work.end({ stage: 'sharding', code: 'no-such-model', message });
    }
  };
}
