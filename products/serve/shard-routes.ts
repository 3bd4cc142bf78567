/**
 * What workers ask of a coordinator (products/workers/protocol.ts), over HTTP with a key of scope `worker`. What they send is
 * bounded and looked at before the desk sees it. A lease is no business of a key: several workers may share one.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ownValidator } from '../../engine/core/config/package.ts';
import type { Desk } from '../workers/desk.ts';
import {
  Gone,
  Held,
  type Hello,
  NotKept,
  NotYet,
  type PartName,
  type Result,
  TooMany,
  WrongResult,
} from '../workers/protocol.ts';
import { ApiError, badRequest, comeAgain, invalid, notFound, ofDisk } from './errors.ts';
import { readBody, readJson } from './http-body.ts';
import type { Parts } from './server-context.ts';

/** bytes of a hello, of the first line of a result, and of a result with its lines */
const MOST_SAID = 1024 * 1024;
const MOST_RESULT = 256 * 1024 * 1024;
/** … and of all results that are being read: beyond it a worker comes again */
const MOST_TOGETHER = 2 * MOST_RESULT;
const NDJSON = 'application/x-ndjson';
const NEWLINE = 0x0a;

export type DeskOfRoutes = Pick<Desk, 'hello' | 'task' | 'files' | 'take' | 'put'>;

type OfWork = FastifyRequest<{ Params: { work: string } }>;
type OfPart = FastifyRequest<{ Params: { work: string; root: string; part: string } }>;

/** `together`: bytes of all results that are being read. */
export function addShards(app: FastifyInstance, desk: DeskOfRoutes, together = MOST_TOGETHER): void {
  const config = { scope: 'worker', most: MOST_SAID } as const;
  let reading = 0;

  app.post('/shards/hello', { config }, async ({ body }) => {
    const hello = helloOf(body);
    return told(() => desk.hello(hello));
  });

  app.get('/shards/:work/task', { config }, async ({ params }: OfWork) =>
    told(() => desk.task(workOf(params.work))),
  );

  app.get('/shards/:work/files', { config }, async ({ params }: OfWork, reply) => {
    const work = workOf(params.work);
    if (told(() => desk.task(work)).files === null) throw notFound('This work has no files.', 'work');
    return reply.type('application/json').send(told(() => desk.files(work)));
  });

  app.post('/shards/:work/:root/:part/take', { config }, async (request: OfPart, reply) => {
    const name = partOf(request.params);
    const { worker } = readJson(request.body, ownValidator('part-take', 'first')) as { worker: string };
    const { lines, ...given } = told(() => desk.take(name, worker));
    return reply.type(NDJSON).send(Buffer.concat([Buffer.from(`${JSON.stringify(given)}\n`), lines]));
  });

  app.put('/shards/:work/:root/:part', { config }, async (request: OfPart, reply: FastifyReply) => {
    const name = partOf(request.params);
    const { headers, raw } = request;
    if (!headers['content-type']?.startsWith(NDJSON))
      throw badRequest(`Expected a body of content-type ${NDJSON}, found another one.`);
    let came = 0;
    // what came counts, and not what was announced: two that send nothing would keep all others away
    const refuses = (bytes: number): ApiError | null => {
      if (reading + bytes > together) return tooMuch(together);
      reading += bytes;
      came += bytes;
      return null;
    };
    try {
      const { result, lines } = resultIn(await readBody(raw, MOST_RESULT, refuses));
      return reply.send({ rest: told(() => desk.put(name, result, lines)) });
    } finally {
      reading -= came;
    }
  });
}

