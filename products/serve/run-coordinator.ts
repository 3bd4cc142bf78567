/**
 * What a run over workers has open: the lock of its folder, the queue, the desk, and HTTP for the workers, with one
 * key: whoever has it is a worker, and may read the metrics. All of its state is in the folder, so that the same command goes
 * on after a kill.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { lockFolder } from '../../engine/asking/ledger/lock-waiting.ts';
import { makeFolder, OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { type Fatal, ioError, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { coordinatorId, createDesk, type Desk, type PlannedWork } from '../workers/desk.ts';
import { openPointers } from '../workers/part-queue.ts';
import { type QueueSettings, WORKER_KEY } from '../workers/queue-options.ts';
import { remotePool } from '../workers/sharding.ts';
import { createAccess, isLoopback } from './access.ts';
import type { KeyRecord, KeyRing } from './api-keys.ts';
import { createHttp, listen } from './http.ts';
import { ServerMetrics } from './serve-metrics.ts';
import { addShards, shardMetrics } from './shard-routes.ts';

export interface CoordinatorOptions {
  folder: string;
  queue: QueueSettings;
  place: { host: string; port: number };
  /** null: for this machine alone */
  key: string | null;
  say: Say;
  /** called once where the folder is another process's by now */
  onLost(error: Fatal): void;
}

/** bytes of a body whose route names no bound */
const MOST_BODY = 1024 * 1024;
/** ms that answers under way have at the end */
const LAST_ANSWERS = 10_000;

/** Exit 64 where another run has the folder or the address is taken, 69 where there is no Redis, 74 where the folder cannot be written. */
export async function openCoordinator(options: CoordinatorOptions) {
  const { folder, queue, place, key, say } = options;
  const lock = await lockOf(options);
  let desk: Desk | undefined;
  try {
    const { url, prefix, lease } = queue;
    const pointers = await openPointers({ url, prefix, say });
    const open = createDesk({ queue: pointers, id: coordinatorId(folder), lease, say });
    desk = open;
    let work: PlannedWork | null = null;
    const pool = remotePool(open, () => work);
    const metrics = new ServerMetrics(pool.stats);
    const closing = new AbortController();
    const app = createHttp({
      access: createAccess(ringOf(key), Date.now),
      metrics,
      mostBody: MOST_BODY,
      stops: { closing: closing.signal },
      say,
    });
    app.get('/health', async () => ({ status: 'ok' }));
    app.get('/metrics', { config: { scope: 'metrics' } }, async (_request, reply) =>
      reply.type(metrics.contentType).send(await metrics.page()),
    );
    addShards(app, open);
    shardMetrics({ metrics, now: Date.now }, open);
    const listening = await listen(app, place);
    return {
      desk: open,
      /** whom the run asks: all of the workers */
      pool,
      /** as workers reach it */
      url: listening.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:)/, `//${hostname()}`),
      /** The work of the run, once it is open. */
      opened(planned: PlannedWork): void {
        work = planned;
      },
      /** Answers what is under way, and hangs up. */
      async stop(): Promise<void> {
        closing.abort();
        const closed = app.close();
        const late = pause(LAST_ANSWERS, undefined, { ref: false });
        await Promise.race([closed, late.then(() => app.server.closeAllConnections())]);
        await open.close();
        lock.release();
      },
    };
  } catch (error) {
    await desk?.close();
    lock.release();
    throw error;
  }
}

async function lockOf({ folder, say, onLost }: CoordinatorOptions) {
  try {
    makeFolder(folder, OWNER_ONLY.folder);
  } catch (error) {
    throw ioError(`expected a folder that can be written to, found ${(error as Error).message}`);
  }
  const hint = 'a ledger has one run over workers at a time; give another run another --ledger';
  const { signal } = new AbortController();
  return lockFolder(folder, 'coordinator', { hint, onLost, warn: say, signal });
}

/** what a header can carry, and nobody guesses */
const FORM = /^[\x21-\x7e]{16,200}$/;

/** The key that workers have to show; null for none, which is enough where nobody but this machine can ask. Exit 64. */
export function workerKey(env: NodeJS.ProcessEnv, host: string): string | null {
  const key = env[WORKER_KEY]?.trim();
  if (!key) {
    if (isLoopback(host)) return null;
    throw usageError(
      `expected a key for workers in the environment variable ${WORKER_KEY}, found none, and ${host} can be reached from elsewhere; ` +
        `make one: export ${WORKER_KEY}=$(openssl rand -hex 32), and give the same to each fw work`,
    );
  }
  if (FORM.test(key)) return key;
  throw usageError(
    `${WORKER_KEY}: expected 16 to 200 characters of ASCII without blanks, found ${key.length < 16 ? 'fewer' : 'others'}`,
  );
}

export function ringOf(key: string | null): KeyRing {
  const digest = hashOf(key ?? '');
  const record: KeyRecord = {
    ...{ id: 'key_of_workers', name: 'workers', sha256: digest.toString('hex') },
    ...{ scopes: ['worker', 'metrics'], created: 0 },
  };
  return {
    isThere: key !== null,
    // digests have one length, and are compared in one time
    find: shown => (timingSafeEqual(hashOf(shown), digest) ? record : null),
    withId: id => (id === record.id ? record : null),
    lastKnown: id => (id === record.id ? record : null),
    unknown: () => null,
    endOf: () => null,
  };
}

const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest();
