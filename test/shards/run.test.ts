/** fw run over workers, all as processes with a real Redis: what comes out is what one process gives, whatever happens. */
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SimulatorOptions } from '../../products/simulator/simulator.ts';
import { ALL, runs } from '../all.ts';
import { linesOf } from '../export/serving.ts';
import { freePort } from '../free-port.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { simulated } from '../server/serving.ts';
import { startFw, startWork } from './processes.ts';
import { until } from './queueing.ts';
import { startRedis, withRedis } from './redis.ts';

/** rows of the table, 12 items each: beyond 16 rows more than a shard */
const ROWS = runs(6, 60);
const ITEMS = 12 * ROWS;
const TIMESTAMP = '2026-11-23T00:00:00Z';
/** of answers alone: which call is refused is chance */
const FAULTS = 'fence=0.1,null=0.05,truncated=0.05';

/** A folder with a pipeline of chains. */
function pipelineIn(at = folder()): string {
  const table = readFileSync(join(ROOT, 'fixtures', 'applications-60.csv'));
  writeFileSync(join(at, 'prompts.csv'), table);
  writeFileSync(
    join(at, 'pipeline.yaml'),
    `input: prompts.csv
stages:
  - ingest: { orderings: batch4, limit: ${ROWS} }
  - chain: {}
  - legacy-convert: { timestamp: "${TIMESTAMP}", failures: failed.ndjson }
  - verify: {}
output: out.jsonl
`,
  );
  return at;
}

/** left out by `make test` */
const atLength = ALL ? withRedis : test.skip;

const FILES = ['out.jsonl', 'out.jsonl.provenance.ndjson', 'failed.ndjson'];

/** The lines that a run wrote, sorted: workers finish in an order of their own. */
const written = (at: string): string[][] =>
  FILES.map(name => readFileSync(join(at, name), 'utf8').split('\n').sort());

async function alone(options: Partial<SimulatorOptions>): Promise<{ at: string; calls: number }> {
  const { simulator, url } = await simulated(options);
  const at = pipelineIn();
  const { code, stderr } = await fw(`fw run pipeline.yaml --endpoint ${url}`, { cwd: at });
  expect(stderr).toMatch(/^pipeline.yaml: wrote out.jsonl$/m);
  expect(code).toBeLessThanOrEqual(1);
  return { at, calls: simulator.counts().requests };
}

interface Over {
  redis: string;
  /** where it listens */
  port?: number;
  more?: string[];
  env?: Record<string, string>;
}

async function startRun(at: string, { redis, port = 0, more = [], env = {} }: Over) {
  const args = ['run', 'pipeline.yaml', '--redis', redis, '--listen', `127.0.0.1:${port}`, '--lease', '24s'];
  const run = startFw([...args, ...more], { cwd: at, env });
  const [, server = ''] = await run.says(/find this run at (\S+)/);
  return { run, server };
}

const partsDone = (at: string): number => {
  const shards = join(at, 'ledger', 'shards');
  const works = existsSync(shards) ? readdirSync(shards).filter(name => name.startsWith('run-')) : [];
  return works.flatMap(name => {
    const done = join(shards, name, 'done');
    return existsSync(done) ? readdirSync(done).filter(part => /^\d+\.\d+$/.test(part)) : [];
  }).length;
};

withRedis('three workers give what one process gives', async () => {
  const { url: redis } = await startRedis();
  const one = await alone({ faults: FAULTS });
  const at = pipelineIn();
  const key = 'a key of sixteen characters'.replaceAll(' ', '-');
  const { run, server } = await startRun(at, { redis, env: { FW_WORKER_KEY: key } });
  const servers = await Promise.all([1, 2, 3].map(() => simulated({ faults: FAULTS, latency: '5ms' })));
  for (const { url: endpoint } of servers) startWork({ redis, server, endpoint }, { key });
  const code = await run.ended;
  expect(run.said()).toMatch(/worker \S+ is here: 1 endpoint, \d+ places?, simulated-3b/);
  expect(run.said()).toMatch(/workers? handed in [\d,]+ lines: /);
  expect(written(at)).toEqual(written(one.at));
  expect(written(at)[0]?.length).toBeGreaterThan(ITEMS / 2);
  // failed items make it 1, as in one process
  expect(code).toBe(readFileSync(join(one.at, 'failed.ndjson')).length > 0 ? 1 : 0);
  // a worker that hands back what others wait for has begun some of it
  const calls = servers.reduce((sum, { simulator }) => sum + simulator.counts().requests, 0);
  expect(calls).toBeGreaterThanOrEqual(one.calls);
  expect(partsDone(at)).toBe(0);
  expect(readdirSync(join(at, 'ledger', 'shards')).sort()).toEqual(['coordinator', 'locks']);
});

