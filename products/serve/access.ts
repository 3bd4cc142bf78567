/**
 * Who asks, and what they may: a key in the Authorization header, its scopes, its rate. Without a key file everybody who
 * reaches the server on this machine is `local`; the headers Host and Origin are then checked, so that no page of another
 * site can ask in a browser: neither under a name of its own (DNS rebinding), nor by a form.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { type KeyRecord, type KeyRing, SCOPES, type Scope } from './api-keys.ts';
import { ApiError, comeAgain } from './errors.ts';

export interface Caller {
  /** whose files and batches these are: the name of the key */
  owner: string;
  /** of the key; null without keys */
  key: string | null;
  scopes: ReadonlySet<Scope>;
  tokensPerDay: number | undefined;
}

const LOCAL: Caller = { owner: 'local', key: null, scopes: new Set(SCOPES), tokensPerDay: undefined };
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** a key has 46 characters */
const LONGEST_KEY = 200;

export function createAccess(keys: KeyRing, now: () => number) {
  const requests = new Map<string, { left: number; at: number }>();
  const tokens = new Map<string, { day: number; used: number }>();

  /** A bucket that holds a minute's requests and fills evenly. A clock that is set back takes nothing from it. */
  function refuseTooMany(id: string, rpm: number): void {
    const at = now();
    const bucket = requests.get(id) ?? { left: rpm, at };
    bucket.left = Math.min(rpm, bucket.left + (Math.max(0, at - bucket.at) / MINUTE) * rpm);
    bucket.at = at;
    requests.set(id, bucket);
    if (bucket.left < 1) {
      const wait = Math.ceil(((1 - bucket.left) / rpm) * 60);
      throw tooMany(`Rate limit reached: this key may ask ${rpm} times a minute.`, 'requests', wait);
    }
    bucket.left -= 1;
  }

  /** Throws 429 where the tokens of the day are spent: for what is going to use some. */
  function refuseSpent({ key, tokensPerDay: perDay }: Caller): void {
    if (key === null || perDay === undefined) return;
    const spent = tokens.get(key);
    const today = Math.floor(now() / DAY);
    if (spent === undefined || spent.day !== today || spent.used < perDay) return;
    const wait = Math.ceil(((today + 1) * DAY - now()) / 1000);
    throw tooMany(`Rate limit reached: this key may use ${perDay} tokens a day (UTC).`, 'tokens', wait);
  }

  return {
    refuseSpent,
    /** Throws 401, 403 or 429. */
    check(
      { authorization, host, origin }: Pick<IncomingHttpHeaders, 'authorization' | 'host' | 'origin'>,
      scope: Scope | null,
    ): Caller {
      if (!keys.isThere) {
        refuseForeignHost(host);
        if (origin !== undefined) refuseForeignOrigin(origin);
        return LOCAL;
      }
      const found = keys.find(keyIn(authorization));
      if (found === null) throw new ApiError(401, 'Incorrect API key provided.', { code: 'invalid_api_key' });
      const { id, scopes, rpm } = found;
      if (scope !== null && !scopes.includes(scope) && !(scope === 'metrics' && scopes.includes('admin')))
        throw new ApiError(
          403,
          `You have insufficient permissions for this operation. Missing scopes: ${scope}.`,
          { code: 'insufficient_permissions' },
        );
      if (rpm !== undefined) refuseTooMany(id, rpm);
      return callerOf(found);
    },
    /**
     * Who a browser is that has shown a key before, by the id of the key: null where that is none, or no longer one. Without
     * keys everybody is `local`. Throws 403 for a foreign Host without keys.
     */
    known(id: string | null, host: string | undefined): Caller | null {
      if (!keys.isThere) {
        refuseForeignHost(host);
        return LOCAL;
      }
      const found = id === null ? null : keys.withId(id);
      return found && callerOf(found);
    },
    /** Tokens that a key has used today (UTC); null is whoever asks without keys. */
    usedToday(key: string | null): number {
      const spent = tokens.get(key ?? '');
      return spent?.day === Math.floor(now() / DAY) ? spent.used : 0;
    },
    /** Tokens that a key has used, whoever asked; counted against its day. */
    charge(key: string | null, used: number): void {
      const day = Math.floor(now() / DAY);
      const spent = tokens.get(key ?? '');
      if (spent === undefined || spent.day !== day) tokens.set(key ?? '', { day, used });
      else spent.used += used;
    },
  };
}

export type Access = ReturnType<typeof createAccess>;

const callerOf = ({ name, id, scopes, tokens_per_day }: KeyRecord): Caller => ({
  ...{ owner: name, key: id, scopes: new Set(scopes), tokensPerDay: tokens_per_day },
});

function keyIn(authorization: string | undefined): string {
  const [, key] = /^Bearer +(\S+)\s*$/i.exec((authorization ?? '').slice(0, LONGEST_KEY + 10)) ?? [];
  if (key !== undefined) return key;
  throw new ApiError(
    401,
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
  );
}

const tooMany = (message: string, type: string, seconds: number): ApiError =>
  comeAgain(429, message, 'rate_limit_exceeded', Math.max(1, seconds), { type });

/** Whether only this machine reaches an address. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'));
}

function refuseForeignHost(host: string | undefined): void {
  const name = (host ?? '').slice(0, 300).replace(/:\d{1,5}$/, '');
  if (isLoopback(name)) return;
  throw new ApiError(
    403,
    'This server has no keys, so it answers under names of this machine alone: ask it as 127.0.0.1 or localhost.',
  );
}

function refuseForeignOrigin(origin: string): void {
  if (URL.canParse(origin) && isLoopback(new URL(origin).hostname)) return;
  throw new ApiError(403, 'This server has no keys, so it answers no page of another site.');
}
