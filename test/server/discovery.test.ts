/** Servers that are found: by the addresses of a name, and as pods of a cluster; whatever the answers are, none is lost to them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { EndpointSetting } from '../../engine/asking/endpoints/settings.ts';
import { createDiscovery, type Worlds } from '../../products/serve/discovery/discover.ts';
import type { Discover } from '../../products/serve/discovery/entries.ts';
import { manualClock } from '../pool/clock.ts';
import { echo, serve, until } from '../pool/serving.ts';
import { configured } from './reloading.ts';

function discovering(entries: readonly Discover[], worlds: Worlds = {}) {
  const clock = manualClock();
  const said: string[] = [];
  const found = new Map<string, readonly EndpointSetting[]>();
  let looks = 0;
  const discovery = createDiscovery({
    ...{ clock, env: { KEY: 'k' }, worlds },
    say: message => void said.push(message),
    found(name, settings) {
      looks++;
      found.set(name, settings);
    },
  });
  onTestFinished(() => discovery.stop());
  discovery.set(entries);
  return {
    ...{ clock, said, found, discovery },
    urls: (): string[] => [...found.values()].flat().map(({ url }) => url),
    /** Lets a look be due, and waits for what `happens`. */
    async next(happens: () => boolean): Promise<void> {
      clock.pass(10_000, 10_000);
      await until(happens);
    },
    looks: () => looks,
  };
}

test('each address of a name is a server; one that is missing now and then stays, and a failure changes nothing', async () => {
  let answer: () => { address: string; family: number }[] = () => [
    { address: '10.0.0.2', family: 4 },
    { address: 'fd00::1', family: 6 },
    { address: '10.0.0.1', family: 4 },
  ];
  const hosts: string[] = [];
  const { said, found, urls, next, looks } = discovering(
    [{ dns: 'http://vllm.default.svc:8005/v1/', limit: 9, api_key_env: 'KEY' }],
    {
      lookup: async host => {
        hosts.push(host);
        return answer();
      },
    },
  );
  await until(() => looks() === 1);
  const all = ['http://10.0.0.1:8005/v1', 'http://10.0.0.2:8005/v1', 'http://[fd00::1]:8005/v1'];
  expect(urls()).toEqual(all);
  expect(hosts).toEqual(['vllm.default.svc']);
  const [first] = [...found.values()].flat();
  expect([first?.limit, first?.pinned, first?.key?.name]).toEqual([9, true, '$KEY']);
  answer = () => {
    throw Object.assign(new Error('x'), { code: 'ENOTFOUND' });
  };
  await next(() => said.length === 1);
  expect(said[0]).toBe(
    'dns vllm.default.svc:8005: expected its servers, found no address (ENOTFOUND); 3 servers known before stay, and it is looked up again',
  );
  answer = () =>
    Array.from({ length: 2_000 }, (_, n) => ({ address: `10.1.${n >> 8}.${n & 255}`, family: 4 }));
  await next(() => said.length === 2);
  expect(said[1]).toContain('found 2000 servers, of at most 1024; 3 servers known before stay');
  expect([looks(), urls()]).toEqual([1, all]);
  answer = () => [{ address: '10.0.0.2', family: 4 }];
  await next(() => looks() === 2);
  await next(() => looks() === 3);
  expect(urls()).toEqual(all);
  await next(() => looks() === 4);
  expect(urls()).toEqual(['http://10.0.0.2:8005/v1']);
  expect(said.at(-1)).toBe('dns vllm.default.svc:8005: looked up again; 3 servers found');
});

const pod = (ip: unknown, more: object = {}, ready = 'True') => ({
  metadata: { name: 'p' },
  status: { phase: 'Running', podIP: ip, conditions: [{ type: 'Ready', status: ready }] },
  ...more,
});

