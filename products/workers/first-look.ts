/** The first look at a Redis: whether it is there, lets us in, and will do for a queue. What is wrong ends the process in plain words. */
import { Redis, ReplyError } from 'ioredis';
import { unavailable, usageError } from '../../engine/core/item/failure.ts';
import { hangUp, optionsOf, type Place, reasonOf, words } from './place.ts';

export interface Look {
  needsNoPassword: boolean;
  /** some users may not: a connection is then taken for ready without asking whether Redis has read its data */
  mayAskInfo: boolean;
}

export async function firstLook(place: Place, say: (message: string) => void): Promise<Look> {
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
    return { needsNoPassword, mayAskInfo: typeof info === 'string' };
  } finally {
    await hangUp(client);
  }
}

/** Whether a password was given that nobody asked for. */
async function login(
  ask: (...command: [string, ...string[]]) => Promise<string | Error>,
  place: Place,
  say: (message: string) => void,
): Promise<boolean> {
  const { username } = place;
  const password = place.password?.read();
  if (password !== undefined) {
    const answer = await ask('AUTH', ...(username === undefined ? [password] : [username, password]));
    if (!(answer instanceof Error)) return false;
    if (/no password is set|without any password/.test(answer.message)) {
      say(`Redis at ${place.name} needs no password: the one in the URL is ignored`);
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

function judge(info: string, place: Place, say: (message: string) => void): void {
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
    );
  }
}

const missing = (error: Error, place: Place): Error =>
  unavailable(
    `expected a Redis at ${place.name}, found none: ${reasonOf(error, place)}\nstart it, or correct the URL`,
  );

const refused = (what: string, error: Error, place: Place): Error =>
  usageError(`Redis at ${place.name} refuses ${what}: ${words(error, place)}`);
