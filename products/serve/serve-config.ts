/** What a server is told: flags, and the file that --config names (schemas/serve.schema.json). A flag wins. */

import { type PoolSettings, poolOfPipeline } from '../../engine/asking/endpoints/settings.ts';
import { readYaml, type YamlFile } from '../../engine/core/config/yaml.ts';
import type { LiveLimits } from '../../engine/core/item/call.ts';
import { Fatal, usageError } from '../../engine/core/item/failure.ts';
import type { Level } from '../../engine/core/item/say.ts';
import { durationOf } from '../../engine/flow/options.ts';
import { type QueueFlags, type QueueSettings, queueOf } from '../workers/queue-options.ts';
import { checkDiscover, type Discover } from './discovery/entries.ts';
import type { Runaway } from './gateway/kept-text.ts';
import { checkModels, type Models } from './gateway/served-models.ts';
import { bytesOf, type Keep, type KeepFile, keepOf } from './keep/keep-settings.ts';
import type { Format, LogSettings } from './log/log.ts';
import { otlpOf } from './traces/otlp-settings.ts';
import type { WebhookTarget } from './webhooks.ts';

export interface Limits {
  /** bytes of an uploaded file */
  file: number;
  /** lines of a batch file */
  lines: number;
  /** bytes of a line of a batch file */
  line: number;
  /** bytes of any other body */
  body: number;
  /** uploads at a time */
  uploads: number;
}

export interface Settings {
  host: string;
  port: number;
  /** ms for what is under way when the server is told to stop */
  grace: number;
  keep: Keep;
  /** bytes that are left free on the disk of DIR; null for what is usual */
  diskReserve: number | null;
  limits: Limits;
  gateway: GatewaySettings;
  webhooks: readonly WebhookTarget[];
  /** where endpoints are looked for, beside those that are named */
  discover: readonly Discover[];
  /** batches are done by workers that it points to; null where the endpoints do them */
  queue: QueueSettings | null;
}

/** All that a server is told. */
export interface Told {
  data: string;
  settings: Settings;
  pool: PoolSettings;
  log: LogSettings;
  /** what the file says */
  said: ServeFile;
}

export interface GatewaySettings {
  models: Models;
  /** places at each endpoint that batches leave to requests of the gateway, at most half */
  reserve: number;
  /** ms to the first token of streams, which batches beside them follow; null: by what streams have alone */
  ttft: number | null;
  /** how long a request may take, and of some models */
  limits: LiveLimits;
  limitsOf: ReadonlyMap<string, LiveLimits>;
  /** ms that the answer to a request that is always answered alike is given again; null: never */
  cacheFor: number | null;
  /** a request that cannot be put on record gets no answer */
  isRecordRequired: boolean;
  /** streams are cut off by these; null where none are */
  runaway: Runaway | null;
}

/** Times of a request of the gateway, and what the file calls them. */
const TIMES = {
  place: 'interactive_wait',
  firstByte: 'interactive_first_byte',
  answer: 'interactive_timeout',
  stream: 'interactive_stream',
} as const;
type Interactive = Partial<Record<(typeof TIMES)[keyof typeof TIMES], string>> & {
  interactive_tries?: number;
};

/** What the file says, as it is written. */
export type ServeFile = Interactive & {
  log?: Format;
  log_level?: Level;
  listen?: string;
  data?: string;
  grace?: string;
  keep?: number | KeepFile;
  disk_reserve?: number | string;
  limits?: Partial<Limits>;
  models?: Models;
  webhooks?: WebhookTarget[];
  discover?: Discover[];
  interactive_reserve?: number;
  interactive_ttft?: string;
  interactive_models?: Record<string, Interactive>;
  cache?: string;
  record?: 'required' | 'best_effort';
  runaway?: Partial<Runaway>;
  redis?: string;
  redis_prefix?: string;
  lease?: string;
};

const MiB = 1024 * 1024;
const LIMITS: Limits = { file: 1024 * MiB, lines: 1_000_000, line: 8 * MiB, body: 16 * MiB, uploads: 16 };
const LISTEN = '127.0.0.1:8080';
const GRACE = '30s';
/** Places at each endpoint that batches leave to requests of the gateway. */
const RESERVE = 32;
/** Clients of OpenAI wait for ten minutes: an error has to come before that. ms. */
const LIVE: LiveLimits = {
  place: 30_000,
  firstByte: 120_000,
  answer: 570_000,
  stream: 3_600_000,
  tries: 3,
};
const RUNAWAY: Runaway = { repeats: true, blanks: 2_000 };

