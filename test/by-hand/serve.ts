/**
 * A batch of many lines through fw serve, by the official client: uploaded, validated, run, killed three times with
 * SIGKILL and started again, read back. Says what it took, and ends with 1 where something is not as it must be.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  createReadStream,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI from 'openai';

const [lines = 170_000, kills = 3, seed = Date.now() % 1000] = process.argv.slice(2).map(Number);
const LIMIT = 256;
const SERVERS = 2;
const MOST_MB = 400;
const work = mkdtempSync(join(tmpdir(), 'fw-serve-'));
const fw = join(process.env.ROOT as string, 'dist/bin/fw.js');
const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(work, { recursive: true, force: true });
});

let random = seed;
const draw = (): number => {
  random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
  return random / 2 ** 32;
};

async function started(
  args: string[],
): Promise<{ child: ChildProcess; url: string; last(): Promise<string> }> {
  const child = spawn(process.execPath, [fw, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  const out = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  const { url } = JSON.parse((await out.next()).value as string);
  const last = async (): Promise<string> => {
    child.kill('SIGTERM');
    let line = '';
    for (let next = await out.next(); !next.done; next = await out.next()) line = next.value;
    return line;
  };
  return { child, url, last };
}

const memory = ({ pid }: ChildProcess, what: 'VmRSS' | 'VmHWM'): number => {
  const [, kib] =
    new RegExp(`^${what}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1024);
};

const input = join(work, 'input.jsonl');
const words =
  'approve budget pilot quarter margin supplier delivery region forecast contract renewal customer'.split(
    ' ',
  );
const text = Array.from({ length: 340 }, (_, n) => words[(n * 7) % words.length]).join(' ');
const file = openSync(input, 'w');
for (let n = 0; n < lines; n++) {
  const messages = [
    { role: 'system', content: text.slice(0, 1800) },
    { role: 'user', content: `${n}: ${text.slice(n % 900, 1000 + (n % 900))}` },
  ];
  const body = { model: 'simulated-3b', messages, max_completion_tokens: 300, temperature: 0 };
  writeSync(
    file,
    `${JSON.stringify({ custom_id: `request-${n}`, method: 'POST', url: '/v1/chat/completions', body })}\n`,
  );
}
closeSync(file);
console.log(`input: ${lines} lines, ${Math.round(statSync(input).size / 1e6)} MB; seed ${seed}`);

const simulators: Awaited<ReturnType<typeof started>>[] = [];
for (let n = 0; n < SERVERS; n++)
  simulators.push(await started(['simulate', '--port', '0', '--latency', '20ms-60ms']));
const serve = () =>
  started([
    ...['serve', '--data', join(work, 'data'), '--listen', '127.0.0.1:0', '--endpoint-limit', String(LIMIT)],
    ...simulators.flatMap(({ url }) => ['--endpoint', url]),
  ]);
const begun = performance.now();
const seconds = (): string => `${((performance.now() - begun) / 1000).toFixed(1)} s`;
let server = await serve();
let openai = new OpenAI({ apiKey: 'none', baseURL: `${server.url}/v1` });
let most = 0;
const uploaded = await openai.files.create({ file: createReadStream(input), purpose: 'batch' });
console.log(`uploaded after ${seconds()}, ${memory(server.child, 'VmHWM')} MB`);
const { id } = await openai.batches.create({
  input_file_id: uploaded.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});
const points = Array.from({ length: kills }, () => Math.floor(draw() * lines)).sort((a, b) => a - b);
let batch = await openai.batches.retrieve(id);
let status = '';
while (batch.status !== 'completed') {
  if (batch.status !== status) console.log(`${batch.status} after ${seconds()}`);
  status = batch.status;
  most = Math.max(most, memory(server.child, 'VmHWM'));
  if ((batch.request_counts?.completed ?? 0) >= (points[0] ?? Number.POSITIVE_INFINITY)) {
    points.shift();
    server.child.kill('SIGKILL');
    const at = performance.now();
    server = await serve();
    openai = new OpenAI({ apiKey: 'none', baseURL: `${server.url}/v1` });
    console.log(
      `killed at ${batch.request_counts?.completed} after ${seconds()}; listens again after ${Math.round(performance.now() - at)} ms`,
    );
  }
  await pause(100);
  batch = await openai.batches.retrieve(id);
}
console.log(`completed after ${seconds()}`, batch.request_counts, batch.usage?.total_tokens, 'tokens');
const reply = await openai.files.content(batch.output_file_id as string);
let n = 0;
let wrong = 0;
for await (const line of createInterface({ input: Readable.fromWeb(reply.body as never) })) {
  if (!line.includes(`"custom_id":"request-${n}",`) || !line.includes('"status_code":200')) wrong += 1;
  n += 1;
}
most = Math.max(most, memory(server.child, 'VmHWM'));
await server.last();
let asked = 0;
for (const simulator of simulators) asked += JSON.parse(await simulator.last()).answers ?? 0;
const repeated = asked - lines;
console.log(`read back after ${seconds()}: ${n} lines, ${wrong} not in their place`);
console.log(
  `asked ${asked} times: ${repeated} more than lines, with at most ${kills * SERVERS * LIMIT} in flight at the kills`,
);
console.log(`memory: at most ${most} MB`);
const isFine = n === lines && wrong === 0 && repeated <= kills * SERVERS * LIMIT && most <= MOST_MB;
console.log(isFine ? 'ok' : 'NOT OK');
process.exit(isFine ? 0 : 1);
