/**
 * All works of a coordinator: what of them is offered in the queue, who holds which part, and what has come back. The queue
 * only points: what is open, and neither offered nor held, is offered again. So a Redis that lost its data, a worker that
 * died and a pointer that nobody understood are one case.
 */
import { counted } from '../../engine/core/item/wording.ts';
import { WrongResult } from './believing.ts';
import { createBlame, type HeldPart } from './blame.ts';
import { type DeskStats, statsOf } from './desk-stats.ts';
import { createElsewhere } from './elsewhere.ts';
import { createKeeping } from './keeping.ts';
import { createWorkers } from './known-workers.ts';
import { createOffers, type PointerQueue } from './offers.ts';
import type { Lease, Part } from './part-states.ts';
import type { Given, Hello, Orders, PartName, Result, Task } from './protocol.ts';
import type { Plan } from './shard-plan.ts';
import { type PlannedWork, planWork, type Work } from './shard-work.ts';
import { createStanding } from './standing.ts';
import { createUnserved } from './unserved.ts';

/** The part is closed, or its work is over (410). */
export class Gone extends Error {}
/** Another worker holds the part (409). */
export class Held extends Error {}
/** A coordinator that has just started may not have opened the work yet (503): ask again. */
export class NotYet extends Error {}

export interface DeskOptions {
  queue: PointerQueue;
  /** begins the names of its queues: two coordinators may share one Redis */
  id: string;
  /** ms of silence after which what a worker holds goes to others */
  lease: number;
  now?: () => number;
  say(message: string): void;
}

export interface Desk {
  /** Gives the work out from now on, going on where the disk says that it was. */
  open(work: Work, plan: Plan): PlannedWork;
  /** Its parts are offered no more; what workers hold of it, they drop. */
  drop(work: string): void;
  hello(hello: Hello): Orders;
  task(work: string): Task;
  files(work: string): Buffer;
  /** The lines of a part for a worker, which holds it from now on. Throws Gone, Held, NotKept. */
  take(name: PartName, worker: string): Given & { lines: Buffer };
  /** The number of lines that are left of the part. Throws Gone, WrongResult, NotKept. */
  put(name: PartName, result: Result, lines: Buffer): number;
  /** whether a worker is alive that serves all of these */
  isServed(models: readonly string[]): boolean;
  stats(): DeskStats;
  /** What only time brings; called each LOOK ms by itself. */
  look(): void;
  close(): Promise<void>;
}

/** ms between two looks at leases; ms between two hellos, at most */
const LOOK = 1_000;
const EVERY = 5_000;
/** ms in which a worker has found out that its coordinator is there again, at the least */
const SAID = 1_000;

