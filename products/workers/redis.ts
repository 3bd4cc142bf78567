/**
 * One Redis, as the queue needs it: what its URL says, a first look that ends with words a person can act on, and a
 * connection that comes back by itself after an outage of any length. Whatever is asked while it is away fails at once;
 * whatever was on its way fails when the connection is lost. So nobody waits for an answer that cannot come.
 */
import { Redis, type RedisOptions } from 'ioredis';
import { oneLine, seconds } from '../../engine/asking/endpoints/endpoint-words.ts';
import { firstLook } from './first-look.ts';
import { hangUp, optionsOf, type Place, placeOf, reasonOf, words } from './place.ts';

export interface RedisSettings {
  url: string;
  /** of this process, as a person finds it in Redis: host and pid */
  name: string;
  say(message: string): void;
}

export interface Connection {
  client: Redis;
  isUp(): boolean;
  /** each time that it is there again, and soon where it is there now */
  onUp(act: () => void): void;
  /** now, or when it is there again, or when this is closed */
  up(): Promise<void>;
  /** what is thrown while it is away */
  away(): Error;
  /** `promise`, but not beyond the loss of the connection */
  within<T>(promise: Promise<T>): Promise<T>;
  /** an answer of Redis that is an error: said once, until it has been away */
  tell(error: Error): void;
  /** one more connection, for commands that wait */
  another(): Redis;
  close(): Promise<void>;
}

/** ms: an idle connection is asked so often whether it is there */
const BEAT = 2_000;
/** ms: an outage that is shorter is no news */
const NEWS = 2_000;
/** texts: errors that differ each time are no news either */
const MOST_TOLD = 20;

export async function connect({ url, name, say }: RedisSettings): Promise<Connection> {
  const place = placeOf(url);
  const look = await firstLook(place, say);
  const options: RedisOptions = {
    ...optionsOf(look.needsNoPassword ? { ...place, username: undefined, password: undefined } : place),
    enableReadyCheck: look.mayAskInfo,
    connectionName: oneLine(name, 100).replaceAll(' ', '-'),
    retryStrategy: times => Math.min(100 * times, 1_000) * (0.75 + Math.random() / 4),
  };
  const connection = kept(new Redis(options), place, say);
  // it was there a moment ago: where it is away again, it is waited for as in any outage
  await Promise.race([connection.up(), new Promise(resolve => setTimeout(resolve, NEWS).unref())]);
  return connection;
}

function kept(client: Redis, place: Place, say: (message: string) => void): Connection {
  const ups: (() => void)[] = [];
  const told = new Set<string>();
  let waiting: (() => void)[] = [];
  let reason = '';
  let away: { since: number; isTold: boolean; timer: NodeJS.Timeout } | null = null;
  let isClosed = false;
  const awayError = () => new Error(`Redis at ${place.name} is away`);
  const isUp = () => client.status === 'ready' && !isClosed;

  client.setMaxListeners(Number.POSITIVE_INFINITY); // each queue and each command under way listens
  client.on('error', error => {
    reason = reasonOf(error, place);
  });
  client.on('close', () => {
    if (away !== null || isClosed) return;
    const outage = { since: performance.now(), isTold: false, timer: setTimeout(tellOutage, NEWS) };
    outage.timer.unref();
    away = outage;
  });
  client.on('ready', () => {
    if (away !== null) {
      clearTimeout(away.timer);
      if (away.isTold) say(`Redis at ${place.name} is back after ${seconds(performance.now() - away.since)}`);
      away = null;
    }
    reason = '';
    told.clear();
    release();
    for (const act of ups) act();
  });
  function tellOutage(): void {
    if (away === null || isClosed) return;
    away.isTold = true;
    say(
      `Redis at ${place.name} is away${reason && `: ${reason}`}: what workers hold goes on, and they are given more when it is back`,
    );
  }
  function release(): void {
    const released = waiting;
    waiting = [];
    for (const go of released) go();
  }

  const beat = setInterval(() => isUp() && client.ping().catch(() => {}), BEAT).unref();
  return {
    client,
    isUp,
    onUp: act => {
      ups.push(act);
      if (isUp()) queueMicrotask(act);
    },
    up: () => (isUp() || isClosed ? Promise.resolve() : new Promise(resolve => waiting.push(resolve))),
    away: awayError,
    within: promise =>
      new Promise((resolve, reject) => {
        const lost = () => reject(awayError());
        client.once('close', lost);
        promise.then(resolve, reject).finally(() => client.off('close', lost));
      }),
    tell: error => {
      if (!isUp() || isLoss(error)) return;
      const text = words(error, place);
      if (told.has(text) || told.size >= MOST_TOLD) return;
      told.add(text);
      say(`Redis at ${place.name}: ${text}`);
    },
    another: () => {
      const other = client.duplicate();
      other.on('error', () => {}); // what ails it ails the first one too
      return other;
    },
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      clearInterval(beat);
      clearTimeout(away?.timer);
      release();
      await hangUp(client);
    },
  };
}

/** Errors of the connection, not of what was asked. */
function isLoss({ message, code }: NodeJS.ErrnoException): boolean {
  if (typeof code === 'string' && code.startsWith('E')) return true;
  return /^(Connection is closed|Stream isn't|Socket timeout|Reached the max retries|Command aborted)/.test(
    message,
  );
}
