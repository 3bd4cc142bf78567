/**
 * The start of a pool: probe every endpoint at once, wait for servers that still load if asked to, settle which model
 * is meant. What is wrong ends the run here, before anything is read or asked.
 */

import { CallFailure } from '../../core/item/call.ts';
import { EXIT, Fatal, unavailable, usageError } from '../../core/item/failure.ts';
import { counted } from '../../core/item/wording.ts';
import { hide, holdsKey, type Key, oneLine, seconds } from '../endpoints/endpoint-words.ts';
import { nearModel, servedNameOf } from '../endpoints/model-names.ts';
import { noneNamed } from '../endpoints/settings.ts';
import type { PoolOptions } from './part.ts';
import type { Endpoint } from './pool-state.ts';
import { listed, type ProbeResult, type Prober, probe, settle } from './probe.ts';
import type { Spending } from './spending.ts';

/** While waiting, every endpoint is asked again this often. */
const WAIT_STEP_MS = 1_500;
/** … and a person is told that it still waits this often. */
const TELL_WAIT_EVERY_MS = 60_000;

export type Start = Prober &
  Pick<PoolOptions, 'model' | 'models' | 'modelMap' | 'needsDefault'> &
  Pick<PoolOptions, 'wait' | 'lasting' | 'warn' | 'signal' | 'ledger'>;

export interface Found {
  model: string;
  /** what a request asks that names none; null: of each endpoint the model that it has */
  unnamed: string | null;
  /** the name that is served for one that an agent says, where it is another */
  servedAs?: ReadonlyMap<string, string>;
  /** all that is asked for; null where that is whatever a raw call names */
  models: readonly string[] | null;
  /** the smallest context length of the endpoints that serve the model, in tokens, where they say */
  maxModelLength: number | undefined;
  /** the weights behind the model's name, where the endpoints say so and agree */
  root?: string;
}

/**
 * Starts the endpoints and begins the ledger's run. Where no endpoint can be used and the ledger has a run on record, the
 * model is the one that served then, and answers are replayed.
 */
export async function startPool(endpoints: readonly Endpoint[], start: Start): Promise<Found> {
  const { model, models = [], needsDefault = true, ledger, warn } = start;
  const before = ledger?.lastModel;
  const last = (model && before && servedNameOf(model, [before], start.modelMap)) ?? model ?? before;
  const replayable = ledger !== undefined && ledger.answers > 0 && last !== undefined;
  const urls = endpoints.map(({ url }) => url);
  let found: Found;
  try {
    if (endpoints.length === 0 && !start.lasting) throw noneNamed();
    found = await startEndpoints(endpoints, replayable ? { ...start, wait: 0 } : start);
  } catch (error) {
    const isGone = error instanceof Fatal && (error.exit === EXIT.unavailable || endpoints.length === 0);
    if (!replayable || !isGone) throw error;
    const why = inOneLine(error.message);
    warn(`continuing with the ${counted(ledger.answers, 'answer')} on record: ${why}`);
    const isOpen = !needsDefault && models.length === 0;
    found = {
      ...{ model: last, unnamed: last, models: isOpen ? null : [last, ...models] },
      maxModelLength: undefined,
    };
  }
  ledger?.begin(found, urls);
  return found;
}

/** A heading with its causes below it, without what to do about them: `expected …, found none: URL: cause; URL: cause`. */
function inOneLine(message: string): string {
  const [first = '', ...rest] = message.split('\n');
  const causes = rest.filter(line => line.startsWith('  ')).map(line => line.trim());
  return causes.length === 0 ? first : `${first} ${causes.join('; ')}`;
}

/** What adds up, and bounds, what a run spends; null where nothing has a price or a bound, and for a server. */
export async function spendingOf(
  endpoints: readonly Endpoint[],
  { bounds = null, lasting }: Pick<PoolOptions, 'bounds' | 'lasting'>,
): Promise<Spending | null> {
  if (lasting || (bounds === null && endpoints.every(({ price }) => price === null))) return null;
  return (await import('./spending.ts')).createSpending(endpoints, bounds);
}

/**
 * Puts usable endpoints `up` and leaves the others `down` or `unusable`, each with its cause. Throws `unavailable` where
 * none is usable, a usage error where the model is not clear.
 */
async function startEndpoints(endpoints: readonly Endpoint[], start: Start): Promise<Found> {
  const { models: byAgents = [], needsDefault = true } = start;
  const results = await firstUsable(endpoints, start);
  const served = results.flatMap(({ models }) => models.map(({ id }) => id));
  const servedAs = new Map(
    [...(start.model === undefined ? [] : [start.model]), ...byAgents].map(name => [
      name,
      servedNameOf(name, served, start.modelMap) ?? name,
    ]),
  );
  for (const [name, id] of servedAs) {
    if (id !== name) start.warn(`asking for ${name} as ${id}, the name that the endpoints list`);
  }
  const servedName = (name: string): string => servedAs.get(name) as string;
  const others = byAgents.map(servedName);
  const unnamed = (): string => (needsDefault ? onlyModel(results) : (others[0] ?? anyModel(results)));
  const model = start.model === undefined ? unnamed() : servedName(start.model);
  const isOpen = !needsDefault && others.length === 0;
  const models = isOpen ? null : [...new Set(needsDefault ? [model, ...others] : others)];
  for (const result of results) settle(result, models);
  const up = endpoints.filter(endpoint => endpoint.state === 'up');
  const wanted = models ?? (start.model === undefined ? [] : [model]);
  const unserved = wanted.find(one => !up.some(endpoint => endpoint.models.has(one)));
  if (unserved !== undefined) throw notServed(unserved, results);
  if (up.length < endpoints.length) {
    const out = endpoints.filter(endpoint => endpoint.state !== 'up');
    start.warn(`continuing with ${up.length} of ${endpoints.length} endpoints, without ${causes(out)}`);
  }
  const lengths = results.flatMap(({ models }) => models.filter(({ id }) => id === model));
  const known = lengths.flatMap(({ maxModelLength }) => maxModelLength ?? []);
  const [root, ...roots] = new Set(lengths.flatMap(({ root }) => (root === undefined ? [] : [root])));
  return {
    model,
    unnamed: start.model !== undefined || needsDefault ? model : null,
    servedAs,
    models,
    maxModelLength: known.length > 0 ? Math.min(...known) : undefined,
    ...(root !== undefined && roots.length === 0 && { root: oneLine(root, 1_000) }),
  };
}

