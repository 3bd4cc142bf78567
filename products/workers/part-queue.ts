/**
 * The queue of parts: BullMQ in Redis, which holds pointers and nothing else. What it may do at worst is lose a pointer or
 * hand it out twice, and the desk expects both. What BullMQ's defaults would lose, test/shards/defaults.test.ts shows.
 */
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Say } from '../../engine/core/item/say.ts';
import type { Pointer } from './protocol.ts';
import { connect } from './redis.ts';

export { placeOf } from './redis.ts';

/** bytes of a pointer as JSON */
const MOST_BYTES = 1_024;
/** A done job leaves nothing: under an id that is kept, nothing could be added again. Ids have no `:` and are no numbers. */
const JOB = { removeOnComplete: true, removeOnFail: true, sizeLimit: MOST_BYTES };
/** Entries of the stream of events, which nobody reads. */
const EVENTS = 100;

/** What the desk knows of Redis. */
export interface PointerQueue {
  /** Rejects at once while Redis is away. */
  add(queue: string, offers: { id: string; pointer: Pointer }[]): Promise<void>;
  /** the ids that wait now */
  waiting(queue: string): Promise<ReadonlySet<string>>;
  /** `act` is called whenever Redis is there again, and the first time. */
  onReady(act: () => void): void;
  readonly isUp: boolean;
  close(): Promise<void>;
}

export interface PointerSettings {
  url: string;
  /** of all keys in Redis */
  prefix: string;
  say: Say;
}

/** The coordinator's side. What is asked while Redis is away, or goes away meanwhile, rejects. */
export async function openPointers({ url, prefix, say }: PointerSettings): Promise<PointerQueue> {
  const redis = await connect({ url, name: 'fw', say });
  const queues = new Map<string, Queue<Pointer>>();
  /** queues whose settings are in this Redis, unless it lost them meanwhile */
  const prepared = new Set<string>();
  redis.onUp(() => prepared.clear());

  function queueOf(name: string): Queue<Pointer> {
    if (!redis.isUp()) throw redis.away();
    const known = queues.get(name);
    if (known !== undefined) return known;
    const queue = new Queue<Pointer>(name, {
      connection: redis.client,
      prefix,
      defaultJobOptions: JOB,
      streams: { events: { maxLen: EVENTS } },
      skipMetasUpdate: true, // see `add`: an empty Redis wants them again
      skipVersionCheck: true, // the first look has done it, and BullMQ would write to the console
    });
    queue.on('error', () => {}); // what is asked says what fails
    queues.set(name, queue);
    return queue;
  }

  /** What Redis itself refuses (it is full, a key is of another kind) is said: nothing would be given out, and nobody knew why. */
  async function told<T>(asked: Promise<T>): Promise<T> {
    try {
      return await redis.within(asked);
    } catch (error) {
      redis.tell(error as Error);
      throw error;
    }
  }

  return {
    async add(name, offers) {
      const queue = queueOf(name);
      const added = async () => {
        if (!prepared.has(name)) await queue.getBackend().setQueueMeta(queue.metaValues);
        prepared.add(name);
        await queue.addBulk(
          offers.map(({ id, pointer }) => ({ name: 'part', data: pointer, opts: { jobId: id } })),
        );
      };
      await told(added());
    },
    async waiting(name) {
      return new Set(await told(queueOf(name).getRanges(['wait'], 0, -1)));
    },
    onReady: act => redis.onUp(act),
    get isUp() {
      return redis.isUp();
    },
    async close() {
      const gone = [...queues.values()].map(queue => redis.within(forget(redis.client, queue)));
      await redis.close(Promise.allSettled(gone));
    },
  };
}

/** What nobody gives out any more leaves nothing in Redis. What workers hold goes on. */
async function forget(client: Redis, queue: Queue): Promise<void> {
  const ids = await queue.getRanges(['wait', 'active'], 0, -1);
  const { '': _, ...keys } = queue.keys;
  await client.unlink([
    ...Object.values(keys),
    ...ids.flatMap(id => [queue.toKey(id), `${queue.toKey(id)}:lock`]),
  ]);
}
