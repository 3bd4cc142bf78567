/** The servers of a benchmark: all of them must be there, for what is measured on two of three is another thing. */

import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { noneNamed, type PoolSettings } from '../../../engine/asking/endpoints/settings.ts';
import { createEndpoint, type Endpoint } from '../../../engine/asking/pool/pool-state.ts';
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
