/**
 * Bodies of requests: read with a bound, watched so that a slow sender does not keep a connection, and handed on as the
 * bytes that came. What is JSON is read where it is needed.
 */
import type { IncomingMessage } from 'node:http';
import type { ValidateFunction } from 'ajv';
import { createPieces } from '../../engine/core/files/pieces.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { ApiError, badRequest, missing as missingOf } from './errors.ts';

/** A body that brings fewer bytes in so many ms is given up. */
const LOOK_MS = 30_000;
const LEAST_BYTES = 1024;
/** JSON nests so deep at most */
const MOST_DEPTH = 64;
/**
 * Objects and lists, and keys, of a body. What is many small values takes a hundred times as long to read as one long text,
 * and as much more memory, while every other request waits: 16 MiB of `[]` took 2 s, of other keys 3 s.
 */
const MOST_OPENED = 100_000;
const MOST_KEYS = 200_000;
const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** Calls `late` where `request` sends less than 1 KiB in 30 s; `stop` ends the watch. */
export function watchSender(request: IncomingMessage, late: () => void, lookMs = LOOK_MS): () => void {
  let bytes = 0;
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
  };
  request.on('data', count);
  const timer = setInterval(() => {
    if (bytes < LEAST_BYTES) late();
    bytes = 0;
  }, lookMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    request.off('data', count);
  };
}

export const tooSlow = (): ApiError =>
  new ApiError(
    408,
    `Expected at least ${LEAST_BYTES} bytes of the body in ${LOOK_MS / 1000} s, found fewer.`,
  );

/**
 * The whole body, of at most `most` bytes: 413 beyond, 408 where it comes too slowly. `refuses` is told the bytes of each
 * piece that has come, and may end the reading.
 */
export function readBody(
  request: IncomingMessage,
  most: number,
  refuses: (bytes: number) => ApiError | null = () => null,
): Promise<Buffer> {
  const tooLarge = (): ApiError =>
    new ApiError(413, `Expected a body of at most ${most} bytes, found a longer one.`, {
      code: 'body_too_large',
    });
  return new Promise((resolve, reject) => {
    if (Number(request.headers['content-length']) > most) return reject(tooLarge());
    const pieces = createPieces();
    const end = (error: Error | null): void => {
      stop();
      request.off('data', take).off('end', whole).off('error', broken).off('close', broken);
      if (error === null) resolve(pieces.take());
      else reject(error);
    };
    const take = (chunk: Buffer): void => {
      const refused = pieces.bytes + chunk.length > most ? tooLarge() : refuses(chunk.length);
      if (refused !== null) end(refused);
      else pieces.add(chunk);
    };
    const whole = (): void => end(null);
    const broken = (): void => end(badRequest('The body was broken off.'));
    const stop = watchSender(request, () => end(tooSlow()));
    request.on('data', take).on('end', whole).on('error', broken).on('close', broken);
  });
}

/**
 * Reads the body away, up to `most` bytes, of a request that is refused before it has sent all: clients send first and read
 * then, and one whose connection ends meanwhile never learns why.
 */
export function dropBody(request: IncomingMessage, most: number): Promise<void> {
  return new Promise(resolve => {
    let bytes = 0;
    const end = (): void => {
      stop();
      request.off('data', count).off('end', end).off('error', end).off('close', end);
      resolve();
    };
    const count = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > most) end();
    };
    const stop = watchSender(request, end);
    if (request.complete) return end();
    request.on('data', count).on('end', end).on('error', end).on('close', end);
  });
}

/** The JSON object in a body, which fits `fits`; an empty body is `{}`. 400 names the field that is wrong. */
export function readJson(body: unknown, fits: ValidateFunction): JsonObject {
  const value = readObject(body);
  if (fits(value)) return value;
  const [first] = fits.errors ?? [];
  const { instancePath = '', keyword, params, message } = first ?? {};
  const inside = instancePath.split('/').slice(1);
  const missing = keyword === 'required' ? [String(params?.missingProperty)] : [];
  const extra = keyword === 'additionalProperties' ? [String(params?.additionalProperty).slice(0, 100)] : [];
  const param = [...inside, ...missing, ...extra].join('.') || null;
  if (missing.length > 0) throw missingOf(param);
  if (extra.length > 0) throw badRequest(`Unknown parameter: '${param}'.`, param, 'unknown_parameter');
  throw badRequest(`Invalid value for '${param ?? 'body'}': it ${message}.`, param, 'invalid_value');
}

/** The JSON object in a body; an empty body is `{}`. */
export function readObject(body: unknown): JsonObject {
  if (!Buffer.isBuffer(body))
    throw badRequest('Expected a body of content-type application/json, found another one.');
  if (body.length === 0) return {};
  const excess = excessOf(body);
  if (excess !== null) throw badRequest(`Expected JSON ${excess}.`);
  try {
    const value: unknown = JSON.parse(UTF_8.decode(body));
    if (isObject(value)) return value;
  } catch {
    throw badRequest(
      'We could not parse the JSON body of your request. The body must be a JSON object in UTF-8.',
    );
  }
  throw badRequest('Expected a JSON object as the body, found another value.');
}

/** The JSON object in a text; null where it is none. */
export function objectIn(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** What of a body is too much to be read, in words; null where nothing is. Looks at it before anything is built of it. */
export function excessOf(body: Buffer, mostDepth = MOST_DEPTH): string | null {
  let depth = 0;
  let opened = 0;
  let keys = 0;
  let inString = false;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (inString) {
      if (byte === 0x5c) at++;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > mostDepth) return `that nests at most ${mostDepth} levels, found deeper`;
      if (++opened > MOST_OPENED) return `of at most ${MOST_OPENED} objects and lists, found more`;
    } else if (byte === 0x7d || byte === 0x5d) depth--;
    else if (byte === 0x3a && ++keys > MOST_KEYS) return `of at most ${MOST_KEYS} keys, found more`;
  }
  return null;
}

/**
 * What clients may take of something that is for all of them: bytes of bodies, uploads at a time. One owner gets half of it,
 * so that whoever takes all that it can get, and never lets go, leaves the other half.
 */
export function createRoom(most: number) {
  const ofOwner = Math.max(1, Math.floor(most / 2));
  const taken = new Map<string, number>();
  let all = 0;
  return {
    /** Whether there was room for so much; only then it is taken. */
    take(owner: string, amount: number): boolean {
      const own = (taken.get(owner) ?? 0) + amount;
      if (all + amount > most || own > ofOwner) return false;
      all += amount;
      taken.set(owner, own);
      return true;
    },
    give(owner: string, amount: number): void {
      const left = (taken.get(owner) ?? 0) - amount;
      all -= amount;
      if (left > 0) taken.set(owner, left);
      else taken.delete(owner);
    },
  };
}

/**
 * Whether a request of somebody who shares servers with others may say this: nobody goes before live calls, which have 0. Of
 * what is no whole number servers make one: vLLM reads "-5", a text, as -5.
 */
export const isSharedPriority = (own: unknown): boolean =>
  own === undefined || own === null || (Number.isSafeInteger(own) && (own as number) >= 0);
