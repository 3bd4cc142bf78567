/**
 * A server: one process, all of whose state is files under DIR. It takes the lock of DIR, opens the pool, adds the routes
 * and listens; told to stop it takes nothing new and gives what is under way its grace.
 */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Lock } from '../../engine/asking/ledger/lock.ts';
import { lockFolder } from '../../engine/asking/ledger/lock-waiting.ts';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { isThere } from '../../engine/asking/pool/pool-stats.ts';
import { makeFolder, OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { type Fatal, ioError, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { createAccess, isLoopback } from './access.ts';
import { createActs } from './admin/acts.ts';
import { addAdmin } from './admin/admin-routes.ts';
import { type KeyRing, openKeys } from './api-keys.ts';
import { batchMetrics, createRates } from './batches/batch-metrics.ts';
import { tellBatches } from './batches/batch-news.ts';
import { addBatchRoutes, creator } from './batches/batch-routes.ts';
import { isFinal } from './batches/batch-state.ts';
import { BatchStore } from './batches/batch-store.ts';
import { Batches } from './batches/batches.ts';
import { BudgetJournal } from './budget-journal.ts';
import { openChanges } from './changes.ts';
import { EndpointList } from './endpoint-list.ts';
import { keepEndpoints } from './endpoint-memory.ts';
import { addFileRoutes } from './file-routes.ts';
import { openFiles } from './file-store.ts';
import { addGateway } from './gateway/gateway.ts';
import { createHttp } from './http.ts';
import { Eraser } from './keep/eraser.ts';
import { Retention } from './keep/retention.ts';
import { type Disk, Room } from './keep/room.ts';
import { Storage } from './keep/storage.ts';
import { beginRun } from './last-run.ts';
import { BACKLOG, listenError, urlOf } from './listening.ts';
import { addLora } from './lora.ts';
import { addPage } from './page/page-routes.ts';
import type { Sources } from './reload.ts';
import type { Settings, Told } from './serve-config.ts';
import { ServerMetrics } from './serve-metrics.ts';
import { openWorkers, type Workers } from './serve-workers.ts';
import type { Parts, Routes } from './server-context.ts';
import { addShards, shardMetrics } from './shard-routes.ts';
import { fencedBy, type Standing } from './standby.ts';
import type { OtlpSettings } from './traces/otlp-settings.ts';
import type { Tracer } from './traces/tracer.ts';
import { uploadsInto } from './uploads.ts';
import { type Clocks, clockOf } from './wall-clock.ts';
import { Webhooks } from './webhooks.ts';

export interface Serving {
  data: string;
  /** they change in their place where they are read again */
  settings: Settings;
  /** the endpoints that are named, and where all settings are read again; absent: they are not */
  told?: { first: Told; sources: Sources };
  openPool(signal: AbortSignal): Promise<EndpointPool>;
  /** one line to the operator */
  say: Say;
  /** where spans go; null and absent for nowhere */
  otlp?: OtlpSettings | null;
  /** called once where it cannot continue: DIR is another's by now, and nothing more may be written there */
  onBroken(error: Fatal): void;
  /** it has stood by, and has DIR and its address */
  standing?: Standing;
  /** ms since 1970, in place of a clock that may be wrong */
  now?: () => number;
  /** what that clock is made of */
  clocks?: Clocks;
  /** what the disk of a folder has, in place of what the system says */
  disk?: (folder: string) => Disk;
}

export interface Server {
  url: string;
  /** Reads settings again; `by` wants it. Null where they came from nothing that could be read again. */
  reload: ((by: string) => Promise<void>) | null;
  /** Takes nothing new and resolves when all that was under way is finished or its grace is over. */
  stop(): Promise<void>;
  /** The same without a grace, and without waiting for batches: the next start continues them. */
  stopAtOnce(): Promise<void>;
}

/** ms in which those who are told that the server stops may take it, before their connections are closed */
const LAST_WORDS = 500;

/** Batches that are named at a start. */
const MOST_NAMED = 5;

/** The Files and Batches API: its store is opened, its routes are added, and what is over is swept. */
const addApi: Routes = async (app, parts) => {
  const { data, disk, now, say } = parts;
  const files = openFiles(data, { now, say, disk });
  const tell = tellBatches(say);
  const store = new BatchStore(data, {
    ...{ say, disk },
    onMoved(record) {
      tell(record);
      if (isFinal(record.status)) parts.tracer?.batch(record);
    },
  });
  sayOpen(store, say);
  const eraser = new Eraser(parts, { files, store });
  await eraser.finish();
  const storage = new Storage(files, store);
  const batches = new Batches({ ...parts, files, store });
  const uploads = uploadsInto(files, storage, parts);
  const create = creator(parts, { files, store, batches, storage });
  addFileRoutes(app, { files, uploads, eraser });
  const rates = createRates(now);
  await addPage(app, parts, { files, store, batches, rates, uploads, create });
  addAdmin(app, parts, { store, batches });
  addBatchRoutes(app, { store, batches, create, eraser, parts });
  batchMetrics(parts, { store, batches, rates, eraser });
  const retention = new Retention(parts, { files, store, eraser, storage });
  retention.start();
  return {
    async drain() {
      await retention.stop();
      await batches.drain();
    },
  };
};

/** What was under way when the last server ended. */
function sayOpen(store: BatchStore, say: Say): void {
  const open = store.open();
  if (open.length === 0) return;
  const ids = open.slice(0, MOST_NAMED).map(({ id, status }) => `${id} (${status})`);
  const more = open.length > MOST_NAMED ? [`and ${open.length - MOST_NAMED} more`] : [];
  say(`taken up again: ${counted(open.length, 'batch', 'batches')}: ${[...ids, ...more].join(', ')}`, {
    ...{ event: 'batches-resumed', batches: open.length },
  });
}

/** All of the API, in the order in which it is added. */
const ROUTES: readonly Routes[] = [addApi, addGateway, addLora];

/** Exit 64 where DIR is another server's or the address cannot be listened on, 74 where DIR cannot be written. */
export async function startServer(serving: Serving): Promise<Server> {
  const { data, settings, say } = serving;
  const keys = keysOf(serving);
  const closing = new AbortController();
  const over = new AbortController();
  const lock = serving.standing?.lock ?? (await lockOf(serving, closing.signal));
  const disk = fencedBy(lock);
  const { isOurs } = lock;
  const clock = clockOf(data, say, serving.clocks);
  const { now = clock.now, now: stamp = clock.stamp } = serving;
  const run = beginRun(data, { now, say });
  let pool: EndpointPool | undefined;
  let workers: Workers | null = null;
  let journal: BudgetJournal | undefined;
  let changes: ReturnType<typeof openChanges> | undefined;
  let room: Room | undefined;
  try {
    const tracer = await tracerOf(serving);
    const look = serving.disk && { look: serving.disk };
    room = new Room({ data, reserve: settings.diskReserve, say, ...look });
    workers = await openWorkers({ data, queue: settings.queue, now, say });
    pool = await serving.openPool(closing.signal);
    const memory = keepEndpoints(data, pool, say);
    const endpoints = new EndpointList({
      data,
      pool,
      named: serving.told?.first.pool.endpoints ?? [],
      now,
      say,
    });
    const metrics = new ServerMetrics(pool.stats);
    const access = createAccess(keys, now);
    journal = new BudgetJournal(data, access.budgets, { now, say, isOurs });
    const stops = { closing: closing.signal, over: over.signal, isOurs };
    const app = createHttp({ access, metrics, mostBody: settings.limits.body, stops, say, tell: say });
    const hooks = { folder: join(data, 'webhooks'), targets: settings.webhooks, env: process.env };
    const webhooks = new Webhooks({ ...hooks, now, say });
    metrics.countHooks(webhooks);
    const parts: Parts = {
      ...{ data, disk, settings, access, journal, pool, endpoints, adapters: new Map() },
      ...{ acts: createActs(data, { now, say }), metrics, room, webhooks, workers },
      ...{ ...stops, now, stamp, say, tracer },
    };
    addOwn(app, parts);
    if (workers !== null) {
      addShards(app, workers.desk);
      shardMetrics(parts, workers.desk);
    }
    const added: Awaited<ReturnType<Routes>>[] = [];
    for (const routes of ROUTES) added.push(await routes(app, parts));
    const opened = openChanges(serving.told, parts);
    changes = opened;
    const url = await (serving.standing?.listen(app) ?? listen(app, settings));
    let closed: Promise<unknown> | undefined;
    const close = (): Promise<unknown> => {
      closing.abort();
      opened.stop();
      closed ??= Promise.resolve(app.close());
      return closed;
    };
    /** Everybody who waits is told why there is no answer; a connection that is cut says nothing. */
    async function endAll(): Promise<void> {
      const all = close();
      over.abort();
      await Promise.race([all, pause(LAST_WORDS, undefined, { ref: false })]);
      app.server.closeAllConnections();
    }
    return {
      url,
      reload: opened.reload,
      stopAtOnce: endAll,
      async stop() {
        const all = close();
        const drained = Promise.all([...added.map(one => one.drain()), all]);
        const late = pause(settings.grace, undefined, { ref: false }).then(endAll);
        await Promise.race([drained, late.then(() => drained)]);
        webhooks.stop();
        memory.stop();
        clock.stop();
        room?.stop();
        await workers?.desk.close();
        await pool?.close();
        journal?.close();
        await tracer?.close();
        run.end();
        lock.release();
      },
    };
  } catch (error) {
    changes?.stop();
    clock.stop();
    room?.stop();
    await workers?.desk.close();
    await pool?.close();
    journal?.close();
    lock.release();
    throw error;
  }
}

/** Exit 64 where others reach it and it has no keys. */
export function keysOf({ data, settings, say }: Pick<Serving, 'data' | 'settings' | 'say'>): KeyRing {
  const keys = openKeys(data, say);
  if (keys.isThere || isLoopback(settings.host)) return keys;
  throw usageError(
    `expected keys for a server that others reach at ${settings.host}, found none: fw keys add NAME --data ${data}, ` +
      'or --listen 127.0.0.1:8080',
  );
}

/** What no collector is named for is not loaded. */
async function tracerOf({ otlp = null, say }: Serving): Promise<Tracer | null> {
  if (otlp === null) return null;
  const { Tracer } = await import('./traces/tracer.ts');
  return new Tracer(otlp, say);
}

/** One process a folder: two would ask everything twice. */
async function lockOf({ data, say, onBroken }: Serving, signal: AbortSignal): Promise<Lock> {
  try {
    makeFolder(data, OWNER_ONLY.folder);
    chmodSync(data, OWNER_ONLY.folder);
    const hint = 'a folder has one server at a time; one that is to wait for the other: --standby';
    return await lockFolder(data, 'serve', { hint, onLost: onBroken, warn: say, signal });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw ioError(`expected a folder that can be written to, found ${message}`);
  }
}

/** What says how the server is. */
function addOwn(app: FastifyInstance, { pool, metrics, room, workers, closing }: Parts): void {
  app.get('/health', async () => ({ status: 'ok' }));
  app.get('/ready', async (_request, reply) => {
    const up = pool.stats().endpoints.filter(isThere).length;
    // the first worker finds its way here by what is ready
    const isReady = (up > 0 || workers?.takesNew === true) && !closing.aborted;
    const { alive = 0, isQueueUp = false } = workers?.desk.stats() ?? {};
    return reply.code(isReady ? 200 : 503).send({
      status: closing.aborted ? 'stopping' : isReady ? 'ready' : 'no endpoint is up',
      endpoints_up: up,
      // also where no new batches are taken: chat goes on
      disk: room.state,
      ...(workers !== null && { workers: alive, queue_up: isQueueUp }),
    });
  });
  app.get('/metrics', { config: { scope: 'metrics' } }, async (_request, reply) =>
    reply.type(metrics.contentType).send(await metrics.page()),
  );
}

export async function listen(app: FastifyInstance, place: Pick<Settings, 'host' | 'port'>): Promise<string> {
  try {
    await app.listen({ host: place.host, port: place.port, backlog: BACKLOG });
  } catch (error) {
    throw listenError(error, place);
  }
  return urlOf(app.server, place);
}
