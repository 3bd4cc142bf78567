/** The Files and Batches API: its store is opened, its routes are added, and what has expired is swept. */
import type { FastifyInstance } from 'fastify';
import { addFileRoutes } from './file-routes.ts';
import { openFiles } from './file-store.ts';
import type { Parts } from './parts.ts';

/** ms between two looks for files whose time is over */
const SWEEP = 60_000;

export async function addApi(app: FastifyInstance, parts: Parts): Promise<{ drain(): Promise<void> }> {
  const { data, now, say } = parts;
  const files = openFiles(data, { now, say });
  addFileRoutes(app, parts, files);
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
    },
  };
}
