/**
 * Who is logged in: a browser shows a key once and gets a cookie with 256 random bits, which is good for the page alone. The
 * server knows the hash of it and the id of the key, in memory: a key that is revoked logs out, and so does a restart.
 */
import { hash, randomBytes } from 'node:crypto';

export interface CookieOptions {
  /** cookies do not tell the ports of a machine apart */
  port: number;
  /** it came over TLS */
  isSecure: boolean;
}

/** ms */
const LASTS = 12 * 3_600_000;
const MOST = 1_000;
/** of one key: who logs in again and again logs nobody else out */
const MOST_OF_KEY = 20;
/** characters of a Cookie header */
const LONGEST = 8_192;

const hashOf = (token: string): string => hash('sha256', token);
const nameAt = (port: number): string => `fw_session_${port}`;

export function createSessions(now: () => number) {
  const known = new Map<string, { key: string | null; until: number }>();

  function tokenIn(cookies: string | undefined, port: number): string {
    const name = `${nameAt(port)}=`;
    const all = (cookies ?? '').slice(0, LONGEST).split(';');
    return (
      all
        .map(one => one.trim())
        .find(one => one.startsWith(name))
        ?.slice(name.length) ?? ''
    );
  }

  const cookie = (value: string, seconds: number, { port, isSecure }: CookieOptions): string =>
    `${nameAt(port)}=${value}; Path=/ui; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;

  return {
    /** The value of a Set-Cookie header. */
    begin(key: string | null, at: CookieOptions): string {
      const own = [...known].filter(([, one]) => one.key === key);
      const [oldest] = own.length >= MOST_OF_KEY ? own : known.size >= MOST ? known : [];
      if (oldest !== undefined) known.delete(oldest[0]);
      const token = randomBytes(32).toString('base64url');
      known.set(hashOf(token), { key, until: now() + LASTS });
      return cookie(token, LASTS / 1000, at);
    },
    /** The id of the key behind a Cookie header; null where there is none. */
    keyIn(cookies: string | undefined, port: number): string | null {
      const token = tokenIn(cookies, port);
      const found = token === '' ? undefined : known.get(hashOf(token));
      return found === undefined || found.until <= now() ? null : found.key;
    },
    end(cookies: string | undefined, at: CookieOptions): string {
      known.delete(hashOf(tokenIn(cookies, at.port)));
      return cookie('', 0, at);
    },
  };
}

export type Sessions = ReturnType<typeof createSessions>;
