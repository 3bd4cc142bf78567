/**
 * The command lines of deploy/ as plain processes, against a simulated server: what Slurm, Kubernetes, Docker and systemd
 * would start, with the variables that they would set. test/by-hand/slurm.sh has a real Slurm.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { every, runs, slow } from '../all.ts';
import { binFolder, environment, folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const DEPLOY = join(ROOT, 'deploy');
const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const BATCH = join(ROOT, 'pipelines', 'fairwatch', 'batch.yaml');
const TEMPLATE = join(ROOT, 'pipelines', 'fairwatch', 'application.liquid');
const ROWS = 8;
/** of a whole run; each is a process */
const SHARDS = runs(2, 4, 'SHARDS');

let FW_ENDPOINTS: string;
let table: string;
beforeAll(async () => {
  const { all } = await servers(1);
  FW_ENDPOINTS = all[0]?.url as string;
  table = await makeTable();
});

/** A folder with a small table, and the ids that must come of it. */
function work(): string {
  const at = folder();
  cpSync(table, at, { recursive: true });
  return at;
}

async function makeTable(): Promise<string> {
  const at = folder();
  const rows = `fw ingest --limit ${ROWS} ${CSV} | jq -rs 'map(.input | del(.prompt)) | (.[0] | keys_unsorted), (.[] | [.[]]) | @csv'`;
  const made = await fw(
    `${rows} > prompts.csv && fw ingest --or-template ${TEMPLATE} prompts.csv > asked.ndjson`,
    { cwd: at },
  );
  expect(made.code, made.stderr).toBe(0);
  return at;
}

async function expectAllThere(at: string, files: string): Promise<void> {
  const ran = await fw(`fw verify --ids asked.ndjson ${files}`, { cwd: at });
  expect(ran.code, ran.stderr).toBe(0);
}

