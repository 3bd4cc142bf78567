/**
 * deploy/slurm/workers.sbatch as a plain process, with a `vllm` that is a simulated server: what Slurm would start, with
 * the variables and the signals that it would give. test/by-hand/slurm.sh has a real Slurm.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { begin, linesOf, reached } from '../server/batching.ts';
import { startRedis } from '../shards/redis.ts';
import { begun, newKey, type Running, serving, until, wholeWithRedis } from './processes.ts';

const SCRIPT = join(ROOT, 'deploy', 'slurm', 'workers.sbatch');
const SERVE = ['serve', '--data', '', '--listen', ''];

interface Cluster {
  url: string;
  key: string;
  /** A job; `latency` is that of its vLLM. */
  job(id: number, latency: string, env?: Record<string, string>): Running & { at: string };
}

async function cluster(): Promise<Cluster> {
  const redis = await startRedis();
  const data = join(folder(), 'data');
  const key = await newKey(data, 'alice');
  const FW_WORKER_KEY = await newKey(data, 'gpus', '--scope', 'worker');
  const url = await serving(SERVE, data, { FW_REDIS: redis.url });
  return {
    url,
    key,
    job(id, latency, more = {}) {
      const at = folder();
      const bin = folder();
      mkdirSync(join(at, 'logs'));
      const vllm = `#!/bin/sh
echo $$ > ${at}/vllm.pid
while [ "$1" != --port ]; do shift; done
exec fw simulate --port "$2" --latency ${latency}
`;
      writeFileSync(join(bin, 'vllm'), vllm);
      chmodSync(join(bin, 'vllm'), 0o755);
      const env = {
        FW_REDIS: redis.url,
        FW_SERVER: url,
        FW_WORKER_KEY,
        SLURM_JOB_ID: `${id}`,
        GRACE: '100ms',
        ...more,
      };
      onTestFinished(() => endVllm(at, 'SIGKILL'));
      return { ...begun('bash', [SCRIPT], { cwd: at, bin, env }), at };
    },
  };
}

function endVllm(at: string, signal: NodeJS.Signals): void {
  try {
    process.kill(Number(readFileSync(join(at, 'vllm.pid'), 'utf8')), signal);
  } catch {
    // it has ended, or never began
  }
}
function vllmLives(at: string): boolean {
  try {
    return process.kill(Number(readFileSync(join(at, 'vllm.pid'), 'utf8')), 0);
  } catch {
    return false;
  }
}

wholeWithRedis(
  'a job answers what there is, ends by itself when there is no more, and its vLLM with it',
  async () => {
    const { url, key, job } = await cluster();
    const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
    const { id } = await begin(client, linesOf(30));
    await reached(client, id, ({ status }) => status === 'in_progress');
    const one = job(1, '1ms', { IDLE: '10s' });
    expect(await reached(client, id)).toMatchObject({
      status: 'completed',
      request_counts: { completed: 30 },
    });
    expect(await one.ended, one.said()).toBe(0);
    expect(vllmLives(one.at)).toBe(false);
  },
);

wholeWithRedis('the signal before the time limit: what it has goes to another job', async () => {
  const { url, key, job } = await cluster();
  const slow = job(1, '600s');
  const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
  const { id } = await begin(client, linesOf(5));
  await until(async () => (await askedOf(slow)) === 5);
  slow.child.kill('SIGTERM');
  const other = job(2, '1ms');
  const batch = await reached(client, id);
  expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 5 } });
  expect(await slow.ended, slow.said()).toBe(0);
  expect(vllmLives(slow.at)).toBe(false);
  other.child.kill('SIGTERM');
  expect(await other.ended, other.said()).toBe(0);
});

wholeWithRedis('a vLLM that ends: the job hands back, says where to look, and fails', async () => {
  const { url, key, job } = await cluster();
  const broken = job(1, '600s');
  const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
  await begin(client, linesOf(5));
  await until(async () => (await askedOf(broken)) === 5);
  endVllm(broken.at, 'SIGKILL');
  expect(await broken.ended).toBe(1);
  expect(broken.said()).toContain('vLLM has ended: logs/vllm-1.log says why');
});

/** How many requests its vLLM has at this moment. */
async function askedOf({ at }: { at: string }): Promise<number> {
  try {
    const log = readFileSync(join(at, 'logs', 'vllm-1.log'), 'utf8');
    const [, url = ''] = /"url":"([^"]+)"/.exec(log) ?? [];
    const page = await (await fetch(`${new URL(url).origin}/metrics`)).text();
    return Number(/^vllm:num_requests_running\{[^}]*\} (\S+)$/m.exec(page)?.[1] ?? 0);
  } catch {
    return 0; // it does not listen yet
  }
}
