/** /v1/batches: create, list, get, cancel. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isFull } from '../durable.ts';
import { badRequest, notFound } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import { BATCH_ID } from '../ids.ts';
import { type ListQuery, pageOf } from '../paging.ts';
import type { Parts } from '../parts.ts';
import { diskFull } from '../upload.ts';
import type { Batches } from './batches.ts';
import { recordOf } from './create.ts';
import { type BatchRecord, shown } from './state.ts';
import type { BatchStore } from './store.ts';

const LIST = { id: BATCH_ID, most: 100, usual: 20 };
/** ms in which a create that a client says it repeats is taken for the same one */
const REPEATED = 15 * 60_000;

type One = FastifyRequest<{ Params: { id: string } }>;

export function addBatchRoutes(
  app: FastifyInstance,
  { access, now }: Parts,
  { files, store, batches }: { files: FileStore; store: BatchStore; batches: Batches },
): void {
  const config = { scope: 'batch' } as const;
  const see = (record: BatchRecord) => shown(batches.seen(record));

  app.post('/v1/batches', { config }, async request => {
    const { caller, body, headers } = request;
    const idempotency = textOf(headers['idempotency-key']);
    const record = recordOf({ body, idempotency, caller, now: now() }, files);
    const before = repeated(record, Number(textOf(headers['x-stainless-retry-count'])) > 0);
    if (before !== undefined) return see(before);
    access.refuseSpent(caller);
    try {
      return see(batches.add(record));
    } catch (error) {
      throw isFull(error) ? diskFull() : error;
    }
  });

  /**
   * The batch that this request has made already: the answer was lost, and the client asks again. It says so by a count of
   * its own, or by a key that its user chose.
   */
  function repeated({ owner, key, asked }: BatchRecord, isRetry: boolean): BatchRecord | undefined {
    const own = store.list(owner).reverse();
    if (asked.idempotency !== null) {
      const same = own.find(one => one.asked.idempotency === asked.idempotency);
      if (same === undefined || same.asked.body === asked.body) return same;
      throw badRequest('This Idempotency-Key was used with another body.', null, 'idempotency_key_reused');
    }
    const isRecent = ({ created_at }: BatchRecord): boolean => now() - created_at * 1000 <= REPEATED;
    return isRetry
      ? own.find(one => one.key === key && one.asked.body === asked.body && isRecent(one))
      : undefined;
  }

  app.get('/v1/batches', { config }, async request => {
    const page = pageOf(
      store.list(request.caller.owner),
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
  app.get('/v1/batches/:id', { config }, async (request: One) => see(found(request)));
  app.post('/v1/batches/:id/cancel', { config }, async (request: One) => {
    try {
      return see(batches.cancel(found(request)));
    } catch (error) {
      throw isFull(error) ? diskFull() : error;
    }
  });
}

/** A header that is given once, at most 255 characters of it. */
function textOf(header: string | string[] | undefined): string | null {
  return typeof header === 'string' && header !== '' ? header.slice(0, 255) : null;
}
