/**
 * The pool file: which servers, how much each may be asked at once. Its form is schemas/pool.schema.json; the `pool:`
 * of a pipeline file has the same one.
 */
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

/** Reads a pool file. Throws Fatal with file, line and column for whatever is wrong with it. */
export function readPoolFile(path: string): PoolFile {
  const file = readYaml(path, 'pool');
  return poolFileOf(file.value, (segments, message) => file.complain(segments, message));
}

/**
 * What a value that fits schemas/pool.schema.json says, with its URLs read. `complain` makes the error about the value
 * at `segments` below the pool: only the caller knows the file around it.
 */
export function poolFileOf(
  value: unknown,
  complain: (segments: readonly (string | number)[], message: string) => Error,
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
