/**
 * Who asks, and what they may: a key in the header Authorization or x-api-key, its scopes, its rate. Without a key file everybody who
 * reaches the server on this machine is `local`; the headers Host and Origin are then checked, so that no page of another
 * site can ask in a browser: neither under a name of its own (DNS rebinding), nor by a form.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { hashOf, type KeyRecord, type KeyRing, type KeyRules, SCOPES, type Scope } from './api-keys.ts';
import { Budgets } from './budgets.ts';
import { ApiError } from './errors.ts';
import type { Noted } from './log/request-line.ts';

export type { KeyRules };

export interface Caller {
  /** whose files and batches these are: the name of the key */
  owner: string;
  /** of the key; null without keys */
  key: string | null;
  scopes: ReadonlySet<Scope>;
  /** what the key is limited to */
  rules: KeyRules;
}

const NONE: KeyRules = {};
const LOCAL: Caller = { owner: 'local', key: null, scopes: new Set(SCOPES), rules: NONE };
/** characters of a hash by which a key that was refused can be told from others, and not be found */
const HASH_SHOWN = 8;
/** a key has 46 characters */
const LONGEST_KEY = 200;

export function createAccess(keys: KeyRing, now: () => number, budgets = new Budgets(now)) {
  const isOver = ({ expires = Number.POSITIVE_INFINITY }: KeyRecord): boolean => expires * 1000 <= now();

  return {
    budgets,
    /** Throws 401, 403 or 429, and notes for the log whom it concerns. */
    check(
      headers: Pick<IncomingHttpHeaders, 'authorization' | 'host' | 'origin'> & {
        'x-api-key'?: string | string[] | undefined;
      },
      scope: Scope | null,
      noted: Pick<Noted, 'key' | 'key_hash' | 'owner'> = {},
    ): Caller {
      const { authorization, host, origin } = headers;
      if (!keys.isThere) {
        refuseForeignHost(host);
        if (origin !== undefined) refuseForeignOrigin(origin);
        return LOCAL;
      }
      const shown = keyIn(authorization, headers['x-api-key']);
      const found = keys.find(shown);
      if (found === null) noted.key_hash = hashOf(shown).slice(0, HASH_SHOWN);
      else Object.assign(noted, { key: found.id, owner: found.name });
      if (found === null || isOver(found))
        throw new ApiError(401, 'Incorrect API key provided.', { code: 'invalid_api_key' });
      const { id, scopes } = found;
      if (scope !== null && !scopes.includes(scope) && !(scope === 'metrics' && scopes.includes('admin')))
        throw new ApiError(
          403,
          `You have insufficient permissions for this operation. Missing scopes: ${scope}.`,
          { code: 'insufficient_permissions' },
        );
      budgets.request(id, found);
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
      return found && !isOver(found) ? callerOf(found) : null;
    },
    /** What the key is limited to that a batch was made with, as it was last read; nothing without keys, and of one that is unknown. */
    rulesOf: (key: string | null): KeyRules => (key === null ? NONE : (keys.lastKnown(key) ?? NONE)),
    /** Why nobody knows what a key may do that a batch was made with; null where it is known, and without keys. */
    unknown: (key: string | null): string | null => (key === null ? null : keys.unknown(key)),
    /** Whether the key is known to be valid no more: revoked, or expired. A key file that cannot be read says nothing of it. */
    isEnded: (key: string | null): boolean =>
      key !== null && (keys.endOf(key) ?? Number.POSITIVE_INFINITY) * 1000 <= now(),
    /** How a key ended, in words. */
    endOf(key: string): string {
      const { revoked, expires } = keys.lastKnown(key) ?? {};
      if (revoked !== undefined) return 'was revoked';
      const isOver = keys.endOf(key) === expires && expires !== undefined;
      return isOver ? `expired at ${new Date(expires * 1000).toISOString()}` : 'is no longer in keys.json';
    },
  };
}

export type Access = ReturnType<typeof createAccess>;

const callerOf = (found: KeyRecord): Caller => ({
  ...{ owner: found.name, key: found.id, scopes: new Set(found.scopes), rules: found },
});

/** Whether a request may name this model. */
export const mayUse = ({ models }: KeyRules, name: string): boolean => models?.includes(name) !== false;

/** `other`: x-api-key, where Anthropic's clients have it. */
function keyIn(authorization: string | undefined, other: unknown): string {
  if (authorization === undefined && typeof other === 'string' && other !== '')
    return other.slice(0, LONGEST_KEY);
  const [, key] = /^Bearer +(\S+)\s*$/i.exec((authorization ?? '').slice(0, LONGEST_KEY + 10)) ?? [];
  if (key !== undefined) return key;
  throw new ApiError(
    401,
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
  );
}

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
