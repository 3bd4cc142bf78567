/**
 * Which endpoints a run asks, and with what: from `--endpoint URL`, a pool file (`--pool FILE`) or FW_ENDPOINTS, in
 * this order. The form of a pool file is schemas/pool.schema.json; the `pool:` of a pipeline file has the same one.
 * Nothing here opens a connection.
 */
import { checkPart, readYaml, type YamlFile } from '../../core/config/yaml.ts';
import { type Fatal, usageError } from '../../core/item/failure.ts';
import { durationOf } from '../../flow/options.ts';
import type { Key } from './endpoint-words.ts';
import { type GpuSetting, SMI } from './gpu.ts';
import type { ModelMap } from './model-names.ts';
import { PRICE_FORM, type Price, priceOf } from './price.ts';

export const MAX_LIMIT = 65_535;

/**
 * Calls at one endpoint at a time, to begin with: few enough for a small server. What a large one takes is found in a
 * few rounds of answers.
 */
export const FIRST_LIMIT = 32;
/** Retries a run may make, as a share of its calls. */
const RETRY_BUDGET = 0.2;
const KEY_VARIABLES = ['FW_API_KEY', 'OPENAI_API_KEY'];

export interface EndpointSetting {
  /** the base URL, normally ending in /v1; no slash at its end */
  url: string;
  limit: number;
  /** a person has set the limit, and it is not moved */
  pinned: boolean;
  /** calls that a person expects it to take: its part of `--in-flight` */
  meant?: number;
  /** its own, in place of the one for all */
  key?: Key;
  gpu?: GpuSetting;
  /** as its server schedules, where a person says so */
  scheduling?: Scheduling;
  /** what it costs; one without a price is taken to cost nothing */
  price?: Price;
}

/** vLLM's --scheduling-policy */
export type Scheduling = 'fcfs' | 'priority';

export interface PoolSettings {
  /** none where none was named */
  endpoints: EndpointSetting[];
  /** what to ask for; undefined leaves it to what the endpoints serve */
  model?: string;
  modelMap?: ModelMap;
  /** items in flight; undefined is twice the sum of the limits, as they move */
  inFlight?: number;
  key?: Key;
  retryBudget: number;
  /** ms that one try of a call may take; found from what it may write unless given */
  timeout?: number;
  /** ms after which endpoints that are paid by the token help those that are not; never unless given */
  overflow?: number;
}

/** Ends a run that has to ask. One that finds all on record needs no endpoint, so it is not said before. */
export function noneNamed(): Fatal {
  return usageError(
    'expected an endpoint to ask, found none: give --endpoint http://HOST:PORT/v1 (as often as there are servers), ' +
      '--pool FILE, or the environment variable FW_ENDPOINTS (comma-separated)',
  );
}

export interface PoolFile {
  endpoints: {
    url: string;
    limit?: number;
    api_key_env?: string;
    /** `gpu_ids` as an editor takes them: numbers, or UUIDs */
    gpu?: string;
    gpu_ids?: (number | string)[];
    scheduling?: Scheduling;
    /** as price.ts reads it; YAML makes a number of `2.5` */
    price?: string | number;
  }[];
  limit?: number;
  model?: string;
  in_flight?: number;
  api_key_env?: string;
  retry_budget?: number;
  /** a duration, such as `20m` */
  timeout?: string;
  /** such as `after 10m` */
  overflow?: string;
}

/** Reads a pool file. Throws Fatal (65) with file, line and column for whatever is wrong with it. */
export function readPoolFile(path: string): PoolFile {
  // It may have a key in it, which the message of a file that is not there would repeat.
  if (path.includes('://')) throw usageError('expected the path of a pool file, found a URL: use --endpoint');
  const file = readYaml(path, 'pool', { secretive: true });
  return poolIn(file, file.value, []);
}

/** Reads the `pool:` of a pipeline file; throws as `readPoolFile`. */
export function poolOfPipeline(file: YamlFile): PoolFile {
  return poolAt(file, ['pool']);
}

