/** The flags that name endpoints, and the pool they make. */
import { resolve } from 'node:path';
import type { PoolFile, PoolFlags, PoolSettings } from '../asking/endpoints/settings.ts';
import type { Fsync } from '../asking/ledger/writer.ts';
import type { EndpointPool } from '../asking/pool/part.ts';
import { version } from '../core/config/package.ts';
import { isRemote, withoutKeys } from '../core/files/input-files.ts';
import { descriptors, socketsOf } from '../core/files/process.ts';
import type { AskedTotals } from '../core/item/account.ts';
import type { AsksWith } from '../core/item/call.ts';
import type { Say } from '../core/item/say.ts';
import { durationOf, grouped, type OptionsOf, type Values } from '../flow/options.ts';

export const POOL_OPTIONS = {
  ...grouped('Endpoints', {
    endpoint: {
      type: 'array',
      items: { type: 'string' },
      description: 'Base URL of a server, e.g. http://gpu1:8005/v1. May be repeated. Default: FW_ENDPOINTS.',
    },
    pool: {
      type: 'string',
      file: 'read',
      description: 'YAML file of endpoints, their limits and the model.',
    },
    'endpoint-limit': {
      type: 'integer',
      minimum: 1,
      maximum: 65_535,
      description:
        'Maximum calls in flight per endpoint; a pool file may override it for one. Default: learned from the answers.',
    },
    model: {
      type: 'string',
      description:
        'Model to ask, by its Hugging Face or Ollama name. Default: the one that the endpoints serve.',
    },
    'model-map': {
      type: 'string',
      file: 'read',
      description:
        'YAML file of model aliases: a name, and a list of its other names. Default: those that come with fw.',
    },
    'api-key-env': {
      type: 'string',
      description: 'Environment variable that holds the API key. Default: FW_API_KEY.',
    },
    'max-body': {
      type: 'integer',
      minimum: 1024,
      maximum: 16 * 1024 * 1024,
      default: 4 * 1024 * 1024,
      description:
        'Maximum size of an answer in bytes, as sent. A longer one is not read, and the call is retried.',
    },
    timeout: {
      type: 'string',
      description:
        'Time limit of one try, e.g. 20m; then the call is sent again. Default: estimated from its max_tokens and the speed of the server.',
    },
    wait: {
      type: 'string',
      default: '0s',
      description:
        'Time to wait for a first endpoint, e.g. 10m, and for one to come back during the run (at least 1m).',
    },
  }),
  ...grouped('Ledger', {
    ledger: {
      type: 'string',
      file: 'write-folder',
      description:
        'Folder in which every answer is kept. The same command again asks only what is missing. Default: FW_LEDGER.',
    },
    fsync: {
      type: 'string',
      default: '100ms',
      description:
        'When to force the ledger to disk: at this interval, always (before an answer is used), or never.',
    },
  }),
  ...grouped('Watching', {
    metrics: {
      type: 'string',
      description:
        'PORT or HOST:PORT to serve Prometheus /metrics on during the run; 0 takes a free port. Default host: 127.0.0.1.',
    },
    total: {
      type: 'integer',
      minimum: 1,
      description:
        'Number of rows or lines of the input, if it is a pipe: for the progress bar and the time left.',
    },
  }),
} as const;

export interface OpenPoolOptions {
  /** what the run calls itself, and the files that it reads */
  label: string;
  files: readonly string[];
  /** what the first stage that asks asks with */
  asksWith: AsksWith;
  /** of a pipeline file, false for none; a flag wins over it */
  ledger?: string | false | undefined;
  /** the `pool:` of a pipeline file; flags win over it */
  file?: PoolFile;
  warn: Say;
  /** called once when the pool gives up in the middle of the run */
  onGivenUp(): void;
  /** told the time of each answer, in ms */
  onAnswer?: ((endpoint: string, ms: number) => void) | undefined;
  /** aborted: stop waiting for endpoints */
  signal: AbortSignal;
}

