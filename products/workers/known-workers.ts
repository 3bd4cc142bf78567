/** The workers that a coordinator has heard of, and what may be said of them: who is alive, how fast they are, who shares an endpoint. */
import type { Hello, WorkerEndpoint } from './protocol.ts';

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
/** characters of what all of them say of themselves: each may say a MiB, and 2,000 of these would fill the memory */
const MOST_SAID = 64 * 1024 * 1024;

/** One more worker than a coordinator has room for (429): each name that a key says hello under takes some. */
export class TooMany extends Error {}

export function createWorkers(lease: number) {
  const known = new Map<string, KnownWorker>();
  const said = new Map<string, number>();
  let allSaid = 0;
  let lastRate: number | null = null;

  function note(worker: string, characters: number): void {
    allSaid += characters - (said.get(worker) ?? 0);
    if (characters === 0) said.delete(worker);
    else said.set(worker, characters);
  }
  function forget(worker: string): void {
    known.delete(worker);
    note(worker, 0);
  }
  const isAlive = ({ seen }: KnownWorker, now: number): boolean => now - seen < lease;
  const alive = (now: number): KnownWorker[] => [...known.values()].filter(one => isAlive(one, now));
  return {
    alive,
    heard(hello: Hello, now: number): void {
      const before = known.get(hello.worker);
      if (before === undefined && alive(now).length >= MOST_ALIVE)
        throw new TooMany(`Expected at most ${MOST_ALIVE} workers, found one more.`);
      const characters = JSON.stringify(hello).length;
      if (allSaid - (said.get(hello.worker) ?? 0) + characters > MOST_SAID)
        throw new TooMany(`Expected workers that say at most ${MOST_SAID} characters together, found more.`);
      note(hello.worker, characters);
      const { since = now, took = 0 } = before ?? {};
      // looked at once, and not at each hello of the others
      const endpoints = hello.endpoints.map(one => ({ ...one, place: placeOf(one.url, hello.host) }));
      known.set(hello.worker, { ...hello, endpoints, seen: now, since, took });
      if (hello.isStopping && hello.held.length === 0) forget(hello.worker);
      const gone = [...known.values()].filter(one => !isAlive(one, now));
      for (const { worker } of gone.slice(0, Math.max(0, gone.length - MOST_GONE))) forget(worker);
    },
    all: (): KnownWorker[] => [...known.values()],
    of: (worker: string): KnownWorker | undefined => known.get(worker),
    /** The coordinator itself was away for `ms`: nobody could be heard. */
    missed(ms: number): void {
      for (const one of known.values()) one.seen += ms;
    },
    /** The clock was set back to `now`. */
    setBack(now: number): void {
      for (const one of known.values()) one.seen = Math.min(one.seen, now);
    },
    /** those that take work of these models; a work without models is for all */
    serving(models: readonly string[], now: number): KnownWorker[] {
      return alive(now).filter(one => mayTake(one, models));
    },
    /** lines a second of one worker, on average; as it was last where none is there, null before the first */
    rate(now: number): number | null {
      const rates = alive(now).flatMap(({ rate }) => (rate > 0 ? rate : []));
      if (rates.length > 0) lastRate = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
      return lastRate;
    },
    /** By URL: how many share each endpoint of `hello`. This machine's address means another machine at each host. */
    sharing({ host, endpoints }: Hello, now: number): Record<string, number> {
      const own = endpoints.map(({ url }) => ({ url, place: placeOf(url, host) }));
      const counts = new Map(own.map(({ place }) => [place, 0]));
      for (const one of alive(now))
        for (const { place } of one.endpoints) {
          const count = counts.get(place);
          if (count !== undefined) counts.set(place, count + 1);
        }
      return Object.fromEntries(own.map(({ url, place }) => [url, counts.get(place) || 1]));
    },
  };
}

export const servesAll = ({ models }: Pick<Hello, 'models'>, wanted: readonly string[]): boolean =>
  wanted.every(model => models.includes(model));

/** A work without models is for all. */
export const mayTake = (one: Pick<Hello, 'models' | 'isStopping'>, models: readonly string[]): boolean =>
  !one.isStopping && servesAll(one, models);

function placeOf(url: string, host: string): string {
  return /^https?:\/\/(localhost|127\.|\[::1\])/i.test(url) ? `${host} ${url}` : url;
}
