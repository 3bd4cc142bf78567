/** /v1/files: upload, list, get, content, delete. */
import { createReadStream } from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { openKept } from '../../engine/core/files/durable.ts';
import { notFound } from './errors.ts';
import type { FileRecord, FileStore } from './file-store.ts';
import { FILE_ID } from './ids.ts';
import type { Eraser } from './keep/eraser.ts';
import { pageOf } from './owned.ts';
import type { Uploads } from './uploads.ts';

const LIST = { id: FILE_ID, most: 10_000, usual: 10_000 };
type One = FastifyRequest<{ Params: { id: string } }>;

export function addFileRoutes(
  app: FastifyInstance,
  { files, uploads, eraser }: { files: FileStore; uploads: Uploads; eraser: Pick<Eraser, 'afterFile'> },
): void {
  const config = { scope: 'batch' } as const;

  app.post('/v1/files', { config }, async ({ raw, caller }) => shown((await uploads(raw, caller)).record));

  app.get('/v1/files', { config }, async request => {
    const query = request.query as Record<string, unknown>;
    const { owner } = request.caller;
    const { purpose } = query;
    const find = (id: string): FileRecord | null => {
      const record = files.get(owner, id);
      return purpose === undefined || record?.purpose === purpose ? record : null;
    };
    const page = pageOf(files.ids(owner), find, query, LIST);
    return { ...page, data: page.data.map(shown) };
  });

  const found = ({ caller, params }: One): FileRecord => {
    const record = FILE_ID.test(params.id) ? files.get(caller.owner, params.id) : null;
    if (record === null) throw notFound(`No such File object: ${params.id.slice(0, 100)}`);
    return record;
  };
  app.get('/v1/files/:id', { config }, async (request: One) => shown(found(request)));
  app.get('/v1/files/:id/content', { config }, async (request: One, reply) => {
    const record = found(request);
    return sendFile(reply, record, files);
  });
  app.delete('/v1/files/:id', { config }, async (request: One) => {
    const record = found(request);
    const { id } = record;
    files.remove(id);
    const forgotten = await eraser.afterFile(record);
    return {
      ...{ id, object: 'file', deleted: true },
      // beyond OpenAI: the ledgers that had prompts and answers of it
      ...(forgotten.length > 0 && { forgotten_batches: forgotten }),
    };
  });
}

/** Its bytes, never as a page. */
export function sendFile(reply: FastifyReply, { id, bytes }: FileRecord, files: FileStore): FastifyReply {
  return reply
    .headers({
      'content-type': 'application/octet-stream',
      'content-length': bytes,
      'content-disposition': `attachment; filename="${id}.jsonl"`,
      'x-content-type-options': 'nosniff',
    })
    .send(createReadStream('', { fd: openedOf(id, files) }));
}

/** Opened now: what is deleted while it is sent is sent to its end. */
function openedOf(id: string, files: FileStore): number {
  try {
    return openKept(files.pathOf(id));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw notFound(`No such File object: ${id}`);
  }
}

/** As OpenAI shows a file. */
export function shown({ id, bytes, created_at, expires_at, filename, purpose }: FileRecord) {
  return {
    id,
    object: 'file',
    bytes,
    created_at,
    expires_at,
    filename,
    purpose,
    status: 'processed',
    status_details: null,
  };
}
