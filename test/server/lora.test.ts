/** LoRA adapters over several endpoints that load them, refuse them, or come back without them. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../pool/serving.ts';
import { keyOf, type Served, served } from './serving.ts';

/** A server with vLLM's routes for adapters; one that `refuses` has them switched off. */
async function adapting({ refuses = false, port = 0 } = {}) {
  /** name → path */
  const loaded = new Map<string, string>();
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      const send = (status: number, value: object): void =>
        void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      const data = ['base', ...loaded.keys()].map(id => ({ id, object: 'model' }));
      if (request.url === '/v1/models') return send(200, { object: 'list', data });
      const { lora_name: name, lora_path, model } = body === '' ? {} : JSON.parse(body);
      if (request.url === '/v1/chat/completions') {
        asked.push(model);
        const content = loaded.get(model) ?? model;
        return send(200, {
          choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
        });
      }
      if (refuses || !request.url?.includes('lora_adapter')) return send(404, { detail: 'Not Found' });
      if (request.url.startsWith('/v1/load')) loaded.set(name, lora_path);
      else loaded.delete(name);
      send(200, { ok: true });
    });
  });
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port: taken } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${taken}/v1`, loaded, asked };
}

const load = (
  { url }: Pick<Served, 'url'>,
  name = 'mine',
  { path = '/v1/load_lora_adapter', key = 'none', from = '/adapters/mine' } = {},
): Promise<Response> =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ lora_name: name, lora_path: from }),
  });

test('an adapter is loaded everywhere, listed, asked for, and unloaded', async () => {
  const servers = await Promise.all([adapting(), adapting()]);
  const server = await served({ endpoints: servers.map(({ url }) => url) });
  const reply = await load(server);
  expect([reply.status, await reply.json()]).toMatchObject([
    200,
    { id: 'mine', endpoints: [{ done: true }, { done: true }] },
  ]);
  const client = server.client();
  expect((await client.models.list()).data.map(({ id }) => id)).toContain('mine');
  const chat = await client.chat.completions.create({
    model: 'mine',
    messages: [{ role: 'user', content: 'x' }],
  });
  expect(chat.choices[0]?.message.content).toBe('/adapters/mine');
  expect((await load(server, 'mine', { path: '/v1/unload_lora_adapter' })).status).toBe(200);
  expect(servers.map(({ loaded }) => loaded.size)).toEqual([0, 0]);
});

test('half loaded is said, and only who has it is asked', async () => {
  const [has, lacks] = [await adapting(), await adapting({ refuses: true })];
  const server = await served({ endpoints: [lacks.url, has.url] });
  const reply = await load(server);
  const { error } = (await reply.json()) as { error: { code: string; message: string } };
  expect([reply.status, error.code]).toEqual([502, 'half_loaded']);
  expect(error.message).toContain(`1 of 2 endpoints; the others: ${lacks.url}: HTTP 404`);
  for (let n = 0; n < 4; n++)
    await server
      .client()
      .chat.completions.create({ model: 'mine', messages: [{ role: 'user', content: `${n}` }] });
  expect([lacks.asked.length, has.asked.length]).toEqual([0, 4]);
});

test('what is wanted is known after a restart, and loaded where it is missing', async () => {
  const one = await adapting();
  const first = await served({ endpoints: [one.url] });
  await load(first);
  await first.stop();
  one.loaded.clear();
  await served({ endpoints: [one.url], data: first.data });
  await until(() => one.loaded.has('mine'));
});

test('it takes the admin scope and two names', async () => {
  const one = await adapting();
  const server = await served({ endpoints: [one.url] });
  expect((await load(server, '')).status).toBe(400);
  const chat = keyOf(server.data, 'ann', ['chat']);
  const admin = keyOf(server.data, 'root', ['admin']);
  expect([
    (await load(server, 'mine', { key: chat })).status,
    (await load(server, 'mine', { key: admin })).status,
  ]).toEqual([403, 200]);
});

test('what an adapter said is not taken for what another one of its name would say', async () => {
  const { url, asked } = await adapting();
  const server = await served({ endpoints: [url], gateway: { cacheFor: 60_000 } });
  const said = async (): Promise<unknown> => {
    const messages = [{ role: 'user' as const, content: 'x' }];
    const chat = await server.client().chat.completions.create({ model: 'mine', temperature: 0, messages });
    return chat.choices[0]?.message.content;
  };
  await load(server, 'mine', { from: '/adapters/old' });
  expect([await said(), await said(), asked.length]).toEqual(['/adapters/old', '/adapters/old', 1]);
  await load(server, 'mine', { from: '/adapters/new' });
  expect([await said(), await said(), asked.length]).toEqual(['/adapters/new', '/adapters/new', 2]);
});
