/** `endpoints.json` of DIR: what was learned of the endpoints, which is where the next start begins. */
import { join } from 'node:path';
import type { KeptEndpoint, Memory } from '../../engine/asking/pool/part.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { keepFile, recalledBy } from './small-files.ts';

/** ms between two looks at whether there is something new to keep */
const LOOK = 10_000;

const MOST_CALLS = 65_535;

/** Begins with what is kept, and keeps what changes until `stop`. A file that cannot be read or written costs nothing but that. */
export function keepEndpoints(data: string, pool: Memory, say: Say): { stop(): void } {
  const path = join(data, 'endpoints.json');
  const kept = recalledBy(path, read, why =>
    say(`${path} is ignored, and limits are learned anew: ${why}`, { event: 'file-ignored', level: 'warn' }),
  );
  if (kept !== null) pool.recall(kept);

  return keepFile(
    path,
    () => JSON.stringify(pool.kept()),
    LOOK,
    why => say(`what was learned about endpoints cannot be saved: ${why}`, { event: 'disk', level: 'warn' }),
  );
}

function read(value: unknown): KeptEndpoint[] {
  if (!Array.isArray(value)) throw new Error('expected a list of endpoints');
  return value.filter(isObject).flatMap(({ url, limit, models }) => {
    if (typeof url !== 'string') return [];
    const isLimit = Number.isInteger(limit) && (limit as number) > 0 && (limit as number) <= MOST_CALLS;
    const names = Array.isArray(models) ? models.filter(name => typeof name === 'string') : [];
    return [{ url, limit: isLimit ? (limit as number) : null, models: names }];
  });
}
