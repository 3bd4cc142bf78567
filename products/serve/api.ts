/** The Files and Batches API: its store is opened, its routes are added, and what has expired is swept. */
import type { FastifyInstance } from 'fastify';
import { batchMetrics, createRates } from './batches/batch-metrics.ts';
import { addBatchRoutes, creator } from './batches/batch-routes.ts';
import { BatchStore } from './batches/batch-store.ts';
import { Batches } from './batches/batches.ts';
import { addFileRoutes } from './file-routes.ts';
import { openFiles } from './file-store.ts';
import { addPage } from './page/page-routes.ts';
import type { Parts } from './server-context.ts';
import { uploadsInto } from './uploads.ts';

/** ms between two looks for files whose time is over */
const SWEEP = 60_000;

export async function addApi(app: FastifyInstance, parts: Parts): Promise<{ drain(): Promise<void> }> {
  const { data, now, say } = parts;
  const files = openFiles(data, { now, say });
  const store = new BatchStore(data, { say });
  const batches = new Batches({ ...parts, files, store });
  const uploads = uploadsInto(files, parts);
  const create = creator(parts, { files, store, batches });
  addFileRoutes(app, files, uploads);
  const rates = createRates(now);
  await addPage(app, parts, { files, store, batches, rates, uploads, create });
  addBatchRoutes(app, { store, batches, create });
  batchMetrics(parts, { store, batches, rates });
  const sweeping = setInterval(() => {
    try {
      files.sweep();
    } catch (error) {
      say(`files that have expired could not be removed: ${(error as Error).message}`);
    }
  }, SWEEP);
  sweeping.unref();
  return {
    async drain() {
      clearInterval(sweeping);
      await batches.drain();
    },
  };
}
