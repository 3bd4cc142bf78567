/**
 * Parts that do not come back, workers that get nowhere, and works that nobody can do.
 *
 * A request may take its worker with it, and each one after that: it is found by giving its part out to be asked alone, and
 * halving that, until it is one line. A worker may say hello and answer nothing, or wait at another Redis. And no worker may
 * have the models of a work. Nor does work go on where the disk of the coordinator is full.
 */
import { EXIT, fatalOf } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { counted } from '../../engine/core/item/wording.ts';
import type { Workers } from './known-workers.ts';
import type { Lease, Part } from './part-states.ts';
import { NotKept } from './protocol.ts';
import type { PlannedWork } from './shard-work.ts';

export interface HeldPart {
  work: PlannedWork;
  part: Part;
}

/** A part is suspect where so many workers were lost with it or could not do it; a line alone fails by name. */
const MOST_TRIES = 3;
/** ms without a line more that has an answer, and without anything handed in */
const STILL = 3_600_000;
/** ms that a pointer waits for a worker that has nothing to do, before it is said */
const UNTAKEN = 30_000;
const MOST_TOLD = 10_000;
/**
 * ms beside workers without the models of lines. Where one that is there does not know its own yet, or where others had these
 * models before, a worker may be on its way, and has a model to load: that time counts a fifth, which makes ten minutes.
 */
const UNSERVED = 2 * 60_000;
const EXPECTED = 1 / 5;
/** parts that fail in one look: each is read from the disk, and others wait */
const MOST_FAILED = 50;

interface Around {
  works: ReadonlyMap<string, PlannedWork>;
  workers: Workers;
  disk: Keeping;
  say: Say;
}

export class GettingNowhere {
  readonly #is: Around;
  /** lines that a worker had answered at the last look, and since when (ms) */
  readonly #moved = new Map<string, { answered: number; at: number }>();
  /** the worker that a part was taken from, unless it has taken it again, and how often that was */
  readonly #left = new WeakMap<Part, { worker: string | null; times: number }>();
  /** workers that were said to wait at another Redis */
  readonly #elsewhere = new Set<string>();
  /** ms that lines of a work waited beside workers without their models, by group */
  readonly #waited = new WeakMap<PlannedWork, Map<string, number>>();

  /** those whose lines are failing now: told of once */
  readonly #failing = new Set<string>();

  constructor(around: Around) {
    this.#is = around;
  }

