/**
 * Uploads become files: multipart/form-data, so many at a time, spooled to disk as it comes and never whole in memory. The
 * fields may come behind the file, so what it is for is judged at the end. A file that is too long, or whose form has no
 * end, is not kept.
 */
import { rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Busboy, type BusboyConfig, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { show } from '../../engine/core/json/show.ts';
import type { Caller } from './access.ts';
import { ApiError, badRequest, comeAgain, invalid, kept, missing, ofDisk } from './errors.ts';
import type { FileRecord, FileStore } from './file-store.ts';
import { createRoom, dropBody, tooSlow, watchSender } from './http-body.ts';
import { newFileId } from './ids.ts';
import type { Storage } from './keep/storage.ts';
import type { Parts } from './server-context.ts';

/** seconds that a client may ask a file to be kept, as at OpenAI */
const KEPT_LEAST = 3_600;
const KEPT_MOST = 30 * 24 * 3_600;
/** bytes of a form beside its file */
const FORM = 64 * 1024;

/** What keeps the file of a multipart form; 400, 413, 429 or 507 where it is not kept. */
export function uploadsInto(
  files: FileStore,
  storage: Pick<Storage, 'refuse'>,
  { settings, room, stamp }: Pick<Parts, 'settings' | 'room' | 'stamp'>,
) {
  const uploads = createRoom(settings.limits.uploads);

  function recordOf(id: string, { owner, rules }: Caller, { filename, bytes, fields }: Uploaded): FileRecord {
    const purpose = fields.get('purpose');
    if (purpose === undefined) throw missing('purpose');
    if (purpose !== 'batch') throw invalid('purpose', "this server takes 'batch'");
    const created_at = Math.floor(stamp() / 1000);
    const expires_at = created_at + secondsKept(fields, settings.keep.files);
    storage.refuse(owner, rules, bytes); // what it says of its length is believed by nobody
    const record = { id, owner, filename, purpose, bytes, created_at, expires_at } as const;
    kept(() => files.add(record));
    return record;
  }

  return async (request: IncomingMessage, caller: Caller) => {
    const { owner, rules } = caller;
    const { limits } = settings; // which may change meanwhile
    const length = Number(request.headers['content-length'] ?? 0) || 0;
    if (length > limits.file + FORM) throw tooLong(limits.file);
    try {
      room.refuse(length);
      storage.refuse(owner, rules, Math.max(0, length - FORM));
    } catch (error) {
      await dropBody(request, limits.file + FORM);
      throw error;
    }
    if (!uploads.take(owner, 1))
      throw comeAgain(
        429,
        `Rate limit reached: ${limits.uploads} uploads at a time, and half of them of one owner.`,
        'rate_limit_exceeded',
        5,
        { type: 'requests' },
      );
    const id = newFileId(stamp());
    try {
      const uploaded = await takeUpload(request, files.spoolOf(id), { file: limits.file, form: FORM });
      return { record: recordOf(id, caller, uploaded), fields: uploaded.fields };
    } finally {
      uploads.give(owner, 1);
      files.discard(id);
    }
  };
}

export type Uploads = ReturnType<typeof uploadsInto>;

/** `expires_after[anchor]`, `expires_after[seconds]` of a form, or what is usual (ms); in seconds. */
function secondsKept(fields: ReadonlyMap<string, string>, usual: number): number {
  const anchor = fields.get('expires_after[anchor]');
  const seconds = fields.get('expires_after[seconds]');
  if (anchor === undefined && seconds === undefined) return Math.floor(usual / 1000);
  return secondsAsked(
    { anchor, seconds: /^\d{1,9}$/.test(seconds ?? '') ? Number(seconds) : undefined },
    'expires_after',
  );
}

/** 400 where it is not `{anchor: "created_at", seconds: 3600…2592000}`. */
export function secondsAsked(
  { anchor, seconds }: { anchor?: unknown; seconds?: unknown },
  param: string,
): number {
  if (anchor !== 'created_at') throw invalid(`${param}.anchor`, "expected 'created_at'");
  if (typeof seconds !== 'number' || seconds < KEPT_LEAST || seconds > KEPT_MOST)
    throw invalid(`${param}.seconds`, `expected a whole number from ${KEPT_LEAST} to ${KEPT_MOST}`);
  return seconds;
}

export interface Uploaded {
  filename: string;
  bytes: number;
  /** by their names as they were sent, such as `expires_after[seconds]` */
  fields: ReadonlyMap<string, string>;
}

/** of a form */
const MOST_FIELDS = 16;
const LONGEST_FIELD = 1024;
/** characters of a name that is kept */
const LONGEST_NAME = 255;

/** Bytes of a file, and of all that stands beside it in the form. */
export interface Most {
  file: number;
  form: number;
}

/** Writes the part `file` to `path`, forced to disk. What does not end well leaves nothing there. */
export async function takeUpload(request: IncomingMessage, path: string, most: Most): Promise<Uploaded> {
  try {
    return await spooled(request, path, most);
  } catch (error) {
    rmSync(path, { force: true });
    throw ofDisk(error);
  }
}

async function spooled(request: IncomingMessage, path: string, most: Most): Promise<Uploaded> {
  const fields = new Map<string, string>();
  const form = openForm(request.headers, {
    ...{ fileSize: most.file, fields: MOST_FIELDS, parts: MOST_FIELDS + 1 },
    ...{ fieldNameSize: LONGEST_FIELD, fieldSize: LONGEST_FIELD },
  });
  let writing: Promise<Omit<Uploaded, 'fields'>> | undefined;
  let sending: BusboyFileStream | undefined;
  let stop = (): void => {};
  const ended = new Promise<void>((resolve, reject) => {
    stop = watchSender(request, () => reject(tooSlow()));
    const broken = (): void => reject(brokenOff());
    form.on('field', (name, value, nameCut, valueCut) => {
      if (nameCut || valueCut) reject(badRequest(`Expected fields of at most ${LONGEST_FIELD} bytes.`));
      fields.set(name, value);
    });
    form.on('file', (name, part, filename) => {
      part.on('error', () => {}); // who reads it hears of it
      if (name !== 'file') {
        part.resume();
        return reject(badRequest(`Expected the file in the part 'file', found ${show(name)}.`, 'file'));
      }
      sending = part;
      writing = written(part, path, filename, { most: most.file, failed: reject });
      writing.catch(error => reject(isOfSystem(error) || error instanceof ApiError ? error : brokenOff()));
    });
    for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'])
      form.on(limit, () => reject(badRequest(`Expected one file and at most ${MOST_FIELDS} fields.`)));
    form.on('error', (error: Error) =>
      reject(badRequest(`Expected a whole multipart form: ${error.message}.`)),
    );
    form.on('finish', resolve);
    // what stands before the first boundary and behind the last one is no part, and has no limit of its own
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > most.file + most.form) reject(tooLong(most.file));
    });
    request.on('error', broken);
    request.on('close', () => request.complete || broken());
    request.pipe(form);
  });
  try {
    await ended;
    if (writing === undefined) throw missing('file');
    return { ...(await writing), fields };
  } catch (error) {
    request.unpipe(form);
    form.destroy();
    sending?.destroy();
    await writing?.catch(() => {}); // its file is closed before it is removed
    throw error;
  } finally {
    stop();
  }
}

