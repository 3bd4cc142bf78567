/**
 * Interactive users beside a running batch, run by hand:
 *   npx esbuild test/by-hand/interactive.ts --bundle --format=esm --platform=node --packages=external | node --input-type=module - [SECONDS] [LINES]
 * One `fw simulate` (8b-h100, 256 calls in flight) behind `fw serve`, with as many places kept for users as the default
 * says. In turn, SECONDS each: 20 users alone, the batch alone, both together. Users stream a chat, wait a second and ask
 * again. Bounds: 99 % of their waits in our queue are at most 10 ms, and the batch keeps 0.9 of its throughput.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';

const SECONDS = Number(process.argv[2] ?? 60);
const LINES = Number(process.argv[3] ?? 100_000);
const USERS = 20;
const MODEL = 'simulated-3b';
const data = mkdtempSync(join(tmpdir(), 'fw-interactive-'));
const started: ReturnType<typeof spawn>[] = [];
process.on('exit', () => {
  for (const one of started) one.kill('SIGKILL');
  rmSync(data, { recursive: true, force: true });
});

/** Starts `fw` with `args`, and resolves to the URL in its first line. */
function begin(args: readonly string[]): Promise<string> {
  const child = spawn('node', ['dist/bin/fw.js', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  return new Promise(resolve => {
    child.stdout?.once('data', (bytes: Buffer) => {
      const text = bytes.toString();
      resolve(/https?:\/\/[^"\s]+/.exec(text)?.[0] as string);
    });
  });
}

const words = 'approve budget pilot quarter margin supplier delivery region forecast contract '.repeat(12);
const engine = await begin(['simulate', '--preset', '8b-h100', '--model', MODEL, '--port', '0']);
const url = await begin([
  ...['serve', '--data', join(data, 'serve'), '--listen', '127.0.0.1:0'],
  ...['--endpoint', engine, '--endpoint-limit', '256'],
]);
const openai = new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0, timeout: 600_000 });
const ask = (content: string, tokens: number) => ({
  model: MODEL,
  messages: [{ role: 'user' as const, content }],
  max_tokens: tokens,
});

async function user(name: number, until: number, ttfts: number[]): Promise<void> {
  await pause(name * 50);
  for (let n = 0; Date.now() < until; n++) {
    const from = performance.now();
    const body = { ...ask(`user ${name}, question ${n}: ${words}`, 64), stream: true as const };
    let first = true;
    for await (const chunk of await openai.chat.completions.create(body)) {
      if (first && chunk.choices[0]?.delta.content) {
        ttfts.push(performance.now() - from);
        first = false;
      }
    }
    await pause(1_000);
  }
}

/** How many waits there were, and of these at most 10 ms. */
async function waits(): Promise<[count: number, short: number]> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const read = (name: string): number =>
    Number(
      page
        .split('\n')
        .find(line => line.startsWith(`fw_gateway_wait_seconds${name} `))
        ?.split(' ')
        .at(-1),
    );
  return [read('_count'), read('_bucket{le="0.01"}')];
}

const answered = async (id: string): Promise<number> =>
  (await openai.batches.retrieve(id)).request_counts?.completed ?? 0;

async function users(): Promise<{ ttfts: number[]; calls: number; late: number }> {
  const ttfts: number[] = [];
  const [count, short] = await waits();
  const until = Date.now() + SECONDS * 1_000;
  await Promise.all(Array.from({ length: USERS }, (_, name) => user(name, until, ttfts)));
  const [now, nowShort] = await waits();
  const calls = now - count;
  return { ttfts: ttfts.sort((a, b) => a - b), calls, late: calls - (nowShort - short) };
}

const at = (sorted: readonly number[], share: number): string =>
  `${(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(0)} ms`;
const shown = ({ ttfts, calls, late }: Awaited<ReturnType<typeof users>>): string =>
  `${calls} requests, TTFT p50 ${at(ttfts, 0.5)}, p99 ${at(ttfts, 0.99)}, ${late} waited more than 10 ms in our queue`;

const alone = await users();
console.log(`users alone: ${shown(alone)}`);

const lines = Array.from({ length: LINES }, (_, n) =>
  JSON.stringify({
    custom_id: `r-${n}`,
    method: 'POST',
    url: '/v1/chat/completions',
    body: ask(`${n}: ${words}`, 64),
  }),
);
const file = await openai.files.create({
  file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'),
  purpose: 'batch',
});
const batch = await openai.batches.create({
  input_file_id: file.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});
while ((await answered(batch.id)) < 1_000) await pause(200);

async function rate(during: () => Promise<unknown>): Promise<number> {
  const [from, before] = [performance.now(), await answered(batch.id)];
  await during();
  return ((await answered(batch.id)) - before) / ((performance.now() - from) / 1_000);
}
const batchAlone = await rate(() => pause(SECONDS * 1_000));
let both = alone;
const batchBeside = await rate(async () => {
  both = await users();
});
console.log(`users beside the batch: ${shown(both)}`);
console.log(
  `batch: ${batchAlone.toFixed(1)} answers/s alone, ${batchBeside.toFixed(1)} beside the users: ${(batchBeside / batchAlone).toFixed(3)} of it`,
);
process.exit(both.late > both.calls / 100 || batchBeside < 0.9 * batchAlone ? 1 : 0);
