/**
 * How many workers there are to be: the query of deploy/kubernetes/workers.yaml under promtool, and deploy/slurm/scale.sh
 * with an sbatch, a squeue and a scancel that write down what they are told.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { every } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { begun } from './processes.ts';

const page = (seconds: readonly [number, number] | null, lines: readonly [number, number]): string =>
  [
    ...(seconds ?? []).map(
      (value, at) => `fw_shard_work_seconds{state="${at ? 'running' : 'queued'}"} ${value}`,
    ),
    ...lines.map((value, at) => `fw_shard_lines{state="${at ? 'running' : 'queued'}"} ${value}`),
    '# TYPE fw_workers gauge',
    'fw_workers 1',
    '',
  ].join('\n');

/** What a server says, and how many seconds of work that is; null where nothing can be said. */
const SAID: readonly [what: string, page: string, work: number | null][] = [
  ['nothing is there', page([0, 0], [0, 0]), 0],
  ['nothing was there yet', page(null, [0, 0]), 0],
  ['all of it waits, and no rate is known', page(null, [1000, 0]), 1000],
  ['all of it waits', page([7200, 0], [1000, 0]), 7200],
  ['all of it runs', page([0, 3599.5], [0, 400]), 3599.5],
  ['some waits and some runs', page([6e6, 100.25], [1e6, 30]), 6_000_100.25],
  [
    'lines of a model that no worker has start none, before and after a rate is known',
    `fw_shard_lines{state="unserved"} 500\n${page(null, [0, 0])}`,
    0,
  ],
  ['a server without --redis', 'fw_batches{state="in_progress"} 1\n', null],
];

const isThere = spawnSync('promtool', ['--version']).error === undefined;
describe.runIf(isThere)('promtool: the query of deploy/kubernetes/workers.yaml', () => {
  const text = readFileSync(join(ROOT, 'deploy', 'kubernetes', 'workers.yaml'), 'utf8');
  const scaled = parseAllDocuments(text)
    .map(document => document.toJS())
    .find(({ kind }) => kind === 'ScaledObject');
  const { query } = scaled.spec.triggers[0].metadata;

  test.each(SAID)('%s', (_, said, work) => {
    const input_series = said
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
      .map(line => line.split(' ') as [string, string])
      .map(([series, value]) => ({ series, values: `${Number(value)}x5` }));
    // one value or an error: two would be an error of KEDA's, none is one by ignoreNullValues
    const exp_samples = work === null ? [] : [{ labels: '{}', value: work }];
    const promql_expr_test = [{ expr: query, eval_time: '3m', exp_samples }];
    const at = join(folder(), 'query.test.yaml');
    writeFileSync(at, stringify({ tests: [{ interval: '1m', input_series, promql_expr_test }] }));
    const ran = spawnSync('promtool', ['test', 'rules', at], { encoding: 'utf8' });
    expect(ran.status, ran.stdout + ran.stderr).toBe(0);
  });
});

describe('deploy/slurm/scale.sh', () => {
  const SCRIPT = join(ROOT, 'deploy', 'slurm', 'scale.sh');

  interface Cluster {
    waiting?: readonly number[];
    running?: readonly number[];
    env?: Record<string, string>;
  }

  /** Runs it once; what it submitted, and which jobs it cancelled. */
  async function scaled(said: string | null, { waiting = [], running = [], env = {} }: Cluster = {}) {
    const bin = folder();
    const put = (name: string, script: string): void => {
      writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(bin, name), 0o755);
    };
    put('sbatch', `echo "$@" >> ${bin}/submitted; echo 99`);
    put('scancel', `echo "$@" >> ${bin}/cancelled`);
    put(
      'squeue',
      `case "$*" in *PENDING*) printf '%s' '${waiting.map(id => `${id}\n`).join('')}';; *RUNNING*) printf '%s' '${running.map(id => `${id}\n`).join('')}';; *) exit 1;; esac`,
    );
    const asked: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      asked.push(request.headers.authorization);
      response.writeHead(said === null ? 503 : 200).end(said ?? '');
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await new Promise(resolve => server.once('listening', resolve));
    const FW_SERVER = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ran = begun('bash', [SCRIPT], { bin, env: { FW_SERVER, TMPDIR: bin, ...env } });
    const code = await ran.ended;
    const linesOf = (name: string): string[] =>
      existsSync(join(bin, name)) ? readFileSync(join(bin, name), 'utf8').trim().split('\n') : [];
    return {
      code,
      said: ran.said(),
      submitted: linesOf('submitted'),
      cancelled: linesOf('cancelled'),
      asked,
    };
  }
  const submitted = async (...given: Parameters<typeof scaled>) => (await scaled(...given)).submitted.length;

  test.each(every(2, SAID))('%s', async (_, said, work) => {
    const { code, submitted } = await scaled(said, { env: { MOST: '16', SECONDS_EACH: '600' } });
    expect(code).toBe(work === null ? 65 : 0);
    expect(submitted).toHaveLength(Math.min(16, Math.ceil((work ?? 0) / 600)));
  });

  test('workers that run and workers that wait count', async () => {
    const much = page([9000, 0], [1, 0]); // five workers of half an hour
    expect(await submitted(much, { running: [1, 2], waiting: [3] })).toBe(2);
    expect(await submitted(much, { running: [1, 2, 3, 4, 5] })).toBe(0);
    expect(await submitted(much, { env: { MOST: '2' } })).toBe(2);
  });

  test('those that wait and are not needed are cancelled, the youngest first; those that run never', async () => {
    const { cancelled } = await scaled(page([1, 0], [1, 0]), { running: [1], waiting: [7, 9, 11] });
    expect(cancelled).toEqual(['11 9 7']);
    expect((await scaled(page([3601, 0], [1, 0]), { running: [1], waiting: [7, 9, 11] })).cancelled).toEqual([
      '11',
    ]);
    expect((await scaled(page([0, 0], [0, 0]), { running: [1, 2] })).cancelled).toEqual([]);
  });

  test('a server that does not answer: nothing is changed', async () => {
    const { code, said, submitted, cancelled } = await scaled(null, { waiting: [1] });
    expect([code, submitted, cancelled]).toEqual([69, [], []]);
    expect(said).toContain('nothing is changed');
  });

  test('the key is sent, and is no argument; further options go to sbatch', async () => {
    const env = { FW_METRICS_KEY: 'fw_secret', SUBMIT: '--partition=gpu --account=mine' };
    const { asked, said, submitted } = await scaled(page([1, 0], [1, 0]), { env });
    expect(asked).toEqual(['Bearer fw_secret']);
    expect(said).not.toContain('secret');
    expect(submitted).toEqual([
      `--parsable --job-name fw-worker --partition=gpu --account=mine ${join(ROOT, 'deploy/slurm')}/workers.sbatch`,
    ]);
    expect(readFileSync(SCRIPT, 'utf8')).toContain('header | curl --config -');
  });
});
