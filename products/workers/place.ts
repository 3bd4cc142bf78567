/** Where a Redis is, and how it is reached. Its URL holds a password: nothing repeats the URL, nor an error with the password in it. */
import type { Redis, RedisOptions } from 'ioredis';
import { hide, type Key, oneLine } from '../../engine/asking/endpoints/endpoint-words.ts';
import { usageError } from '../../engine/core/item/failure.ts';

/** ms without a byte of an answer after which a connection is dead: Redis stands still, or something between swallows all */
const SILENT = 5_000;

export interface Place {
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
export const words = (error: Error, { password }: Place): string =>
  oneLine(hide(error.message, password), 300);

/** What ioredis says of bytes that no Redis sends. */
const isNoRedis = ({ message }: Error): boolean => /^(Unknown RESP type|Protocol error)/.test(message);

/** Why there is no connection, and what to do where that is plain. */
export function reasonOf(error: NodeJS.ErrnoException, place: Place): string {
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
export function optionsOf({ host, port, username, password, db, isTls }: Place): RedisOptions {
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
export async function hangUp(client: Redis): Promise<void> {
  if (client.status === 'end') return;
  const isIdle = client.status === 'reconnecting' || client.status === 'wait';
  const end = new Promise(resolve => client.once('end', resolve));
  client.disconnect();
  if (!isIdle) await end;
}
