/**
 * One Redis, as the queue needs it: what its URL says, a first look that ends with words a person can act on, and a
 * connection that comes back by itself after an outage of any length. Whatever is asked while it is away fails at once;
 * whatever was on its way fails when the connection is lost. So nobody waits for an answer that cannot come.
 *
 * The URL holds a password: nothing repeats the URL, nor an error with the password in it.
 */
import { Redis, type RedisOptions, ReplyError } from 'ioredis';
import { hide, type Key, oneLine, seconds } from '../../engine/asking/endpoints/endpoint-words.ts';
import { unavailable, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';

export interface RedisSettings {
  url: string;
  /** of this process, as a person finds it in Redis: host and pid */
  name: string;
  say: Say;
}

/** ms: an idle connection is asked so often whether it is there */
const BEAT = 2_000;
/** ms for a farewell */
const FAREWELL = 400;
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
  const connection = new Connection(new Redis(options), place, say);
  // it was there a moment ago: where it is away again, it is waited for as in any outage
  await Promise.race([connection.up(), new Promise(resolve => setTimeout(resolve, NEWS).unref())]);
  return connection;
}

export class Connection {
  readonly client: Redis;
  readonly #place: Place;
  readonly #say: Say;
  readonly #ups: (() => void)[] = [];
  readonly #told = new Set<string>();
  readonly #beat: NodeJS.Timeout;
  readonly #waiting: (() => void)[] = [];
  #reason = '';
  #away: { since: number; isTold: boolean; timer: NodeJS.Timeout } | null = null;
  #isClosed = false;

