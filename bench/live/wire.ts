/** The same experiment on real sockets: `fw simulate`, `fw serve` before it, and callers that stream. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { lcg } from '../../products/simulator/random.ts';
import { table } from '../page.ts';
import { percentile } from './run.ts';

const PRESET = process.env.PRESET ?? '8b-h100';
const RATE = Number(process.env.RATE ?? 15);
const SECONDS = Number(process.env.SECONDS ?? 90);
const LINES = Number(process.env.LINES ?? 1_000);
const TOKENS = 512;
const OUTPUT = 128;
const MODEL = 'simulated-3b';

interface Server {
  url: string;
  stop(): Promise<unknown>;
}

/** Starts a command of fw that prints its URL as JSON. */
export async function start(...args: string[]): Promise<Server> {
  const child = spawn(process.execPath, ['dist/bin/fw.js', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise<string>((found, failed) => {
    child.once('exit', code => failed(new Error(`fw ${args[0]} ended with ${code}`)));
    child.stdout.once('data', line => found((JSON.parse(String(line)) as { url: string }).url));
  });
  return {
    url,
    stop() {
      child.kill();
      return new Promise(over => child.once('exit', over));
    },
  };
}

let asked = 0;
const messages = (): object[] => [{ role: 'user', content: `${++asked} `.padEnd(4 * (TOKENS - 7), 'x') }];
const body = (more: object = {}): string =>
  JSON.stringify({ model: MODEL, messages: messages(), max_tokens: OUTPUT, min_tokens: OUTPUT, ...more });

/** ms to the first event that has text */
async function ttft(url: string): Promise<number> {
  const came = performance.now();
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body: body({ stream: true }),
  });
  if (!reply.ok || reply.body === null) return Number.POSITIVE_INFINITY;
  let first = Number.POSITIVE_INFINITY;
  for await (const chunk of reply.body)
    if (Buffer.from(chunk).includes('"content"')) first = Math.min(first, performance.now() - came);
  return first;
}

async function callers(url: string, rate: number, seconds: number, random: () => number): Promise<number[]> {
  const all: Promise<number>[] = [];
  const end = performance.now() + 1_000 * seconds;
  for (let at = performance.now(); ; ) {
    at += (-1_000 * Math.log(1 - random())) / rate;
    if (at >= end) break;
    await pause(Math.max(0, at - performance.now()));
    all.push(ttft(url));
  }
  await pause(Math.max(0, end - performance.now()));
  return await Promise.all(all);
}

async function post(url: string): Promise<string> {
  const lines = Array.from({ length: LINES }, (_, n) =>
    JSON.stringify({
      custom_id: `l${n}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: JSON.parse(body()),
    }),
  );
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([lines.join('\n')]), 'lines.jsonl');
  const { id } = (await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json()) as {
    id: string;
  };
  const asked = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '15m' };
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`${url}/v1/batches`, { method: 'POST', headers, body: JSON.stringify(asked) });
  return ((await reply.json()) as { id: string }).id;
}

async function done(url: string, id: string): Promise<{ seconds: number; completed: number }> {
  for (;;) {
    const batch = (await (await fetch(`${url}/v1/batches/${id}`)).json()) as {
      status: string;
      created_at: number;
      finalizing_at: number;
      request_counts: { completed: number };
    };
    if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status))
      return { seconds: batch.finalizing_at - batch.created_at, completed: batch.request_counts.completed };
    await pause(500);
  }
}

async function once(policy: string): Promise<string[]> {
  const data = mkdtempSync(join(tmpdir(), 'fw-live-'));
  const simulator = await start('simulate', '--port', '0', '--preset', PRESET, '--scheduling-policy', policy);
  const server = await start('serve', '--data', data, '--listen', '127.0.0.1:0', '--endpoint', simulator.url);
  try {
    const random = lcg(7);
    const quiet = async (): Promise<number[]> => [
      ...(await callers(server.url, RATE, SECONDS, random)),
      ...(await callers(server.url, 1, SECONDS, random)),
    ];
    const alone = await quiet();
    const ids = await Promise.all([1, 2, 3].map(() => post(server.url)));
    const beside = await quiet();
    const ended = await Promise.all(ids.map(id => done(server.url, id)));
    const three = (seen: readonly number[]): string =>
      [0.5, 0.95, 0.99].map(share => percentile(seen, share).toFixed(0)).join(' · ');
    return [
      policy,
      three(alone),
      three(beside),
      (percentile(beside, 0.95) / percentile(alone, 0.95)).toFixed(2),
      `${ended.reduce((sum, { completed }) => sum + completed, 0)} of ${3 * LINES} lines, the last batch in ${Math.max(...ended.map(({ seconds }) => seconds))} s`,
    ];
  } finally {
    await server.stop();
    await simulator.stop();
    rmSync(data, { recursive: true, force: true });
  }
}

/** A table of it, with both policies. */
export async function wireRun(): Promise<string[]> {
  const rows = [['scheduling', 'alone', 'beside', 'P95 by alone', 'batches']];
  for (const policy of (process.env.POLICY ?? 'fcfs,priority').split(',')) {
    rows.push(await once(policy));
    console.error(rows.at(-1)?.join(' | '));
  }
  return ['', `On real sockets, ${PRESET} at ${RATE}/s:`, '', ...table(rows)];
}

if (process.argv[1]?.endsWith('wire.js')) console.log((await wireRun()).join('\n'));
