/** /v1/files: upload, list, get, content, delete, expiry. */
import { createReadStream } from 'node:fs';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isFull } from './durable.ts';
import { ApiError, badRequest, notFound } from './errors.ts';
import type { FileRecord, FileStore } from './file-store.ts';
import { FILE_ID, newFileId } from './ids.ts';
import { pageOf } from './paging.ts';
import type { Parts } from './parts.ts';
import { diskFull, takeUpload, type Uploaded } from './upload.ts';

const LIST = { id: FILE_ID, most: 10_000, usual: 10_000 };
/** seconds that a client may ask a file to be kept, as at OpenAI */
const KEPT_LEAST = 3_600;
const KEPT_MOST = 30 * 24 * 3_600;

type One = FastifyRequest<{ Params: { id: string } }>;

export function addFileRoutes(app: FastifyInstance, { settings, now }: Parts, files: FileStore): void {
  const { limits, keep } = settings;
  const config = { scope: 'batch' } as const;
  let uploads = 0;

  app.post('/v1/files', { config }, async request => {
    if (uploads >= limits.uploads)
      throw new ApiError(429, `Rate limit reached: ${limits.uploads} uploads at a time.`, {
        ...{ type: 'requests', code: 'rate_limit_exceeded' },
        headers: { 'retry-after': '5' },
      });
    if (Number(request.headers['content-length']) > limits.file + FORM)
      throw new ApiError(
        413,
        `Expected a file of at most ${limits.file} bytes, found a longer one; it was not kept.`,
        {
          ...{ param: 'file', code: 'file_too_large' },
        },
      );
    uploads += 1;
    const id = newFileId(now());
    const path = files.spoolOf(id);
    try {
      const uploaded = await takeUpload(request.raw, path, limits.file);
      return shown(kept(id, request.caller.owner, uploaded));
    } finally {
      uploads -= 1;
      files.discard(id);
    }
  });

  /** Judges what the form said, now that all of it is here. */
  function kept(id: string, owner: string, { filename, bytes, fields }: Uploaded): FileRecord {
    const purpose = fields.get('purpose');
    if (purpose === undefined)
      throw badRequest("Missing required parameter: 'purpose'.", 'purpose', 'missing_required_parameter');
    if (purpose !== 'batch')
      throw badRequest("Invalid value for 'purpose': this server takes 'batch'.", 'purpose', 'invalid_value');
    const created_at = Math.floor(now() / 1000);
    const expires_at = created_at + secondsKept(fields, keep);
    const record = { id, owner, filename, purpose, bytes, created_at, expires_at } as const;
    try {
      files.add(record);
    } catch (error) {
      throw isFull(error) ? diskFull() : error;
    }
    return record;
  }

  app.get('/v1/files', { config }, async request => {
    const query = request.query as Record<string, unknown>;
    const all = files.list(request.caller.owner);
    const { purpose } = query;
    const meant = purpose === undefined ? all : all.filter(record => record.purpose === purpose);
    const page = pageOf(meant, query, LIST);
    return { ...page, data: page.data.map(shown) };
  });

  const found = ({ caller, params }: One): FileRecord => {
    const record = FILE_ID.test(params.id) ? files.get(caller.owner, params.id) : null;
    if (record === null) throw notFound(`No such File object: ${params.id.slice(0, 100)}`);
    return record;
  };
  app.get('/v1/files/:id', { config }, async (request: One) => shown(found(request)));
  app.get('/v1/files/:id/content', { config }, async (request: One, reply) => {
    const { id, bytes } = found(request);
    return reply
      .headers({
        'content-type': 'application/octet-stream',
        'content-length': bytes,
        'content-disposition': `attachment; filename="${id}.jsonl"`,
        'x-content-type-options': 'nosniff',
      })
      .send(createReadStream(files.pathOf(id)));
  });
  app.delete('/v1/files/:id', { config }, async (request: One) => {
    const { id } = found(request);
    files.remove(id);
    return { id, object: 'file', deleted: true };
  });
}

/** bytes of a form beside its file */
const FORM = 64 * 1024;

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

/** `expires_after[anchor]`, `expires_after[seconds]` of a form, or what is usual (ms); in seconds. */
function secondsKept(fields: ReadonlyMap<string, string>, usual: number): number {
  const anchor = fields.get('expires_after[anchor]');
  const seconds = fields.get('expires_after[seconds]');
  if (anchor === undefined && seconds === undefined) return Math.floor(usual / 1000);
  return expiryOf(
    { anchor, seconds: /^\d{1,9}$/.test(seconds ?? '') ? Number(seconds) : undefined },
    'expires_after',
  );
}

/** 400 where it is not `{anchor: "created_at", seconds: 3600…2592000}`. */
export function expiryOf(
  { anchor, seconds }: { anchor?: unknown; seconds?: unknown },
  param: string,
): number {
  if (anchor !== 'created_at')
    throw badRequest(
      `Invalid value for '${param}.anchor': expected 'created_at'.`,
      `${param}.anchor`,
      'invalid_value',
    );
  if (typeof seconds !== 'number' || seconds < KEPT_LEAST || seconds > KEPT_MOST)
    throw badRequest(
      `Invalid value for '${param}.seconds': expected a whole number from ${KEPT_LEAST} to ${KEPT_MOST}.`,
      `${param}.seconds`,
      'invalid_value',
    );
  return seconds;
}