describe('deploy/slurm/shards.sbatch', () => {
  const SCRIPT = join(DEPLOY, 'slurm', 'shards.sbatch');

  /** What Slurm sets for a task of an array, with an scontrol that writes down what it is told. */
  function task(at: string, id: number, env: Record<string, string> = {}) {
    const bin = join(at, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'scontrol'), `#!/bin/sh\necho "$@" >> ${at}/scontrol.log\n`);
    chmodSync(join(bin, 'scontrol'), 0o755);
    const slurm = {
      SLURM_ARRAY_JOB_ID: '7',
      SLURM_ARRAY_TASK_ID: String(id),
      SLURM_ARRAY_TASK_COUNT: '4',
      SLURM_ARRAY_TASK_MIN: '1',
      SLURM_ARRAY_TASK_MAX: '4',
      FW_ENDPOINTS,
      ...env,
    };
    const own = environment(slurm);
    return spawn('bash', [SCRIPT, BATCH, 'prompts.csv', '--set', 'chain.grace=100ms'], {
      cwd: at,
      env: { ...own, PATH: `${bin}:${own.PATH}` },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }
  const codeOf = async (child: ReturnType<typeof task>): Promise<number> => (await once(child, 'close'))[0];
  const requeued = (at: string): string =>
    existsSync(join(at, 'scontrol.log')) ? readFileSync(join(at, 'scontrol.log'), 'utf8') : '';

  test('the tasks make the whole', async () => {
    const at = work();
    const env = { SLURM_ARRAY_TASK_COUNT: String(SHARDS), SLURM_ARRAY_TASK_MAX: String(SHARDS) };
    for (let id = 1; id <= SHARDS; id++) expect(await codeOf(task(at, id, env))).toBe(0);
    await expectAllThere(at, `'out/*_legacy.*-of-${SHARDS}.jsonl'`);
    expect(requeued(at)).toBe('');
  });

  test.each(
    every(3, [
      ['USR1', 'the signal before the time limit: it goes back into the queue', 0, 'requeue 7_2\n'],
      ['USR1', 'the twentieth time: it stays stopped', 143, ''],
      ['TERM', 'scancel: it stops', 143, ''],
    ] as const),
  )('%s is %s', async (signal, what, code, told) => {
    const at = work();
    let arrived = (): void => {};
    const first = new Promise<void>(resolve => {
      arrived = resolve;
    });
    const slow = await startSimulator({ port: 0, seed: 7, latency: '600s', onRequest: () => arrived() });
    onTestFinished(() => slow.close());
    const SLURM_RESTART_COUNT = what.startsWith('the twentieth') ? '20' : '0';
    const child = task(at, 2, { FW_ENDPOINTS: slow.url, SLURM_RESTART_COUNT });
    const ended = codeOf(child);
    await first;
    child.kill(`SIG${signal}` as 'SIGTERM');
    expect([await ended, requeued(at)]).toEqual([code, told]);
    expect(await codeOf(task(at, 2))).toBe(0);
    expect(readdirSync(join(at, 'out')).filter(name => name.endsWith('.jsonl'))).toHaveLength(1);
  });

  slow('a shard that has failed items is done, and says so', async () => {
    const at = work();
    const broken = await startSimulator({ port: 0, seed: 7, faults: 'truncated=1' });
    onTestFinished(() => broken.close());
    const child = task(at, 1, { FW_ENDPOINTS: broken.url });
    let said = '';
    child.stderr.on('data', chunk => {
      said += chunk;
    });
    expect(await codeOf(child)).toBe(0);
    expect(said).toContain('some items of shard 1 failed');
  });

  test.each(
    every(3, [
      [{ SLURM_ARRAY_TASK_MIN: '0', SLURM_ARRAY_TASK_MAX: '3' }, 64],
      [{ SLURM_ARRAY_TASK_MIN: '1', SLURM_ARRAY_TASK_MAX: '7', SLURM_ARRAY_TASK_COUNT: '4' }, 64],
      [{ SLURM_ARRAY_TASK_MIN: '3', SLURM_ARRAY_TASK_MAX: '3', SLURM_ARRAY_TASK_COUNT: '1', SHARDS: '4' }, 0],
    ] as [Record<string, string>, number][]),
  )('an array of other numbers: %o ends with %i', async (env, code) => {
    const at = work();
    expect(await codeOf(task(at, 3, env))).toBe(code);
    if (code === 0) expect(readdirSync(join(at, 'ledger'))).toEqual(['3-of-4']);
  });
});

describe('deploy/kubernetes/shards.yaml', () => {
  const manifests = parseAllDocuments(readFileSync(join(DEPLOY, 'kubernetes', 'shards.yaml'), 'utf8')).map(
    document => document.toJS(),
  );
  const of = (kind: string) => manifests.find(manifest => manifest.kind === kind);
  const { spec } = of('Job');
  const [container] = spec.template.spec.containers;
  const variables = Object.fromEntries(
    container.env.map(({ name, value }: Record<string, string>) => [name, value]),
  );

  test('the number of shards is the number of pods, and what is mounted is there', () => {
    expect(variables.SHARDS).toBe(String(spec.completions));
    const { volumes } = spec.template.spec;
    const mounted = container.volumeMounts.map(({ name }: { name: string }) => name);
    expect(volumes.map(({ name }: { name: string }) => name).sort()).toEqual(mounted.sort());
    expect(volumes[0].persistentVolumeClaim.claimName).toBe(of('PersistentVolumeClaim').metadata.name);
    expect(volumes[1].configMap.name).toBe(of('ConfigMap').metadata.name);
    expect(container.envFrom[0].secretRef.name).toBe(of('Secret').metadata.name);
  });

  test('its pods make the whole', async () => {
    const at = work();
    const pipeline = folder();
    for (const [name, text] of Object.entries(of('ConfigMap').data))
      writeFileSync(join(pipeline, name), text as string);
    // its prompts are made by its own template
    const asked = `fw ingest --or-template ${join(pipeline, 'prompt.liquid')} prompts.csv > asked.ndjson`;
    expect((await fw(asked, { cwd: at })).code).toBe(0);
    const [program, flag, script] = container.command as [string, string, string];
    const own = script.replaceAll('/pipeline/', `${pipeline}/`);
    const env = { ...variables, ...of('Secret').stringData, FW_ENDPOINTS, SHARDS: String(SHARDS) };
    for (let index = 0; index < SHARDS; index++) {
      const pod = spawn(program, [flag, own], {
        cwd: at,
        env: environment({ ...env, JOB_COMPLETION_INDEX: String(index) }),
        stdio: 'ignore',
      });
      expect((await once(pod, 'exit'))[0]).toBe(0);
    }
    await expectAllThere(at, `'out/results.*-of-${SHARDS}.jsonl'`);
    expect(readdirSync(join(at, 'ledger'))).toHaveLength(SHARDS);
  });
});

/** A `fw serve` line of a template, on a free port and a folder of its own, until the test is over; resolves to its URL. */
async function serving(words: readonly string[], data: string): Promise<string> {
  const args = words.map((word, at) =>
    words[at - 1] === '--data' ? data : words[at - 1] === '--listen' ? word.replace(/\d+$/, '0') : word,
  );
  const child = spawn(join(binFolder, 'fw'), args, {
    env: environment({ FW_ENDPOINTS }),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(async () => {
    child.kill();
    if (child.exitCode === null) await once(child, 'exit');
  });
  const [line] = await once(child.stdout, 'data');
  return JSON.parse(String(line)).url;
}

describe('deploy/docker/compose.yaml', () => {
  const { services } = parse(readFileSync(join(DEPLOY, 'docker', 'compose.yaml'), 'utf8'));

  test('fw serves with a key, and the check of its health finds it ready', async () => {
    const data = join(folder(), 'data');
    const without = await fw(`fw ${services.fw.command.join(' ').replace('/data', data)}`, {
      env: { FW_ENDPOINTS },
    });
    expect(without.code, without.stderr).toBe(64);
    expect((await fw(`fw keys add alice --data ${data}`)).stdout).toMatch(/\S{20}/);
    const { port } = new URL(await serving(services.fw.command, data));
    const [kind, program, ...args] = services.fw.healthcheck.test as string[];
    expect(kind).toBe('CMD');
    const check = (port: string) =>
      once(
        spawn(
          program as string,
          args.map(arg => arg.replace('8080', port)),
          { stdio: 'ignore' },
        ),
        'exit',
      );
    expect((await check(port))[0]).toBe(0);
    expect((await check('1'))[0]).toBe(1);
  });

  test('it asks the vLLM of the same file', () => {
    expect(new URL(services.fw.environment.FW_ENDPOINTS).hostname).toBe('vllm');
    expect(services.fw.build).toEqual({ context: '../..', dockerfile: 'deploy/docker/Dockerfile' });
    expect(existsSync(join(DEPLOY, 'docker', services.fw.build.context, services.fw.build.dockerfile))).toBe(
      true,
    );
  });
});

describe.each(['fw-serve', 'fw-serve-standby'])('deploy/systemd/%s.service', name => {
  const UNIT = join(DEPLOY, 'systemd', `${name}.service`);
  const unit = readFileSync(UNIT, 'utf8');

  test('its command serves', async () => {
    const [, line = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
    const url = await serving(line.split(' ').slice(1), join(folder(), 'data'));
    expect((await fetch(`${url}/ready`)).status).toBe(200);
  });

  test.runIf(existsSync('/usr/bin/systemd-analyze'))('systemd understands it', async () => {
    const at = folder();
    copyFileSync(UNIT, join(at, `${name}.service`));
    const ran = await shell(
      `sed -i s,/usr/local/bin/fw,$(command -v fw), *.service && systemd-analyze verify ./*.service`,
      {
        cwd: at,
      },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).not.toContain(`${name}.service:`);
  });
});
