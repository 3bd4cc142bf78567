/** Settings that are read again while a server runs: whole or not at all, with what runs going on. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { watchFiles } from '../../products/serve/watch-files.ts';
import { folder } from '../fw.ts';
import { manualClock } from '../pool/clock.ts';
import { echo, serve } from '../pool/serving.ts';
import { lineOf as batchLine, begin, reached } from './batching.ts';
import { type Configured, configured } from './reloading.ts';
import { serveProcess } from './serving.ts';

const ask = async ({ url }: Pick<Configured, 'url'>, model: string, key = 'none') => {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }] }),
  });
  return { status: reply.status, text: await reply.text() };
};
async function batchLines({ url }: Pick<Configured, 'url'>, count: number, model: string, more = {}) {
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0 });
  const lines = Array.from({ length: count }, (_, n) => `${batchLine(`r-${n}`, { model, ...more })}\n`).join(
    '',
  );
  const { id } = await begin(openai, lines);
  return {
    ended: () => reached(openai, id),
    status: async () => (await openai.batches.retrieve(id)).status,
  };
}
const poolOf = (...urls: string[]): string => `pool: { endpoints: [${urls.join(', ')}] }\n`;

test('endpoints, aliases, limits and hooks follow the file, and the log says each', async () => {
  const one = await serve(echo, { models: ['a'] });
  const two = await serve(echo, { models: ['b'] });
  const server = await configured(`${poolOf(one.url)}models: { default: a, old: a }\ninteractive_wait: 5s\n`);
  expect((await ask(server, 'default')).status).toBe(200);
  process.env.FW_TEST_HOOK = `whsec_${Buffer.alloc(32).toString('base64')}`;
  const words = await server.again(
    `pool: { endpoints: [{ url: ${one.url}, limit: 7 }, ${two.url}] }\n` +
      'models: { default: b, new: [{ model: a }, { model: b, weight: 3 }] }\nkeep: 3\n' +
      'limits: { lines: 10, body: 2048 }\nlisten: 0.0.0.0:1\n' +
      'webhooks: [{ owner: alice, url: "https://hooks.example/secret/path", secret_env: FW_TEST_HOOK }]\n',
  );
  expect(words).toBe(
    `SIGHUP: endpoint ${one.url}: limit 7 now; endpoint ${two.url} added; ` +
      'alias default now b (was a); alias old removed; alias new added: a:1, b:3; ' +
      'webhook of alice to https://hooks.example added; interactive_wait is as usual again (was "5s"); ' +
      'keep is 3 now; limits.lines is 10 now; only a restart changes limits.body',
  );
  await expect.poll(async () => (await ask(server, 'default')).status).toBe(200);
  expect([two.asked, (await ask(server, 'old')).status]).toEqual([1, 404]);
  expect(await server.again(poolOf(two.url))).toContain(`endpoint ${one.url} removed; alias default removed`);
});

test('a file that is wrong, or away, changes nothing, and is said with its place', async () => {
  const one = await serve(echo, { models: ['a'] });
  const server = await configured(`${poolOf(one.url)}models: { default: a }\n`);
  const before = 'SIGHUP: nothing is changed, the settings of before go on: ';
  const wrong: [string, RegExp][] = [
    ['models: { default: 7 }\n', /serve\.yaml:\d+:\d+: .*expected .*found/],
    [
      `${poolOf(one.url)}models: { default: [{ model: a, weight: 0 }] }\n`,
      /serve\.yaml:2:\d+: .*weight above 0/,
    ],
    [`pool: { endpoints: ["ftp://x"] }\n`, /serve\.yaml:1:\d+: expected a base URL/],
    [
      `${poolOf(one.url)}webhooks: [{ owner: a, url: "https://x", secret_env: FW_TEST_NONE }]\n`,
      /whsec_.*FW_TEST_NONE/,
    ],
    ['models: {}\n', /expected an endpoint to ask, found none/],
    [
      `${poolOf(one.url)}cache: 5 bananas\n`,
      /serve\.yaml:2:8: cache: expected a duration such as .*'5 bananas'/,
    ],
    [`${poolOf(one.url)}keep: { record_bytes: 5XB }\n`, /serve\.yaml:2:7: keep.record_bytes: expected bytes/],
    [
      `${poolOf(one.url)}interactive_models: { a: { interactive_timeout: soon } }\n`,
      /serve\.yaml:2:\d+: interactive_timeout: expected a duration/,
    ],
    [`${poolOf(one.url)}: : :\n`, /serve\.yaml:\d/],
    [
      `${poolOf(one.url)}discover: [{ limit: 3 }]\n`,
      /serve\.yaml:2:\d+: discover.0: expected either dns or kubernetes, found none/,
    ],
  ];
  for (const [text, words] of wrong) {
    const said = await server.again(text);
    expect(said.slice(0, before.length)).toBe(before);
    expect(said).toMatch(words);
  }
  const page = await (await fetch(`${server.url}/metrics`)).text();
  expect(page).toContain('fw_config_ok 0');
  rmSync(server.write(''));
  await server.reload?.('SIGHUP');
  expect(server.said.at(-1)).toMatch(/serve\.yaml: expected a YAML file, found no such file/);
  // a pipe in its place is not waited for
  const path = server.write('');
  rmSync(path);
  execFileSync('mkfifo', [path]);
  await server.reload?.('SIGHUP');
  expect(server.said.at(-1)).toMatch(
    /serve\.yaml: expected a YAML file, found something else than a regular file: a pipe/,
  );
  expect((await ask(server, 'default')).status).toBe(200);
  rmSync(path);
  expect(await server.again(`${poolOf(one.url)}models: { default: a }\n`)).toContain(
    'the files are right again',
  );
  expect(await server.again(`${poolOf(one.url)}models: { default: a }\n`)).toBe(
    'SIGHUP: nothing has changed',
  );
});

test('a batch goes on through reloads: with new endpoints, and the aliases that it began with', async () => {
  const models: string[] = [];
  const note = (name: string) => (one: Parameters<typeof echo>[0]) => {
    models.push(`${name} ${JSON.parse(one.body).model}`);
    setImmediate(() => echo(one));
  };
  const old = await serve(note('old'), { models: ['a', 'b'] });
  const next = await serve(note('next'), { models: ['a', 'b'] });
  const config = (url: string, model: string): string => `${poolOf(url)}models: { default: ${model} }\n`;
  const server = await configured(config(old.url, 'a'));
  const batch = await batchLines(server, 300, 'default');
  await old.reached(20);
  await server.again(config(next.url, 'b'));
  await server.again(`models: {}\n${poolOf(next.url)}`);
  const ended = await batch.ended();
  expect(ended.request_counts).toEqual({ total: 300, completed: 300, failed: 0 });
  expect(new Set(models)).toEqual(new Set(['old a', 'next a']));
});

test('a batch that was validated runs whatever a line may have by now', async () => {
  const one = await serve(echo, { models: ['b'] });
  const other = await serve(echo, { models: ['a', 'b'] });
  const away = await serve(echo, { models: ['a'] });
  const server = await configured(poolOf(one.url, away.url));
  await away.close();
  const batch = await batchLines(server, 20, 'a', { user: 'x'.repeat(2_000) });
  await expect.poll(batch.status).toBe('in_progress');
  expect(await server.again(`${poolOf(other.url)}limits: { line: 1024 }\n`)).toContain(
    'limits.line is 1024 now',
  );
  expect((await batch.ended()).request_counts).toEqual({ total: 20, completed: 20, failed: 0 });
});

test('a batch whose model is taken out waits for it, and says so', async () => {
  const one = await serve(() => {}, { models: ['a'] });
  const other = await serve(echo, { models: ['b'] });
  const server = await configured(poolOf(one.url, other.url));
  const batch = await batchLines(server, 40, 'a');
  await one.reached(8);
  await server.again(poolOf(other.url));
  expect((await ask(server, 'a')).status).toBe(404);
  const back = await serve(echo, { models: ['a'] });
  await one.close();
  expect(await batch.status()).toBe('in_progress');
  await server.again(poolOf(other.url, back.url));
  expect((await batch.ended()).request_counts).toEqual({ total: 40, completed: 40, failed: 0 });
});

test('files are followed through edits in steps, renames, links that are swapped, and storms', () => {
  const clock = manualClock();
  const root = folder();
  const path = join(root, 'serve.yaml');
  mkdirSync(join(root, '1'));
  mkdirSync(join(root, '2'));
  for (const at of ['1', '2']) writeFileSync(join(root, at, 'serve.yaml'), `# ${at}`);
  symlinkSync('1', join(root, '..data'));
  symlinkSync(join('..data', 'serve.yaml'), path);
  let told = 0;
  const watch = watchFiles([path], { clock, onChange: () => void told++ });
  const looks = (count: number): number => {
    clock.pass(count * 1_000, 1_000);
    return told;
  };
  expect(looks(3)).toBe(0);
  symlinkSync('2', join(root, '..tmp'));
  renameSync(join(root, '..tmp'), join(root, '..data'));
  expect([looks(1), looks(1), looks(5)]).toEqual([0, 1, 1]);
  rmSync(path); // an editor puts it aside, and writes it in two steps
  expect(looks(1)).toBe(1);
  writeFileSync(path, 'half');
  expect(looks(1)).toBe(1);
  writeFileSync(path, 'half and half');
  expect([looks(1), looks(1), looks(5)]).toEqual([1, 2, 2]);
  for (let turn = 0; turn < 40; turn++) {
    writeFileSync(path, `${turn}`.padEnd(turn + 1));
    looks(1);
  }
  expect(told).toBeGreaterThan(4);
  expect(told).toBeLessThan(8);
  watch.stop();
  expect(clock.timers).toBe(0);
});

test('SIGHUP ends no server: it reads the files again, or says that there is none', async () => {
  const one = await serve(echo, { models: ['a'] });
  const root = folder();
  const data = join(root, 'data');
  const config = join(root, 'serve.yaml');
  writeFileSync(config, poolOf(one.url));
  const lineOf = (child: Awaited<ReturnType<typeof serveProcess>>['child'], word: string) =>
    new Promise<string>(resolve =>
      child.stderr?.on('data', chunk => String(chunk).includes(word) && resolve(String(chunk))),
    );
  const { child, url } = await serveProcess(['--config', config, '--data', data]);
  writeFileSync(config, `${poolOf(one.url)}models: { default: a }\n`);
  const heard = lineOf(child, 'alias');
  child.kill('SIGHUP');
  expect(await heard).toContain('alias default added: a');
  expect((await ask({ url }, 'default')).status).toBe(200);
  const code = new Promise(resolve => child.on('exit', resolve));
  child.kill('SIGTERM');
  expect(await code).toBe(0);
  const flags = await serveProcess(['--data', data, '--endpoint', one.url]);
  const nothing = lineOf(flags.child, 'SIGHUP');
  flags.child.kill('SIGHUP');
  expect(await nothing).toContain('there is no --config and no --pool to read again; the server goes on');
  expect((await ask(flags, 'a')).status).toBe(200);
});
