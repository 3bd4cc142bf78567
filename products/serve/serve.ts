/**
 * A server: one process, all of whose state is files under DIR. It takes the lock of DIR, opens the pool, adds the routes
 * and listens; told to stop it takes nothing new and gives what is under way its grace.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { addApi, addOwn } from './api.ts';
import { addGateway } from './gateway/gateway.ts';
import { endSilent, listen } from './http.ts';
import { addLora } from './lora.ts';
import { openParts, type Serving } from './open-parts.ts';
import { openChanges } from './reload.ts';
import type { Routes } from './server-context.ts';
import { addShards, shardMetrics } from './shard-routes.ts';

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

/** All of the API, in the order in which it is added. */
const ROUTES: readonly Routes[] = [addApi, addGateway, addLora];

/** Exit 64 where DIR is another server's or the address cannot be listened on, 74 where DIR cannot be written. */
export async function startServer(serving: Serving): Promise<Server> {
  const { settings } = serving;
  const closing = new AbortController();
  const over = new AbortController();
  const opened = await openParts(serving, { closing: closing.signal, over: over.signal });
  const { parts, app } = opened;
  const added: Awaited<ReturnType<Routes>>[] = [];
  let changes: ReturnType<typeof openChanges> | undefined;
  let url: string;
  try {
    addOwn(app, parts);
    if (parts.workers !== null) {
      addShards(app, parts.workers.desk);
      shardMetrics(parts, parts.workers.desk);
    }
    for (const routes of ROUTES) added.push(await routes(app, parts));
    changes = openChanges(serving.told, parts);
    url = await (serving.standing?.listen(app) ?? listen(app, settings));
  } catch (error) {
    changes?.stop();
    await opened.close(false);
    throw error;
  }
  const { reload, stop: stopChanges } = changes;
  let closed: Promise<unknown> | undefined;
  const close = (): Promise<unknown> => {
    closing.abort();
    stopChanges();
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
    reload,
    stopAtOnce: endAll,
    async stop() {
      const all = close();
      all.catch(() => {}); // heard of below, once all have drained
      const drained = Promise.all(added.map(one => one.drain())).then(() => {
        endSilent(app);
        return all;
      });
      const late = pause(settings.grace, undefined, { ref: false }).then(endAll);
      await Promise.race([drained, late.then(() => drained)]);
      await opened.close(true);
    },
  };
}
