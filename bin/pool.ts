/** The flags that name endpoints, and the pool they make. */
import type { Asked } from '../engine/flow/account.ts';
import { durationOf, type OptionSchemas, type OptionsOf, type Values } from '../engine/flow/options.ts';
import type { EndpointPool } from '../engine/pool/contract.ts';
import type { PoolFile } from '../engine/pool/poolfile.ts';

export const POOL_OPTIONS = {
  endpoint: {
    type: 'array',
    items: { type: 'string' },
    description:
      'Base URL of a server, such as http://gpu1:8005/v1; repeat it for several. Default: FW_ENDPOINTS.',
  },
  pool: { type: 'string', description: 'YAML file that names endpoints, their limits and the model.' },
  model: { type: 'string', description: 'Model to ask for; default: the one that the endpoints serve.' },
  'api-key-env': { type: 'string', description: 'Environment variable of the API key; default: FW_API_KEY.' },
  wait: { type: 'string', default: '0s', description: 'How long to wait for a first endpoint, such as 10m.' },
} as const satisfies OptionSchemas;

export interface PoolWorld {
  /** the `pool:` of a pipeline file; flags win over it */
  file?: PoolFile;
  warn(message: string): void;
  /** called once when the pool gives up in the middle of the run */
  onGivenUp(): void;
  /** aborted: stop waiting for endpoints */
  signal: AbortSignal;
}

/** Exit 64 where no endpoint is named, 69 where none answers. */
export async function makePool(
  values: Values,
  { file, warn, onGivenUp, signal }: PoolWorld,
): Promise<EndpointPool> {
  const flags = values as OptionsOf<typeof POOL_OPTIONS> & { 'in-flight'?: number };
  const wait = durationOf(flags.wait, '--wait');
  const { createPool } = await import('../engine/pool/pool.ts');
  const { poolSettings } = await import('../engine/pool/endpoints.ts');
  const { readPoolFile } = await import('../engine/pool/poolfile.ts');
  const settings = poolSettings(
    {
      endpoint: flags.endpoint,
      pool: flags.pool === undefined ? (flags.endpoint ? undefined : file) : readPoolFile(flags.pool),
      model: flags.model,
      inFlight: flags['in-flight'],
      apiKeyEnv: flags['api-key-env'],
    },
    process.env,
  );
  return createPool({ ...settings, wait, warn, onGivenUp, signal });
}

export function askedOf(pool: EndpointPool): Asked {
  const { calls, retries, usage } = pool.stats();
  return {
    calls,
    retries,
    promptTokens: usage.prompt,
    completionTokens: usage.completion,
    cachedTokens: usage.cached,
  };
}
