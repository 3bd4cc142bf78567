/** The options of a coordinator that name its queue. */

import { usageError } from '../../engine/core/item/failure.ts';
import { show } from '../../engine/core/json/show.ts';
import { durationOf, grouped, type OptionsOf } from '../../engine/flow/options.ts';

export const QUEUE_OPTIONS = {
  ...grouped('Workers', {
    redis: {
      type: 'string',
      description:
        'Redis or Valkey URL where workers (fw work) wait for work: redis://:PASSWORD@HOST:PORT, or rediss:// for TLS. Default: FW_REDIS.',
    },
    'redis-prefix': {
      type: 'string',
      description: 'Prefix of all keys in Redis. Default: fw.',
    },
    lease: {
      type: 'string',
      description: "Give a worker's lines to others after it has been silent this long. Default: 60s.",
    },
  }),
} as const;

/** What a config file may say as well is not filled in by a default of a flag. */
export type QueueFlags = Partial<OptionsOf<typeof QUEUE_OPTIONS>>;

export interface QueueSettings {
  /** it may hold a password */
  url: string;
  prefix: string;
  /** ms */
  lease: number;
}

/** The variable of a worker's key, at both ends. */
export const WORKER_KEY = 'FW_WORKER_KEY';

const PREFIX = 'fw';
/** ms */
export const LEASE = 60_000;
const LEAST = 1_000;
const MOST = 3_600_000;

/** Null where no Redis is named. Exit 64 for what does not fit; the URL is judged by who opens it. */
export function queueOf(flags: QueueFlags, env: NodeJS.ProcessEnv): QueueSettings | null {
  const url = flags.redis ?? env.FW_REDIS;
  if (!url) return null;
  const { 'redis-prefix': prefix = PREFIX } = flags;
  if (!/^[\w.{}-]{1,60}$/.test(prefix))
    throw usageError(
      `--redis-prefix: expected at most 60 letters, digits and . _ - { }, found ${show(prefix)}`,
    );
  const lease = flags.lease === undefined ? LEASE : durationOf(flags.lease, '--lease');
  if (lease < LEAST || lease > MOST) throw usageError(`--lease: expected 1s to 1h, found ${flags.lease}`);
  return { url, prefix, lease };
}