  /** A worker is lost with all that it has. Of several parts that it had begun nobody knows which was the cause. */
  lostWith(held: readonly HeldPart[], why: string): void {
    this.#is.say(`${why}; what it has goes to others: ${partsWords(held)}`, {
      ...{ event: 'worker-lost', level: 'warn' },
    });
    const begun = begunOf(held);
    for (const one of held) {
      if (begun.length === 1 && begun[0] === one) this.lost(one, why);
      else {
        if (begun.includes(one)) one.part.doubts += 1;
        back(one);
      }
    }
  }

  /** A part that was not brought back, and was itself the cause as far as anybody knows. */
  lost({ work, part }: HeldPart, why: string): void {
    part.tries += 1;
    back({ work, part });
    if (work.isEnded) return;
    const { say, disk } = this.#is;
    const { lines, tries, isSuspect, root } = part;
    if (lines.length === 1 && tries >= MOST_TRIES) {
      const message = `expected a worker that answers this line, found ${tries} that did not come back with it; the last: ${why}`;
      say(`a line of shard ${root} of ${work.task.label} fails: ${message}`, {
        ...{ event: 'line-failed', level: 'warn', batch: work.task.label },
      });
      disk.tried(() => work.fail(part, { stage: 'sharding', code: 'worker-lost', message }));
    } else if (lines.length > 1 && isSuspect) {
      const middle = Math.ceil(lines.length / 2);
      say(`shard ${root} of ${work.task.label}, ${lines.length} lines of it, is cut in halves: ${why}`, {
        ...{ event: 'shard-cut', level: 'warn', batch: work.task.label },
      });
      const halves = [lines.slice(0, middle), lines.slice(middle)].map(lines => ({ lines, isSuspect }));
      disk.tried(() => work.cut(part, halves));
    }
  }

  /** Whether it was taken from this worker, which has not taken it again. */
  isLeftBy(part: Part, worker: string): boolean {
    return this.#left.get(part)?.worker === worker;
  }

  taken(part: Part): void {
    const left = this.#left.get(part);
    if (left !== undefined) left.worker = null;
  }

  /**
   * Workers that say hello and get nowhere. What such a one has goes to others, and nobody is blamed: its calls may be that
   * long. So each part that goes round stays twice as long with the next one. `away` ms nobody could be heard.
   */
  lookForStanding(byWorker: ReadonlyMap<string, readonly HeldPart[]>, now: number, away: number): void {
    for (const worker of this.#moved.keys()) if (!byWorker.has(worker)) this.#moved.delete(worker);
    for (const [worker, held] of byWorker) {
      const done = held.map(({ part }) => Math.min(part.lease?.done ?? 0, part.lines.length));
      const took = this.#is.workers.of(worker)?.took ?? 0;
      const answered = done.reduce((sum, lines) => sum + lines, took);
      const moved = this.#moved.get(worker);
      if (moved?.answered !== answered) {
        this.#moved.set(worker, { answered, at: now });
        continue;
      }
      moved.at = Math.min(now, moved.at + Math.max(0, away));
      const since = Math.max(moved.at, ...held.map(({ part }) => part.lease?.at ?? now));
      const times = held.map(({ part }) => this.#left.get(part)?.times ?? 0);
      if (now - since < STILL * 2 ** Math.max(...times)) continue;
      this.#is.say(
        `${worker} is connected but has answered nothing for ${Math.round((now - since) / 60_000)} minutes; ` +
          `what it has goes to others: ${partsWords(held)}`,
        { event: 'worker-silent', level: 'warn', worker },
      );
      for (const [at, { work, part }] of held.entries()) {
        this.#left.set(part, { worker, times: (times[at] as number) + 1 });
        work.parts.back(part);
      }
    }
  }

  /** Workers that say hello and take nothing, though there is something for them: each is told of once. */
  lookElsewhere(now: number): void {
    const { works, workers, say } = this.#is;
    for (const work of works.values()) {
      if (work.isEnded) continue;
      const old = [...work.parts.out].filter(
        ({ offer, lease }) => lease === null && offer !== null && now - offer.at > UNTAKEN,
      );
      const groups = new Map(old.map(part => [part.group, work.modelsOf(part)]));
      const able = [...groups.values()].flatMap(models => workers.serving(models, now));
      for (const { worker, held, since, endpoints } of able) {
        if (held.length > 0 || now - since < UNTAKEN || this.#elsewhere.has(worker)) continue;
        if (!endpoints.some(({ isUp }) => isUp)) continue; // it has said itself why it waits
        this.#elsewhere.add(worker);
        say(
          `${worker} takes nothing, though there is work for it; does it wait at the same Redis (--redis, --redis-prefix)?`,
          { event: 'worker-elsewhere', level: 'warn', worker },
        );
      }
    }
    if (this.#elsewhere.size > MOST_TOLD) this.#elsewhere.clear();
  }

  /**
   * Lines of models that no worker has. While nobody is there they wait, since the worker that has them may be on its way. Where
   * workers are there, and none has them for so long in all, nobody will: a name was mistyped. Then these lines fail, others of
   * the work go on, and they keep nothing started any more. `elapsed`: ms since the last look.
   */
  lookForUnserved(now: number, elapsed: number): void {
    const { works, workers } = this.#is;
    const isFindingOut = workers
      .alive(now)
      .some(({ models, isStopping }) => models.length === 0 && !isStopping);
    for (const work of works.values()) {
      if (work.isEnded) continue;
      const waited = this.#waited.get(work) ?? new Map<string, number>();
      this.#waited.set(work, waited);
      for (const [group, models] of work.groups) {
        const isHeld = [...work.parts.out].some(part => part.group === group && part.lease !== null);
        const counts = isFindingOut || workers.haveHad(models) ? EXPECTED : 1;
        const ms = isHeld || !workers.lack(models, now) ? 0 : (waited.get(group) ?? 0) + counts * elapsed;
        waited.set(group, ms);
        if (ms >= UNSERVED) this.#failUnserved(work, group, models, now);
      }
    }
  }

  #failUnserved(work: PlannedWork, group: string, models: readonly string[], now: number): void {
    const open = [...work.parts.waitingIn(group).list, ...work.parts.out].filter(one => one.group === group);
    if (open.length === 0) return;
    const { workers, say, disk } = this.#is;
    const { length } = workers.alive(now).filter(({ isStopping }) => !isStopping);
    const wanted = models.length === 1 ? `the model ${models[0]}` : `all of the models ${models.join(', ')}`;
    const message = `expected a worker that serves ${wanted}, found none among ${counted(length, 'worker')} for minutes`;
    const failure = { stage: 'sharding', code: 'no-such-model', message } as const;
    const about = { event: 'model-unserved', level: 'warn', batch: work.task.label } as const;
    if (work.groups.size === 1) {
      say(`${work.task.label}: ${message}; what is left of it fails`, about);
      return work.end(failure);
    }
    const name = `${work.id} ${group}`;
    if (!this.#failing.has(name)) say(`${work.task.label}: ${message}; its lines for that fail`, about);
    this.#failing.add(name);
    disk.tried(() => {
      for (const part of open.slice(0, MOST_FAILED)) work.fail(part, failure);
    });
    if (open.length <= MOST_FAILED) this.#failing.delete(name);
  }
}

/** `3 lines in 2 parts` */
function partsWords(held: readonly HeldPart[]): string {
  const lines = held.reduce((sum, { part }) => sum + part.lines.length, 0);
  return `${counted(lines, 'line')} in ${counted(held.length, 'part')}`;
}

/** It waits again. */
function back({ work, part }: HeldPart): void {
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

/** ms between two lines about the same trouble */
const AGAIN = 60_000;

/**
 * What the disk of a coordinator refuses. A full disk ends no work: it is said, once in a while, and workers keep what they
 * have and ask again, until there is room.
 */
export class Keeping {
  readonly #say: Say;
  readonly #now: () => number;
  #toldAt: number | null = null;

  constructor(say: Say, now: () => number) {
    this.#say = say;
    this.#now = now;
  }

  /** Does what needs the disk. Throws NotKept where that refuses, and whatever else is wrong as it is. */
  kept<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const { exit, message } = fatalOf(error);
      if (exit === EXIT.bug) throw error;
      this.#tell(message);
      throw new NotKept('The disk of the coordinator does not take this now.');
    }
  }

  /** The same of what nobody waits for: it is done another time. */
  tried(act: () => void): void {
    try {
      this.kept(act);
    } catch (error) {
      if (!(error instanceof NotKept)) throw error;
    }
  }

  #tell(message: string): void {
    if (this.#toldAt !== null && Math.abs(this.#now() - this.#toldAt) < AGAIN) return;
    this.#toldAt = this.#now();
    this.#say(`cannot write to disk, and workers wait for it: ${message}`, { event: 'disk', level: 'error' });
  }
}
