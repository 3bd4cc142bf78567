/**
 * Which server was measured, as far as it says: its version (GET /version of vLLM, /props of llama.cpp), the settings that
 * its metrics name, and its models. Two benchmarks of which nobody knows the flags cannot be compared.
 */

import { hide } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { type Clock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { labelSetOf, metricsPath, pageOf } from '../../../engine/asking/endpoints/server-load.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { type Asking, askingOf, objectIn, probe } from '../../../engine/asking/pool/probe.ts';

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
  const version =
    text((await jsonAt(asking, `${root}/version`))?.version) ??
    text((await jsonAt(asking, `${root}/props`))?.build_info);
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

async function jsonAt(asking: Asking, path: string): Promise<Record<string, unknown> | undefined> {
  return objectIn(await asking.get(path));
}
