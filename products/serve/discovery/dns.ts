/** Servers behind one name, such as a headless service of Kubernetes: each address that the name has is one. */
import { lookup as systemLookup } from 'node:dns/promises';
import type { Source } from './entries.ts';

/** All addresses of a name, as the system finds them: its hosts file and its search domains too. */
export type Lookup = (host: string) => Promise<readonly { address: string; family: number }[]>;

const EVERY = 10_000;
/** A server of names may leave some out of an answer: one that is gone is missed for half a minute. */
const MISSES = 3;

export function dnsSource(base: string, lookup: Lookup = host => systemLookup(host, { all: true })): Source {
  const { hostname, port, pathname } = new URL(base);
  const path = pathname.replace(/\/{1,9}$/, '');
  return {
    every: EVERY,
    misses: MISSES,
    async look() {
      const host = hostname.replace(/^\[|\]$/g, '');
      const all = await lookup(host).catch((error: NodeJS.ErrnoException) => {
        throw new Error(`no address (${error.code ?? 'no answer'})`);
      });
      const at = port === '' ? '' : `:${port}`;
      return all.map(one => `http://${one.family === 6 ? `[${one.address}]` : one.address}${at}${path}`);
    },
  };
}
