/**
 * Limits that are learned under eight batches, run by hand:
 *   npx esbuild test/by-hand/slow-serve.ts --bundle --format=esm --platform=node --packages=external --outfile=dist/slow-serve.mjs && node dist/slow-serve.mjs
 * Two servers of 40 ms in another process; a new `fw serve` each time, for two owners with four batches each. In turn: the
 * limit set by hand, from 8 to 512, and learned, in STARTS fresh starts. Counted are the answers of SECONDS from the 20th
 * second on. Bounds: each learned start gives 0.9 of the best that was set, and no limit is below 32 in the end.
 */
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';

const LATENCY = 40;
const LIMITS = (process.env.LIMITS ?? '8,16,32,64,128,256,512').split(',').map(Number);
const STARTS = Number(process.env.STARTS ?? 5);
const WARM = Number(process.env.WARM ?? 20);
const SECONDS = Number(process.env.SECONDS ?? 10);
const LINES = Number(process.env.LINES ?? 20_000);
const LEAST = 0.9;
const LIMIT = 'fw_calls_limit';
const COLLAPSED = 32;
const FW = process.env.FW ?? 'dist/bin/fw.js';

if (process.argv[2] === 'serve') await serve();
else await compare();

async function serve(): Promise<void> {
  const message = { role: 'assistant', content: '{}' };
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  const usage = { prompt_tokens: 500, completion_tokens: 100, total_tokens: 600 };
  const body = JSON.stringify({ id: 'c', object: 'chat.completion', created: 0, model: 'm', choices, usage });
  const models = JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] });
  let answers = 0;
  const ports: number[] = [];
  for (const _ of [1, 2]) {
    const server = createServer((request, response) => {
      if (request.url === '/v1/models') return void response.end(models);
      if (request.method !== 'POST') return void response.writeHead(404).end();
      request.resume().on('end', () =>
        setTimeout(() => {
          answers++;
          response.end(body);
        }, LATENCY),
      );
    }).listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
    await once(server, 'listening');
    ports.push((server.address() as AddressInfo).port);
  }
  process.send?.(ports);
  process.on('message', () => process.send?.(answers));
  process.on('disconnect', () => process.exit());
}

/** `fw serve` under eight batches: answers a second, and the limits in the end. */
async function run(
  servers: ChildProcess,
  ports: readonly number[],
  limit: number | null,
): Promise<{ rate: number; limits: number[] }> {
  const data = mkdtempSync(join(tmpdir(), 'fw-slow-'));
  const keys = ['ada', 'ben'].map(name => {
    const made = spawnSync('node', [FW, 'keys', 'add', name, '--scope', 'batch,metrics', '--data', data]);
    return /fw_[\w-]{43}/.exec(`${made.stdout}${made.stderr}`)?.[0] as string;
  });
  const endpoints = ports.flatMap(port => ['--endpoint', `http://127.0.0.1:${port}/v1`]);
  const set = limit === null ? [] : ['--endpoint-limit', String(limit)];
  const server = spawn(
    'node',
    [FW, 'serve', '--data', data, '--listen', '127.0.0.1:0', ...endpoints, ...set],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  const [line] = (await once(server.stdout, 'data')) as [Buffer];
  const { url } = JSON.parse(line.toString()) as { url: string };
  for (const [at, apiKey] of keys.entries()) {
    const openai = new OpenAI({ apiKey, baseURL: `${url}/v1` });
    for (let batch = 0; batch < 4; batch++) {
      const lines = Array.from({ length: LINES }, (_, n) =>
        JSON.stringify({
          ...{ custom_id: `${n}`, method: 'POST', url: '/v1/chat/completions' },
          body: { model: 'm', messages: [{ role: 'user', content: `${at} ${batch} ${n}` }], max_tokens: 100 },
        }),
      );
      const file = await openai.files.create({
        file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'),
        purpose: 'batch',
      });
      const endpoint = '/v1/chat/completions' as const;
      await openai.batches.create({ input_file_id: file.id, endpoint, completion_window: '24h' });
    }
  }
  const [key = ''] = keys;
  const read = async (name: string): Promise<number[]> => {
    const page = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } });
    const found = (await page.text()).split('\n').filter(one => one.startsWith(`${name}{`));
    return found.map(one => Number(one.split(' ').at(-1)));
  };
  const answers = async (): Promise<number> => {
    servers.send('count');
    return ((await once(servers, 'message')) as [number])[0];
  };
  await pause(WARM * 1_000);
  const [from, before] = [performance.now(), await answers()];
  await pause(SECONDS * 1_000);
  const rate = (1_000 * ((await answers()) - before)) / (performance.now() - from);
  const limits = await read(LIMIT);
  server.kill('SIGKILL');
  await once(server, 'exit');
  rmSync(data, { recursive: true, force: true });
  return { rate, limits };
}

async function compare(): Promise<void> {
  const servers = fork(process.argv[1] as string, ['serve']);
  const [ports] = (await once(servers, 'message')) as [number[]];
  const set = new Map<number, number>();
  const learned: { rate: number; limits: number[] }[] = [];
  for (let n = 0; n < Math.max(LIMITS.length, STARTS); n++) {
    const limit = LIMITS[n];
    if (limit !== undefined) {
      const { rate } = await run(servers, ports, limit);
      set.set(limit, rate);
      console.log(`by hand ${limit}: ${rate.toFixed(0)}/s`);
    }
    if (n >= STARTS) continue;
    const one = await run(servers, ports, null);
    learned.push(one);
    console.log(`learned ${one.limits.join(' and ')}: ${one.rate.toFixed(0)}/s`);
  }
  const best = Math.max(...set.values());
  for (const { rate, limits } of learned) {
    const share = rate / best;
    const isBad = share < LEAST || limits.some(limit => limit < COLLAPSED);
    console.log(`learned ${limits.join(' and ')}: ${share.toFixed(2)} of the best${isBad ? ' TOO LOW' : ''}`);
  }
  servers.disconnect();
}
