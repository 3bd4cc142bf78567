/** Uploads become files: so many at a time, each judged once all of its form is here. */
import type { IncomingMessage } from 'node:http';
import { isFull } from '../../engine/core/files/durable.ts';
import type { Caller } from './access.ts';
import { ApiError, badRequest } from './errors.ts';
import type { FileRecord, FileStore } from './file-store.ts';
import { newFileId } from './ids.ts';
import { createRoom } from './room.ts';
import type { Parts } from './server-context.ts';
import { diskFull, takeUpload, type Uploaded } from './upload.ts';

/** Keeps the file of a multipart form; 400, 413, 429 or 507 where it is not kept. */
export type Uploads = (
  request: IncomingMessage,
  caller: Caller,
) => Promise<{ record: FileRecord; fields: Uploaded['fields'] }>;

/** seconds that a client may ask a file to be kept, as at OpenAI */
const KEPT_LEAST = 3_600;
const KEPT_MOST = 30 * 24 * 3_600;
/** bytes of a form beside its file */
const FORM = 64 * 1024;

export function uploadsInto(
  files: FileStore,
  { settings, stamp }: Pick<Parts, 'settings' | 'stamp'>,
): Uploads {
  const { limits, keep } = settings;
  const uploads = createRoom(limits.uploads);

  function kept(id: string, owner: string, { filename, bytes, fields }: Uploaded): FileRecord {
    const purpose = fields.get('purpose');
    if (purpose === undefined)
      throw badRequest("Missing required parameter: 'purpose'.", 'purpose', 'missing_required_parameter');
    if (purpose !== 'batch')
      throw badRequest("Invalid value for 'purpose': this server takes 'batch'.", 'purpose', 'invalid_value');
    const created_at = Math.floor(stamp() / 1000);
    const expires_at = created_at + secondsKept(fields, keep);
    const record = { id, owner, filename, purpose, bytes, created_at, expires_at } as const;
    try {
      files.add(record);
    } catch (error) {
      throw isFull(error) ? diskFull() : error;
    }
    return record;
  }

  return async (request, { owner }) => {
    if (Number(request.headers['content-length']) > limits.file + FORM)
      throw new ApiError(
        413,
        `Expected a file of at most ${limits.file} bytes, found a longer one; it was not kept.`,
        { param: 'file', code: 'file_too_large' },
      );
    if (!uploads.take(owner, 1))
      throw new ApiError(
        429,
        `Rate limit reached: ${limits.uploads} uploads at a time, and half of them of one owner.`,
        { type: 'requests', code: 'rate_limit_exceeded', headers: { 'retry-after': '5' } },
      );
    const id = newFileId(stamp());
    try {
      const uploaded = await takeUpload(request, files.spoolOf(id), { file: limits.file, form: FORM });
      return { record: kept(id, owner, uploaded), fields: uploaded.fields };
    } finally {
      uploads.give(owner, 1);
      files.discard(id);
    }
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
