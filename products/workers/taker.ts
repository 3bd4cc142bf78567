/**
 * The worker's side of the queue. A BullMQ Worker a queue, without a processor: it takes a job where one waits and gives it
 * out, so that BullMQ never judges a job. One connection waits for the markers of all queues, some seconds at a time:
 * BullMQ's own wait needs a connection a queue, and could outlast an outage in versions before ours (its issues 4479, 4585). Locks are
 * renewed here until a part is done. A lock that is lost stops nothing: the desk says who holds a part, and a second worker
 * that is given it is told so.
 */
import { randomUUID } from 'node:crypto';
import { createRedisBackend, type Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Pointer } from './protocol.ts';
import { type Connection, connect, type RedisSettings } from './redis.ts';

export interface TakerSettings extends RedisSettings {
  /** of all keys in Redis */
  prefix: string;
  /** ms: a part whose worker says nothing for so long goes back into the queue */
  lock: number;
}

export interface Taken {
  pointer: Pointer;
  id: string;
  /** Off the queue; never rejects. Where Redis is away it is told when it is back. */
  done(): Promise<void>;
}

/** How often BullMQ returns what a lost worker held, before it calls the job failed. We would still take it. */
const MOST_STALLED = 20;
/** ms between two looks for parts whose worker is lost */
const lookEvery = (lock: number): number => Math.min(30_000, lock / 2);
/** seconds; less than the silence after which a connection is given up */
const WAIT = 3;
/** ms: after an error that is no outage, and after a marker of nothing */
const PAUSE = 250;
/** What is no pointer is dropped, so many at a time: thousands of them do not keep a worker from what is behind them. */
const MOST_DROPPED = 1_000;

export async function openTaker({ url, prefix, name, lock, say }: TakerSettings): Promise<Taker> {
  const redis = await connect({ url, name, say });
  const settings = {
    connection: redis.client,
    prefix,
    name,
    autorun: false,
    lockDuration: lock,
    maxStalledCount: MOST_STALLED,
    stalledInterval: Math.ceil(0.9 * lookEvery(lock)), // for so long Redis lets no other worker look
    skipVersionCheck: true, // the first look has done it, and BullMQ would write to the console
  };
  const workerOf = (queue: string): Worker<Pointer> => {
    const worker = new Worker<Pointer>(queue, null, settings, (queue, settings) =>
      createRedisBackend(queue, settings, {}),
    );
    worker.on('error', error => redis.tell(error));
    return worker;
  };
  return new Taker(redis, workerOf, lock);
}

interface Asker {
  queues: readonly string[];
  answer(taken: Taken | null): void;
}

interface Held {
  worker: Worker<Pointer>;
  job: Job<Pointer>;
  token: string;
}

export class Taker {
  #redis: Connection;
  #waiting: Redis;
  #workerOf: (queue: string) => Worker<Pointer>;
  #lock: number;
  #workers = new Map<string, Worker<Pointer>>();
  /** in the order in which they came */
  #askers: Asker[] = [];
  #held = new Set<Held>();
  /** done, and Redis was not told yet */
  #owed = new Set<Held>();
  /** so that no queue always comes first */
  #turn = 0;
  #isLooking = false;
  #isClosed = false;
  #timers: NodeJS.Timeout[];

