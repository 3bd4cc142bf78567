/** Names of the config: an alias exists whoever serves it, shares go to who is there, and one that leads nowhere is refused. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LiveLimits } from '../../engine/core/item/call.ts';
import { settingsOf } from '../../products/serve/serve-config.ts';
import { folder } from '../fw.ts';
import { echo, serve } from '../pool/serving.ts';
import { served } from './serving.ts';

const limits: LiveLimits = { place: 300, firstByte: 10_000, answer: 10_000, stream: 10_000, tries: 3 };
const models = { halfghost: [{ model: 'a' }, { model: 'not-there' }], ghost: 'not-there' };

async function ask(url: string, model: string, user: string) {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, user, messages: [{ role: 'user', content: 'x' }] }),
  });
  const { error } = (await reply.json()) as { error?: { code: string; message: string } };
  return { status: reply.status, again: reply.headers.has('retry-after'), code: error?.code, ...error };
}

const askAll = (url: string, model: string) =>
  Promise.all(Array.from({ length: 8 }, (_, n) => ask(url, model, `u${n}`)));

async function statuses(url: string): Promise<Record<string, string>> {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as {
    data: { id: string; status: string }[];
  };
  return Object.fromEntries(data.map(({ id, status }) => [id, status]));
}

test('an alias that nobody serves is 503 by its own name, also while another server is up', async () => {
  const dying = await serve(() => void dying.close(), { models: ['a'] });
  const other = await serve(echo, { models: ['b'] });
  const { url } = await served({ endpoints: [dying.url, other.url], gateway: { models, limits } });
  expect((await ask(url, 'ghost', 'u')).status).toBe(503);
  await ask(url, 'a', 'u');
  for (const alias of ['halfghost', 'ghost']) {
    expect((await statuses(url))[alias]).toBe('down');
    for (const { status, again, code, message } of await askAll(url, alias)) {
      expect([status, again, code]).toEqual([503, true, 'model_not_served']);
      expect(message).toContain(`\`${alias}\`, which stands for `);
      expect(message).toContain('`not-there`');
    }
  }
  const unknown = await ask(url, 'nobody', 'u');
  expect([unknown.status, unknown.code]).toEqual([404, 'model_not_found']);
});

test('the same where no server was ever seen', async () => {
  const { url } = await served({ endpoints: ['http://127.0.0.1:1/v1'], gateway: { models, limits } });
  for (const { status, again, code } of await askAll(url, 'halfghost'))
    expect([status, again, code]).toEqual([503, true, 'model_not_served']);
});

test('a request waits for the target that some server has, and not for one that none has', async () => {
  const dying = await serve(() => void dying.close(), { models: ['a'] });
  const { url } = await served({
    endpoints: [dying.url],
    gateway: { models, limits: { ...limits, place: 60_000 } },
  });
  const first = ask(url, 'a', 'u');
  await expect.poll(async () => (await statuses(url)).a).toBe('down');
  const all = askAll(url, 'halfghost');
  await serve(echo, { models: ['a'], port: dying.port });
  expect((await all).map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect((await first).status).toBe(200);
});

test('of several the share of one that nobody serves goes to the others; after ten minutes the log says so once', async () => {
  let now = Date.now();
  const server = await serve(echo, { models: ['a'] });
  const { url, said } = await served({
    endpoints: [server.url],
    gateway: { models, limits },
    now: () => now,
  });
  const told = () => said.filter(line => line.includes('no server has had "not-there" for 10 minutes'));
  for (const minutes of [0, 9, 2, 20]) {
    now += minutes * 60_000;
    for (const { status } of await askAll(url, 'halfghost')) expect(status).toBe(200);
    expect(told()).toHaveLength(minutes === 2 || minutes === 20 ? 1 : 0);
  }
  expect(told()[0]).toContain('"halfghost", "ghost"');
});

test.each([
  [
    'a loop',
    '  a: b\n  b: a',
    /:2:6: models\.a: expected a model that servers have, found 'b', which is an alias/,
  ],
  ['an alias of an alias', '  a: b\n  b: real', /:2:6: models\.a: /],
  ['… in a test', '  a: [{model: real}, {model: b}]\n  b: real', /:2:30: models\.a: /],
  ['no weight', '  a: [{model: x, weight: 0}]', /:2:6: models\.a: expected a weight above 0/],
])('%s is refused at the start, with its place', (_, text, message) => {
  const config = join(folder(), 'serve.yaml');
  writeFileSync(config, `models:\n${text}\n`);
  expect(() => settingsOf({ config, data: 'd' })).toThrow(
    expect.objectContaining({ exit: 65, message: expect.stringMatching(message) }),
  );
});

test('of its own name an alias may have a model', () => {
  const config = join(folder(), 'serve.yaml');
  writeFileSync(config, 'models:\n  a: [{model: a, weight: 9}, {model: b}]\n  c: c\n');
  expect(Object.keys(settingsOf({ config, data: 'd' }).settings.gateway.models)).toEqual(['a', 'c']);
});
