/** A worker in this process, over simulated servers and a coordinator in memory. */
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openLasting } from '../../engine/running/open-pool.ts';
import { createClient } from '../../products/workers/worker/coordinator-client.ts';
import { startWorker, type Timing, type Worker } from '../../products/workers/worker/worker.ts';
import { openFolder } from '../../products/workers/worker/worker-folder.ts';
import { folder } from '../fw.ts';
import { MODEL, simulated } from '../server/serving.ts';
import { type FakeCoordinator, KEY } from './coordinator.ts';

export interface WorkingOptions {
  endpoints?: string[];
  limit?: number;
  data?: string;
  grace?: number;
  idle?: number;
  paths?: string[];
  timing?: Partial<Timing>;
}

export interface Working extends Worker {
  said: string[];
  data: string;
}

/** Stopped at the end of the test. */
export async function working(fake: FakeCoordinator, options: WorkingOptions = {}): Promise<Working> {
  const { grace = 200, limit = 8, data = join(folder(), 'fw-work'), idle, paths, timing } = options;
  const endpoint = options.endpoints ?? [(await simulated()).url];
  const said: string[] = [];
  const say = (message: string): void => void said.push(message);
  const { signal } = new AbortController();
  const kept = await openFolder(data, { say, onLost: error => say(error.message), signal });
  const values = { endpoint, wait: '0s', 'max-body': 4 * 1024 * 1024, 'endpoint-limit': limit };
  const worker = startWorker({
    taker: fake.taker(),
    client: createClient({ url: fake.url, key: KEY }),
    pool: await openLasting(values, { reserve: 0, warn: say, signal }),
    folder: kept,
    ...{ grace, idle, paths, say },
    timing: { look: 20, ...timing },
  });
  onTestFinished(async () => {
    worker.stop();
    await worker.ended;
  });
  return { ...worker, said, data };
}

/** Lines of a shard with raw requests. */
export const requests = (count: number, from = 0, body: object = {}): string[] =>
  Array.from({ length: count }, (_, n) =>
    JSON.stringify({
      id: `r-${from + n}`,
      request: {
        method: 'POST',
        url: '/v1/chat/completions',
        body: { model: MODEL, messages: [{ role: 'user', content: `Say ${from + n}` }], ...body },
      },
    }),
  );

export const REQUEST = [{ stage: 'request', options: {} }];
