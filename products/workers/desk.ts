/**
 * All works of a coordinator: what of them is offered in the queue, who holds which part, and what has come back. The queue
 * only points: what is open, and neither offered nor held, is offered again. So a Redis that lost its data, a worker that
 * died and a pointer that nobody understood are one case.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { readKept, replaceFile } from '../../engine/core/files/durable.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { type DeskStats, statsOf } from './desk-stats.ts';
import { GettingNowhere, type HeldPart, Keeping } from './getting-nowhere.ts';
import { type HadModels, hadModelsIn, Workers } from './known-workers.ts';
import { Offers } from './offers.ts';
import type { PointerQueue } from './part-queue.ts';
import type { Lease, Part } from './part-states.ts';
import {
  type Given,
  Gone,
  Held,
  type Hello,
  NotYet,
  type Orders,
  type PartName,
  type Result,
  type Task,
  WrongResult,
} from './protocol.ts';
import type { Plan } from './shard-plan.ts';
import { PlannedWork, type Work } from './shard-work.ts';

export { hadModelsIn, type PlannedWork };

export interface DeskOptions {
  queue: PointerQueue;
  /** begins the names of its queues: two coordinators may share one Redis */
  id: string;
  /** ms of silence after which what a worker holds goes to others */
  lease: number;
  now?: () => number;
  /** models that workers had before; of this process alone unless given */
  had?: HadModels;
  say: Say;
}

/** ms between two looks at leases; ms between two hellos, at most */
const LOOK = 1_000;
const EVERY = 5_000;
/** ms in which a worker has found out that its coordinator is there again, at the least */
const SAID = 1_000;

class OpenDesk {
  readonly #queue: PointerQueue;
  readonly #lease: number;
  readonly #now: () => number;
  readonly #works = new Map<string, PlannedWork>();
  readonly #over = new Set<string>();
  readonly #workers: Workers;
  readonly #disk: Keeping;
  readonly #offers: Offers;
  readonly #nowhere: GettingNowhere;
  /** ms between two hellos */
  readonly #every: number;
  readonly #looking: NodeJS.Timeout;
  #begun: number;
  #lookedAt: number;
  #lastResult: number | null = null;

