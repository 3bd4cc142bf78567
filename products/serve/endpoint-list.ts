/**
 * The endpoints of a server: those that are named in its flags and files, and those that were found. An admin may drain one:
 * `drained.json` of DIR keeps that over reloads and restarts, for as long as the endpoint is named or found. `endpoints.json`
 * has what was learned of them, which is where the next start begins.
 */
import { join } from 'node:path';
import type { Price } from '../../engine/asking/endpoints/price.ts';
import type { EndpointSetting } from '../../engine/asking/endpoints/settings.ts';
import type { Change, EndpointPool, KeptEndpoint, Memory } from '../../engine/asking/pool/part.ts';
import { replaceFile } from '../../engine/core/files/durable.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { MOST } from './discovery/entries.ts';
import type { GatewaySettings } from './serve-config.ts';
import { keepFile, recalledBy } from './small-files.ts';

type Live = Pick<GatewaySettings, 'reserve' | 'ttft'>;

interface Drain {
  /** who did it, and when: Unix seconds */
  by: string;
  at: number;
}

export interface EndpointListOptions {
  data: string;
  pool: Pick<EndpointPool, 'setEndpoints' | 'setLive' | 'drain' | 'resume' | 'stats'>;
  named: readonly EndpointSetting[];
  /** ms since 1970 */
  now(): number;
  say: Say;
}

const wordsOf = (by: string): string => `drained by ${by}`;

export class EndpointList {
  readonly #options: EndpointListOptions;
  readonly #path: string;
  #drained: Map<string, Drain>;
  #named: readonly EndpointSetting[];
  readonly #found = new Map<string, readonly EndpointSetting[]>();
  #prices: ReadonlyMap<string, Price>;
  #isOver = false;

  constructor(options: EndpointListOptions) {
    const { data, pool, named, say } = options;
    this.#options = options;
    this.#named = named;
    this.#prices = pricesOf(named);
    this.#path = join(data, 'drained.json');
    this.#drained = drainedIn(this.#path, say);
    for (const [url, { by }] of this.#drained) {
      if (!pool.drain(url, wordsOf(by))) continue;
      say(`endpoint ${url} stays drained (by ${by}): it is asked nothing until it is resumed`, {
        ...{ event: 'endpoint-drained', endpoint: url },
      });
    }
  }

  /** Those of the flags and files are these now; `live`: what live calls have of each. */
  setNamed(settings: readonly EndpointSetting[], { reserve, ttft }: Live): Change[] {
    this.#options.pool.setLive(reserve, ttft);
    this.#named = settings;
    return this.#apply();
  }

  /** Those of a place where they are looked for. */
  setFound(source: string, settings: readonly EndpointSetting[]): void {
    if (settings.length === 0) this.#found.delete(source);
    else this.#found.set(source, settings);
    const words = this.#apply().map(changeInWords);
    if (words.length > 0)
      this.#options.say(`${source}: ${words.join('; ')}`, { event: 'endpoints', from: source });
  }

  /** What the pool file says that it costs; null where it does not. */
  priceOf(url: string): Price | null {
    return this.#prices.get(url) ?? null;
  }

