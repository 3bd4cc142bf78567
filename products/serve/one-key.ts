/** A server that one run has for its workers knows one key: whoever has it is a worker, and may read the metrics. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { usageError } from '../../engine/core/item/failure.ts';
import { WORKER_KEY } from '../workers/queue-options.ts';
import { isLoopback } from './access.ts';
import type { KeyRecord, KeyRing } from './api-keys.ts';

/** what a header can carry, and nobody guesses */
const FORM = /^[\x21-\x7e]{16,200}$/;

/** The key that workers have to show; null for none, which is enough where nobody but this machine can ask. Exit 64. */
export function workerKey(env: NodeJS.ProcessEnv, host: string): string | null {
  const key = env[WORKER_KEY]?.trim();
  if (!key) {
    if (isLoopback(host)) return null;
    throw usageError(
      `expected a key for workers in the environment variable ${WORKER_KEY}, found none, and ${host} can be reached from elsewhere; ` +
        `make one: export ${WORKER_KEY}=$(openssl rand -hex 32), and give the same to each fw work`,
    );
  }
  if (FORM.test(key)) return key;
  throw usageError(
    `${WORKER_KEY}: expected 16 to 200 characters of ASCII without blanks, found ${key.length < 16 ? 'fewer' : 'others'}`,
  );
}

export function ringOf(key: string | null): KeyRing {
  const digest = hashOf(key ?? '');
  const record: KeyRecord = {
    ...{ id: 'key_of_workers', name: 'workers', sha256: digest.toString('hex') },
    ...{ scopes: ['worker', 'metrics'], created: 0 },
  };
  return {
    isThere: key !== null,
    // digests have one length, and are compared in one time
    find: shown => (timingSafeEqual(hashOf(shown), digest) ? record : null),
    withId: id => (id === record.id ? record : null),
  };
}

const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest();
