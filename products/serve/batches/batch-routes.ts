/** /v1/batches: create, list, get, cancel. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isFull } from '../../../engine/core/files/durable.ts';
import { notFound } from '../errors.ts';
import { BATCH_ID } from '../ids.ts';
import { type ListQuery, pageOf } from '../paging.ts';
import { diskFull } from '../upload.ts';
import { type BatchRecord, shown } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import type { Batches } from './batches.ts';
import type { Create } from './create-batch.ts';

const LIST = { id: BATCH_ID, most: 100, usual: 20 };

type One = FastifyRequest<{ Params: { id: string } }>;

export function addBatchRoutes(
  app: FastifyInstance,
  { store, batches, create }: { store: BatchStore; batches: Batches; create: Create },
): void {
  const config = { scope: 'batch' } as const;
  const see = (record: BatchRecord) => shown(batches.seen(record));

  app.post('/v1/batches', { config }, async request => {
    const { caller, body, headers } = request;
    const idempotency = textOf(headers['idempotency-key']);
    const isRetry = Number(textOf(headers['x-stainless-retry-count'])) > 0;
    return see(create({ body, idempotency, caller, isRetry }));
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
