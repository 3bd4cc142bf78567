/** What the routes of a server share, opened one after the other once DIR is its own. */
import { chmodSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Lock } from '../../engine/asking/ledger/lock.ts';
import { lockFolder } from '../../engine/asking/ledger/lock-waiting.ts';
import type { EndpointPool } from '../../engine/asking/pool/part.ts';
import { isFull, makeFolder, OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { type Fatal, ioError, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { createAccess, isLoopback } from './access.ts';
import { createActs } from './admin/acts.ts';
import { type KeyRing, keysPath, openKeys, roomPath } from './api-keys.ts';
import { BudgetJournal } from './budget-journal.ts';
import { EndpointList, keepEndpoints } from './endpoint-list.ts';
import { createHttp } from './http.ts';
import { type Disk, Room } from './keep/room.ts';
import { holdRoom } from './key-changes.ts';
import { beginRun } from './last-run.ts';
import type { Sources } from './reload.ts';
import type { Settings, Told } from './serve-config.ts';
import { ServerMetrics } from './serve-metrics.ts';
import { openWorkers } from './serve-workers.ts';
import type { Parts } from './server-context.ts';
import { fencedBy, type Standing } from './standby.ts';
import { watchStanding } from './standing-still.ts';
import type { OtlpSettings } from './traces/otlp-settings.ts';
import type { Tracer } from './traces/tracer.ts';
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

export interface Opened {
  parts: Parts;
  app: FastifyInstance;
  /** Closes all that was opened, the last first. `inOrder`: the next start says that this one was stopped. */
  close(inOrder: boolean): Promise<void>;
}

/** Exit 64 where DIR is another server's, 74 where it cannot be written: nothing is open then. */
export async function openParts(serving: Serving, stops: Pick<Parts, 'closing' | 'over'>): Promise<Opened> {
  const { data, settings, say } = serving;
  const closers: ((inOrder: boolean) => unknown)[] = [];
  const close = async (inOrder: boolean): Promise<void> => {
    for (const one of closers.splice(0).reverse()) await one(inOrder);
  };
  const keys = expectKeys(serving);
  const lock = serving.standing?.lock ?? (await lockOf(serving, stops.closing));
  closers.push(() => lock.release());
  try {
    const { isOurs } = lock;
    if (keys.isThere) holdRoom(data);
    const clock = clockOf(data, say, serving.clocks);
    closers.push(() => clock.stop());
    const { now = clock.now, now: stamp = clock.stamp } = serving;
    const run = beginRun(data, { now, say });
    const standing = watchStanding(say);
    closers.push(() => standing.stop());
    closers.push(inOrder => inOrder && run.end());
    const tracer = await tracerOf(serving);
    closers.push(() => tracer?.close());
    const look = serving.disk && { look: serving.disk };
    const room = new Room({ data, reserve: settings.diskReserve, say, ...look });
    closers.push(() => room.stop());
    const access = createAccess(keys, now);
    // calls that end while the pool is closed are charged
    const journal = new BudgetJournal(data, access.budgets, { now, say, isOurs });
    closers.push(() => journal.close());
    const workers = await openWorkers({ data, queue: settings.queue, now, say });
    closers.push(() => workers?.desk.close());
    const pool = await serving.openPool(stops.closing);
    closers.push(() => pool.close());
    const memory = keepEndpoints(data, pool, say);
    closers.push(() => memory.stop());
    const named = serving.told?.first.pool.endpoints ?? [];
    const endpoints = new EndpointList({ data, pool, named, now, say });
    const metrics = new ServerMetrics(pool.stats);
    metrics.pricesOf(endpoints);
    const hooks = { folder: join(data, 'webhooks'), targets: settings.webhooks, env: process.env };
    const webhooks = new Webhooks({ ...hooks, now, say });
    closers.push(() => webhooks.stop());
    metrics.countHooks(webhooks);
    const parts: Parts = {
      ...{ data, disk: fencedBy(lock), settings, access, journal, pool, endpoints, adapters: new Map() },
      ...{ acts: createActs(data, { now, say }), metrics, room, webhooks, workers },
      ...{ ...stops, isOurs, now, stamp, say, tracer },
    };
    const mostBody = settings.limits.body;
    const app = createHttp({ access, metrics, mostBody, stops: { ...stops, isOurs }, say, tell: say });
    return { parts, app, close };
  } catch (error) {
    await close(false);
    throw error;
  }
}

/** Exit 64 where others reach a server that has no keys. */
export function expectKeys({ data, settings, say }: Pick<Serving, 'data' | 'settings' | 'say'>): KeyRing {
  const keys = openKeys(data, say);
  // as after a restore that lacks it
  if (!keys.isThere && existsSync(roomPath(data)))
    say(
      `${keysPath(data)} is not there, and ${roomPath(data)} says that this folder had keys: without it everybody on this ` +
        'machine is let in, and batches that were made with keys wait; restore it, or remove keys.room where that is meant',
      { event: 'keys-gone', level: 'error' },
    );
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
    const room = isFull(error) ? ' (nothing in it is lost: make room, and start again)' : '';
    throw ioError(`${data}: expected a folder that can be written to, found ${message}${room}`);
  }
}