/** Of a large fleet only the first are named. */
const MAX_NAMED = 8;
const MAX_LINES = 20;

export function causes(endpoints: readonly Endpoint[]): string {
  return named(
    endpoints.map(endpoint => `${endpoint.url} (${endpoint.cause})`),
    ', ',
  );
}

function named(words: readonly string[], between: string, most = MAX_NAMED): string {
  const others = words.length > most ? [`and ${words.length - most} more`] : [];
  return [...words.slice(0, most), ...others].join(between);
}

async function firstUsable(endpoints: readonly Endpoint[], start: Start): Promise<ProbeResult[]> {
  const { clock, wait = 0, warn, signal } = start;
  const begun = clock.now();
  let news = begun + TELL_WAIT_EVERY_MS;
  for (;;) {
    const results = await Promise.all(endpoints.map(endpoint => probe(endpoint, start)));
    if (signal?.aborted) throw new CallFailure('interrupted', 'Stopped before any endpoint was usable.');
    if (start.lasting || results.some(({ cause }) => cause === undefined)) return results;
    const waited = clock.now() - begun;
    const hopeless = results.every(({ settled }) => settled);
    if (hopeless || waited + WAIT_STEP_MS > wait) throw noneUsable(results, waited);
    if (clock.now() >= news) {
      news += TELL_WAIT_EVERY_MS;
      const reasons = named(linesOf(results), '; ');
      warn(`waited ${seconds(waited)} of ${seconds(wait)} for an endpoint: ${reasons}`);
    }
    await pauseFor(WAIT_STEP_MS, start);
  }
}

function pauseFor(ms: number, { clock, signal }: Start): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      callOff();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const callOff = clock.after(ms, end);
    signal?.addEventListener('abort', end);
  });
}

const linesOf = (results: readonly ProbeResult[]): string[] =>
  results.map(({ endpoint, cause }) => `${endpoint.url}: ${cause}`);

function noneUsable(results: readonly ProbeResult[], waited: number): Fatal {
  const loading = results.some(({ settled }) => !settled);
  const after = waited >= WAIT_STEP_MS ? ` after ${seconds(waited)}` : '';
  const hint =
    loading && waited < WAIT_STEP_MS
      ? '\nstart a server, or let fw wait for one that still loads: --wait 10m'
      : '';
  const urls = results.slice(0, 3).map(({ endpoint }) => ` --endpoint ${endpoint.url}`);
  return unavailable(
    `expected an endpoint that answers, found none${after}:\n  ${named(linesOf(results), '\n  ', MAX_LINES)}${hint}` +
      `\nwhat to do about each: fw doctor${urls.join('')}`,
  );
}

/** It will be sent and shown: a name with the key or control characters in it is none. */
function isName(id: string, key: Key | undefined): boolean {
  return oneLine(id, 1_000) === id && !holdsKey(id, key);
}

/** One that an endpoint serves, for the record of a run whose requests name their models themselves. */
function anyModel(results: readonly ProbeResult[]): string {
  for (const { models, endpoint } of results) {
    const found = models.find(({ id }) => isName(id, endpoint.key));
    if (found) return found.id;
  }
  return '';
}

/** The model that every usable endpoint serves, if it is exactly one. */
function onlyModel(results: readonly ProbeResult[]): string {
  const usable = results.filter(({ cause }) => cause === undefined);
  const [first, ...others] = usable.map(({ models }) => new Set(models.map(({ id }) => id)));
  const shared = [...(first ?? [])].filter(id => others.every(models => models.has(id)));
  const [model] = shared;
  const isSafe = model !== undefined && usable.every(({ endpoint }) => isName(model, endpoint.key));
  if (isSafe && shared.length === 1) return model;
  throw usageError(
    `expected endpoints that serve one and the same model, found${servedBy(usable)}\nsay which one: --model NAME`,
  );
}

function notServed(model: string, results: readonly ProbeResult[]): Fatal {
  const usable = results.filter(({ cause }) => cause === undefined);
  const near = nearModel(
    model,
    usable.flatMap(({ models, endpoint }) => models.map(({ id }) => hide(id, endpoint.key))),
  );
  const meant = near === null ? '' : `\ndid you mean --model ${oneLine(near, 200)}?`;
  return usageError(`expected an endpoint that serves the model ${model}, found${servedBy(usable)}${meant}`);
}

function servedBy(results: readonly ProbeResult[]): string {
  return results
    .map(({ endpoint, models }) => `\n  ${endpoint.url}: ${listed(models, endpoint.key)}`)
    .join('');
}
