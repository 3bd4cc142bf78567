/** The servers of a benchmark: all of them must be there, for what is measured on two of three is another thing. */

import { hide } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { type Clock, systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import {
  KIND_NAMES,
  KINDS,
  type KindName,
  kindByWords,
} from '../../../engine/asking/endpoints/server-kinds.ts';
import { labelSetOf, metricsPath, pageOf } from '../../../engine/asking/endpoints/server-load.ts';
import { noneNamed, type PoolSettings } from '../../../engine/asking/endpoints/settings.ts';
import { createEndpoint, type Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { type Asking, askingOf, objectIn, probe } from '../../../engine/asking/pool/probe.ts';
import { type Found, startPool } from '../../../engine/asking/pool/start.ts';
import { unavailable } from '../../../engine/core/item/failure.ts';

export interface Target {
  endpoints: readonly Endpoint[];
  /** the model that is asked for, by the name that the servers list */
  model: string;
  servedAs: ReadonlyMap<string, string>;
  maxModelLength: number | undefined;
  close(): Promise<void>;
}

export interface Opening {
  settings: PoolSettings;
  /** models that agents name; undefined where requests name their own */
  models: readonly (string | undefined)[] | undefined;
  warn(message: string): void;
  signal: AbortSignal;
}

/** Exit 64 where no endpoint is named or the model is not clear, 69 where one of them cannot be used. */
export async function openTarget({ settings, models = [], warn, signal }: Opening): Promise<Target> {
  const endpoints = settings.endpoints.map((each, index) => createEndpoint(each, index, settings.key));
  if (endpoints.length === 0) throw noneNamed();
  const close = async (): Promise<void> => {
    await Promise.all(endpoints.map(({ wire }) => wire.close()));
  };
  try {
    const named = models.filter(model => model !== undefined);
    const found: Found = await startPool(endpoints, {
      clock: systemClock,
      timing: TIMING,
      model: settings.model,
      ...(settings.modelMap && { modelMap: settings.modelMap }),
      models: named,
      needsDefault: models.includes(undefined),
      warn,
      signal,
    });
    const out = endpoints.find(({ state }) => state !== 'up');
    if (out !== undefined)
      throw unavailable(
        `expected all endpoints to answer, found ${out.url}: ${out.cause}; leave it out, or start it: fw doctor --endpoint ${out.url}`,
      );
    const { model, servedAs = new Map(), maxModelLength } = found;
    return { endpoints, model, servedAs, maxModelLength, close };
  } catch (error) {
    await close();
    throw error;
  }
}

// Which server was measured, as far as it says: its version (where its kind says it: server-kinds.ts), the settings that
// its metrics name, and its models. Two benchmarks of which nobody knows the flags cannot be compared.

export interface ServerFacts {
  url: string;
  /** null where it does not say */
  version: string | null;
  /** weights behind the model that was asked for */
  root: string | null;
  maxModelLength: number | null;
  /** flags and sizes by name, such as `gpu_memory_utilization`; empty where it names none */
  settings: Record<string, string>;
}

/** Series whose labels are settings. `engine` and `model_name` are on every series, and are none. */
const CONFIGS = ['vllm:cache_config_info', 'vllm:vllm_config_info'];
const NO_SETTINGS = new Set(['engine', 'model_name']);
const PATIENCE_MS = 10_000;
const LONGEST = 200;

/** Never throws: what a server does not say is not known. */
export function factsOf(endpoints: readonly Endpoint[], model: string, clock: Clock): Promise<ServerFacts[]> {
  return Promise.all(endpoints.map(endpoint => factsOfOne(endpoint, model, clock)));
}

async function factsOfOne(endpoint: Endpoint, model: string, clock: Clock): Promise<ServerFacts> {
  const timing = TIMING;
  const asking = askingOf(endpoint, { clock, timing }, clock.now() + PATIENCE_MS);
  const root = endpoint.prefix.replace(/\/v1$/, '');
  const { models } = await probe(endpoint, { clock, timing });
  const served = models.find(({ id }) => id === model);
  const text = (value: unknown): string | null =>
    typeof value === 'string' && value !== '' ? hide(value.slice(0, LONGEST), endpoint.key) : null;
  const version = text(await versionAt(asking, root, kindByWords(models, asking.heads)));
  const page = await asking.get(metricsPath(endpoint.prefix));
  const settings: Record<string, string> = {};
  if (!(page instanceof Error) && page.status === 200)
    for (const series of CONFIGS)
      for (const [name, value] of Object.entries(labelSetOf(pageOf(page.body), series)))
        if (!NO_SETTINGS.has(name)) settings[name] = hide(value, endpoint.key);
  return {
    url: endpoint.url,
    version,
    root: served?.root ?? null,
    maxModelLength: served?.maxModelLength ?? null,
    settings,
  };
}

/** Where its kind says it; of a server of no known kind whatever one of them would say. */
async function versionAt(
  asking: Asking,
  root: string,
  kind: KindName | undefined,
): Promise<string | undefined> {
  for (const name of kind === undefined ? KIND_NAMES : [kind])
    for (const { path, read } of KINDS[name].about) {
      const said = objectIn(await asking.get(root + path));
      const version = said && read(said, undefined)?.version;
      if (version !== undefined) return version;
    }
  return undefined;
}
