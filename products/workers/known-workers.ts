/** The workers that a coordinator has heard of, and what may be said of them: who is alive, how fast they are, who shares an endpoint. */
import { readKept, replaceFile } from '../../engine/core/files/durable.ts';
import { type Hello, TooMany, type WorkerEndpoint } from './protocol.ts';

export interface KnownWorker extends Hello {
  /** `place` is the same for all workers that share one */
  endpoints: (WorkerEndpoint & { place: string })[];
  /** ms since 1970: heard last, and first */
  seen: number;
  since: number;
  /** lines taken from it */
  took: number;
}

/** Workers that are remembered after they have gone, so that a page can show them; and that are there at a time. */
const MOST_GONE = 100;
const MOST_ALIVE = 2_000;
/** Models that workers had: they are remembered when the workers have gone, and may come again. */
export interface HadModels {
  has(model: string): boolean;
  note(models: readonly string[]): void;
}

/** models that are remembered */
const MOST_HAD = 1_000;

function inMemory(): HadModels {
  const had = new Set<string>();
  return {
    has: model => had.has(model),
    note(models) {
      for (const model of models) if (had.size < MOST_HAD) had.add(model);
    },
  };
}

/** The same on disk, for a coordinator that is started anew. What is damaged, or is not taken by the disk, is no more than forgotten. */
export function hadModelsIn(path: string): HadModels {
  const had = inMemory();
  const kept: string[] = [];
  try {
    const before: unknown = JSON.parse(readKept(path).toString());
    if (Array.isArray(before)) kept.push(...before.filter(model => typeof model === 'string'));
  } catch {
    // none is there yet
  }
  had.note(kept);
  return {
    has: had.has,
    note(models) {
      const news = models.filter(model => !had.has(model));
      had.note(news);
      const added = news.filter(had.has);
      if (added.length === 0) return;
      kept.push(...added);
      try {
        replaceFile(path, `${JSON.stringify(kept)}\n`);
      } catch {
        // a full disk: they are known for as long as this process lives
      }
    },
  };
}

/** characters of what all of them say of themselves: each may say a MiB, and 2,000 of these would fill the memory */
const MOST_SAID = 64 * 1024 * 1024;

export class Workers {
  readonly #lease: number;
  readonly #known = new Map<string, KnownWorker>();
  /** characters of the last hello of each */
  readonly #said = new Map<string, number>();
  #allSaid = 0;
  #lastRate: number | null = null;
  readonly #had: HadModels;

  constructor(lease: number, had: HadModels = inMemory()) {
    this.#lease = lease;
    this.#had = had;
  }

  heard(hello: Hello, now: number): void {
    const before = this.of(hello.worker);
    if (before === undefined && this.alive(now).length >= MOST_ALIVE)
      throw new TooMany(`Expected at most ${MOST_ALIVE} workers, found one more.`);
    const characters = JSON.stringify(hello).length;
    if (this.#allSaid - (this.#said.get(hello.worker) ?? 0) + characters > MOST_SAID)
      throw new TooMany(`Expected workers that say at most ${MOST_SAID} characters together, found more.`);
    this.#note(hello.worker, characters);
    const { since = now, took = 0 } = before ?? {};
    // looked at once, and not at each hello of the others
    const endpoints = hello.endpoints.map(one => ({ ...one, place: placeOf(one.url, hello.host) }));
    this.#had.note(hello.models);
    this.#known.set(hello.worker, { ...hello, endpoints, seen: now, since, took });
    if (hello.isStopping && hello.held.length === 0) this.#forget(hello.worker);
    const gone = this.all().filter(one => !this.#isAlive(one, now));
    for (const { worker } of gone.slice(0, Math.max(0, gone.length - MOST_GONE))) this.#forget(worker);
  }

  all(): KnownWorker[] {
    return [...this.#known.values()];
  }

  of(worker: string): KnownWorker | undefined {
    return this.#known.get(worker);
  }

  alive(now: number): KnownWorker[] {
    return this.all().filter(one => this.#isAlive(one, now));
  }

  /** The coordinator itself was away for `ms`: nobody could be heard. */
  missed(ms: number): void {
    for (const one of this.#known.values()) one.seen += ms;
  }

  /** The clock was set back to `now`. */
  setBack(now: number): void {
    for (const one of this.#known.values()) one.seen = Math.min(one.seen, now);
  }

  /** those that take work of these models; a work without models is for all */
  serving(models: readonly string[], now: number): KnownWorker[] {
    return this.alive(now).filter(one => mayTake(one, models));
  }

  /** Whether workers are there that know what they have, and none of them has all of these. */
  lack(models: readonly string[], now: number): boolean {
    const here = this.alive(now).filter(one => one.models.length > 0 && !one.isStopping);
    return models.length > 0 && here.length > 0 && !here.some(one => mayTake(one, models));
  }

  /** Whether there was ever a worker for each of these. */
  haveHad(models: readonly string[]): boolean {
    return models.every(model => this.#had.has(model));
  }

  /** lines a second of one worker, on average; as it was last where none is there, null before the first */
  rate(now: number): number | null {
    const rates = this.alive(now).flatMap(({ rate }) => (rate > 0 ? rate : []));
    if (rates.length > 0) this.#lastRate = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
    return this.#lastRate;
  }

  /** By URL: how many share each endpoint of `hello`. This machine's address means another machine at each host. */
  sharing({ host, endpoints }: Hello, now: number): Record<string, number> {
    const own = endpoints.map(({ url }) => ({ url, place: placeOf(url, host) }));
    const counts = new Map(own.map(({ place }) => [place, 0]));
    for (const one of this.alive(now))
      for (const { place } of one.endpoints) {
        const count = counts.get(place);
        if (count !== undefined) counts.set(place, count + 1);
      }
    return Object.fromEntries(own.map(({ url, place }) => [url, counts.get(place) || 1]));
  }

  #isAlive({ seen }: KnownWorker, now: number): boolean {
    return now - seen < this.#lease;
  }

  #note(worker: string, characters: number): void {
    this.#allSaid += characters - (this.#said.get(worker) ?? 0);
    if (characters === 0) this.#said.delete(worker);
    else this.#said.set(worker, characters);
  }

  #forget(worker: string): void {
    this.#known.delete(worker);
    this.#note(worker, 0);
  }
}

export const servesAll = ({ models }: Pick<Hello, 'models'>, wanted: readonly string[]): boolean =>
  wanted.every(model => models.includes(model));

/** A work without models is for all. */
export const mayTake = (one: Pick<Hello, 'models' | 'isStopping'>, models: readonly string[]): boolean =>
  !one.isStopping && servesAll(one, models);

function placeOf(url: string, host: string): string {
  return /^https?:\/\/(localhost|127\.|\[::1\])/i.test(url) ? `${host} ${url}` : url;
}