  constructor({ queue, id, lease, now = Date.now, had, say }: DeskOptions) {
    this.#queue = queue;
    this.#lease = lease;
    this.#now = now;
    this.#workers = new Workers(lease, had);
    this.#disk = new Keeping(say, now);
    const own = { works: this.#works, workers: this.#workers, disk: this.#disk };
    this.#offers = new Offers({ ...own, queue, id, lease, now });
    this.#nowhere = new GettingNowhere({ ...own, say });
    this.#every = Math.min(EVERY, lease / 12);
    this.#begun = this.#lookedAt = now();
    this.#looking = setInterval(this.look, Math.min(LOOK, lease / 4)).unref();
  }

  /** Gives the work out from now on, going on where the disk says that it was. */
  readonly open = (work: Work, plan: Plan): PlannedWork => {
    const planned = new PlannedWork(work, plan);
    // workers may have parts of it from before a restart: first they say so
    if (!plan.isNew)
      planned.opensAt = this.#now() + Math.max(2 * this.#every, Math.min(SAID, this.#lease / 3));
    this.#works.set(work.id, planned);
    this.#offers.fill();
    return planned;
  };

  /** Its parts are offered no more; what workers hold of it, they drop. */
  readonly drop = (work: string): void => {
    this.#works.get(work)?.close();
    this.#works.delete(work);
    this.#over.add(work);
  };

  readonly hello = (hello: Hello): Orders => {
    const time = this.#now();
    this.#workers.heard(hello, time);
    const drop = this.#renew(hello, time);
    this.#takeBackUnheard(hello, time);
    drop.push(...this.#offers.toShare(hello));
    this.#offers.fill();
    const queues = hello.isStopping ? [] : this.#offers.queuesFor(hello);
    const sharing = this.#workers.sharing(hello, time);
    return { queues, drop, sharing, every: this.#every, lease: this.#lease };
  };

  readonly task = (work: string): Task => this.#workOf(work).task;

  readonly files = (work: string): Buffer => {
    const { files } = this.#workOf(work);
    if (files === null) throw new Gone('This work has no files.');
    return files;
  };

  /** The lines of a part for a worker, which holds it from now on. Throws Gone, Held, NotKept. */
  readonly take = (name: PartName, worker: string): Given & { lines: Buffer } => {
    const { work, part } = this.#openPart(name);
    if (work.isEnded) throw new Gone('This work is over.');
    const time = this.#now();
    if (part.lease !== null && part.lease.worker !== worker) throw new Held('Another worker has this part.'); // whose name is nobody else's: results are under it
    if (part.lease === null && work.opensAt > time) throw new NotYet('Workers first say what they have.');
    const lines = Buffer.concat(this.#disk.kept(() => work.linesOf(part)));
    work.parts.lend(part, { worker, at: time, until: time + this.#lease, done: 0 });
    this.#nowhere.taken(part);
    this.#offers.fill();
    return { isAlone: part.isSuspect, lines };
  };

  /** The number of lines that are left of the part. Throws Gone, WrongResult, NotKept. */
  readonly put = (name: PartName, result: Result, lines: Buffer): number => {
    const { work, part } = this.#openPart(name);
    const { worker, answered, broken } = result;
    if (answered.length > 0) {
      const left = this.#disk.kept(() => this.#taken({ work, part }, result, lines));
      if (left === null) throw new Gone('This part is done.');
      this.#lastResult = this.#now();
      const from = this.#workers.of(worker);
      if (from) from.took += answered.length;
      this.#offers.fill();
      return left;
    }
    if (part.lease?.worker === worker) {
      if (broken === undefined) work.parts.back(part);
      else this.#nowhere.lost({ work, part }, `${worker}: ${broken}`);
      work.look();
      this.#offers.fill();
    }
    return part.lines.length;
  };

  /** whether a worker is alive that serves one of these, or any where there are none */
  readonly isServed = (models: readonly string[]): boolean =>
    (models.length === 0 ? [[]] : models.map(model => [model])).some(
      wanted => this.#workers.serving(wanted, this.#now()).length > 0,
    );

  readonly stats = (): DeskStats =>
    statsOf([...this.#works.values()], {
      workers: this.#workers,
      now: this.#now(),
      lastResult: this.#lastResult,
      isQueueUp: this.#queue.isUp,
    });

  /** What only time brings; called each LOOK ms by itself. */
  readonly look = (): void => {
    const time = this.#now();
    const away = time - this.#lookedAt - 2 * LOOK;
    const elapsed = Math.min(2 * LOOK, Math.max(0, time - this.#lookedAt));
    if (time < this.#lookedAt) this.#setBack(time);
    this.#lookedAt = time;
    if (away > 0) this.#wasAway(away);
    const byWorker = this.#heldByWorker();
    for (const [worker, held] of byWorker) {
      if (held.some(({ part }) => (part.lease as Lease).until > time)) continue;
      this.#nowhere.lostWith(held, `nothing was heard of ${worker} for ${this.#lease / 1000} s`);
      byWorker.delete(worker);
    }
    this.#nowhere.lookForStanding(byWorker, time, away);
    this.#nowhere.lookForUnserved(time, elapsed);
    if (this.#queue.isUp) this.#nowhere.lookElsewhere(time);
    this.#offers.fill();
  };

  readonly close = async (): Promise<void> => {
    clearInterval(this.#looking);
    this.#offers.close();
    for (const work of this.#works.values()) work.close();
    await this.#queue.close();
  };

  #openPart(name: PartName): HeldPart {
    const work = this.#workOf(name.work);
    const part = work.parts.find(name);
    if (part === undefined) throw new Gone('This part is done.');
    return { work, part };
  }

  #workOf(id: string): PlannedWork {
    const work = this.#works.get(id);
    if (work !== undefined) return work;
    if (this.#isEarly(id)) throw new NotYet('This work is not open yet.');
    throw new Gone('This work is over.');
  }

  #isEarly(id: string): boolean {
    return !this.#over.has(id) && this.#now() - this.#begun < this.#lease;
  }

  /** A worker keeps what it has; returns what it is to drop. */
  #renew({ worker, held }: Hello, time: number): PartName[] {
    const drop: PartName[] = [];
    for (const { work: id, root, part: number, done } of held) {
      const work = this.#works.get(id);
      if (work === undefined && this.#isEarly(id)) continue;
      const part = work?.parts.find({ root, part: number });
      const isTheirs = part?.lease != null && part.lease.worker !== worker;
      const isGone = part !== undefined && this.#nowhere.isLeftBy(part, worker);
      if (part === undefined || work === undefined || isTheirs || isGone || work.isEnded) {
        drop.push({ work: id, root, part: number });
        if (work === undefined || part === undefined || isTheirs || isGone) continue;
      }
      const { at = time } = part.lease ?? {};
      work.parts.lend(part, { worker, at, until: time + this.#lease, done });
    }
    return drop;
  }

  /** What it was given and never heard of: the answer was lost on the way. */
  #takeBackUnheard({ worker, held }: Hello, time: number): void {
    const heard = new Set(held.map(({ work, root, part }) => `${work} ${root} ${part}`));
    for (const [id, { parts }] of this.#works)
      for (const part of [...parts.out])
        if (
          part.lease?.worker === worker &&
          time - part.lease.at > 2 * this.#every &&
          !heard.has(`${id} ${part.root} ${part.part}`)
        )
          parts.back(part);
  }

  #taken({ work, part }: HeldPart, result: Result, lines: Buffer): number | null {
    try {
      return work.take(part, result, lines);
    } catch (error) {
      const { worker } = result;
      // it would be handed in so again, and for ever
      if (error instanceof WrongResult && part.lease?.worker === worker)
        this.#nowhere.lost({ work, part }, `${worker}: ${error.message}`);
      throw error;
    }
  }

  /** The clock was set back: nothing that was is later than now. */
  #setBack(time: number): void {
    this.#begun = Math.min(this.#begun, time);
    this.#workers.setBack(time);
    for (const { lease, offer } of this.#out()) {
      if (offer !== null) offer.at = Math.min(offer.at, time);
      if (lease === null) continue;
      lease.at = Math.min(lease.at, time);
      lease.until = Math.min(lease.until, time + this.#lease);
    }
  }

  /** This process was suspended itself for `ms`, in which nobody could be heard. */
  #wasAway(ms: number): void {
    this.#workers.missed(ms);
    for (const { lease } of this.#out()) if (lease !== null) lease.until += ms;
  }

  #out(): Part[] {
    return [...this.#works.values()].flatMap(({ parts }) => [...parts.out]);
  }

  #heldByWorker(): Map<string, HeldPart[]> {
    const byWorker = new Map<string, HeldPart[]>();
    for (const work of this.#works.values())
      for (const part of work.parts.out) {
        if (part.lease === null) continue;
        const { worker } = part.lease;
        const held = byWorker.get(worker);
        if (held === undefined) byWorker.set(worker, [{ work, part }]);
        else held.push({ work, part });
      }
    return byWorker;
  }
}

/** What others see of it, so that another can stand in its place. */
export type Desk = Pick<OpenDesk, keyof OpenDesk>;

export const createDesk = (options: DeskOptions): Desk => new OpenDesk(options);

const FORM = /^[0-9a-f]{12}$/;

/**
 * The id of a desk: random, and kept in its folder, so that a restart finds its queues. One that is damaged is made anew:
 * what was in its queues is offered again.
 */
export function coordinatorId(folder: string): string {
  const path = join(folder, 'coordinator');
  try {
    const before = readKept(path).toString().trim();
    if (FORM.test(before)) return before;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const id = randomBytes(6).toString('hex');
  replaceFile(path, `${id}\n`);
  return id;
}
