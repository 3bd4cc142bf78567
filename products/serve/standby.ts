/**
 * A second server over the same DIR, which waits for the first one to end. Until then it says that it is alive and not
 * ready, and sends everybody else away, so that a balancer before both has one that answers. It listens from the beginning;
 * where the first one has its address (the same machine and port), from the moment at which that is free.
 *
 * Whoever lost the lock, such as one that was frozen, writes nothing more that the next one writes: `isOurs` of the lock
 * is asked before each change of state, and at each request that comes after a pause.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { FastifyInstance } from 'fastify';
import type { Lock } from '../../engine/asking/ledger/lock.ts';
import { standBy } from '../../engine/asking/ledger/lock-waiting.ts';
import { packageRoot } from '../../engine/core/config/package.ts';
import { DISK, type Disk, makeFolder, OWNER_ONLY } from '../../engine/core/files/durable.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { loadLasting } from '../../engine/running/open-pool.ts';
import type { Access } from './access.ts';
import type { BeatingData } from './beating.ts';
import { ApiError, bodyOfError, comeAgain, stopping } from './errors.ts';
import { BACKLOG, listenError, urlOf } from './http.ts';
import type { Settings } from './serve-config.ts';
import { standbyMetrics } from './serve-metrics.ts';
import { loadQueue } from './serve-workers.ts';

/** ms between two renewals: twelve without one, which are three seconds, and another one takes over */
const BEAT = 250;
/** ms between two tries to listen where the one before still has the address */
const AGAIN = 200;
/** ms in which a request has to come, and in which who still sends may read the answer */
const WITHIN = 5_000;
const LINGER = 2_000;
const MOST_CONNECTIONS = 1_000;

export interface StandbyOptions {
  data: string;
  place: Pick<Settings, 'host' | 'port'> & Partial<Pick<Settings, 'queue'>>;
  /** of who asks for metrics */
  access: Pick<Access, 'check'>;
  say: Say;
  /** told the URL once: when it serves, or listens while it has to wait */
  listening(url: string): void;
  /** called once where DIR is another's by now */
  onLost(error: Fatal): void;
  /** ends the waiting */
  signal: AbortSignal;
}

/** What it has when it has taken over. */
export interface Standing {
  lock: Lock;
  /** `app` answers from now on; resolves to its URL. */
  listen(app: FastifyInstance): Promise<string>;
}

/** Null where it was told to end before it could take over. Exit 64 where it cannot listen. */
export async function waitInStandby(options: StandbyOptions): Promise<Standing | null> {
  const { data, place, access, say, listening, onLost, signal } = options;
  makeFolder(data, OWNER_ONLY.folder);
  await loadAll(place);
  const metrics = standbyMetrics();
  const server = createServer((request, response) => void answer(request, response, { access, metrics }));
  server.headersTimeout = WITHIN;
  server.requestTimeout = WITHIN;
  server.maxConnections = MOST_CONNECTIONS;
  const taken = await begin(server, place).catch((error: NodeJS.ErrnoException) => error);
  if (taken !== undefined && taken.code !== 'EADDRINUSE') throw listenError(taken, place);
  let first = '';
  const lock = await standBy(data, 'serve', {
    waitsFor(holder) {
      const where = taken && `; it listens at ${place.host}:${place.port} once that is free`;
      say(`standby: ${data} is served by ${holder}, and is taken over when that one ends${where ?? ''}`, {
        event: 'standby',
      });
      if (taken === undefined && first === '') listening(urlOf(server, place));
      first = holder;
    },
    isSilent: (holder, ms) =>
      say(`${holder}, has not renewed its lock for ${ms / 1000} s: it is frozen, or its machine is gone`, {
        ...{ event: 'standby-silence', level: 'warn' },
      }),
    ...{ beat: BEAT, onLost, signal },
  });
  if (lock === null) {
    server.close();
    server.closeAllConnections();
    return null;
  }
  if (taken !== undefined && first === '') {
    lock.release();
    throw listenError(taken, place);
  }
  if (first !== '') say(`takes over ${data} from ${first}`, { event: 'standby-takes-over', level: 'warn' });
  return {
    lock: beating(lock),
    async listen(app) {
      await app.ready();
      if (taken !== undefined) await whenFree(app.server, options, first);
      // the socket that was listened on all the time: nobody is refused
      else app.server.listen(server, BACKLOG);
      const url = urlOf(app.server, place);
      if (taken !== undefined || first === '') listening(url);
      return url;
    },
  };
}