atLength('killed and started again it goes on with what was handed in', async () => {
  const { url: redis } = await startRedis();
  const one = await alone({});
  const at = pipelineIn();
  const port = await freePort();
  const { run, server } = await startRun(at, { redis, port });
  const { simulator, url: endpoint } = await simulated({ latency: '20ms' });
  startWork({ redis, server, endpoint });
  await until(() => partsDone(at) > 0);
  run.signal('SIGKILL');
  await run.ended;
  expect(existsSync(join(at, 'out.jsonl'))).toBe(false);
  const again = await startRun(at, { redis, port });
  expect(await again.run.ended).toBe(0);
  expect(written(at)).toEqual(written(one.at));
  // the worker kept what it had, and each answer was asked for once
  expect(simulator.counts().requests).toBe(one.calls);
});

atLength(
  'requests that name no model are those of one: the one that was said, or that of the first worker',
  async () => {
    const { url: redis } = await startRedis();
    const requests = linesOf(Array.from({ length: 40 }, (_, n) => ({ prompt: `No. ${n}`, max_tokens: 4 })));
    const inFolder = (): string => {
      const at = folder();
      writeFileSync(join(at, 'in.jsonl'), requests);
      const stages =
        '[ { ingest: { format: openai-batch } }, { request: {} }, { export: { format: openai-batch } } ]';
      writeFileSync(join(at, 'pipeline.yaml'), `input: in.jsonl\nstages: ${stages}\noutput: out.jsonl\n`);
      return at;
    };
    const [a, b] = await Promise.all(['A', 'B'].map(model => simulated({ model })));
    const data = [folder(), folder()];
    const askedOf = async (at: string, more: string[]) => {
      const { run, server } = await startRun(at, { redis, more });
      // that of A is first where nobody says which
      const workers = [startWork({ redis, server, endpoint: a?.url as string }, { data: data[0] as string })];
      if (more.length > 0)
        workers.push(startWork({ redis, server, endpoint: b?.url as string }, { data: data[1] as string }));
      expect(await run.ended, run.said()).toBe(0);
      for (const worker of workers) worker.signal('SIGTERM');
      await Promise.all(workers.map(({ ended }) => ended));
      const lines = readFileSync(join(at, 'out.jsonl'), 'utf8').trim().split('\n');
      return [...new Set(lines.map(line => JSON.parse(line).response.body.model))];
    };
    const at = inFolder();
    expect(await askedOf(at, ['--set', 'request.model=B'])).toEqual(['B']);
    expect(await askedOf(at, ['--set', 'request.model=A'])).toEqual(['A']);
    expect(await askedOf(inFolder(), [])).toEqual(['A']);
  },
);

atLength('another ledger has answers of its own, also on workers', async () => {
  const { url: redis } = await startRedis();
  const at = pipelineIn();
  const port = await freePort();
  const { simulator, url: endpoint } = await simulated();
  const { run, server } = await startRun(at, { redis, port });
  startWork({ redis, server, endpoint });
  expect(await run.ended).toBe(0);
  const once = simulator.counts().requests;
  const other = await startRun(at, { redis, port, more: ['--ledger', 'other'] });
  expect(await other.run.ended).toBe(0);
  expect(simulator.counts().requests).toBe(2 * once);
});

atLength('stopped by a signal it says how to go on, and workers keep what they have', async () => {
  const { url: redis } = await startRedis();
  const at = pipelineIn();
  const port = await freePort();
  const { run, server } = await startRun(at, { redis, port });
  const { simulator, url: endpoint } = await simulated({ latency: '20ms' });
  startWork({ redis, server, endpoint });
  await until(() => simulator.counts().requests > 0);
  run.signal('SIGINT');
  expect(await run.ended).toBe(130);
  expect(run.said()).toMatch(/SIGINT: no new items; workers keep what they have/);
  expect(run.said()).toMatch(/to resume, run the same command again/);
  const again = await startRun(at, { redis, port });
  expect(await again.run.ended).toBe(0);
  expect(simulator.counts().requests).toBe(5 * ITEMS);
});