export interface ServeFlags extends QueueFlags {
  config?: string | undefined;
  data?: string | undefined;
  listen?: string | undefined;
  grace?: string | undefined;
  log?: Format | undefined;
  'log-level'?: Level | undefined;
}

/** Exit 65 for a file that does not fit, 64 for a flag. */
export function settingsOf(flags: ServeFlags, env: NodeJS.ProcessEnv = {}) {
  const file = flags.config === undefined ? undefined : readYaml(flags.config, 'serve');
  const said = (file?.value ?? {}) as ServeFile;
  if (file && said.models) checkModels(said.models, file);
  if (file && said.discover) checkDiscover(said.discover, file, env);
  const data = flags.data ?? said.data;
  if (data === undefined) throw usageError('expected a data folder for the server, found none: --data DIR');
  const limits = limitsOf(said, LIVE, file);
  const isListenTold = flags.listen === undefined && said.listen !== undefined;
  const place = (): ReturnType<typeof placeOf> => placeOf(flags.listen ?? said.listen ?? LISTEN);
  const { host, port } = isListenTold ? placed(file, ['listen'], place) : place();
  const timeOf = (key: 'grace' | 'cache' | 'interactive_ttft', usual = ''): number =>
    placed(file, [key], () => durationOf(said[key] ?? usual, key));
  return {
    data,
    settings: {
      host,
      port,
      grace: flags.grace === undefined ? timeOf('grace', GRACE) : durationOf(flags.grace, '--grace'),
      keep: placed(file, ['keep'], () => keepOf(said.keep)),
      diskReserve: placed(file, ['disk_reserve'], () =>
        said.disk_reserve === undefined ? null : bytesOf(said.disk_reserve, 'disk_reserve'),
      ),
      limits: { ...LIMITS, ...said.limits },
      webhooks: said.webhooks ?? [],
      discover: said.discover ?? [],
      queue: queueOf(
        {
          redis: flags.redis ?? said.redis,
          'redis-prefix': flags['redis-prefix'] ?? said.redis_prefix,
          lease: flags.lease ?? said.lease,
        },
        env,
      ),
      gateway: {
        models: said.models ?? {},
        reserve: said.interactive_reserve ?? RESERVE,
        ttft: said.interactive_ttft === undefined ? null : timeOf('interactive_ttft'),
        limits,
        limitsOf: new Map(
          Object.entries(said.interactive_models ?? {}).map(([model, own]) => [
            model,
            limitsOf(own, limits, file, ['interactive_models', model]),
          ]),
        ),
        cacheFor: said.cache === undefined ? null : timeOf('cache'),
        isRecordRequired: said.record !== 'best_effort',
        runaway: said.runaway === undefined ? null : { ...RUNAWAY, ...said.runaway },
      },
    },
    otlp: otlpOf(env),
    log: {
      format: flags.log ?? said.log ?? 'text',
      level: flags['log-level'] ?? said.log_level ?? 'info',
    } satisfies LogSettings,
    pool: file?.hasKey('pool') ? poolOfPipeline(file) : undefined,
    said,
  };
}

/** What of the file cannot be read is told with its place, as all else that is wrong there: 65. */
function placed<T>(file: YamlFile | undefined, segments: readonly string[], read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (file === undefined || !(error instanceof Fatal)) throw error;
    throw file.complain(segments, error.message.replace(/^--/, ''));
  }
}

/** `usual` where nothing is said; `at`: where it is said in the file. */
function limitsOf(
  said: Interactive,
  usual: LiveLimits,
  file: YamlFile | undefined,
  at: readonly string[] = [],
): LiveLimits {
  const limits = { ...usual, tries: said.interactive_tries ?? usual.tries };
  for (const [limit, name] of Object.entries(TIMES) as [
    keyof typeof TIMES,
    (typeof TIMES)[keyof typeof TIMES],
  ][]) {
    const time = said[name];
    if (time !== undefined) limits[limit] = placed(file, [...at, name], () => durationOf(time, name));
  }
  return limits;
}

export function placeOf(at: string): { host: string; port: number } {
  const match = /^(?:(\[[0-9a-fA-F:.]{2,45}\]|[^:\s]{1,255}):)?(\d{1,5})$/.exec(at);
  const port = Number(match?.[2]);
  if (!match || port > 65_535)
    throw usageError(`--listen: expected PORT or HOST:PORT, such as ${LISTEN}, found '${at.slice(0, 100)}'`);
  return { host: match[1]?.replace(/^\[|\]$/g, '') ?? '127.0.0.1', port };
}
