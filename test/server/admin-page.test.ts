/** The page of admins, without scripts: keys made, limited and revoked, endpoints drained, each asked before it ends something. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readKeys, writeKeys } from '../../products/serve/api-keys.ts';
import { folder } from '../fw.ts';
import { HOSTILE, visitor } from './pages.ts';
import { keyOf, served, simulated } from './serving.ts';

async function admins() {
  const data = folder();
  const [root, ann] = [keyOf(data, 'root', ['admin', 'batch']), keyOf(data, 'ann')];
  const { url: endpoint } = await simulated();
  const server = await served({ data, endpoints: [endpoint] });
  const [at, other] = [visitor(server.url), visitor(server.url)];
  await at.login(root);
  await other.login(ann);
  return { data, server, endpoint, at, other };
}
const onceIn = (text: string): string => /name="once" value="([0-9a-f]+)"/.exec(text)?.[1] ?? '';
const actsIn = (data: string) =>
  readFileSync(join(data, 'audit.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));

test('a key is made, shown once, limited and revoked', async () => {
  const { data, at } = await admins();
  const once = onceIn((await at.get('/ui/admin')).text);
  const form = { once, name: 'bob', scopes: 'chat', rpm: '7', models: 'a, b', expires: '30d' };
  const made = await at.post('/ui/admin/keys', form);
  expect(made.status).toBe(200);
  const [key = ''] = /fw_[\w-]{43}/.exec(made.text) ?? [];
  expect(key).not.toBe('');
  expect((await at.post('/ui/admin/keys', form)).text).toContain('This form was sent before');
  const bob = readKeys(data)?.find(({ name }) => name === 'bob');
  expect(bob).toMatchObject({ rpm: 7, models: ['a', 'b'], scopes: ['chat'] });
  const path = `/ui/admin/keys/${bob?.id}`;
  const list = await at.get('/ui/admin');
  expect(list.text).toContain('Requests a minute: 7; models: a, b; ends in');
  expect(list.text).not.toContain(key);
  const limits = await at.get(path);
  const [, day = ''] = /name="expires" value="([\d-]+)"/.exec(limits.text) ?? [];
  const changed = await at.post(path, { rpm: '', parallel: '3', models: '', expires: day });
  expect(changed.headers.get('location')).toBe('/ui/admin');
  const now = readKeys(data)?.find(({ name }) => name === 'bob');
  expect([now?.rpm, now?.parallel, now?.models, now?.expires]).toEqual([
    undefined,
    3,
    undefined,
    bob?.expires,
  ]);
  expect((await at.post(path, { rpm: '-3' })).text).toContain('Invalid value for &#39;rpm&#39;');
  const asked = await at.get(`${path}/revoke`);
  expect(asked.text).toContain('Revoke a key of bob?');
  expect(readKeys(data)?.find(({ name }) => name === 'bob')?.revoked).toBeUndefined();
  await at.post(`${path}/revoke`);
  expect(readKeys(data)?.find(({ name }) => name === 'bob')?.revoked).toBeGreaterThan(0);
  expect((await at.get(path)).status).toBe(404);
  expect(actsIn(data).map(({ act, by }) => [act, by])).toEqual([
    ['key.made', 'root'],
    ['key.limited', 'root'],
    ['key.revoked', 'root'],
  ]);
});

test('an endpoint is drained after a question, and resumed', async () => {
  const { data, endpoint, at } = await admins();
  const link = `/ui/admin/drain?url=${encodeURIComponent(endpoint)}`;
  expect((await at.get('/ui/admin')).text).toContain(`href="${link}"`);
  expect((await at.get(link)).text).toContain(
    'No other endpoint is up: requests are refused until it is resumed.',
  );
  await at.post('/ui/admin/drain', { url: endpoint });
  const drained = await at.get('/ui/admin');
  expect(drained.text).toContain('>drained by root</span>');
  expect((await at.get('/ui/')).text).toContain('data-is="drained"');
  expect((await at.post('/ui/admin/drain', { url: endpoint })).status).toBe(400);
  await at.post('/ui/admin/resume', { url: endpoint });
  expect((await at.get('/ui/admin')).text).not.toContain('drained by root');
  expect((await at.get('/ui/admin/drain?url=x&url=y')).status).toBe(404);
  expect(actsIn(data).map(({ act }) => act)).toEqual(['endpoint.drained', 'endpoint.resumed']);
});

test('nobody else sees or does any of it, nor does a form of another site, and no name runs', async () => {
  const { data, server, endpoint, at, other } = await admins();
  const keys = readKeys(data) ?? [];
  const [root] = keys;
  writeKeys(data, [
    ...keys,
    {
      ...(root as (typeof keys)[number]),
      id: 'key_hostile',
      name: HOSTILE,
      models: [HOSTILE],
      expires: 9e12,
    },
  ]);
  const before = readFileSync(join(data, 'keys.json'), 'utf8');
  const seen = await at.get('/ui/admin');
  expect(seen.text).not.toMatch(/<script>top|<img|\u202e/);
  expect(seen.headers.get('content-security-policy')).toContain("default-src 'none'");
  // later than any date
  expect((await at.get('/ui/admin/keys/key_hostile')).text).toContain('value="9999-12-31"');
  const gets = [
    '/ui/admin',
    `/ui/admin/keys/${root?.id}`,
    `/ui/admin/keys/${root?.id}/revoke`,
    '/ui/admin/drain?url=x',
  ];
  const posts = [
    '/ui/admin/keys',
    `/ui/admin/keys/${root?.id}`,
    `/ui/admin/keys/${root?.id}/revoke`,
    '/ui/admin/drain',
    '/ui/admin/resume',
  ];
  const fields = { name: 'evil', scopes: 'admin', url: endpoint, rpm: '1', once: 'x' };
  for (const path of gets) {
    expect([path, (await other.get(path)).status]).toEqual([path, 403]);
    expect((await visitor(server.url).get(path)).headers.get('location')).toBe('/ui/login');
  }
  for (const path of posts) {
    expect([path, (await other.post(path, fields)).status]).toEqual([path, 403]);
    expect([path, (await visitor(server.url).post(path, fields)).status]).toEqual([path, 401]);
    for (const origin of ['http://evil.example', 'null', null])
      expect([path, (await at.post(path, fields, origin)).status]).toEqual([path, 403]);
  }
  expect((await other.get('/ui/')).text).not.toContain('/ui/admin');
  expect(readFileSync(join(data, 'keys.json'), 'utf8')).toBe(before);
});