/** The pool that is written at a place of a file; throws as `readPoolFile`. */
export function poolAt(file: YamlFile, at: readonly string[]): PoolFile {
  return poolIn(file, checkPart(file, at, 'pool', true), at);
}

function poolIn(file: YamlFile, value: unknown, at: readonly string[]): PoolFile {
  const pool = value as Omit<PoolFile, 'endpoints'> & {
    endpoints: (string | PoolFile['endpoints'][number])[];
  };
  const endpoints = pool.endpoints.map((one, index) => {
    const { url, ...more } = typeof one === 'string' ? { url: one } : one;
    const complain = (message: string) => file.complain([...at, 'endpoints', index], message);
    const { gpu, price } = more;
    if (price !== undefined && priceOf(String(price)) === null)
      throw complain(`price: expected ${PRICE_FORM}, found ${JSON.stringify(price).slice(0, 80)}`);
    return {
      ...more,
      url: readUrl(url, complain),
      ...(gpu !== undefined && {
        gpu: gpu === SMI ? gpu : readUrl(gpu, message => complain(`gpu: ${message}`), GPU_PAGE),
      }),
    };
  });
  return { ...pool, endpoints };
}

const BASE_URL = 'a base URL such as http://HOST:PORT/v1';
const GPU_PAGE = 'nvidia-smi, or the page of a DCGM exporter such as http://HOST:9400/metrics';

/** What was given on the command line; a flag wins over the same word in the pool file. */
export interface PoolFlags {
  endpoint?: readonly string[];
  pool?: PoolFile;
  model?: string;
  modelMap?: ModelMap;
  endpointLimit?: number;
  inFlight?: number;
  apiKeyEnv?: string;
  timeout?: string;
}

/** Throws a usage error that says what was expected and where; it never repeats credentials. */
export function poolSettings(flags: PoolFlags, env: NodeJS.ProcessEnv): PoolSettings {
  const { pool } = flags;
  const inFlight = flags.inFlight ?? pool?.in_flight;
  const endpoints = meantFor(inFlight, endpointsOf(flags, env));
  const twice = endpoints.find((one, at) => endpoints.findIndex(other => other.url === one.url) < at);
  if (twice)
    throw usageError(
      `expected different endpoints, found ${twice.url} twice; to give it more calls, set its limit in a pool file`,
    );
  return {
    endpoints,
    model: flags.model ?? pool?.model,
    ...(flags.modelMap && { modelMap: flags.modelMap }),
    inFlight,
    // where each endpoint has its own, there is none to look for
    key:
      endpoints.every(({ key }) => key) && endpoints.length > 0
        ? undefined
        : keyOf(flags.apiKeyEnv ?? pool?.api_key_env, env),
    retryBudget: pool?.retry_budget ?? RETRY_BUDGET,
    ...timeoutOf(flags),
    ...(pool?.overflow !== undefined && {
      overflow: durationOf(pool.overflow.replace(/^after /, ''), 'overflow of the pool'),
    }),
  };
}

/** A flag goes before the pool file. Throws a usage error where it is no duration, or none at all. */
function timeoutOf({ timeout, pool }: PoolFlags): Pick<PoolSettings, 'timeout'> {
  const [text, name] =
    timeout === undefined ? [pool?.timeout, 'timeout of the pool'] : [timeout, '--timeout'];
  if (text === undefined) return {};
  const ms = durationOf(text, name);
  if (ms === 0) throw usageError(`${name}: expected more than ${text}, such as 20m`);
  return { timeout: ms };
}

/** Who asks for many items in flight expects servers that take them. */
function meantFor(inFlight: number | undefined, endpoints: EndpointSetting[]): EndpointSetting[] {
  if (inFlight === undefined) return endpoints;
  const meant = Math.min(MAX_LIMIT, Math.ceil(inFlight / endpoints.length));
  return endpoints.map(one => (one.pinned ? one : { ...one, meant }));
}