/** A stub of the API: `answer` of a request's path and query. */
async function api(answer: (url: URL) => { status?: number; body: unknown; cut?: boolean }) {
  const asked: { path: string; authorization: string | undefined }[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://x');
    asked.push({ path: url.pathname, authorization: request.headers.authorization });
    const { status = 200, body, cut } = answer(url);
    if (cut) return void response.destroy();
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { base: `http://127.0.0.1:${port}`, asked };
}

test('pods with the labels that are Ready are servers, page by page', async () => {
  const pages: Record<string, unknown> = {
    '': { items: [pod('10.0.0.3'), pod('10.0.0.4', {}, 'False')], metadata: { continue: 'more' } },
    more: {
      items: [
        pod('10.0.0.1'),
        pod('10.0.0.5', { metadata: { deletionTimestamp: 'now' } }),
        pod('fd00::9'),
        pod('evil.example/v1?x='),
        pod({ a: 1 }),
        null,
        7,
      ],
      metadata: {},
    },
  };
  let selector: string | null = '';
  const { base, asked } = await api(url => {
    selector = url.searchParams.get('labelSelector');
    return { body: pages[url.searchParams.get('continue') ?? ''] };
  });
  const kubernetes = { namespace: 'llm', selector: 'app=vllm,tier in (gpu)', port: 8005, api: base };
  const { urls, looks } = discovering([{ kubernetes }]);
  await until(() => looks() === 1);
  expect(urls()).toEqual(['http://10.0.0.1:8005/v1', 'http://10.0.0.3:8005/v1', 'http://[fd00::9]:8005/v1']);
  expect(selector).toBe(kubernetes.selector);
  expect(asked).toEqual(Array(2).fill({ path: '/api/v1/namespaces/llm/pods', authorization: undefined }));
});

test('whatever an API answers that is no list, the pods known before stay', async () => {
  let answer: Parameters<typeof api>[0] = () => ({ body: { items: [pod('10.0.0.1')] } });
  const { base } = await api(url => answer(url));
  const { said, urls, next, looks } = discovering([
    { kubernetes: { namespace: 'llm', selector: 'app=vllm', port: 8005, path: '', api: base } },
  ]);
  await until(() => looks() === 1);
  const wrong: [typeof answer, string][] = [
    [() => ({ status: 403, body: '' }), 'HTTP 403: its account may not list pods'],
    [() => ({ body: '<html>' }), 'an answer that is no JSON'],
    [() => ({ body: { items: 'x' } }), 'an answer that is no list of pods'],
    [() => ({ body: '', cut: true }), 'ECONNRESET'],
    [() => ({ body: `"${'x'.repeat(17 * 1024 * 1024)}"` }), 'more than 16 MiB'],
    // a list without an end
    [
      () => ({
        body: {
          items: Array.from({ length: 500 }, (_, n) => pod(`10.2.${n >> 8}.${n & 255}`)),
          metadata: { continue: 'on' },
        },
      }),
      'pages without an end',
    ],
    [
      () => ({ body: { items: Array.from({ length: 3_000 }, (_, n) => pod(`10.2.${n >> 8}.${n & 255}`)) } }),
      '3000 servers',
    ],
  ];
  for (const [index, [broken, words]] of wrong.entries()) {
    answer = broken;
    await next(() => said.length > index);
    expect(said[index]).toContain(words);
  }
  expect([looks(), urls()]).toEqual([1, ['http://10.0.0.1:8005']]);
  answer = () => ({ body: { items: [] } });
  await next(() => looks() === 2);
  expect(urls()).toEqual([]);
});

test('a pod finds its cluster by its account; without one that is said', async () => {
  const { said, next } = discovering([{ kubernetes: { namespace: 'a', selector: 'x=y', port: 1 } }], {
    kubernetes: { folder: '/nowhere', env: {} },
  });
  await next(() => said.length === 1);
  expect(said[0]).toContain('KUBERNETES_SERVICE_HOST is not set');
});

test('a server asks what is found, and drops what is found no more', async () => {
  const one = await serve(echo, { models: ['a'] });
  let pods = [pod('127.0.0.1')];
  const { base } = await api(() => ({ body: { items: pods } }));
  const entry = (port: number): string =>
    `discover: [{ kubernetes: { namespace: n, selector: a=b, port: ${port}, api: ${base} } }]\n`;
  const server = await configured(entry(one.port));
  const models = async (): Promise<string> => (await fetch(`${server.url}/v1/models`)).text();
  await expect.poll(models).toContain('"id":"a"');
  expect(server.said).toContain(`kubernetes n/a=b at port ${one.port}: endpoint ${one.url} added`);
  pods = [];
  const two = await serve(echo, { models: ['b'] });
  await server.again(entry(two.port));
  await expect.poll(models).not.toContain('"id":"a"');
});
