/**
 * Who may read: whoever has the address with the token, which is printed once. It becomes a cookie, so that it stays in no
 * address that is sent around. A page of another site, a name that leads here by a rebound DNS, and another user of the
 * machine have nothing of it.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';

export interface Place {
  /** as it was asked for: `127.0.0.1`, `::1`, `0.0.0.0`, a name */
  host: string;
  port: number;
}

export interface Asked {
  method: string;
  host: string | undefined;
  origin: string | undefined;
  cookie: string | undefined;
  /** `Sec-Fetch-Site` and `Sec-Fetch-Mode`, which browsers send and pages cannot change */
  site: string | undefined;
  mode: string | undefined;
  /** the token in the address */
  token: string | null;
}

/** `enter`: the token of the address is right, and becomes a cookie. */
export type Answer = 'yes' | 'enter' | { status: 403 | 421; message: string };

/** characters of a Cookie header */
const LONGEST = 8_192;

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** `host:port` as in an address. */
export const hostText = ({ host, port }: Place): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

export function createAccess(place: Place) {
  const token = randomBytes(32).toString('base64url');
  const name = `fw_view_${place.port}`;
  const known = hash('sha256', token, 'buffer');
  let ticket = '';
  const isToken = (text: string): boolean => timingSafeEqual(hash('sha256', text, 'buffer'), known);
  const isAll = place.host === '0.0.0.0' || place.host === '::';
  const names = [place.host, ...(isAll || isLoopback(place.host) ? ['127.0.0.1', 'localhost', '::1'] : [])];
  const own = new Set([...names, hostname().toLowerCase()].map(host => hostText({ host, port: place.port })));
  // port 80 is in no Host header
  if (place.port === 80) for (const host of [...own]) own.add(host.slice(0, -3));

  /** It is good once. */
  function isTicket(text: string): boolean {
    if (ticket === '' || text !== ticket) return false;
    ticket = '';
    return true;
  }

  /** A rebound name is a name: where all addresses are listened on, an address in numbers is ours. */
  function isOwnHost(host: string): boolean {
    if (own.has(host)) return true;
    return (
      isAll &&
      URL.canParse(`http://${host}`) &&
      isIP(new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, '')) !== 0
    );
  }

  return {
    token,
    /** In the place of the token for a browser that is started: all users of a machine see what a program is started with. */
    ticket(): string {
      ticket = randomBytes(32).toString('base64url');
      return ticket;
    },
    /** The value of a Set-Cookie header. */
    cookie: `${name}=${token}; Path=/; HttpOnly; SameSite=Strict`,
    check({ method, host = '', origin, cookie = '', site, mode, token: given }: Asked): Answer {
      const at = host.slice(0, 300).toLowerCase();
      if (!isOwnHost(at))
        return { status: 421, message: `expected to be asked as ${hostText(place)}, found another name` };
      const isRead = method === 'GET' || method === 'HEAD';
      const isOwn = origin !== undefined && origin.toLowerCase() === `http://${at}`;
      if (!isOwn && (origin !== undefined || !isRead))
        return {
          status: 403,
          message: 'expected a request of this page itself, found one of another site, or of none',
        };
      // another port of this machine is the same site to a cookie, but not to the browser's own word
      if (site !== undefined && site !== 'same-origin' && site !== 'none' && mode !== 'navigate')
        return { status: 403, message: 'expected a request of this page itself, found one of another site' };
      const value = cookie
        .slice(0, LONGEST)
        .split(';')
        .map(one => one.trim())
        .find(one => one.startsWith(`${name}=`));
      if (given !== null && (isToken(given) || isTicket(given))) return 'enter';
      if (value !== undefined && isToken(value.slice(name.length + 1))) return 'yes';
      return {
        status: 403,
        message:
          'expected the address with its token, which fw view printed in the terminal where it was started; found none, or that of an earlier one',
      };
    },
  };
}

export type Access = ReturnType<typeof createAccess>;
