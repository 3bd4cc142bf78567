/** fw tune with simulated servers as processes, in real time. Blocks are as short as can be; no time is judged. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Line } from '../../products/measure/tune/tune-record.ts';
import type { TuneResult } from '../../products/measure/tune/tune-result.ts';
import { slow } from '../all.ts';
import { freePort } from '../free-port.ts';
import { environment, folder, ROOT, shell } from '../fw.ts';

/** A folder with a tune.yaml in it; `serve` is a part of its command line, or all of it. */
async function study(
  more: string,
  { serve, space = '{ max_num_seqs: [8] }' }: { serve?: (port: number) => string; space?: string } = {},
): Promise<{ at: string; port: number }> {
  const at = folder();
  const port = await freePort();
  const command =
    serve?.(port) ?? `fw simulate --port ${port} --preset 3b-a6000 --max-num-seqs {max_num_seqs}`;
  const [, name, value] = /\{ (\w+): \[([^\],]+)/.exec(space) as unknown as [string, string, string];
  const present = more.includes('present:') ? '' : `present: { ${name}: ${value} }\n`;
  writeFileSync(
    join(at, 'tune.yaml'),
    `serve: ${JSON.stringify(command)}
endpoint: http://127.0.0.1:${port}/v1
space: ${space}
${present}load: { input_tokens: 60, output_tokens: 6 }
block: 1s
${more}`,
  );
  return { at, port };
}

const read = (path: string): TuneResult => JSON.parse(readFileSync(path, 'utf8'));
const linesOf = (at: string): Line[] =>
  readFileSync(join(at, 'tune/tune.ndjson'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line));

async function listens(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/health`).then(
    () => true,
    () => false,
  );
}

test('measures the present setting, answers every doubt by a field, and measures nothing twice', async () => {
  const { at, port } = await study('slo: { tpot_p50: 60000 }\n');
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stdout).toContain('nothing is recommended');
  expect(ran.stderr).toContain('no server of this study runs now');
  expect(await listens(port)).toBe(false);
  const result = read(join(at, 'tune/tune.json'));
  expect(result.verdict).toBe('present is best');
  expect(result.recommended).toBeNull();
  expect(result.starts).toEqual({ memory: 0, race: 1, confirm: 0 });
  // what a reader of another report could not tell: units, workload, how many, how often, how sure, the client, versions, flags
  expect(result.study.unit).toBe('output tokens/s');
  expect(result.workload?.source).toBe('synthetic, 60 tokens in, 6 out');
  expect(JSON.parse(result.workload?.body as string)).toMatchObject({ max_tokens: 6, stream: true });
  expect(result.workload?.output_tokens).toEqual({ mean: 6, std: 0 });
  expect(result.workload?.input_tokens.mean).toBeCloseTo(60, -1);
  const [setting] = result.settings;
  expect(setting?.command).toContain('--max-num-seqs 8');
  expect(setting?.blocks.length).toBeGreaterThanOrEqual(3);
  expect(setting?.full?.low).toBeLessThanOrEqual(setting?.full?.value as number);
  expect(setting?.rate).toBeGreaterThan(0);
  expect(setting?.requests).toBeGreaterThan(40);
  for (const { points } of setting?.rates ?? []) {
    expect(points[0]?.e2el_ms.n).toBe(points[0]?.completed);
    expect(points[0]?.client.facts.loopUtilisation).toBeGreaterThan(0);
    expect(points[0]?.within.tpot_p50).toEqual({ good: points[0]?.completed, of: points[0]?.completed });
  }
  expect(result.server.versions).toHaveLength(1);
  expect(result.server.proofs[0]).toContain('nothing listened');
  expect(result.client.points).toBe(linesOf(at).filter(({ kind }) => kind === 'point').length);
  expect(readFileSync(join(at, 'tune/result.txt'), 'utf8')).toMatch(
    /^hash:.*\nmax_num_seqs: 8, max_num_batched_tokens: unset, request_rate: [\d.]+, e2el: [\d.]+, throughput: [\d.]+, goodput: [\d.]+\nbest_max_num_seqs: 8, best_num_batched_tokens: unset, best_throughput: [\d.]+\n$/,
  );
  const html = readFileSync(join(at, 'tune/tune.html'), 'utf8');
  expect(html).not.toMatch(/<script|https?:\/\/(?!127)/);
  expect(html).toContain('--max-num-seqs 8');
  expect(readdirSync(join(at, 'tune/logs'))).toHaveLength(1);

  const before = readFileSync(join(at, 'tune/tune.ndjson'), 'utf8');
  const again = await shell('fw tune tune.yaml --json', { cwd: at });
  expect(again.code, again.stderr).toBe(0);
  expect(again.stderr).not.toContain('starts max_num_seqs');
  expect(readFileSync(join(at, 'tune/tune.ndjson'), 'utf8')).toBe(before);
  expect({ ...JSON.parse(again.stdout), date: '' }).toEqual({ ...result, date: '' });
});

test('ranks in virtual time, and starts nothing', async () => {
  const { at } = await study('preset: 3b-a6000\n', { space: '{ max_num_seqs: [8, 64] }' });
  const ran = await shell('fw tune tune.yaml --plan', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stdout.split('\n').map(line => line.trim().split(/ +/)[0])).toEqual([
    'max_num_seqs',
    '64',
    '8',
    '',
  ]);
  expect(existsSync(join(at, 'tune'))).toBe(false);
});

test('refuses a port that is taken, and leaves who has it alone', async () => {
  const { at, port } = await study('');
  const own = createServer(socket => socket.end()).listen(port, '127.0.0.1');
  await once(own, 'listening');
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code).toBe(69);
  expect(ran.stderr).toContain('starts its own, and stops no other');
  expect(own.listening).toBe(true);
  own.close();
});

test('a space of more than eight settings needs a preset', async () => {
  const { at } = await study('', { space: '{ max_num_seqs: [1, 2, 3, 4, 5, 6, 7, 8, 9] }' });
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code).toBe(64);
  expect(ran.stderr).toContain('expected a preset to rank 9 settings by');
});

const SCRIPT = join(ROOT, 'test/tune/server.mjs');

slow('servers that fail are named, and cleaned up; the rest is measured', async () => {
  const { at, port } = await study('ready: 20s\n', {
    space: '{ max_num_seqs: [8, 1, 2, 3, 4] }',
    serve: to =>
      `case {max_num_seqs} in 1) exec node ${SCRIPT} memory ${to};; 2) exec node ${SCRIPT} silent ${to};; 3) exec node ${SCRIPT} crash ${to};; 4) node ${SCRIPT} children 0 & exec fw simulate --port ${to} --preset 3b-a6000 --max-num-seqs 4;; *) exec fw simulate --port ${to} --preset 3b-a6000 --max-num-seqs {max_num_seqs};; esac`,
  });
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  const { settings } = read(join(at, 'tune/tune.json'));
  const kinds = settings.map(({ setting, failure }) => [setting.max_num_seqs, failure?.kind ?? null]);
  expect(kinds).toEqual([
    [8, null],
    [1, 'out-of-memory'],
    [2, 'never-healthy'],
    [3, 'does-not-start'],
    [4, null],
  ]);
  expect(settings[1]?.failure?.lines.at(-1)).toContain('CUDA out of memory');
  expect(ran.stderr).toMatch(/max_num_seqs 4: left node \(process \d+\) behind, which was ended/);
  expect(await listens(port)).toBe(false);
});

slow('memory: the largest share that starts and survives a full batch', async () => {
  const { at } = await study('present: { gpu_memory_utilization: 0.9 }\n', {
    space: '{ gpu_memory_utilization: [0.7, 0.8, 0.85, 0.9, 0.95, 0.98] }',
    serve: to =>
      `case {gpu_memory_utilization} in 0.95|0.98) exec node ${SCRIPT} memory ${to};; *) exec fw simulate --port ${to} --preset 3b-a6000 --gpu-memory-utilization {gpu_memory_utilization};; esac`,
  });
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  const { memory, starts, verdict } = read(join(at, 'tune/tune.json'));
  expect(memory?.found).toBe(0.9);
  expect(memory?.tried.length).toBeLessThanOrEqual(3);
  expect(starts.memory).toBeLessThanOrEqual(3);
  expect(verdict).toBe('present is best');
});

slow('equal settings: nothing is recommended', async () => {
  const { at } = await study('load: { input_tokens: 60, output_tokens: 6, concurrency: 2 }\n', {
    space: '{ max_num_seqs: [64, 65, 66] }',
  }).then(made => {
    const path = join(made.at, 'tune.yaml');
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace('load: { input_tokens: 60, output_tokens: 6 }\n', ''),
    );
    return made;
  });
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  const { recommended, verdict } = read(join(at, 'tune/tune.json'));
  expect(recommended).toBeNull();
  expect(['no difference', 'present is best', 'worse']).toContain(verdict);
});

slow('killed in the middle, the same command goes on: what was measured is not measured again', async () => {
  const { at, port } = await study('', { space: '{ max_num_seqs: [8, 32] }' });
  const run = spawn('bash', ['-c', 'exec fw tune tune.yaml'], {
    cwd: at,
    env: environment({}),
    stdio: 'ignore',
  });
  const exited = once(run, 'exit');
  const points = (): Line[] =>
    existsSync(join(at, 'tune/tune.ndjson')) ? linesOf(at).filter(({ kind }) => kind === 'point') : [];
  await expect.poll(() => points().length, { interval: 50 }).toBeGreaterThanOrEqual(4);
  run.kill('SIGKILL');
  await exited;
  const before = points();
  expect(await listens(port)).toBe(true);
  const ran = await shell('fw tune tune.yaml', { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stderr).toMatch(/stopped \S+ \(process \d+\), left over from a killed run/);
  const after = points();
  expect(after.slice(0, before.length)).toEqual(before);
  expect(new Set(after.map(({ key }) => key)).size).toBe(after.length);
  expect(await listens(port)).toBe(false);
});

slow('Ctrl-C: the server is stopped, and the exit code says so', async () => {
  const { at, port } = await study('');
  const run = spawn('bash', ['-c', 'exec fw tune tune.yaml'], { cwd: at, env: environment({}) });
  let said = '';
  run.stderr.on('data', chunk => {
    said += chunk;
  });
  const exited = once(run, 'exit');
  await expect.poll(() => listens(port), { interval: 50 }).toBe(true);
  run.kill('SIGINT');
  expect(await exited).toEqual([130, null]);
  expect(said).toContain('no server of this study runs now; the same command continues from here');
  expect(await listens(port)).toBe(false);
});
