/**
 * The workers of a server: a desk that gives lines out, where a queue is named. Where none is any more, it is there for the
 * batches that workers have begun: they keep what they have, and go on once the queue is named again.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT, Fatal, fatalOf } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { coordinatorId, createDesk, type Desk, hadModelsIn } from '../workers/desk.ts';
import { createNews } from '../workers/desk-stats.ts';
import type { PointerQueue } from '../workers/part-queue.ts';
import { LEASE, type QueueSettings } from '../workers/queue-options.ts';

export interface Workers {
  desk: Desk;
  /** ms of silence after which a worker is lost */
  lease: number;
  /** a queue is named: what begins now is for workers */
  takesNew: boolean;
}

/** of a batch: its lines, as they were planned for workers, and what has come back */
export const shardsIn = (folder: string): string => join(folder, 'shards');

export interface WorkersOptions {
  data: string;
  queue: QueueSettings | null;
  now(): number;
  say: Say;
}

export async function openWorkers({ data, queue, now, say }: WorkersOptions): Promise<Workers | null> {
  if (queue === null && !hasBegun(join(data, 'batches'))) return null;
  const pointers = queue === null ? NO_QUEUE : await openQueue(queue, say);
  const lease = queue?.lease ?? LEASE;
  const had = hadModelsIn(join(data, 'worker-models.json'));
  const desk = createDesk({ queue: pointers, id: coordinatorId(data), lease, now, had, say });
  return { desk: queue === null ? desk : telling(desk, now, say), lease, takesNew: queue !== null };
}

/** ms between two looks at who is there */
const LOOK = 1_000;
const HOW = 'fw work --redis URL --server URL --endpoint URL';

/** Says who comes and goes, and that a batch waits for a worker, until the desk is closed. */
function telling(desk: Desk, now: () => number, say: WorkersOptions['say']): Desk {
  const news = createNews(HOW);
  const looking = setInterval(() => {
    for (const words of news.look(desk.stats(), now())) say(words, { event: 'workers' });
  }, LOOK);
  looking.unref();
  const close = (): Promise<void> => {
    clearInterval(looking);
    return desk.close();
  };
  return { ...desk, close };
}

const REDIS = { event: 'redis', level: 'warn' } as const;
/** ms between two tries of a server that began while Redis was away */
const AGAIN = 2_000;

/** Loads what `openWorkers` needs for a queue. */
export const loadQueue = (): Promise<unknown> => import('../workers/part-queue.ts');

/** Exit 64 for a Redis that is none, or does not let us in. One that is away is waited for: workers hand in without it. */
async function openQueue({ url, prefix }: QueueSettings, say: WorkersOptions['say']): Promise<PointerQueue> {
  const { openPointers } = await import('../workers/part-queue.ts');
  const open = (): Promise<PointerQueue> => openPointers({ url, prefix, say });
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof Fatal) || error.exit !== EXIT.unavailable) throw error;
    say(`${error.message.split('\n', 1)[0]}; it is tried again, and batches wait for it`, REDIS);
    return laterQueue(open, say);
  }
}

/** As one that is away until `open` works. */
function laterQueue(open: () => Promise<PointerQueue>, say: WorkersOptions['say']): PointerQueue {
  const told = new Set<string>();
  const acts: (() => void)[] = [];
  let there: PointerQueue | null = null;
  let isClosed = false;
  let opening: Promise<void> | null = null;
  const trying = setInterval(() => {
    opening ??= open()
      .then(async queue => {
        clearInterval(trying);
        if (isClosed) return queue.close();
        there = queue;
        for (const act of acts) queue.onReady(act);
      })
      .catch(error => {
        const { exit, message } = fatalOf(error);
        if (exit === EXIT.unavailable || told.has(message)) return;
        told.add(message);
        say(message, REDIS);
      })
      .finally(() => {
        opening = null;
      });
  }, AGAIN);
  trying.unref();
  const now = (): PointerQueue => {
    if (there === null) throw new Error('Redis is away');
    return there;
  };
  return {
    get isUp() {
      return there?.isUp ?? false;
    },
    add: async (...offer) => now().add(...offer),
    waiting: async queue => now().waiting(queue),
    onReady: act => (there === null ? void acts.push(act) : there.onReady(act)),
    async close() {
      isClosed = true;
      clearInterval(trying);
      await opening;
      await there?.close();
    },
  };
}

const NO_QUEUE: PointerQueue = {
  isUp: false,
  add: async () => {},
  waiting: async () => new Set(),
  onReady() {},
  close: async () => {},
};

/** Of a batch that has ended nothing is left there. */
function hasBegun(batches: string): boolean {
  return existsSync(batches) && readdirSync(batches).some(id => existsSync(shardsIn(join(batches, id))));
}