export function createDesk({ queue, id, lease, now = Date.now, say }: DeskOptions): Desk {
  const works = new Map<string, PlannedWork>();
  const over = new Set<string>();
  const workers = createWorkers(lease);
  const { kept, tried } = createKeeping(say, now);
  const offers = createOffers({ queue, id, lease, works, workers, now, tried });
  const { lost, lostWith } = createBlame({ say, tried });
  const elsewhere = createElsewhere({ works, workers });
  const unserved = createUnserved({ works, workers }, say);
  const standing = createStanding({ took: worker => workers.of(worker)?.took ?? 0, say });
  let begun = now();
  const every = Math.min(EVERY, lease / 12);
  let lookedAt = now();
  let lastResult: number | null = null;
  const looking = setInterval(look, Math.min(LOOK, lease / 4));
  looking.unref();

  function openPart(name: PartName): { work: PlannedWork; part: Part } {
    const work = workOf(name.work);
    const part = work.parts.find(name);
    if (part === undefined) throw new Gone('This part is done.');
    return { work, part };
  }
  function workOf(id: string): PlannedWork {
    const work = works.get(id);
    if (work !== undefined) return work;
    if (isEarly(id)) throw new NotYet('This work is not open yet.');
    throw new Gone('This work is over.');
  }
  const isEarly = (id: string): boolean => !over.has(id) && now() - begun < lease;

  /** The clock was set back: nothing that was is later than now. */
  function setBack(time: number): void {
    begun = Math.min(begun, time);
    workers.setBack(time);
    for (const { parts } of works.values())
      for (const { lease: held, offer } of parts.out) {
        if (offer !== null) offer.at = Math.min(offer.at, time);
        if (held === null) continue;
        held.at = Math.min(held.at, time);
        held.until = Math.min(held.until, time + lease);
      }
  }

  function taken(
    work: PlannedWork,
    part: Part,
    { result, lines }: { result: Result; lines: Buffer },
  ): number | null {
    try {
      return work.take(part, result, lines);
    } catch (error) {
      const { worker } = result;
      // it would be handed in so again, and for ever
      if (error instanceof WrongResult && part.lease?.worker === worker)
        lost(work, part, `${worker}: ${error.message}`);
      throw error;
    }
  }

  function look(): void {
    const time = now();
    const away = time - lookedAt - 2 * LOOK;
    const elapsed = Math.min(2 * LOOK, Math.max(0, time - lookedAt));
    if (time < lookedAt) setBack(time);
    lookedAt = time;
    // where this process was suspended itself, nobody could be heard
    if (away > 0) {
      workers.missed(away);
      for (const { parts } of works.values())
        for (const { lease } of parts.out) if (lease !== null) lease.until += away;
    }
    const byWorker = new Map<string, HeldPart[]>();
    for (const work of works.values())
      for (const part of work.parts.out) {
        if (part.lease === null) continue;
        const { worker } = part.lease;
        const own = byWorker.get(worker);
        if (own === undefined) byWorker.set(worker, [{ work, part }]);
        else own.push({ work, part });
      }
    for (const [worker, held] of byWorker) {
      if (held.some(({ part }) => (part.lease as Lease).until > time)) continue;
      const lines = held.reduce((sum, { part }) => sum + part.lines.length, 0);
      const why = `nothing was heard of ${worker} for ${lease / 1000} s`;
      say(`${why}; what it has goes to others: ${counted(lines, 'line')} in ${counted(held.length, 'part')}`);
      lostWith(held, why);
      byWorker.delete(worker);
    }
    standing.look(byWorker, time, away);
    unserved(time, elapsed);
    if (queue.isUp) for (const words of elsewhere(time)) say(words);
    offers.fill();
  }

  return {
    open(work, plan) {
      const planned = planWork(work, plan);
      // workers may have parts of it from before a restart: first they say so
      if (!plan.isNew) planned.opensAt = now() + Math.max(2 * every, Math.min(SAID, lease / 3));
      works.set(work.id, planned);
      offers.fill();
      return planned;
    },
    drop(work) {
      works.get(work)?.close();
      works.delete(work);
      over.add(work);
    },
    hello(hello) {
      const time = now();
      workers.heard(hello, time);
      const drop: PartName[] = [];
      const held = new Set(hello.held.map(({ work, root, part }) => `${work} ${root} ${part}`));
      for (const { done, ...name } of hello.held) {
        const work = works.get(name.work);
        if (work === undefined && isEarly(name.work)) continue;
        const part = work?.parts.find(name);
        const isTheirs = part?.lease != null && part.lease.worker !== hello.worker;
        const isGone = part !== undefined && standing.isLeftBy(part, hello.worker);
        if (part === undefined || work === undefined || isTheirs || isGone || work.isEnded) {
          drop.push({ work: name.work, root: name.root, part: name.part });
          if (work === undefined || part === undefined || isTheirs || isGone) continue;
        }
        const { at = time } = part.lease ?? {};
        work.parts.lend(part, { worker: hello.worker, at, until: time + lease, done });
      }
      // what it was given and never heard of: the answer was lost on the way
      for (const [id, work] of works)
        for (const part of [...work.parts.out])
          if (
            part.lease?.worker === hello.worker &&
            time - part.lease.at > 2 * every &&
            !held.has(`${id} ${part.root} ${part.part}`)
          )
            work.parts.back(part);
      drop.push(...offers.toShare(hello));
      offers.fill();
      const queues = hello.isStopping ? [] : offers.queuesFor(hello);
      return { queues, drop, sharing: workers.sharing(hello, time), every, lease };
    },
    task: id => workOf(id).task,
    files(id) {
      const { files } = workOf(id);
      if (files === null) throw new Gone('This work has no files.');
      return files;
    },
    take(name, worker) {
      const { work, part } = openPart(name);
      if (work.isEnded) throw new Gone('This work is over.');
      const time = now();
      if (part.lease !== null && part.lease.worker !== worker)
        throw new Held('Another worker has this part.'); // whose name is nobody else's: results are under it
      if (part.lease === null && work.opensAt > time) throw new NotYet('Workers first say what they have.');
      const lines = Buffer.concat(kept(() => work.linesOf(part)));
      work.parts.lend(part, { worker, at: time, until: time + lease, done: 0 });
      standing.taken(part);
      offers.fill();
      return { isAlone: part.isSuspect, lines };
    },
    put(name, result, lines) {
      const { work, part } = openPart(name);
      const { worker, answered, broken } = result;
      const isHolder = part.lease?.worker === worker;
      if (answered.length > 0) {
        const left = kept(() => taken(work, part, { result, lines }));
        if (left === null) throw new Gone('This part is done.');
        lastResult = now();
        const known = workers.of(worker);
        if (known) known.took += answered.length;
        offers.fill();
        return left;
      }
      if (isHolder) {
        if (broken === undefined) work.parts.back(part);
        else lost(work, part, `${worker}: ${broken}`);
        work.look();
        offers.fill();
      }
      return part.lines.length;
    },
    isServed: models => workers.serving(models, now()).length > 0,
    stats: () => statsOf([...works.values()], { workers, now: now(), lastResult, isQueueUp: queue.isUp }),
    look,
    async close() {
      clearInterval(looking);
      offers.close();
      for (const work of works.values()) work.close();
      await queue.close();
    },
  };
}
