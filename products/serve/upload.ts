/**
 * An upload: multipart/form-data, spooled to disk as it comes and never whole in memory. The fields may come behind the
 * file, so what it is for is judged at the end. A file that is too long, or whose form has no end, is not kept.
 */
import { rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Busboy, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { isFull, OWNER_ONLY } from '../../engine/core/files/durable.ts';
import { show } from '../../engine/core/json/show.ts';
import { ApiError, badRequest } from './errors.ts';
import { tooSlow, watchSender } from './http-body.ts';

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
    if (isFull(error)) throw diskFull();
    throw error;
  }
}

export const diskFull = (): ApiError =>
  new ApiError(507, 'The disk of the server is full: nothing was kept. Try again when there is room.', {
    ...{ code: 'insufficient_storage', headers: { 'retry-after': '30' } },
  });

async function spooled(request: IncomingMessage, path: string, most: Most): Promise<Uploaded> {
  const fields = new Map<string, string>();
  const form = formOf(request, most.file);
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
    if (writing === undefined)
      throw badRequest("Missing required parameter: 'file'.", 'file', 'missing_required_parameter');
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

function formOf(request: IncomingMessage, most: number): InstanceType<typeof Busboy> {
  const limits = {
    ...{ fileSize: most, files: 1, fields: MOST_FIELDS, parts: MOST_FIELDS + 1 },
    ...{ fieldNameSize: LONGEST_FIELD, fieldSize: LONGEST_FIELD, headerPairs: 16, headerSize: 8192 },
  };
  try {
    return new Busboy({ headers: request.headers as BusboyHeaders, limits });
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