/** What taking over needs is here before: it is sooner so, and the package may be replaced by another version meanwhile. */
async function loadAll({ queue }: StandbyOptions['place']): Promise<void> {
  await loadLasting();
  if (queue) await loadQueue();
}

/** The lock, renewed by a thread of its own too. */
function beating(lock: Lock): Lock {
  const pulse = new Int32Array(new SharedArrayBuffer(4));
  const timer = setInterval(() => Atomics.add(pulse, 0, 1), BEAT).unref();
  const workerData: BeatingData = { path: lock.path, text: lock.text, beat: BEAT, pulse };
  const thread = new Worker(join(packageRoot(), 'dist/products/serve/beating.js'), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  // without it the main thread renews the lock as any other process does
  thread.on('error', () => {});
  thread.unref();
  return {
    ...lock,
    release() {
      clearInterval(timer);
      void thread.terminate();
      lock.release();
    },
  };
}

/** Changes of state are only made while DIR is ours: who was frozen finds that out before it replaces what is another's. */
export function fencedBy(lock: Lock): Disk {
  return {
    ...DISK,
    rename(from, to) {
      if (!lock.isOurs(true)) throw stopping();
      DISK.rename(from, to);
    },
  };
}

const STANDBY = comeAgain(
  503,
  'This server stands by for another one, which answers: ask that one, or again in a moment.',
  'standby',
  1,
);

interface Told {
  status: number;
  body: string;
  headers?: Readonly<Record<string, string>>;
}

interface Answering extends Pick<StandbyOptions, 'access'> {
  metrics: ReturnType<typeof standbyMetrics>;
}

/** It says that it is there, to who watches it too, and sends everybody else away. */
async function answer(request: IncomingMessage, response: ServerResponse, by: Answering): Promise<void> {
  const { status, body, headers } = await toldTo(request, by);
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...headers,
    connection: 'close',
  });
  response.end(body);
  // what is sent is not read; who sends it is to find the answer before the connection ends
  if (request.complete) return;
  request.resume();
  setTimeout(() => request.socket.destroy(), LINGER).unref();
}

async function toldTo({ url = '', headers }: IncomingMessage, { access, metrics }: Answering): Promise<Told> {
  const path = url.split('?', 1)[0];
  if (path === '/health') return { status: 200, body: '{"status":"ok"}' };
  if (path === '/ready') return { status: 503, body: '{"status":"standby"}', headers: STANDBY.headers };
  if (path !== '/metrics') return refusal(STANDBY);
  try {
    access.check(headers, 'metrics');
    return { status: 200, body: await metrics.metrics(), headers: { 'content-type': metrics.contentType } };
  } catch (error) {
    return refusal(error instanceof ApiError ? error : new ApiError(500, 'The metrics could not be read.'));
  }
}

const refusal = (error: ApiError): Told => ({
  ...{ status: error.status, body: bodyOfError(error), headers: error.headers },
});

function begin(server: Server, { host, port }: StandbyOptions['place']): Promise<undefined> {
  return new Promise((resolve, reject) => {
    const isThere = (): void => {
      server.off('error', fails);
      resolve(undefined);
    };
    const fails = (error: Error): void => {
      server.off('listening', isThere);
      reject(error);
    };
    server.once('error', fails).once('listening', isThere).listen({ host, port, backlog: BACKLOG });
  });
}

/** Who is frozen has its address still: batches go on without, and calls come once it has ended. */
async function whenFree(
  server: Server,
  { place, say, signal }: StandbyOptions,
  first: string,
): Promise<void> {
  for (let isTold = false; ; isTold = true) {
    const error = await begin(server, place).catch((error: NodeJS.ErrnoException) => error);
    if (error === undefined) return;
    if (error.code !== 'EADDRINUSE' || signal.aborted) throw listenError(error, place);
    if (!isTold)
      say(
        `${place.host}:${place.port} is still in use, as it seems by ${first}, if that is frozen: batches go on here, ` +
          'and calls are answered once it has ended; kill -9 ends it',
        { event: 'standby-port', level: 'warn' },
      );
    await pause(AGAIN, undefined, { signal }).catch(() => {});
  }
}