/** Exit 64 where no endpoint is named, 69 where none answers. */
export async function makePool(
  values: Values,
  { file, label, files, asksWith, ledger: folder, warn, onGivenUp, onAnswer, signal }: OpenPoolOptions,
): Promise<EndpointPool> {
  const flags = values as Flags;
  const wait = durationOf(flags.wait, '--wait');
  const { createPool } = await import('../asking/pool/pool.ts');
  const settings = await poolSettingsOf(values, file, warn);
  const named = Object.values(asksWith.agents).map(({ model }) => model);
  const models = [...new Set(named.filter(model => model !== undefined))];
  const needsDefault = named.includes(undefined);
  const asked = {
    ...{ wait, models, needsDefault, maxBody: flags['max-body'] },
    ...{ warn, onGivenUp, onAnswer, signal },
  };
  const path = flags.ledger ?? folder ?? process.env.FW_LEDGER;
  const bounded = async () =>
    flags['max-cost'] === undefined && flags['max-total-tokens'] === undefined
      ? null
      : (await import('./bounds.ts')).boundsOf(flags, { ...settings, ...(path && { ledger: path }), warn });
  if (!path) return createPool({ ...settings, ...asked, bounds: await bounded() });

  const { openLedger } = await import('../asking/ledger/ledger.ts');
  const { whenFree } = await import('../asking/ledger/lock-waiting.ts');
  let made: EndpointPool | null = null;
  const open = (gone: ReadonlySet<string>) =>
    openLedger({
      gone,
      path,
      fsync: fsyncOf(flags.fsync),
      version: version(),
      label,
      files: files.map(name => (isRemote(name) ? withoutKeys(name) : resolve(name))),
      asksWith,
      shard: process.env.JOB_COMPLETION_INDEX ?? process.env.SLURM_ARRAY_TASK_ID,
      warn,
      onBroken: error => made?.giveUp(error),
    });
  const ledger = await whenFree(open, { warn, signal });
  try {
    made = await createPool({ ...settings, ledger, ...asked, bounds: await bounded() });
    return made;
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

/**
 * Loads what `openLasting` needs: by this module, since Node looks for a file again where another one imports it. Who opens
 * it much later may find the package replaced by another version.
 */
export async function loadLasting(): Promise<void> {
  await import('../asking/pool/pool.ts');
  await import('../asking/endpoints/settings.ts');
  await import('../asking/endpoints/model-names.ts');
  await import('../asking/endpoints/wire.ts');
}

/**
 * The pool of a server: it lasts, and each who asks has a part of it. Exit 64 where no endpoint is named, unless it needs
 * none.
 */
export async function openLasting(
  values: Values,
  {
    file,
    settings: known,
    reserve,
    liveTtft,
    needsNone = false,
    warn,
    signal,
  }: Pick<OpenPoolOptions, 'file' | 'warn' | 'signal'> & {
    reserve: number;
    liveTtft?: number | null;
    needsNone?: boolean;
    /** as they were read before */
    settings?: PoolSettings;
  },
): Promise<EndpointPool> {
  const { createPool } = await import('../asking/pool/pool.ts');
  const settings = known ?? (await lastingSettings(values, { ...(file && { file }), needsNone, warn }));
  const maxBody = (values as Flags)['max-body'];
  const own = { lasting: true, lasts: true, needsDefault: false, reserve, liveTtft, maxBody, warn, signal };
  return createPool({ ...settings, ...own });
}

/** What such a pool is made of, as flags and files say it now. Exit 64 or 65 where they are wrong, or name no endpoint. */
export async function lastingSettings(
  values: Values,
  { file, needsNone = false, warn }: Pick<OpenPoolOptions, 'file' | 'warn'> & { needsNone?: boolean },
): Promise<PoolSettings> {
  const { noneNamed } = await import('../asking/endpoints/settings.ts');
  const settings = await poolSettingsOf(values, file, warn);
  if (settings.endpoints.length === 0 && !needsNone) throw noneNamed();
  return settings;
}

type Flags = OptionsOf<typeof POOL_OPTIONS> & {
  'in-flight'?: number;
  'max-cost'?: number;
  'max-total-tokens'?: number;
};

async function poolSettingsOf(values: Values, file: PoolFile | undefined, warn: OpenPoolOptions['warn']) {
  const { poolSettings } = await import('../asking/endpoints/settings.ts');
  const flags = await settingsOf(values, file);
  sayUnused(flags, warn);
  const settings = poolSettings(flags, process.env);
  await boundSockets(settings.endpoints, warn);
  return settings;
}

async function settingsOf(values: Values, file: PoolFile | undefined): Promise<PoolFlags> {
  const flags = values as Flags;
  const { readPoolFile } = await import('../asking/endpoints/settings.ts');
  const map = flags['model-map'];
  return {
    endpoint: flags.endpoint,
    pool: flags.pool === undefined ? (flags.endpoint ? undefined : file) : readPoolFile(flags.pool),
    model: flags.model,
    modelMap:
      map === undefined ? undefined : (await import('../asking/endpoints/model-names.ts')).readModelMap(map),
    endpointLimit: flags['endpoint-limit'],
    inFlight: flags['in-flight'],
    apiKeyEnv: flags['api-key-env'],
    timeout: flags.timeout,
  };
}

/** A pool file goes before FW_ENDPOINTS, as a flag goes before both: whoever has set the variable may expect otherwise. */
function sayUnused({ pool }: PoolFlags, warn: OpenPoolOptions['warn']): void {
  const listed = (process.env.FW_ENDPOINTS ?? '').split(',').map(text => text.trim().replace(/\/$/, ''));
  const named = new Set(pool?.endpoints.map(({ url }) => url));
  if (pool === undefined || listed.every(text => text === '' || named.has(text))) return;
  warn('FW_ENDPOINTS is ignored, because a pool file names the endpoints; --endpoint URL overrides both');
}

/** Whether flags, a pool file or FW_ENDPOINTS name an endpoint. */
export async function namesEndpoint(values: Values, file: PoolFile | undefined): Promise<boolean> {
  const { poolSettings } = await import('../asking/endpoints/settings.ts');
  return poolSettings(await settingsOf(values, file), process.env).endpoints.length > 0;
}

/** Connections are kept below the limit of open files, for a ledger that cannot be opened loses what was paid for. */
async function boundSockets(
  endpoints: readonly { limit: number; meant?: number }[],
  warn: OpenPoolOptions['warn'],
): Promise<void> {
  if (endpoints.length === 0) return;
  const { sockets } = await import('../asking/endpoints/wire.ts');
  const own = descriptors();
  const most = socketsOf(own);
  sockets.setMost(most);
  if (most < endpoints.reduce((sum, { limit, meant = 0 }) => sum + Math.max(limit, meant), 0))
    warn(
      `at most ${most} calls at a time, because this process may have only ${own.limit} files open; ` +
        'for more, run ulimit -n 4096 first',
    );
}

function fsyncOf(text: string): Fsync {
  return text === 'always' || text === 'never' ? text : durationOf(text, '--fsync');
}

export function askedOf(pool: EndpointPool): AskedTotals {
  const { calls, retries, replayed, usage } = pool.stats();
  return {
    calls,
    retries,
    replayed,
    promptTokens: usage.prompt,
    completionTokens: usage.completion,
    cachedTokens: usage.cached,
  };
}
