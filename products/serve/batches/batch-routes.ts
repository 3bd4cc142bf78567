/**
 * /v1/batches: create, list, get, cancel. Of one that is made the body is checked alone, since the lines of its file are
 * looked at later; one that is asked for again is found.
 */
import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ownValidator } from '../../../engine/core/config/package.ts';
import { DIALECTS } from '../../../engine/core/item/dialects.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import { show } from '../../../engine/core/json/show.ts';
import type { Caller } from '../access.ts';
import { badRequest, invalid, kept, notFound } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import { readJson } from '../http-body.ts';
import { BATCH_ID, FILE_ID, newBatchId } from '../ids.ts';
import type { Erased, Eraser } from '../keep/eraser.ts';
import { bytesWords } from '../keep/keep-settings.ts';
import type { Storage } from '../keep/storage.ts';
import { type ListQuery, pageOf } from '../owned.ts';
import type { Parts } from '../server-context.ts';
import { secondsAsked } from '../uploads.ts';
import { newTally } from './batch-output.ts';
import { type BatchRecord, shown } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import type { Batches } from './batches.ts';
import { forecastHeader } from './forecasts.ts';

const LONGEST_KEY = 255;
const LIST = { id: BATCH_ID, most: 100, usual: 20 };

type One = FastifyRequest<{ Params: { id: string } }>;

interface BatchRouteParts {
  store: BatchStore;
  batches: Batches;
  create: Create;
  eraser: Pick<Eraser, 'batch'>;
  parts: Pick<Parts, 'workers' | 'say'>;
}

/** As OpenAI shows a batch, and whether its window can be kept. */
export function shownNow(record: BatchRecord, batches: Batches): JsonObject {
  const forecast = batches.forecasts.of(record);
  const batch = shown(batches.seen(record));
  return forecast === null ? batch : { ...batch, fw_forecast: { ...forecast } };
}

export function addBatchRoutes(
  app: FastifyInstance,
  { store, batches, create, eraser, parts }: BatchRouteParts,
): void {
  const config = { scope: 'batch' } as const;
  const see = (record: BatchRecord): JsonObject => shownNow(record, batches);
  /** A client that knows OpenAI's fields alone reads what was forecast in a header. */
  const seeOne = (record: BatchRecord, reply: FastifyReply): JsonObject => {
    const forecast = batches.forecasts.of(record);
    if (forecast !== null) reply.header('x-fw-forecast', forecastHeader(forecast));
    return see(record);
  };

  app.post('/v1/batches', { config }, async (request, reply) => {
    const { caller, body, headers } = request;
    const idempotency = textOf(headers['idempotency-key']);
    // one that is cut would be the key of another batch
    if (idempotency !== null && idempotency.length > LONGEST_KEY)
      throw badRequest(
        `Expected an Idempotency-Key of at most ${LONGEST_KEY} characters, found ${idempotency.length}.`,
      );
    const isRetry = Number(textOf(headers['x-stainless-retry-count'])) > 0;
    return seeOne(create({ body, idempotency, caller, isRetry }), reply);
  });

  app.get('/v1/batches', { config }, async request => {
    const page = pageOf(
      store.ids(request.caller.owner),
      store.of,
      { ...(request.query as ListQuery), order: 'desc' },
      LIST,
    );
    return { ...page, data: page.data.map(see) };
  });

  const found = ({ caller, params }: One): BatchRecord => {
    const record = BATCH_ID.test(params.id) ? store.get(caller.owner, params.id) : null;
    if (record === null) throw notFound(`No batch found with id '${params.id.slice(0, 100)}'.`);
    return record;
  };
  app.get('/v1/batches/:id', { config }, async (request: One, reply) => seeOne(found(request), reply));
  app.post('/v1/batches/:id/cancel', { config }, async (request: One) =>
    kept(() => see(batches.cancel(found(request)))),
  );
  // OpenAI has no such route
  app.delete('/v1/batches/:id', { config }, async (request: One) =>
    deleted(store.of(found(request).id), { eraser, parts }),
  );
}

/** Deletes a batch that has ended, with all that it has; what whoever asked for it is told. */
export async function deleted(
  record: BatchRecord,
  { eraser, parts }: Pick<BatchRouteParts, 'eraser' | 'parts'>,
): Promise<JsonObject> {
  const { id, owner } = record;
  const erased = await eraser.batch(record);
  const { files, bytes } = erased;
  parts.say(
    `${id} of ${owner} was deleted: its ledger and ${counted(files.length, 'file')}, ${bytesWords(bytes)}`,
    { event: 'batch-deleted', batch: id, owner, files: files.length, bytes },
  );
  return { id, object: 'batch', deleted: true, files, bytes, stays: staying(erased, parts) };
}