  /** Those that are paid by the hour, and what that costs. */
  hourPrices(): [url: string, price: number][] {
    return [...this.#prices].flatMap(([url, { hour }]) => (hour === null ? [] : [[url, Number(hour) / 1e9]]));
  }

  whoDrained(url: string): Drain | null {
    return this.#drained.get(url) ?? null;
  }

  /** False where there is no such endpoint. Throws where it cannot be kept. */
  drain(url: string, by: string): boolean {
    const { pool, now } = this.#options;
    if (!this.#isThere(url)) return false;
    this.#keep(new Map(this.#drained).set(url, { by, at: Math.floor(now() / 1000) }));
    return pool.drain(url, wordsOf(by));
  }

  /** False where there is no such endpoint, or it is not drained. */
  resume(url: string): boolean {
    const rest = new Map(this.#drained);
    if (!rest.delete(url)) return false;
    this.#keep(rest);
    return this.#options.pool.resume(url);
  }

  #isThere(url: string): boolean {
    return this.#options.pool.stats().endpoints.some(one => one.url === url && one.leaving !== true);
  }

  #apply(): Change[] {
    const { pool, say } = this.#options;
    const all = new Map<string, EndpointSetting>();
    // what is named goes before what is found
    for (const settings of [this.#named, ...this.#found.values()])
      for (const one of settings) if (!all.has(one.url)) all.set(one.url, one);
    const isOver = all.size > MOST;
    if (isOver && !this.#isOver)
      say(
        `${all.size} endpoints are named and found, and a server asks at most ${MOST}: the others are left out`,
      );
    this.#isOver = isOver;
    this.#prices = pricesOf([...all.values()]);
    const changes = pool.setEndpoints([...all.values()].slice(0, MOST));
    let isForgotten = false;
    for (const { url, what } of changes) {
      const drained = this.#drained.get(url);
      if (what === 'added' && drained !== undefined) pool.drain(url, wordsOf(drained.by));
      // another server may have its address later
      if (what === 'removed') isForgotten = this.#drained.delete(url) || isForgotten;
    }
    if (isForgotten)
      try {
        this.#keep(this.#drained);
      } catch (error) {
        say(`${this.#path}: expected to be written, found ${(error as Error).message}`);
      }
    return changes;
  }

  /** What cannot be written is not so. */
  #keep(drained: Map<string, Drain>): void {
    replaceFile(this.#path, `${JSON.stringify(Object.fromEntries(drained), null, 1)}\n`);
    this.#drained = drained;
  }
}

const pricesOf = (settings: readonly EndpointSetting[]): Map<string, Price> =>
  new Map(settings.flatMap(({ url, price }) => (price === undefined ? [] : [[url, price] as const])));

/** As the log says it. */
export function changeInWords(change: Change): string {
  const { url } = change;
  if (change.what === 'limit')
    return `endpoint ${url}: ${change.limit === null ? 'its limit is learned' : `limit ${change.limit}`} now`;
  return change.what === 'key'
    ? `endpoint ${url} is asked with another key`
    : `endpoint ${url} ${change.what}`;
}

/** A file that is none costs what it said. */
function drainedIn(path: string, say: Say): Map<string, Drain> {
  const all = recalledBy(
    path,
    value => {
      if (isObject(value)) return Object.entries(value);
      throw new Error('found something else than an object');
    },
    why => say(`${path}: expected the endpoints that were drained, found none (${why}); all are asked`),
  );
  const drained = new Map<string, Drain>();
  for (const [url, one] of all ?? [])
    if (isObject(one) && typeof one.by === 'string' && Number.isInteger(one.at))
      drained.set(url, { by: one.by, at: one.at as number });
  return drained;
}

/** ms between two looks at whether there is something new to keep */
const KEEP = 10_000;

const MOST_CALLS = 65_535;

/** Begins with what is kept, and keeps what changes until `stop`. A file that cannot be read or written costs nothing but that. */
export function keepEndpoints(data: string, pool: Memory, say: Say): { stop(): void } {
  const path = join(data, 'endpoints.json');
  const kept = recalledBy(path, learnedIn, why =>
    say(`${path} is ignored, and limits are learned anew: ${why}`, { event: 'file-ignored', level: 'warn' }),
  );
  if (kept !== null) pool.recall(kept);

  return keepFile(
    path,
    () => JSON.stringify(pool.kept()),
    KEEP,
    why => say(`what was learned about endpoints cannot be saved: ${why}`, { event: 'disk', level: 'warn' }),
  );
}

function learnedIn(value: unknown): KeptEndpoint[] {
  if (!Array.isArray(value)) throw new Error('expected a list of endpoints');
  return value.filter(isObject).flatMap(({ url, limit, models }) => {
    if (typeof url !== 'string') return [];
    const isLimit = Number.isInteger(limit) && (limit as number) > 0 && (limit as number) <= MOST_CALLS;
    const names = Array.isArray(models) ? models.filter(name => typeof name === 'string') : [];
    return [{ url, limit: isLimit ? (limit as number) : null, models: names }];
  });
}
