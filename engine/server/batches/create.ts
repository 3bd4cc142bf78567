/** What a request to make a batch says, checked: the body alone, since the lines of its file are looked at later. */
import { createHash } from 'node:crypto';
import { ownValidator } from '../../config/own-schema.ts';
import type { JsonObject } from '../../json/pointer.ts';
import { show } from '../../json/show.ts';
import type { Caller } from '../access.ts';
import { readJson } from '../body.ts';
import { badRequest, notFound } from '../errors.ts';
import { expiryOf } from '../file-routes.ts';
import type { FileStore } from '../file-store.ts';
import { FILE_ID, newBatchId } from '../ids.ts';
import { newTally } from './output.ts';
import type { BatchRecord } from './state.ts';

export const ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings'];

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** seconds: 30 days */
const LONGEST_WINDOW = 30 * 86_400;

export interface Asked {
  body: unknown;
  /** the Idempotency-Key header */
  idempotency: string | null;
  caller: Caller;
  /** ms since 1970 */
  now: number;
}

export const hashOfBody = (body: unknown): string =>
  createHash('sha256')
    .update(Buffer.isBuffer(body) ? body : '')
    .digest('hex');

/** 400 names the field that is wrong; 404 where the file is not there, or another owner's. */
export function recordOf({ body, idempotency, caller, now }: Asked, files: FileStore): BatchRecord {
  const said = readJson(body, ownValidator('batch', 'first'));
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after } = said as {
    input_file_id: string;
    endpoint: string;
    completion_window: string;
    metadata?: Record<string, string> | null;
    output_expires_after?: JsonObject | null;
  };
  if (!ENDPOINTS.includes(endpoint))
    throw badRequest(
      `Invalid value for 'endpoint': this server takes ${ENDPOINTS.join(', ')}, found ${show(endpoint)}.`,
      'endpoint',
      'invalid_value',
    );
  const window = windowOf(completion_window);
  const outputs_kept = output_expires_after ? expiryOf(output_expires_after, 'output_expires_after') : null;
  const file = FILE_ID.test(input_file_id) ? files.get(caller.owner, input_file_id) : null;
  if (file === null) throw notFound(`No such File object: ${input_file_id.slice(0, 100)}`, 'input_file_id');
  if (file.purpose !== 'batch')
    throw badRequest(
      `Invalid value for 'input_file_id': expected a file of purpose 'batch', found '${file.purpose}'.`,
      'input_file_id',
      'invalid_value',
    );
  return {
    ...{ id: newBatchId(now), owner: caller.owner, key: caller.key, endpoint, input_file_id },
    ...{ completion_window, window, status: 'validating', created_at: Math.floor(now / 1000), times: {} },
    ...{ errors: [], counts: { total: 0, completed: 0, failed: 0 }, usage: newTally().usage },
    ...{ metadata: metadata ?? null, model: null, models: [], outputs_kept, outputs: null },
    asked: { body: hashOfBody(body), idempotency },
  };
}

/** In seconds: OpenAI knows "24h" alone, this server any time of at most 30 days. */
function windowOf(text: string): number {
  const [, count, unit] = /^(\d{1,8})([smhd])$/.exec(text) ?? [];
  const seconds = Number(count) * (UNITS[unit ?? ''] ?? Number.NaN);
  if (seconds >= 1 && seconds <= LONGEST_WINDOW) return seconds;
  throw badRequest(
    `Invalid value for 'completion_window': expected '24h' or another time of at most 30d, such as 90m, found ${show(text)}.`,
    'completion_window',
    'invalid_value',
  );
}
