/** What the scope admin may do over the API: keys, batches of all owners, endpoints, and who asked what. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import { deleted, shownNow } from '../batches/batch-routes.ts';
import { type BatchRecord, STATUSES, type Status } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import type { Batches } from '../batches/batches.ts';
import { comeAgain, invalid, kept, notFound } from '../errors.ts';
import { readObject } from '../http-body.ts';
import { BATCH_ID } from '../ids.ts';
import type { Eraser } from '../keep/eraser.ts';
import { type ListQuery, pageOf } from '../owned.ts';
import type { Parts } from '../server-context.ts';
import { endpointsShown, turnEndpoint } from './admin-endpoints.ts';
import { addKey, keyShown, keysOf, limitKey, revokeKey } from './admin-keys.ts';
import { found, searchIn } from './audit-search.ts';

const LIST = { id: BATCH_ID, most: 100, usual: 20 };
/** Searches at a time: each reads files as fast as it can. */
const MOST_SEARCHES = 2;
const config = { scope: 'admin' } as const;

type One = FastifyRequest<{ Params: { id: string } }>;

export interface AdminParts {
  store: BatchStore;
  batches: Batches;
  eraser: Pick<Eraser, 'batch'>;
}

export function addAdmin(app: FastifyInstance, parts: Parts, stores: AdminParts): void {
  addKeys(app, parts);
  addBatches(app, parts, stores);
  addEndpoints(app, parts);
  addAudit(app, parts, stores);
}

function addKeys(app: FastifyInstance, parts: Parts): void {
  const { access } = parts;
  app.get('/v1/admin/keys', { config }, async () => ({
    object: 'list',
    data: keysOf(parts).map(one => ({ ...keyShown(one), used_today: access.budgets.usedToday(one.id) })),
  }));
  app.post('/v1/admin/keys', { config }, async request => {
    const { key, record } = await addKey(parts, request, readObject(request.body));
    return { ...keyShown(record), key };
  });
  app.post('/v1/admin/keys/:id', { config }, async (request: One) =>
    keyShown(await limitKey(parts, request, request.params.id, readObject(request.body))),
  );
  app.delete('/v1/admin/keys/:id', { config }, async (request: One) =>
    keyShown(await revokeKey(parts, request, request.params.id)),
  );
}

function addBatches(app: FastifyInstance, parts: Parts, { store, batches, eraser }: AdminParts): void {
  const { acts } = parts;
  const see = (record: BatchRecord): JsonObject => ({
    ...shownNow(record, batches),
    ...{ owner: record.owner, key: record.key, waits: batches.waiting(record)?.words ?? null },
  });
  const one = ({ params }: One): BatchRecord => {
    const record = BATCH_ID.test(params.id) ? (store.of(params.id) as BatchRecord | undefined) : undefined;
    if (record === undefined) throw notFound(`No batch found with id '${params.id.slice(0, 100)}'.`);
    return record;
  };
  app.get('/v1/admin/batches', { config }, async request => {
    const { owner, status, ...query } = request.query as ListQuery & { owner?: unknown; status?: unknown };
    if (owner !== undefined && typeof owner !== 'string') throw invalid('owner', 'expected one name');
    if (status !== undefined && !STATUSES.includes(status as Status))
      throw invalid('status', `expected one of ${STATUSES.join(', ')}`);
    const find = (id: string): BatchRecord | null => {
      const record = store.of(id);
      return status === undefined || record.status === status ? record : null;
    };
    const page = pageOf(store.ids(owner ?? null), find, query, LIST);
    return { ...page, data: page.data.map(see) };
  });
  app.get('/v1/admin/batches/:id', { config }, async (request: One) => see(one(request)));
  app.post('/v1/admin/batches/:id/cancel', { config }, async (request: One) => {
    const record = one(request);
    const cancelled = kept(() => batches.cancel(record));
    const { id, owner } = record;
    acts.note(request, 'batch.cancelled', `cancelled ${id} of ${owner}`, { target: id, owner });
    return see(cancelled);
  });
  app.delete('/v1/admin/batches/:id', { config }, async (request: One) => {
    const record = one(request);
    const { id, owner } = record;
    const said = await deleted(record, { eraser, parts });
    acts.note(request, 'batch.deleted', `deleted ${id} of ${owner}`, { target: id, owner });
    return said;
  });
}

function addEndpoints(app: FastifyInstance, parts: Parts): void {
  app.get('/v1/admin/endpoints', { config }, async () => ({ object: 'list', data: endpointsShown(parts) }));
  for (const act of ['drain', 'resume'] as const)
    app.post(`/v1/admin/endpoints/${act}`, { config }, async request => {
      const { url } = readObject(request.body);
      if (typeof url !== 'string')
        throw invalid('url', 'expected the URL of an endpoint, as the list has it');
      return turnEndpoint(parts, request, act, url);
    });
}

function addAudit(app: FastifyInstance, parts: Parts, { store }: AdminParts): void {
  const { data, acts, closing } = parts;
  let searching = 0;
  app.get('/v1/admin/audit', { config, exposeHeadRoute: false }, async (request, reply) => {
    const search = searchIn(request.query as JsonObject);
    if (searching >= MOST_SEARCHES)
      throw comeAgain(429, `Expected at most ${MOST_SEARCHES} searches at a time.`, 'rate_limit_exceeded', 5);
    if (search.prompts)
      acts.note(request, 'audit.read', 'read requests and answers of the record', {
        query: request.url.slice(0, 2_000),
      });
    searching += 1;
    const over = new AbortController();
    const lines = Readable.from(
      found(search, { data, store, signal: AbortSignal.any([over.signal, closing]) }),
    );
    lines.once('close', () => {
      searching -= 1;
      over.abort();
    });
    request.ends = () => lines.destroy();
    return reply.type('application/x-ndjson').send(lines);
  });
}
