/** The routes of the Files and Batches API, and those that say how the server is. */
import type { FastifyInstance } from 'fastify';
import { isThere } from '../../engine/asking/pool/pool-stats.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { counted } from '../../engine/core/item/wording.ts';
import { addAdmin } from './admin/admin-routes.ts';
import { batchMetrics, createRates } from './batches/batch-metrics.ts';
import { tellBatches } from './batches/batch-news.ts';
import { addBatchRoutes, creator } from './batches/batch-routes.ts';
import { isFinal } from './batches/batch-state.ts';
import { BatchStore } from './batches/batch-store.ts';
import { Batches } from './batches/batches.ts';
import { addFileRoutes } from './file-routes.ts';
import { openFiles } from './file-store.ts';
import { Eraser } from './keep/eraser.ts';
import { Retention } from './keep/retention.ts';
import { Storage } from './keep/storage.ts';
import { addPage } from './page/page-routes.ts';
import type { Parts, Routes } from './server-context.ts';
import { uploadsInto } from './uploads.ts';

/** Batches that are named at a start. */
const MOST_NAMED = 5;

/** The Files and Batches API: its store is opened, its routes are added, and what is over is swept. */
export const addApi: Routes = async (app, parts) => {
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
  addAdmin(app, parts, { store, batches, eraser });
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

/** What says how the server is. */
export function addOwn(app: FastifyInstance, { pool, metrics, room, workers, closing }: Parts): void {
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
