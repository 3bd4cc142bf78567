/**
 * The start of a pool: probe every endpoint at once, wait for servers that still load if asked to, settle which model
 * is meant. Whatever stands in the way ends the run here, before anything was read or asked.
 */
import { CallFailure } from '../flow/call.ts';
import { type Fatal, unavailable, usageError } from '../flow/failure.ts';
import type { Endpoint } from './health.ts';
import { type Finding, type Prober, probe, type Served } from './probe.ts';
import { hide, holdsKey, type Key } from './secret.ts';
import { oneLine, seconds } from './words.ts';

/** While waiting, every endpoint is asked again this often. */
const WAIT_STEP = 1_500;
/** … and a person is told that the wait goes on this often. */
const WAIT_NEWS = 60_000;

export interface Start extends Prober {
  /** as given by a person; undefined leaves it to the endpoints */
  model: string | undefined;
  /** the models that agents name; those that name none ask for `model` */
  models: readonly string[];
  needsDefault: boolean;
  /** how long to wait for the first endpoint, in ms */
  wait: number;
  warn: (message: string) => void;
  signal: AbortSignal | undefined;
}

export interface Found {
  model: string;
  /** all that is asked for */
  models: readonly string[];
  /** the smallest context length of the endpoints that serve the model, in tokens, where they say */
  maxModelLength: number | undefined;
  /** the weights behind the model's name, where the endpoints say so and agree */
  root?: string;
}

/**
 * Puts usable endpoints `up` and leaves the others `down` or `unfit`, each with its cause. Throws `unavailable` where
 * none is usable, a usage error where the model is not clear.
 */
export async function startEndpoints(endpoints: readonly Endpoint[], start: Start): Promise<Found> {
  const findings = await firstUsable(endpoints, start);
  const [named] = start.models;
  const model =
    start.model ?? (start.needsDefault || named === undefined ? onlyModel(findings, start.key) : named);
  const models = [...new Set(start.needsDefault ? [model, ...start.models] : start.models)];
  for (const finding of findings) settle(finding, models, start.key);
  const up = endpoints.filter(endpoint => endpoint.state === 'up');
  const unserved = models.find(one => !up.some(endpoint => endpoint.models.has(one)));
  if (unserved !== undefined) throw notServed(unserved, findings, start.key);
  if (up.length < endpoints.length) {
    const out = endpoints.filter(endpoint => endpoint.state !== 'up');
    start.warn(`going on with ${up.length} of ${endpoints.length} endpoints, without ${causes(out)}`);
  }
  const lengths = findings.flatMap(({ models }) => models.filter(({ id }) => id === model));
  const known = lengths.flatMap(({ maxModelLength }) => maxModelLength ?? []);
  const [root, ...others] = new Set(
    lengths.flatMap(({ root }) => (root === undefined ? [] : [hide(root, start.key)])),
  );
  return {
    model,
    models,
    maxModelLength: known.length > 0 ? Math.min(...known) : undefined,
    ...(root !== undefined && others.length === 0 && { root: oneLine(root, 1_000) }),
  };
}

/** Takes a finding over: into work if it serves one of `wanted`, out of it for good if nothing but a person can help. */
export function settle(
  { endpoint, models, cause, settled }: Finding,
  wanted: readonly string[],
  key: Key | undefined,
): void {
  endpoint.models = new Set(wanted.filter(name => models.some(({ id }) => id === name)));
  const serves = endpoint.models.size > 0;
  endpoint.state = serves ? 'up' : settled ? 'unfit' : 'down';
  endpoint.cause = serves ? '' : (cause ?? `it serves ${listed(models, key)}, not ${wanted.join(', ')}`);
}

/** A fleet has too many to name: the first of them stand for the others. */
const NAMED = 8;
const LISTED = 20;

export function causes(endpoints: readonly Endpoint[]): string {
  return named(
    endpoints.map(endpoint => `${endpoint.url} (${endpoint.cause})`),
    ', ',
  );
}

function named(words: readonly string[], between: string, most = NAMED): string {
  const others = words.length > most ? [`and ${words.length - most} more`] : [];
  return [...words.slice(0, most), ...others].join(between);
}

async function firstUsable(endpoints: readonly Endpoint[], start: Start): Promise<Finding[]> {
  const { clock, wait, warn, signal } = start;
  const begun = clock.now();
  let news = begun + WAIT_NEWS;
  for (;;) {
    const findings = await Promise.all(endpoints.map(endpoint => probe(endpoint, start)));
    if (signal?.aborted) throw new CallFailure('interrupted', 'Stopped before any endpoint was usable.');
    if (findings.some(({ cause }) => cause === undefined)) return findings;
    const waited = clock.now() - begun;
    const hopeless = findings.every(({ settled }) => settled);
    if (hopeless || waited + WAIT_STEP > wait) throw noneUsable(findings, waited);
    if (clock.now() >= news) {
      news += WAIT_NEWS;
      warn(`waited ${seconds(waited)} of ${seconds(wait)} for an endpoint: ${reasons(findings)}`);
    }
    await pauseFor(WAIT_STEP, start);
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

function reasons(findings: readonly Finding[]): string {
  return named(
    findings.map(({ endpoint, cause }) => `${endpoint.url}: ${cause}`),
    '; ',
  );
}

function noneUsable(findings: readonly Finding[], waited: number): Fatal {
  const lines = findings.map(({ endpoint, cause }) => `${endpoint.url}: ${cause}`);
  const loading = findings.some(({ settled }) => !settled);
  const after = waited >= WAIT_STEP ? ` after ${seconds(waited)}` : '';
  const hint =
    loading && waited < WAIT_STEP
      ? '\nstart a server, or let fw wait for one that still loads: --wait 10m'
      : '';
  const more = `\nwhat to do about each: fw doctor${findings
    .map(({ endpoint }) => ` --endpoint ${endpoint.url}`)
    .slice(0, 3)
    .join('')}`;
  return unavailable(
    `expected an endpoint that answers, found none${after}:\n  ${named(lines, '\n  ', LISTED)}${hint}${more}`,
  );
}

/** The model that every usable endpoint serves, if it is exactly one. */
function onlyModel(findings: readonly Finding[], key: Key | undefined): string {
  const usable = findings.filter(({ cause }) => cause === undefined);
  const [first, ...others] = usable.map(({ models }) => new Set(models.map(({ id }) => id)));
  const shared = [...(first ?? [])].filter(id => others.every(models => models.has(id)));
  const [model] = shared;
  // It will be sent and shown: a name with the key or control characters in it is none.
  if (model !== undefined && shared.length === 1 && isName(model, key)) return model;
  throw usageError(
    `expected endpoints that serve one and the same model, found${servedBy(usable, key)}\nsay which one: --model NAME`,
  );
}

function isName(id: string, key: Key | undefined): boolean {
  return oneLine(id, 1_000) === id && !holdsKey(id, key);
}

function notServed(model: string, findings: readonly Finding[], key: Key | undefined): Fatal {
  const usable = findings.filter(({ cause }) => cause === undefined);
  return usageError(`expected an endpoint that serves the model ${model}, found${servedBy(usable, key)}`);
}

function servedBy(findings: readonly Finding[], key: Key | undefined): string {
  return findings.map(({ endpoint, models }) => `\n  ${endpoint.url}: ${listed(models, key)}`).join('');
}

function listed(models: readonly Served[], key: Key | undefined): string {
  const some = models.slice(0, 20).map(({ id }) => oneLine(hide(id, key), 200));
  if (models.length > some.length) some.push(`and ${models.length - some.length} more`);
  return some.length > 0 ? some.join(', ') : 'no model';
}