/** What a client is told that is still there. */
function staying({ kept: input }: Erased, { workers }: Pick<Parts, 'workers'>): string[] {
  return [
    ...(input === null ? [] : [`the input ${input.input}, which ${input.batch} names too`]),
    'counts of lines and tokens in /metrics, in the budget of the day, and for fw ledger cost (spent.jsonl)',
    ...(workers === null ? [] : ['ledgers of workers on other machines, of lines that they answered']),
    'backups and what was sent elsewhere',
  ];
}

/** A header that is given once. */
function textOf(header: string | string[] | undefined): string | null {
  return typeof header === 'string' && header !== '' ? header : null;
}

export const ENDPOINTS: readonly string[] = [...DIALECTS.keys()];

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** seconds: 30 days */
const LONGEST_WINDOW = 30 * 86_400;

/** ms in which a create that a client says it repeats is taken for the same one */
const REPEATED = 15 * 60_000;

export interface Asked {
  body: unknown;
  /** the Idempotency-Key header */
  idempotency: string | null;
  caller: Caller;
  /** the client says that it asks again */
  isRetry: boolean;
}

/** Makes the batch, or finds the one that this request has made already. Throws as `recordOf`, 429, and 507 for a full disk. */
export type Create = (asked: Asked) => BatchRecord;

interface CreatorParts {
  files: FileStore;
  store: BatchStore;
  batches: Batches;
  storage: Pick<Storage, 'refuse' | 'refuseBatch'>;
}

export function creator(
  { access, room, stamp }: Pick<Parts, 'access' | 'room' | 'stamp'>,
  { files, store, batches, storage }: CreatorParts,
): Create {
  /**
   * The batch that this request has made already: the answer was lost, and the client asks again. It says so by a count of
   * its own, or by a key that its user chose.
   */
  function repeated({ owner, key, asked }: BatchRecord, isRetry: boolean): BatchRecord | undefined {
    if (asked.idempotency === null && !isRetry) return undefined;
    const own = store.list(owner).reverse();
    if (asked.idempotency !== null) {
      const same = own.find(one => one.asked.idempotency === asked.idempotency);
      if (same === undefined || same.asked.body === asked.body) return same;
      throw badRequest('This Idempotency-Key was used with another body.', null, 'idempotency_key_reused');
    }
    const isRecent = ({ created_at }: BatchRecord): boolean =>
      Math.abs(stamp() - created_at * 1000) <= REPEATED;
    return own.find(one => one.key === key && one.asked.body === asked.body && isRecent(one));
  }

  return asked => {
    const record = recordOf(asked, files, stamp());
    const before = repeated(record, asked.isRetry);
    if (before !== undefined) return before;
    const { owner, key, rules } = asked.caller;
    room.refuse();
    access.budgets.refuseSpent(key, rules);
    storage.refuseBatch(owner, rules);
    storage.refuse(owner, rules, 0);
    return kept(() => batches.add(record));
  };
}

const hashOfBody = (body: unknown): string => hash('sha256', Buffer.isBuffer(body) ? body : '');

/** 400 names the field that is wrong; 404 where the file is not there, or another owner's. */
export function recordOf({ body, idempotency, caller }: Asked, files: FileStore, now: number): BatchRecord {
  const said = readJson(body, ownValidator('batch', 'first'));
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after } = said as {
    input_file_id: string;
    endpoint: string;
    completion_window: string;
    metadata?: Record<string, string> | null;
    output_expires_after?: JsonObject | null;
  };
  if (!ENDPOINTS.includes(endpoint))
    throw invalid('endpoint', `this server takes ${ENDPOINTS.join(', ')}, found ${show(endpoint)}`);
  const window = windowOf(completion_window);
  const outputs_kept = output_expires_after
    ? secondsAsked(output_expires_after, 'output_expires_after')
    : null;
  const file = FILE_ID.test(input_file_id) ? files.get(caller.owner, input_file_id) : null;
  if (file === null) throw notFound(`No such File object: ${input_file_id.slice(0, 100)}`, 'input_file_id');
  if (file.purpose !== 'batch')
    throw invalid('input_file_id', `expected a file of purpose 'batch', found '${file.purpose}'`);
  return {
    ...{ id: newBatchId(now), owner: caller.owner, key: caller.key, endpoint, input_file_id },
    ...{ completion_window, window, status: 'validating', created_at: Math.floor(now / 1000), times: {} },
    ...{ errors: [], counts: { total: 0, completed: 0, failed: 0 }, usage: newTally().usage, failures: [] },
    ...{ metadata: metadata ?? null, model: null, models: [], outputs_kept, outputs: null },
    asked: { body: hashOfBody(body), idempotency },
  };
}

/** In seconds: OpenAI knows "24h" alone, this server any time of at most 30 days. */
function windowOf(text: string): number {
  const [, count, unit] = /^(\d{1,8})([smhd])$/.exec(text) ?? [];
  const seconds = Number(count) * (UNITS[unit ?? ''] ?? Number.NaN);
  if (seconds >= 1 && seconds <= LONGEST_WINDOW) return seconds;
  throw invalid(
    'completion_window',
    `expected '24h' or another time of at most 30d, such as 90m, found ${show(text)}`,
  );
}
