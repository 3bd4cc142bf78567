/**
 * The pool file: which servers, how much each may be asked at once. Its form is schemas/pool.schema.json; the `pool:`
 * of a pipeline file has the same one.
 */
import type { ErrorObject } from 'ajv';
import { usageError } from '../flow/failure.ts';
import { ownValidator } from '../flow/own-schema.ts';
import { readYaml } from '../flow/yaml.ts';
import { readUrl } from './endpoints.ts';

export interface PoolFile {
  endpoints: { url: string; limit?: number }[];
  limit?: number;
  model?: string;
  in_flight?: number;
  api_key_env?: string;
  retry_budget?: number;
}

/** Where a value stands, such as `pool.yaml:3:5`; `segments` lead to it, and `key` means its name and not its value. */
export type Locate = (segments: (string | number)[], key: boolean) => string;

/** Reads a pool file. Throws Fatal with file, line and column for whatever is wrong with it. */
export function readPoolFile(path: string): PoolFile {
  // It may have a key in it, which the message of a file that is not there would repeat.
  if (path.includes('://')) throw usageError('expected the path of a pool file, found a URL: use --endpoint');
  const file = readYaml(path, 'pool', true);
  return withUrls(file.value, (segments, message) => file.complain(segments, message));
}

/** Checks the `pool:` of a pipeline file. Throws a usage error that begins with what `locate` says. */
export function checkPool(value: unknown, locate: Locate): PoolFile {
  const fits = ownValidator('pool', 'first');
  if (!fits(value)) throw usageError(complaint((fits.errors as ErrorObject[])[0] as ErrorObject, locate));
  return withUrls(value, (segments, message) => usageError(`${locate(segments, false)}: ${message}`));
}

function withUrls(
  value: unknown,
  complain: (segments: (string | number)[], message: string) => Error,
): PoolFile {
  const pool = value as Omit<PoolFile, 'endpoints'> & {
    endpoints: (string | PoolFile['endpoints'][number])[];
  };
  const endpoints = pool.endpoints.map((one, index) => {
    const { url, ...more } = typeof one === 'string' ? { url: one } : one;
    return { ...more, url: readUrl(url, message => complain(['endpoints', index], message)) };
  });
  return { ...pool, endpoints };
}

/** The value itself is not repeated: it may be a URL with a key in it, or a key in a place of its own. */
function complaint(
  { keyword, params, parentSchema, message, instancePath }: ErrorObject,
  locate: Locate,
): string {
  const segments = instancePath
    .split('/')
    .slice(1)
    .map(part => (/^\d+$/.test(part) ? Number(part) : part));
  const name = segments.length > 0 ? segments.join('.') : 'pool';
  if (keyword === 'additionalProperties') {
    const known = Object.keys((parentSchema as { properties: object }).properties).join(', ');
    const found: string = params.additionalProperty;
    const shown = /^[a-z_]{1,40}$/.test(found) ? `'${found}'` : 'another one';
    return `${locate([...segments, found], true)}: ${name}: expected the keys ${known}, found ${shown}`;
  }
  return `${locate(segments, false)}: ${name}: expected a value that ${message}`;
}
