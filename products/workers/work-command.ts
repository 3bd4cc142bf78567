/**
 * fw work: a worker of a coordinator (fw serve --redis, fw run --redis). It takes parts of works, asks endpoints of its own,
 * and hands in what they answered. It has to reach Redis and the coordinator, and nobody has to reach it.
 *
 *   FW_WORKER_KEY=… fw work --redis redis://:PASSWORD@head:6379 --server https://head:8080 --endpoint http://127.0.0.1:8005/v1
 *
 * It works until SIGTERM or SIGINT: then it takes nothing more, and hands back what it has. A second signal ends it at once;
 * what it had then goes to others when the coordinator misses it.
 */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { EXIT, type Fatal, unavailable, usageError } from '../../engine/core/item/failure.ts';
import { command } from '../../engine/flow/command.ts';
import { durationOf } from '../../engine/flow/options.ts';
import { openLasting, POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { expectManyRequests, listen, sayAs } from '../kit/execute.ts';
import { QUEUE_OPTIONS, queueOf } from './queue-options.ts';
import type { Worker } from './worker/worker.ts';

const NAME = 'work';
const { endpoint, pool, 'endpoint-limit': limit, model, 'model-map': map } = POOL_OPTIONS;
const { 'api-key-env': keyVariable, 'max-body': maxBody, timeout } = POOL_OPTIONS;

/** ms: BullMQ gives a pointer to another worker when this one renews it no more; who has a part is the coordinator's to say */
const LOCK = 120_000;

export default command({
  name: NAME,
  summary: 'Run a worker for fw serve --redis or fw run --redis, which asks endpoints of its own.',
  examples: [
    'fw work --redis redis://head:6379 --server http://head:8080 --endpoint http://127.0.0.1:8005/v1',
    'fw work --redis rediss://:PASSWORD@head:6379 --server https://head --endpoint http://127.0.0.1:8005/v1 --idle 10m',
  ],
  options: {
    redis: QUEUE_OPTIONS.redis,
    'redis-prefix': QUEUE_OPTIONS['redis-prefix'],
    server: {
      type: 'string',
      description: 'URL of the coordinator; FW_WORKER_KEY holds its key. Default: FW_SERVER.',
    },
    data: {
      type: 'string',
      file: 'write-folder',
      default: 'fw-work',
      description:
        'Folder for the ledgers of this worker, one for each batch or run. Each worker needs its own.',
    },
    grace: {
      type: 'string',
      default: '10s',
      description: 'Time for calls in flight to finish after a stop signal.',
    },
    idle: {
      type: 'string',
      description: 'Exit after being idle this long, e.g. 10m. Default: never.',
    },
    ...{ endpoint, pool, 'endpoint-limit': limit, model, 'model-map': map },
    path: {
      type: 'array',
      items: { type: 'string' },
      description:
        'URL to allow in lines besides those of the gateway (docs/gateway.md), e.g. /v1/moderations. May be repeated.',
    },
    ...{ 'api-key-env': keyVariable, 'max-body': maxBody, timeout },
  },

  async run(options, positionals) {
    if (positionals.length > 0) throw usageError(`expected options only, found "${positionals[0]}"`);
    const say = sayAs(`fw ${NAME}`);
    const { data } = options;
    const queue = queueOf(options, process.env);
    if (queue === null)
      throw usageError('expected the queue of the coordinator, found none: --redis URL, or FW_REDIS');
    const grace = durationOf(options.grace, '--grace');
    const idle = options.idle === undefined ? undefined : durationOf(options.idle, '--idle');
    expectManyRequests();
    const { openTaker } = await import('./taker.ts');
    const { coordinatorOf, createClient } = await import('./worker/coordinator-client.ts');
    const { openFolder } = await import('./worker/worker-folder.ts');
    const { describeSums } = await import('./worker/speech.ts');
    const { startWorker } = await import('./worker/worker.ts');
    const { readModelMap } = await import('../../engine/asking/endpoints/model-names.ts');
    const server = coordinatorOf(options.server, process.env);
    const names = options['model-map'];
    const modelMap = names === undefined ? undefined : readModelMap(names);
    const stopping = new AbortController();
    const { signal } = stopping;
    const { url, prefix } = queue;
    let worker: Worker | undefined;
    const hurried = new Promise<number>(hurry => {
      listen(({ name, exit }) => {
        if (worker === undefined || signal.aborted) return hurry(exit);
        stopping.abort();
        say(`${name}: takes no more work; calls in flight have ${options.grace} (again: stop at once)`);
        worker.stop();
      });
    });

    async function work(): Promise<number> {
      const onLost = (error: Fatal): void => worker?.breakOff(error);
      const folder = await openFolder(resolve(data), { say, signal, onLost });
      const name = `${hostname()}/${process.pid}`;
      const taker = await openTaker({ url, prefix, name, lock: LOCK, say });
      const pool = await openLasting(options, { reserve: 0, warn: say, signal });
      const urls = pool.stats().endpoints.map(one => one.url);
      say(`working for ${server.url} with endpoints ${urls.join(', ')}; data in ${data}`);
      const client = createClient(server);
      worker = startWorker({ taker, client, pool, folder, modelMap, paths: options.path, grace, idle, say });
      const { sums, isClean, broken } = await worker.ended;
      say(describeSums(sums));
      if (broken !== undefined) throw broken;
      if (!isClean)
        throw unavailable(
          `expected ${server.url} to take the results in hand, found that it does not answer`,
        );
      return EXIT.ok;
    }
    return Promise.race([work(), hurried]);
  },
});