  constructor(redis: Connection, workerOf: (queue: string) => Worker<Pointer>, lock: number) {
    this.#redis = redis;
    this.#workerOf = workerOf;
    this.#lock = lock;
    this.#waiting = redis.another();
    this.#timers = [
      setInterval(() => this.#renew(), lock / 4).unref(),
      setInterval(() => this.#findLost(), lookEvery(lock)).unref(),
    ];
    redis.onUp(() => {
      for (const held of this.#owed) void this.#settle(held);
    });
  }

  get isUp(): boolean {
    return this.#redis.isUp();
  }

  /** The next of any of these queues. Waits until there is one, over outages of Redis; null when aborted or closed. */
  take(queues: readonly string[], signal: AbortSignal): Promise<Taken | null> {
    return new Promise(resolve => {
      if (signal.aborted || this.#isClosed) return resolve(null);
      const asker: Asker = {
        queues,
        answer: taken => {
          signal.removeEventListener('abort', leave);
          resolve(taken);
        },
      };
      const leave = () => {
        this.#askers = this.#askers.filter(other => other !== asker);
        resolve(null);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#askers.push(asker);
      // who waits already may wait for other queues
      void (this.#isLooking ? this.#round(queues) : this.#look());
    });
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    while (this.#askers.length > 0) {
      await this.#redis.up();
      const queues = [...new Set(this.#askers.flatMap(({ queues }) => queues))];
      if (await this.#round(queues)) continue;
      const isWoken = await this.#wait(queues);
      if (isWoken && !(await this.#round(queues))) await pause();
    }
    this.#isLooking = false;
  }

  /** Whether one was found. */
  async #round(queues: readonly string[]): Promise<boolean> {
    const first = this.#turn++;
    for (const at of queues.keys()) {
      const queue = queues[(first + at) % queues.length] as string;
      if (!this.#askers.some(asker => asker.queues.includes(queue))) continue;
      const held = await this.#next(queue);
      if (held === null) continue;
      const asker = this.#askers.find(asker => asker.queues.includes(queue));
      if (asker === undefined) await this.#giveBack(held);
      else this.#give(held, asker);
      return true;
    }
    return false;
  }

  async #next(queue: string): Promise<Held | null> {
    if (!this.isUp) return null;
    const worker = this.#workers.get(queue) ?? this.#workerOf(queue);
    this.#workers.set(queue, worker);
    const token = randomUUID();
    try {
      for (let dropped = 0; dropped < MOST_DROPPED; dropped++) {
        const job = await this.#redis.within(worker.getNextJob(token, { block: false }));
        if (job === undefined) return null;
        if (isPointer(job.data)) return { worker, job, token };
        this.#redis.tell(new Error(`${queue} held something that is no pointer: it was dropped`));
        await this.#redis.within(job.moveToCompleted('', token, false));
      }
    } catch (error) {
      this.#redis.tell(error as Error);
    }
    return null;
  }

  /** Until something may be there; whether Redis said so. */
  async #wait(queues: readonly string[]): Promise<boolean> {
    const markers = queues.map(queue => this.#workers.get(queue)?.toKey('marker'));
    const known = markers.filter(marker => marker !== undefined);
    try {
      if (known.length > 0) return (await this.#waiting.bzpopmin(...known, WAIT)) !== null;
    } catch (error) {
      this.#redis.tell(error as Error);
    }
    await pause();
    return false;
  }

  #give(held: Held, asker: Asker): void {
    this.#askers = this.#askers.filter(other => other !== asker);
    this.#held.add(held);
    const { id = '', data } = held.job;
    const done = async () => {
      if (!this.#held.delete(held)) return;
      this.#owed.add(held);
      await this.#settle(held);
    };
    asker.answer({ id, pointer: data, done });
  }

  async #giveBack({ job, token }: Held): Promise<void> {
    await this.#redis.within(job.moveToWait(token)).catch(error => this.#redis.tell(error));
  }

  async #settle(held: Held): Promise<void> {
    if (!this.isUp) return;
    try {
      await this.#redis.within(held.job.moveToCompleted('', held.token, false));
    } catch {
      // away: we come here again when it is back. Or the lock was lost: then it is another's to take it off
      if (!this.isUp) return;
    }
    this.#owed.delete(held);
  }

  #renew(): void {
    if (!this.isUp) return;
    const held = [...this.#held];
    for (const worker of new Set(held.map(({ worker }) => worker))) {
      const own = held.filter(one => one.worker === worker);
      const ids = own.map(({ job }) => job.id as string);
      const tokens = own.map(({ token }) => token);
      worker.extendJobLocks(ids, tokens, this.#lock).catch(error => this.#redis.tell(error));
    }
  }

  /** What lost workers held waits again, if it was seen without a lock twice. */
  #findLost(): void {
    if (!this.isUp) return;
    for (const worker of this.#workers.values()) {
      worker
        .getBackend()
        .moveStalledJobsToWait()
        .catch(error => this.#redis.tell(error));
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const asker of this.#askers.splice(0)) asker.answer(null);
    this.#waiting.disconnect();
    await this.#redis.close(Promise.all([...this.#workers.values()].map(worker => worker.close(true))));
  }
}

/** Anyone who may write to Redis can put anything there. */
function isPointer(data: unknown): data is Pointer {
  if (typeof data !== 'object' || data === null) return false;
  const { work, root, part } = data as Record<string, unknown>;
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  return typeof work === 'string' && /^[\w.-]{1,200}$/.test(work) && isCount(root) && isCount(part);
}

const pause = (): Promise<void> => new Promise(resolve => setTimeout(resolve, PAUSE));