  constructor(client: Redis, place: Place, say: Say) {
    this.client = client;
    this.#place = place;
    this.#say = say;
    client.setMaxListeners(Number.POSITIVE_INFINITY); // each queue and each command under way listens
    client.on('error', error => {
      this.#reason = reasonOf(error, place);
    });
    client.on('close', () => this.#lost());
    client.on('ready', () => this.#back());
    this.#beat = setInterval(() => this.isUp() && client.ping().catch(() => {}), BEAT).unref();
  }

  isUp(): boolean {
    return this.client.status === 'ready' && !this.#isClosed;
  }

  /** each time that it is there again, and soon where it is there now */
  onUp(act: () => void): void {
    this.#ups.push(act);
    if (this.isUp()) queueMicrotask(act);
  }

  /** now, or when it is there again, or when this is closed */
  up(): Promise<void> {
    if (this.isUp() || this.#isClosed) return Promise.resolve();
    return new Promise(resolve => this.#waiting.push(resolve));
  }

  /** what is thrown while it is away */
  away(): Error {
    return new Error(`Redis at ${this.#place.name} is away`);
  }

  /** `promise`, but not beyond the loss of the connection */
  within<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const lost = () => reject(this.away());
      this.client.once('close', lost);
      promise.then(resolve, reject).finally(() => this.client.off('close', lost));
    });
  }

  /** an answer of Redis that is an error: said once, until it has been away */
  tell(error: Error): void {
    if (!this.isUp() || isLoss(error)) return;
    const text = words(error, this.#place);
    if (this.#told.has(text) || this.#told.size >= MOST_TOLD) return;
    this.#told.add(text);
    this.#say(`Redis at ${this.#place.name}: ${text}`, { event: 'redis', level: 'warn' });
  }

  /** one more connection, for commands that wait */
  another(): Redis {
    const other = this.client.duplicate();
    other.on('error', () => {}); // what ails it ails the first one too
    return other;
  }

  /** Hangs up once `farewell` has been said, or takes too long. */
  async close(farewell: Promise<unknown>): Promise<void> {
    if (this.#isClosed) return;
    await Promise.race([farewell, new Promise(resolve => setTimeout(resolve, FAREWELL).unref())]);
    this.#isClosed = true;
    clearInterval(this.#beat);
    clearTimeout(this.#away?.timer);
    this.#release();
    await hangUp(this.client);
  }

  #lost(): void {
    if (this.#away !== null || this.#isClosed) return;
    const timer = setTimeout(() => this.#tellOutage(), NEWS).unref();
    this.#away = { since: performance.now(), isTold: false, timer };
  }

  #tellOutage(): void {
    if (this.#away === null) return;
    this.#away.isTold = true;
    const why = this.#reason && `: ${this.#reason}`;
    this.#say(
      `Redis at ${this.#place.name} is away${why}: what workers hold goes on, and they are given more when it is back`,
      { event: 'redis-away', level: 'warn' },
    );
  }

  #back(): void {
    const away = this.#away;
    if (away !== null) {
      clearTimeout(away.timer);
      if (away.isTold)
        this.#say(`Redis at ${this.#place.name} is back after ${seconds(performance.now() - away.since)}`, {
          event: 'redis-back',
        });
      this.#away = null;
    }
    this.#reason = '';
    this.#told.clear();
    this.#release();
    for (const act of this.#ups) act();
  }

  #release(): void {
    for (const go of this.#waiting.splice(0)) go();
  }
}

/** Errors of the connection, not of what was asked. */
function isLoss({ message, code }: NodeJS.ErrnoException): boolean {
  if (typeof code === 'string' && code.startsWith('E')) return true;
  return /^(Connection is closed|Stream isn't|Socket timeout|Reached the max retries|Command aborted)/.test(
    message,
  );
}

/** ms without a byte of an answer after which a connection is dead: Redis stands still, or something between swallows all */
const SILENT = 5_000;

interface Place {
  host: string;
  port: number;
  username?: string;
  password?: Key;
  db: number;
  isTls: boolean;
  /** host:port */
  name: string;
}

const EXPECTED = 'expected a Redis URL, such as redis://:PASSWORD@HOST:6379/0 (rediss:// for TLS), found';

export function placeOf(text: string): Place {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) {
    throw usageError(
      `${EXPECTED} one that cannot be parsed: it must begin with redis:// or rediss://; write / ? # @ in a password as %2F %3F %23 %40`,
    );
  }
  const { protocol, hostname, pathname } = url;
  if (protocol !== 'redis:' && protocol !== 'rediss:')
    throw usageError(`${EXPECTED} ${oneLine(protocol, 20)}`);
  if (hostname === '') throw usageError(`${EXPECTED} no host`);
  const [, db] = /^\/?(\d{0,5})$/.exec(pathname) ?? [];
  if (db === undefined) throw usageError(`${EXPECTED} something other than a database number after the host`);
  if (url.search !== '' || url.hash !== '') throw usageError(`${EXPECTED} more after it: leave out ? and #`);
  const port = Number(url.port || 6379);
  const { username, password } = url;
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port,
    ...(password !== '' && { password: keyOf(decoded(password)) }),
    ...(password !== '' && username !== '' && { username: decoded(username) }),
    db: Number(db || 0),
    isTls: protocol === 'rediss:',
    name: `${hostname}:${port}`,
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw usageError(`${EXPECTED} a stray % in the user or password: write % as %25`);
  }
}

const keyOf = (secret: string): Key => ({ name: 'the password of the URL', read: () => secret });

/** What an error says, for a message. */
const words = (error: Error, { password }: Place): string => oneLine(hide(error.message, password), 300);

/** What ioredis says of bytes that no Redis sends. */
const isNoRedis = ({ message }: Error): boolean => /^(Unknown RESP type|Protocol error)/.test(message);

/** Why there is no connection, and what to do where that is plain. */
function reasonOf(error: NodeJS.ErrnoException, place: Place): string {
  const { code = '', message } = error;
  if (code === 'ECONNREFUSED') return 'nothing listens there';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `there is no such host (${code})`;
  if (code === 'ETIMEDOUT' || message.startsWith('Socket timeout')) {
    return place.isTls ? 'it does not answer: where it speaks no TLS, write redis://' : 'it does not answer';
  }
  if (code.startsWith('ERR_SSL') || code === 'EPROTO')
    return 'it speaks no TLS: write redis:// for rediss://';
  if (/CERT|SIGNATURE|ISSUER/.test(code)) {
    return `its certificate is not trusted (${code}): name a file with its authority in NODE_EXTRA_CA_CERTS`;
  }
  if (isNoRedis(error)) return 'what answers there is no Redis';
  if (message === 'Connection is closed.' || code === 'ECONNRESET') {
    return place.isTls ? 'it hangs up' : 'it hangs up: where it wants TLS, write rediss://';
  }
  return words(error, place).replace(/\.$/, '');
}

/** RESP2, since BullMQ is tested with it. Nothing is kept for later, nothing sent twice: who asked decides what follows. */
function optionsOf({ host, port, username, password, db, isTls }: Place): RedisOptions {
  return {
    host,
    port,
    username,
    password: password?.read(),
    db,
    ...(isTls && { tls: {} }),
    protocol: 2,
    connectTimeout: SILENT,
    socketTimeout: SILENT,
    disconnectTimeout: 200,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
  };
}

/** Hangs up. One that waits to try again has nothing to hang up, and says nothing of its end. */
async function hangUp(client: Redis): Promise<void> {
  if (client.status === 'end') return;
  const isIdle = client.status === 'reconnecting' || client.status === 'wait';
  const end = new Promise(resolve => client.once('end', resolve));
  client.disconnect();
  if (!isIdle) await end;
}

/** Whether it is there, lets us in, and will do for a queue. What is wrong ends the process in plain words. */
async function firstLook(place: Place, say: Say) {
  // the password goes by hand, since ioredis would write to the console where none is needed
  const plain = { ...place, username: undefined, password: undefined, db: 0 };
  const client = new Redis({
    ...optionsOf(plain),
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: null,
  });
  let lost: Error | null = null;
  client.on('error', error => {
    lost ??= error;
  });
  const ask = async (...[command, ...args]: [string, ...(string | number)[]]): Promise<string | Error> => {
    try {
      return String(await client.call(command, ...args));
    } catch (error) {
      if (error instanceof ReplyError) return error as Error;
      throw missing(lost ?? (error as Error), place);
    }
  };
  try {
    await client.connect().catch(error => {
      throw missing(lost ?? error, place);
    });
    const needsNoPassword = await login(ask, place, say);
    const selected = await ask('SELECT', place.db);
    if (selected instanceof Error) throw refused(`database ${place.db}`, selected, place);
    const info = await ask('INFO');
    if (info instanceof Error && !/^NOPERM/.test(info.message)) throw refused('INFO', info, place);
    if (typeof info === 'string') judge(info, place, say);
    const script = await ask('EVAL', 'return 1', 0);
    if (script instanceof Error) throw refused('scripts, which a queue is made of', script, place);
    // some users may not ask: a connection is then taken for ready without asking whether Redis has read its data
    return { needsNoPassword, mayAskInfo: typeof info === 'string' };
  } finally {
    await hangUp(client);
  }
}

/** Whether a password was given that nobody asked for. */
async function login(
  ask: (...command: [string, ...string[]]) => Promise<string | Error>,
  place: Place,
  say: Say,
): Promise<boolean> {
  const { username } = place;
  const password = place.password?.read();
  if (password !== undefined) {
    const answer = await ask('AUTH', ...(username === undefined ? [password] : [username, password]));
    if (!(answer instanceof Error)) return false;
    if (/no password is set|without any password/.test(answer.message)) {
      say(`Redis at ${place.name} needs no password: the one in the URL is ignored`, { event: 'redis' });
      return true;
    }
    throw usageError(
      `Redis at ${place.name}: expected the right user and password in the URL, found: ${words(answer, place)}`,
    );
  }
  const answer = await ask('PING');
  if (answer instanceof Error && /^NOAUTH/.test(answer.message)) {
    throw usageError(
      `Redis at ${place.name} wants a password, found none in the URL: redis${place.isTls ? 's' : ''}://:PASSWORD@${place.name}`,
    );
  }
  return false;
}

function judge(info: string, place: Place, say: Say): void {
  const fact = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const where = `Redis at ${place.name}`;
  if (fact('loading') === '1') {
    throw unavailable(`${where} is still loading its data: start again when it is done`);
  }
  const version = fact('redis_version');
  if (Number.parseInt(version, 10) < 5)
    throw usageError(`${where}: expected Redis 5 or newer, found ${version}`);
  if (fact('cluster_enabled') === '1') {
    throw usageError(
      `${where} is part of a cluster: expected a single Redis, since a queue cannot be spread`,
    );
  }
  if (/^(slave|replica)$/.test(fact('role'))) {
    throw usageError(`${where} is a replica, which takes no writes: expected its primary`);
  }
  const policy = fact('maxmemory_policy');
  if (policy !== '' && policy !== 'noeviction') {
    say(
      `${where} evicts keys when its memory is full (maxmemory-policy ${policy}), and would lose queued work: set it to noeviction`,
      { event: 'redis', level: 'warn' },
    );
  }
}

const missing = (error: Error, place: Place): Error =>
  unavailable(
    `expected a Redis at ${place.name}, found none: ${reasonOf(error, place)}\nstart it, or correct the URL`,
  );

const refused = (what: string, error: Error, place: Place): Error =>
  usageError(`Redis at ${place.name} refuses ${what}: ${words(error, place)}`);