/** What reads a form with one file, within limits; 400 where the headers name none. */
export function openForm(
  headers: IncomingHttpHeaders,
  limits: BusboyConfig['limits'],
): InstanceType<typeof Busboy> {
  try {
    return new Busboy({
      headers: headers as BusboyHeaders,
      limits: { files: 1, headerPairs: 16, headerSize: 8192, ...limits },
    });
  } catch {
    throw badRequest('Expected a body of content-type multipart/form-data with a boundary.', 'file');
  }
}

const brokenOff = (): ApiError => badRequest('The upload was broken off.');
const isOfSystem = (error: unknown): boolean => (error as NodeJS.ErrnoException).syscall !== undefined;

/**
 * Writes a part, and forces it to disk. 413 where it is longer than `most`; `failed` hears of a disk that takes no more
 * before the part is given up.
 */
async function written(
  part: BusboyFileStream,
  path: string,
  name: string,
  { most, failed }: { most: number; failed(error: unknown): void },
): Promise<Omit<Uploaded, 'fields'>> {
  let bytes = 0;
  const file = await open(path, 'wx', OWNER_ONLY.file);
  try {
    part.once('limit', () => part.destroy(tooLong(most)));
    for await (const chunk of part as AsyncIterable<Buffer>) {
      try {
        await file.appendFile(chunk);
      } catch (error) {
        failed(error);
        throw error;
      }
      bytes += chunk.length;
    }
    if (part.truncated) throw tooLong(most);
    await file.sync();
  } finally {
    await file.close();
  }
  return { filename: nameIn(name), bytes };
}

const tooLong = (most: number): ApiError =>
  new ApiError(413, `Expected a file of at most ${most} bytes, found a longer one; it was not kept.`, {
    param: 'file',
    code: 'file_too_large',
  });

/** Shown, and never a path: without folders and control characters. Clients write a quotation mark as %22. */
function nameIn(name: string | undefined): string {
  const last = (name ?? '').split(/[\\/]/).at(-1) as string;
  const shown = last
    .replaceAll('%22', '"')
    .slice(0, LONGEST_NAME)
    .replace(/[\p{Cc}\p{Cs}]/gu, '');
  return shown === '' ? 'upload' : shown;
}