/** What Prometheus is told of workers and of what they have: by state, never by worker, batch or owner. */
export function shardMetrics(
  { metrics, now }: Pick<Parts, 'metrics' | 'now'>,
  desk: Pick<Desk, 'stats'>,
): void {
  metrics.measure(
    {
      fw_workers: ['Workers that were heard of within a lease.'],
      fw_shards: [
        'Shards of open batches, or the parts that they were cut into: planned, offered in the queue, unserved (of models that no worker has), with a worker, done.',
        'state',
      ],
      fw_shard_lines: [
        'Lines of open batches without an answer: queued, unserved, and with workers.',
        'state',
      ],
      fw_shard_work_seconds: [
        'Time that one worker would need for the lines that are queued, and that workers have.',
        'state',
      ],
      fw_queue_up: ['Whether the queue (Redis) is connected: 1 or 0.'],
      fw_shard_last_result_seconds: ['Time since a worker handed in a result.'],
    },
    () => {
      const { alive, shards, lastResult, isQueueUp, ...work } = desk.stats();
      const { queuedSeconds, runningSeconds } = work;
      // a sum over both is not to be taken for all where one is not known
      const isKnown = queuedSeconds !== null && runningSeconds !== null;
      return {
        fw_workers: alive,
        fw_shards: Object.entries(shards),
        fw_shard_lines: Object.entries({
          queued: work.queuedLines,
          unserved: work.unservedLines,
          running: work.runningLines,
        }),
        fw_shard_work_seconds: isKnown
          ? Object.entries({ queued: queuedSeconds, running: runningSeconds })
          : null,
        fw_queue_up: isQueueUp ? 1 : 0,
        fw_shard_last_result_seconds: lastResult === null ? null : Math.max(0, now() - lastResult) / 1000,
      };
    },
  );
}

/** 404 where no part can have such a name. */
function partOf({ work, root, part }: OfPart['params']): PartName {
  if (!/^\d{1,9}$/.test(root) || !/^\d{1,9}$/.test(part))
    throw notFound('Expected the numbers of a shard and of its part, found others.', 'part');
  return { work: workOf(work), root: Number(root), part: Number(part) };
}

function workOf(work: string): string {
  if (/^[\w.-]{1,100}$/.test(work)) return work;
  throw notFound('Expected the id of a work, found another text.', 'work');
}

function helloOf(body: unknown): Hello {
  const hello = readJson(body, ownValidator('worker-hello', 'first')) as unknown as Hello;
  const { worker, host, pid, version, models, endpoints, places, rate, held, isStopping } = hello;
  const at = endpoints.findIndex(({ url }) => !URL.canParse(url));
  if (at >= 0) throw invalid(`endpoints.${at}.url`, 'expected a URL');
  // what a newer worker says beside it is not kept
  return {
    ...{ worker, host, pid, version, models, places, rate, isStopping },
    endpoints: endpoints.map(({ url, isUp, inFlight, limit }) => ({ url, isUp, inFlight, limit })),
    held: held.map(({ work, root, part, done, lines }) => ({ work, root, part, done, lines })),
  };
}

/** The first line, and the bytes of the others: as many lines as it says. */
function resultIn(body: Buffer): { result: Result; lines: Buffer } {
  const end = body.indexOf(NEWLINE);
  if (end < 0 || end > MOST_SAID)
    throw badRequest(`Expected a first line of at most ${MOST_SAID} bytes, found none.`, 'result');
  const result = readJson(body.subarray(0, end), ownValidator('part-result', 'first')) as unknown as Result;
  const lines = body.subarray(end + 1);
  const found = countLines(lines);
  if (found !== result.answered.length)
    throw badRequest(
      `Expected ${result.answered.length} lines behind the first, each with a newline, found ${found ?? 'an unfinished one'}.`,
      'answered',
      'invalid_value',
    );
  return { result, lines };
}

/** Null where the last one has no newline. */
function countLines(bytes: Buffer): number | null {
  if (bytes.length > 0 && bytes.at(-1) !== NEWLINE) return null;
  let count = 0;
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}

/** What the desk throws, in the words of HTTP. */
function told<T>(ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof Gone) throw new ApiError(410, message, { code: 'part_closed' });
    if (error instanceof Held) throw new ApiError(409, message, { code: 'part_held' });
    if (error instanceof WrongResult) throw badRequest(message, 'lines', 'wrong_result');
    if (error instanceof NotYet) throw comeAgain(503, message, 'not_yet', 1);
    if (error instanceof NotKept) throw comeAgain(503, message, 'not_kept', 5);
    if (error instanceof TooMany) throw comeAgain(429, message, 'too_many_workers', 60);
    throw ofDisk(error);
  }
}

const tooMuch = (together: number): ApiError =>
  comeAgain(
    503,
    `Expected results of at most ${together} bytes at a time, found more: send it again.`,
    'too_many_results',
    2,
  );