atLength('a ledger has one run over workers at a time', async () => {
  const { url: redis } = await startRedis();
  const at = pipelineIn();
  await startRun(at, { redis });
  const other = startFw(['run', 'pipeline.yaml', '--redis', redis, '--listen', '127.0.0.1:0'], { cwd: at });
  expect(await other.ended).toBe(64);
  expect(other.said()).toMatch(/ledger\/shards is in use by .*\n.*\n.*another --ledger/);
});

// ten seconds of patience; news.test.ts has the words
atLength('where nobody comes it says what to start', async () => {
  const { url: redis } = await startRedis();
  const { run } = await startRun(pipelineIn(), { redis });
  await run.says(/no worker is here; start some: fw work --redis redis:\/\/127\.0\.0\.1:\d+ --server http/);
  run.signal('SIGTERM');
  expect(await run.ended).toBe(143);
});

/** Nothing listens there: what is wrong is said before anybody looks. */
const NOWHERE = '--redis redis://:secret@127.0.0.1:1/0';

async function refused(line: string, at = pipelineIn(), env: Record<string, string> = {}) {
  const { code, stderr } = await fw(`fw run pipeline.yaml ${line}`, { cwd: at, env });
  expect(stderr).not.toContain('secret');
  expect(existsSync(join(at, 'out.jsonl'))).toBe(false);
  return { code, stderr };
}

test('refused before anything is opened', async () => {
  const open = `${NOWHERE} --listen 0.0.0.0:0`;
  expect(await refused(open)).toMatchObject({
    code: 64,
    stderr: expect.stringMatching(/FW_WORKER_KEY, found none/),
  });
  const short = await refused(open, pipelineIn(), { FW_WORKER_KEY: 'short' });
  expect(short).toMatchObject({ code: 64, stderr: expect.stringMatching(/expected 16 to 200 characters/) });
  expect(short.stderr).not.toContain('short');
  const agents = folder();
  cpSync(join(ROOT, 'pipelines', 'fairwatch', 'agents'), agents, { recursive: true });
  writeFileSync(join(agents, 'regulatory.yaml'), 'key: regulatory\nrole: nobody\n');
  const bad = await refused(`${NOWHERE} --listen 127.0.0.1:0 --set chain.agents=${agents}`);
  expect(bad).toMatchObject({ code: 65, stderr: expect.stringMatching(/\.yaml:\d+:\d+: /) });
  for (const [more, words] of [
    ['--shard 1/2', /--shard: expected no --redis/],
    [
      '--endpoint http://127.0.0.1:1/v1',
      /expected chain without endpoint, found it: workers have their own endpoints/,
    ],
    ['--set chain.ordered=true', /expected chain without ordered/],
    ['--ledger ledger.ndjson', /expected a folder for what workers hand in, found ledger\.ndjson/],
  ] as const)
    expect(await refused(`${NOWHERE} --listen 127.0.0.1:0 ${more}`)).toMatchObject({
      code: 64,
      stderr: expect.stringMatching(words),
    });
  expect(await refused('--listen 127.0.0.1:0')).toMatchObject({
    code: 64,
    stderr: expect.stringMatching(/--redis URL/),
  });
  expect(await refused(`${NOWHERE} --listen 127.0.0.1:0`)).toMatchObject({ code: 69 });
});

test('--dry-run asks nobody, and FW_REDIS alone sends nothing away', async () => {
  const at = pipelineIn();
  const { code, stdout } = await fw(`fw run pipeline.yaml ${NOWHERE} --dry-run`, { cwd: at });
  expect(code).toBe(0);
  expect(stdout).toContain(`calls            ${(5 * ITEMS).toLocaleString('en')}, if`);
  const { url } = await simulated();
  const env = { FW_REDIS: 'redis://127.0.0.1:1' };
  const own = await fw(`fw run pipeline.yaml --limit 1 --endpoint ${url}`, { cwd: at, env });
  expect(own.code).toBe(0);
});

atLength('a run whose items all fail ends, and says why', async () => {
  const { url: redis } = await startRedis();
  const at = pipelineIn();
  const { run, server } = await startRun(at, { redis });
  const { url: endpoint } = await simulated({ faults: 'truncated=1' });
  startWork({ redis, server, endpoint });
  expect(await run.ended).toBe(65);
  expect(run.said()).toMatch(
    /the first 200 items that were asked all failed: \d+ no-valid-answer \(truncated\) of/,
  );
});
