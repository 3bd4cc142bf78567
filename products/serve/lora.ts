/**
 * LoRA adapters: loaded at every endpoint, and loaded again at one that comes back without them. The routes are vLLM's
 * (which needs VLLM_ALLOW_RUNTIME_LORA_UPDATING=True); a request that names an adapter goes to endpoints that have it.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import type { Told } from '../../engine/asking/pool/part.ts';
import { replaceFile } from '../../engine/core/files/durable.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { ApiError, badRequest } from './errors.ts';
import { readObject } from './http-body.ts';
import type { Routes } from './server-context.ts';
import { recalledBy } from './small-files.ts';

const LOAD = '/v1/load_lora_adapter';
const UNLOAD = '/v1/unload_lora_adapter';
const LONGEST = 1_000;
const MOST_ADAPTERS = 1_000;
/** ms between two looks at whether every endpoint has what it should have */
const LOOK = 10_000;

export const addLora: Routes = async (app, { data, pool, adapters, acts, closing, over, say }) => {
  const path = join(data, 'loras.json');
  /** by name, as it was loaded */
  const wanted = new Map(
    recalledBy(path, adaptersIn, why =>
      say(`${path}: expected the adapters that were loaded, found none (${why}); load them again`, {
        ...{ event: 'file-ignored', level: 'error' },
      }),
    ),
  );
  const told = new Map<string, string>();
  let looking: Promise<void> | null = null;

  const keep = (name: string): void => {
    replaceFile(path, JSON.stringify(Object.fromEntries(wanted)));
    adapters.set(name, (adapters.get(name) ?? 0) + 1);
  };

  app.post(LOAD, { config: { scope: 'admin' } }, async request => {
    const asked = readObject(request.body);
    const name = textOf(asked, 'lora_name');
    textOf(asked, 'lora_path');
    if (wanted.size >= MOST_ADAPTERS && !wanted.has(name))
      throw badRequest(`Expected at most ${MOST_ADAPTERS} adapters, found one more.`, 'lora_name');
    wanted.set(name, asked);
    keep(name);
    acts.note(request, 'lora.loaded', `loads the adapter ${JSON.stringify(name)}`, { target: name });
    const all = await pool.tell(LOAD, request.body as Buffer);
    return reportOf(name, all, ({ models }) => models.includes(name));
  });

  app.post(UNLOAD, { config: { scope: 'admin' } }, async request => {
    const name = textOf(readObject(request.body), 'lora_name');
    wanted.delete(name);
    keep(name);
    acts.note(request, 'lora.unloaded', `unloads the adapter ${JSON.stringify(name)}`, { target: name });
    const all = await pool.tell(UNLOAD, request.body as Buffer);
    return reportOf(name, all, ({ models }) => !models.includes(name));
  });

  /** Loads at each endpoint what it lacks: it may have been started again. */
  async function mend(): Promise<void> {
    await pool.lookAtModels();
    for (const [name, body] of wanted) {
      const lacking = pool
        .stats()
        .endpoints.filter(({ state, models }) => state === 'up' && !models.includes(name))
        .map(({ url }) => url);
      if (lacking.length === 0) continue;
      const all = await pool.tell(LOAD, Buffer.from(JSON.stringify(body)), url => lacking.includes(url));
      for (const { url, refusal, models } of all) sayOnce(name, url, models.includes(name) ? null : refusal);
    }
  }

  function sayOnce(name: string, url: string, refusal: string | null): void {
    const news = refusal ?? 'it is loaded again';
    if (told.get(`${name}\n${url}`) === news) return;
    told.set(`${name}\n${url}`, news);
    const level = refusal === null ? 'info' : 'warn';
    say(`adapter ${JSON.stringify(name)} at ${url}: ${news}`, {
      event: 'adapter',
      level,
      model: name,
      endpoint: url,
    });
  }

  function look(): void {
    if (wanted.size === 0) return;
    looking ??= mend().finally(() => {
      looking = null;
    });
  }

  look();
  const timer = setInterval(look, LOOK).unref();
  closing.addEventListener('abort', () => clearInterval(timer));
  return {
    async drain() {
      // a server that hangs is not waited for: what is half loaded is loaded after the next start
      await Promise.race([looking, over.aborted || once(over, 'abort')]);
    },
  };
};

/** 502 where not all endpoints did it: what is half loaded is said, and goes on being tried. */
function reportOf(name: string, all: readonly Told[], isDone: (told: Told) => boolean) {
  const endpoints = all.map(one => ({ url: one.url, done: isDone(one), message: one.refusal }));
  const failed = endpoints.filter(({ done }) => !done);
  if (all.length > 0 && failed.length === 0) return { object: 'lora_adapter', id: name, endpoints };
  const words = failed.map(({ url, message }) => `${url}: ${message ?? 'it does not list the adapter'}`);
  throw new ApiError(
    502,
    all.length === 0
      ? `No endpoint is up; '${name}' is loaded as soon as one is.`
      : `Done at ${all.length - failed.length} of ${all.length} endpoints; the others: ${words.join('; ')}`,
    { param: 'lora_name', code: 'half_loaded' },
  );
}

function textOf(asked: JsonObject, field: string): string {
  const value = asked[field];
  if (typeof value === 'string' && value !== '' && value.length <= LONGEST) return value;
  throw badRequest(`Invalid value for '${field}': expected a text of 1 to ${LONGEST} characters.`, field);
}

function adaptersIn(value: unknown): [name: string, asked: JsonObject][] {
  if (isObject(value) && Object.values(value).every(isObject))
    return Object.entries(value) as [string, JsonObject][];
  throw new Error('found something else than an object of objects');
}
