/** Checks of the way to an endpoint: is it there, does it let us in, is it the right one. */

import { seconds } from '../../../engine/asking/endpoints/endpoint-words.ts';
import type { Hindrance } from '../../../engine/asking/pool/probe.ts';
import type { Facts } from './endpoint-facts.ts';
import { type Check, note, ok, shown, trouble } from './endpoint-facts.ts';

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/;

/** What to do, by what stood in the way. */
const ADVICE: Record<Hindrance, (url: URL) => string> = {
  'unknown-host': ({ hostname }) => `check the name: getent hosts ${hostname}`,
  refused: ({ hostname, port }) =>
    LOOPBACK.test(hostname)
      ? `start the server, and check its port: ss -ltn | grep ${port}; in a container, localhost is the container itself`
      : `start the server, and let it listen beyond its own machine: llama-server --host 0.0.0.0, OLLAMA_HOST=0.0.0.0; a container needs its port published: docker run -p ${port}:${port}`,
  'no-route': ({ hostname, port }) => `check firewall and network: nc -vz ${hostname} ${port}`,
  silent: () => 'look at the log of the server: it took the connection and did not answer',
  tls: () =>
    'trust the authority of the certificate: NODE_EXTRA_CA_CERTS=authority.pem fw doctor …; the name in the URL must be one of the certificate',
  'no-tls': url => `--endpoint ${url.href.replace('https://', 'http://')}`,
  cut: url =>
    url.protocol === 'http:'
      ? `if the server has TLS, --endpoint ${url.href.replace('http://', 'https://')}; else look at its log`
      : 'look at the log of the server',
  'not-http': () => 'check the port: something else listens there',
  key: () =>
    'put the key into FW_API_KEY, or name its variable: --api-key-env NAME (what vllm serve --api-key was given)',
  loading: () => 'wait until it has loaded; a run waits with --wait 10m',
  'wrong-path': () => 'give the base URL of the API, which normally ends in /v1: http://HOST:PORT/v1',
  'web-page': () =>
    'give the URL of the server itself; a proxy or a login page before it must let the API through',
  'no-list-of-models': () =>
    'check host and port: an OpenAI-style server answers GET /v1/models with {"data": [{"id": …}]}',
  'http-error': () => 'look at the log of the server',
};

/** Transport, where an environment that expects a proxy explains it. */
const MAYBE_PROXY = new Set<Hindrance>(['unknown-host', 'refused', 'no-route', 'silent']);

export function reach(env: NodeJS.ProcessEnv): Check[] {
  const proxy = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find(name => env[name]);
  return [
    {
      name: 'reachable',
      expected: 'a list of models at /models',
      look({ hindrance, setting, key, roundTrip }) {
        if (hindrance === undefined) return ok(`answers in ${seconds(roundTrip ?? 0)}`);
        const by =
          proxy && MAYBE_PROXY.has(hindrance.kind)
            ? `; fw connects by itself and does not use $${proxy}`
            : '';
        return trouble(shown(hindrance.cause, key, 300), ADVICE[hindrance.kind](new URL(setting.url)) + by);
      },
    },
    {
      name: 'key',
      expected: 'a key that travels encrypted',
      look({ key, setting }) {
        const { protocol, hostname } = new URL(setting.url);
        if (key === undefined || protocol === 'https:' || LOOPBACK.test(hostname)) return undefined;
        return note(
          `the key of ${key.name} travels in clear text over http`,
          'https, or a network that you trust',
        );
      },
    },
    {
      name: 'clock',
      expected: 'clocks that agree within 5 s',
      look: clock,
    },
  ];
}

function clock({ skew, hindrance }: Facts) {
  if (hindrance !== undefined) return undefined;
  if (skew === undefined) return note('not known: the server sends no Date');
  const off = Math.round(Math.abs(skew) / 1000);
  if (off <= 5) return ok(`agrees with ours within ${Math.max(1, off)} s`);
  const found = `the server's clock is ${off} s ${skew > 0 ? 'ahead' : 'behind'}`;
  const advice =
    'synchronise both machines (chronyc tracking, timedatectl): logs cannot be compared, and a Retry-After date is misread';
  return off > 60 ? trouble(found, advice) : note(found, advice);
}