function endpointsOf(
  { endpoint = [], pool, endpointLimit }: PoolFlags,
  env: NodeJS.ProcessEnv,
): EndpointSetting[] {
  if (endpoint.length > 0 && pool) {
    throw usageError('expected --endpoint or a pool file, found both: put all endpoints in one of them');
  }
  if (pool) {
    return pool.endpoints.map(({ url, limit = endpointLimit ?? pool.limit, ...more }) => ({
      url,
      limit: limit ?? FIRST_LIMIT,
      pinned: limit !== undefined,
      ...(more.api_key_env !== undefined && { key: keyOf(more.api_key_env, env) as Key }),
      ...(more.gpu !== undefined && { gpu: { from: more.gpu, ids: (more.gpu_ids ?? []).map(String) } }),
      ...(more.scheduling !== undefined && { scheduling: more.scheduling }),
      ...(more.price !== undefined && { price: priceOf(String(more.price)) as Price }),
    }));
  }
  const begin = { limit: endpointLimit ?? FIRST_LIMIT, pinned: endpointLimit !== undefined };
  if (endpoint.length > 0) return endpoint.map(text => ({ url: readNamed(text, '--endpoint'), ...begin }));
  const listed = (env.FW_ENDPOINTS ?? '').split(',').map(text => text.trim());
  const named = listed.filter(text => text !== '');
  return named.map(text => ({ url: readNamed(text, 'FW_ENDPOINTS'), ...begin }));
}

/**
 * A base URL without the slash at its end; throws what `complain` makes of a message. Nothing of a URL that has an `@`
 * or a query is repeated, because people put keys there.
 */
export function readUrl(text: string, complain: (message: string) => Error, example = BASE_URL): string {
  const expected = `expected ${example}`;
  const secretive = /[@?#]/.test(text);
  if (text.includes(','))
    throw complain('expected one URL, found several with commas between: repeat --endpoint');
  const shown = secretive ? ', found none' : `, found ${JSON.stringify(text.slice(0, 200))}`;
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw complain(expected + shown);
  }
  if (url.username !== '' || url.password !== '') {
    throw complain(
      `${expected}, found one with credentials in it (for ${url.host})` +
        (example === BASE_URL
          ? ': put the key in the environment variable FW_API_KEY, or name another one by --api-key-env'
          : ''),
    );
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    const meant =
      secretive || text.includes('//') ? '' : `; did you mean http://${withPath(text.trim().slice(0, 200))}?`;
    throw complain(expected + shown + meant);
  }
  if (url.search !== '' || url.hash !== '') {
    throw complain(`${expected}, found one with a query or a fragment (for ${url.host})`);
  }
  return `${url.origin}${url.pathname.replace(/\/{1,9}$/, '')}`;
}

function readNamed(text: string, where: string): string {
  return readUrl(text, message => usageError(`${where}: ${message}`));
}

/** The key of the named variable, which must be set then; else that of FW_API_KEY or OPENAI_API_KEY, if any. */
function keyOf(named: string | undefined, env: NodeJS.ProcessEnv): Key | undefined {
  const variable = named ?? KEY_VARIABLES.find(name => env[name]?.trim());
  if (variable === undefined) return undefined;
  // Somebody may have given the key where its name belongs: what does not look like a name is not repeated.
  const name = /^[A-Z][A-Z0-9_]{0,99}$/.test(variable) ? `$${variable}` : 'the named environment variable';
  const key = env[variable]?.trim();
  if (!key) throw usageError(`expected an API key in ${name}, found it unset or empty`);
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw usageError(`expected an API key in ${name}, found characters that no HTTP header can carry`);
  }
  return { name, read: () => key };
}

/** People leave out the scheme, and the path where servers answer. */
const withPath = (text: string): string => (text.includes('/') ? text : `${text}/v1`);
