/** What operators look for, by the docs alone: progress over a kill, what the log and the page say, keys when things are broken. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { About } from '../../engine/core/item/say.ts';
import { readKeys, writeKeys } from '../../products/serve/api-keys.ts';
import { tellForecast } from '../../products/serve/batches/batch-news.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { Forecasts } from '../../products/serve/batches/forecasts.ts';
import { changeKeys, holdRoom } from '../../products/serve/key-changes.ts';
import { canMount } from '../crash/faults.ts';
import { binFolder, environment, folder } from '../fw.ts';
import { type Ask, echo, serve } from '../pool/serving.ts';
import { begin, lineOf, reached } from './batching.ts';
import { configured } from './reloading.ts';
import { keyOf, served, serveProcess } from './serving.ts';

const linesOf = (count: number): string =>
  Array.from({ length: count }, (_, n) => `${lineOf(`r-${n}`, { model: 'm' })}\n`).join('');

test('after a kill progress is what somebody has seen, and the log says which batch goes on', async () => {
  const held: Ask[] = [];
  const model = await serve(
    one => (held.length > 0 || model.asked > 30 ? void held.push(one) : one.answer('yes')),
    { models: ['m'] },
  );
  const data = join(folder(), 'data');
  const args = ['--data', data, '--endpoint', model.url, '--endpoint-limit', '4'];
  const first = await serveProcess(args);
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${first.url}/v1`, maxRetries: 0 });
  const { id } = await begin(openai, linesOf(60));
  const seen = (await reached(openai, id, one => one.request_counts?.completed === 30)).request_counts;
  const dead = once(first.child, 'exit');
  first.child.kill('SIGKILL');
  await dead;
  // nobody answers: what is on record is all that there is, and no run counts it yet
  await model.close();
  const second = await serveProcess(args);
  let said = '';
  second.child.stderr?.on('data', chunk => {
    said += chunk;
  });
  const again = new OpenAI({ apiKey: 'none', baseURL: `${second.url}/v1`, maxRetries: 0 });
  expect((await again.batches.retrieve(id)).request_counts).toEqual(seen);
  const back = await serve(echo, { models: ['m'], port: model.port });
  const counts: number[] = [];
  await reached(again, id, ({ status, request_counts }) => {
    counts.push(request_counts?.completed ?? 0);
    return status === 'completed';
  });
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(counts[0]).toBeGreaterThanOrEqual(30);
  expect(counts.at(-1)).toBe(60);
  expect(back.asked).toBe(30);
  expect(said).toMatch(new RegExp(`${id} of local goes on: 30 of 60 lines have come back`));
});

test('with --log json an error at the start is a line of JSON too', async () => {
  const run = async (args: string[]) => {
    const child = spawn(join(binFolder, 'fw'), ['serve', ...args], { env: environment({}) });
    let text = '';
    child.stderr.on('data', chunk => {
      text += chunk;
    });
    const [exit] = await once(child, 'close');
    return { exit, lines: text.trimEnd().split('\n') };
  };
  const { exit, lines } = await run(['--log', 'json', '--endpoint', 'http://127.0.0.1:1/v1']);
  expect(exit).toBe(64);
  expect(lines.map(line => JSON.parse(line))).toEqual([
    {
      ...{ time: expect.any(String), level: 'error', event: 'ended', exit: 64 },
      message: expect.stringContaining('expected a data folder'),
    },
  ]);
  const config = join(folder(), 'serve.yaml');
  writeFileSync(config, `log: json\ndata: ${join(folder(), 'data')}\nlisten: 0.0.0.0:0\n`);
  const open = await run(['--config', config, '--endpoint', 'http://127.0.0.1:1/v1']);
  expect(open.exit).toBe(64);
  expect(JSON.parse(open.lines.at(-1) ?? '')).toMatchObject({ event: 'ended', exit: 64 });
});

test('keys that cannot be read at the start: batches that were made with one wait, and go on once they can', async () => {
  const model = await serve(() => {}, { models: ['m'] });
  const data = folder();
  const [bob, ann] = [keyOf(data, 'bob'), keyOf(data, 'ann')];
  const first = await served({ data, endpoints: [model.url] });
  const made = await begin(first.client(bob), linesOf(3));
  const other = await begin(first.client(ann), linesOf(1));
  await reached(first.client(bob), made.id, ({ status }) => status === 'in_progress');
  await first.stop();
  await model.close();
  const keys = readKeys(data) ?? [];
  const asked = await serve(echo, { models: ['m'], port: model.port });
  rmSync(join(data, 'keys.json'));
  mkdirSync(join(data, 'keys.json'));
  const second = await served({ data, endpoints: [asked.url] });
  const [line] = second.said.filter(words => words.includes('no key is valid'));
  expect(line).toContain('and batches that were made with keys wait');
  await expect.poll(async () => (await fetch(`${second.url}/ready`)).status).toBe(200);
  expect(asked.asked).toBe(0);
  rmSync(join(data, 'keys.json'), { recursive: true });
  // one that has no key in the file waits still
  const admin = keys.map(one => (one.name === 'bob' ? { ...one, scopes: ['admin', 'batch'] as const } : one));
  writeKeys(data, admin.filter(({ name }) => name === 'bob') as typeof keys);
  const seen = async (id: string) => {
    const reply = await fetch(`${second.url}/v1/admin/batches/${id}`, {
      headers: { authorization: `Bearer ${bob}` },
    });
    return (await reply.json()) as { status: string; waits: string | null };
  };
  await expect.poll(async () => (await seen(made.id)).status).toBe('completed');
  expect((await seen(other.id)).waits).toMatch(/^waits until it is known what its key may do: key_/);
  expect(
    await (await fetch(`${second.url}/metrics`, { headers: { authorization: `Bearer ${bob}` } })).text(),
  ).toMatch(/^fw_batches_waiting\{reason="keys"\} 1$/m);
  writeKeys(data, keys);
  await expect.poll(async () => (await reached(second.client(ann), other.id)).status).toBe('completed');
});

test('a folder that had keys, and has no key file: said at the start', async () => {
  const data = folder();
  writeFileSync(join(data, 'keys.room'), 'x');
  const server = await served({ data, endpoints: [(await serve(echo)).url] });
  expect(server.said.join('\n')).toContain('keys.room says that this folder had keys');
  const key = keyOf(data, 'bob');
  await server.stop();
  const next = await served({ data, endpoints: [(await serve(echo)).url] });
  expect((await next.client(key).models.list()).data).toHaveLength(1);
  expect(next.said.join('\n')).not.toContain('had keys');
});

test('a window that cannot be kept is told once, and once when it can', () => {
  let now = 1_000_000_000_000;
  const record = {
    ...{ id: 'batch_1', owner: 'ann', key: null, models: ['m'], status: 'in_progress', outputs: null },
    ...{ created_at: now / 1000, window: 7_200, failures: [] },
    counts: { total: 400, completed: 0, failed: 0 },
    usage: { input: 0, cached: 0, output: 0, reasoning: 0 },
  } as unknown as BatchRecord;
  const said: [words: string, about: About | undefined][] = [];
  const forecasts = new Forecasts({
    store: { open: () => [record], get: () => record, of: () => record, inputOf: () => '' },
    ...{ seen: () => record, waiting: () => null, servers: () => [['m']], modelsOf: name => [name] },
    ...{ tell: tellForecast((words, about) => void said.push([words, about])), now: () => now },
  });
  const answer = (lines: number, seconds: number): void => {
    for (let n = 0; n < lines; n++) {
      now += seconds * 1000;
      record.counts.completed += 1;
      forecasts.look();
    }
  };
  forecasts.look();
  answer(3, 20);
  expect(said).toEqual([]);
  answer(30, 20);
  expect(said).toHaveLength(1);
  expect(said[0]?.[0]).toMatch(
    /^batch_1 of ann cannot keep its window: it ends about .*: late by .*; its window is too short for these servers$/,
  );
  expect(said[0]?.[1]).toMatchObject({ event: 'batch-late', level: 'warn', reason: 'window' });
  answer(200, 1);
  expect(said).toHaveLength(2);
  expect(said[1]?.[0]).toMatch(/^batch_1 of ann can keep its window again: it ends about .*: kept$/);
});

test('an alias of a model that nobody has is told once models are known, at the start and when the file changes', async () => {
  const model = await serve(echo, { models: ['llama'] });
  const pool = `pool: { endpoints: [${model.url}] }\n`;
  const server = await configured(`${pool}models: { default: lama, fine: llama }\n`);
  const told = () => server.said.filter(line => line.startsWith('models: '));
  await expect
    .poll(told)
    .toEqual([
      'models: no server has "lama", which "default" stands for; start a server that has it, or correct the name',
    ]);
  await server.again(`${pool}models: { default: llama, fine: llama-2 }\n`);
  await expect.poll(told).toHaveLength(2);
  expect(told()[1]).toContain('no server has "llama-2", which "fine" stands for');
});

test('the page says that the disk is nearly full, and no more once it is not', async () => {
  let free = 50e9;
  const server = await served({
    ...{ endpoints: [(await serve(echo)).url], settings: { diskReserve: 2e9 } },
    disk: () => ({ free, size: 100e9 }),
  });
  const page = async () => await (await fetch(`${server.url}/ui/`)).text();
  const notice = 'nearly full (1.5 GB left): new files and batches are refused. Batches that run go on.';
  expect(await page()).not.toContain('nearly full');
  free = 1.5e9;
  await expect.poll(page).toContain(notice);
  free = 50e9;
  await expect.poll(page).not.toContain('nearly full');
});

test('interactive_ttft follows the file', async () => {
  const model = await serve(echo);
  const pool = `pool: { endpoints: [${model.url}] }\n`;
  const server = await configured(pool);
  expect(await server.again(`${pool}interactive_ttft: 200ms\n`)).toBe(
    'SIGHUP: interactive_ttft is "200ms" now',
  );
});

test('room for a revocation is held from the first key on, and taken by that alone', async () => {
  const data = folder();
  keyOf(data, 'ann');
  const room = () => readFileSync(join(data, 'keys.room')).length;
  holdRoom(data);
  expect(room()).toBe(64 * 1024);
  const full = () => {
    throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall: 'write' });
  };
  let times = 0;
  const once = (keys: NonNullable<ReturnType<typeof readKeys>>) => (times++ === 0 ? full() : keys);
  await expect(changeKeys(data, once)).rejects.toMatchObject({ exit: 74 });
  expect([times, room()]).toEqual([1, 64 * 1024]);
  times = 0;
  await changeKeys(data, once, { isUrgent: true });
  expect([times, room()]).toEqual([2, 64 * 1024]);
  // where nothing helps it is told
  await expect(changeKeys(data, full, { isUrgent: true })).rejects.toMatchObject({ exit: 74 });
});

test.runIf(canMount)(
  'on a disk without a free byte a key is revoked, none is added, and no server starts',
  async () => {
    const disk = folder();
    const script = [
      `mount -t tmpfs -o size=1m none ${disk}`,
      `fw keys add ann --data ${disk}/data && fw keys add bob --data ${disk}/data`,
      `cat /dev/zero > ${disk}/full`,
      `fw keys add eve --data ${disk}/data`,
      'echo "added: $?" >&2',
      `fw serve --data ${disk}/data --listen 127.0.0.1:0 --endpoint http://127.0.0.1:1/v1`,
      'echo "started: $?" >&2',
      `fw keys revoke ann --data ${disk}/data; echo "revoked: $?" >&2`,
      `fw keys revoke bob --data ${disk}/data; echo "revoked: $?" >&2`,
      `fw keys ls --data ${disk}/data`,
    ].join('\n');
    const child = spawn('unshare', ['-m', 'bash', '-c', script], { env: environment({}) });
    let [out, said] = ['', ''];
    child.stdout.on('data', chunk => {
      out += chunk;
    });
    child.stderr.on('data', chunk => {
      said += chunk;
    });
    await once(child, 'close');
    expect(said.match(/(added|started|revoked): \d+/g), said).toEqual([
      ...['added: 74', 'started: 74', 'revoked: 0', 'revoked: 0'],
    ]);
    expect(said).toContain('nothing in it is lost: make room, and start again');
    expect(out.match(/"revoked":\d+/g), out).toHaveLength(2);
    expect(out).not.toContain('eve');
  },
);
