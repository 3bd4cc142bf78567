/**
 * Who may steer a server that has no password. A browser on the machine sends what any web page tells it to: to an
 * address whose name the page's owner lets point here (DNS rebinding), or as a form that needs no permission. The name
 * that was asked for tells the first, the content type the second.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { Refusal } from './refusal.ts';

const MAX_HEADER_LENGTH = 256;

/** `host` is what the server listens at, as a person named it. @throws Refusal (403, 415) */
export function guard(headers: IncomingHttpHeaders, host: string, changes: boolean): void {
  const named = nameIn(headers.host);
  if (
    named === undefined ||
    !(isIP(named) > 0 || [host, 'localhost', hostname()].some(own => own.toLowerCase() === named))
  )
    throw new Refusal(
      403,
      'Forbidden',
      'Expected a Host that is an address, localhost or the name of this machine: no web page is to steer this server.',
    );
  const type = String(headers['content-type'] ?? '')
    .slice(0, MAX_HEADER_LENGTH)
    .split(';', 1)[0]!
    .trim()
    .toLowerCase();
  if (changes && type !== 'application/json')
    throw new Refusal(
      415,
      'Unsupported Media Type',
      "Expected content-type application/json: curl -H 'content-type: application/json' -d '{…}'.",
    );
}

/** The name of a Host header (RFC 9110 7.2) in small letters, without its port and without the brackets of IPv6. */
function nameIn(host: string | undefined): string | undefined {
  if (host === undefined || host.length > MAX_HEADER_LENGTH) return undefined;
  const [, six, other] = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  return (six ?? other)?.toLowerCase();
}
