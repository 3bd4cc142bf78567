/** --metrics: a page that Prometheus takes, with the numbers of the run, while it lasts. Real processes, real ports. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { slow } from '../all.ts';
import { BASH, binFolder, folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';
import { complaintsAbout, type Sample, samplesOf } from './exposition.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const SECRET = 'sk-0123456789abcdef';

let two: Servers;
beforeAll(async () => {
  two = await servers(2, { latency: '400ms' });
});

interface Running {
  child: ChildProcess;
  /** of its metrics, once it has said so */
  url: string;
  /** the exit code, and all of its stderr */
  ended: Promise<{ code: number | null; stderr: string }>;
}

async function start(line: string): Promise<Running> {
  const child = spawn('bash', [...BASH, line], {
    cwd: folder(),
    env: { PATH: `${binFolder}:${process.env.PATH}`, FW_API_KEY: SECRET },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill());
  let stderr = '';
  const ended = new Promise<{ code: number | null; stderr: string }>(resolve =>
    child.on('close', code => resolve({ code, stderr })),
  );
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr?.on('data', chunk => {
      stderr += chunk;
      const found = /metrics at (http:\S+)/.exec(stderr)?.[1];
      if (found) resolve(found);
    });
    void ended.then(() => reject(new Error(`it ended before it said where: ${stderr}`)));
  });
  return { child, url, ended };
}

const sumIn = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number =>
  samples
    .filter(sample => sample.name === name)
    .filter(sample => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);

test('the numbers of a run while it lasts, in the form that Prometheus reads, without ids or secrets', async () => {
  const { url, ended } = await start(
    `fw ingest ${CSV} > items.ndjson && fw chain ${two.flags} --metrics 0 --in-flight 30 items.ndjson > done.ndjson`,
  );
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  let page = '';
  let samples: Sample[] = [];
  do {
    const response = await fetch(url);
    expect(response.headers.get('content-type')).toContain('text/plain; version=0.0.4');
    page = await response.text();
    expect(complaintsAbout(page)).toEqual([]);
    samples = samplesOf(page);
  } while (
    sumIn(samples, 'fw_calls_total', { outcome: 'answer' }) < 60 ||
    sumIn(samples, 'fw_items_expected') === 0
  );

  const [one, other] = two.all.map(server => server.url);
  expect(sumIn(samples, 'fw_items_expected')).toBe(60);
  // the bar counts calls: a chain has five, and those that were asked again count once
  const share = sumIn(samples, 'fw_progress_ratio');
  expect(share).toBeGreaterThan(0);
  expect(share).toBeLessThanOrEqual(sumIn(samples, 'fw_calls_total', { outcome: 'answer' }) / 300);
  expect(sumIn(samples, 'fw_items_in_flight') + sumIn(samples, 'fw_items_total')).toBe(
    sumIn(samples, 'fw_items_read_total'),
  );
  const answers = sumIn(samples, 'fw_calls_total', { outcome: 'answer' });
  expect(sumIn(samples, 'fw_call_duration_seconds_count')).toBe(answers);
  expect(sumIn(samples, 'fw_call_duration_seconds_bucket', { le: '0.3' })).toBe(0);
  expect(sumIn(samples, 'fw_calls_limit', { endpoint: one as string })).toBeGreaterThan(0);
  expect(sumIn(samples, 'fw_endpoint_up', { endpoint: other as string })).toBe(1);
  expect(sumIn(samples, 'fw_completion_tokens_total')).toBeGreaterThan(0);
  expect(sumIn(samples, 'fw_event_loop_busy_seconds_total')).toBeGreaterThan(0);
  expect(page).not.toContain(SECRET);
  expect(page).not.toMatch(/risk_manager|row|"[0-9a-f]{12}/);

  const found = spawnSync('promtool', ['check', 'metrics'], { input: page, encoding: 'utf8' });
  if (found.error === undefined) expect(found.stdout + found.stderr).toBe('');

  const { origin } = new URL(url);
  expect((await fetch(`${origin}/`)).status).toBe(404);
  expect((await fetch(url, { method: 'POST', body: 'x' })).status).toBe(405);
  const { code, stderr } = await ended;
  expect(code, stderr).toBe(0);
  await expect(fetch(url)).rejects.toThrow();
});

slow('a pipeline file has them too; a port that is taken ends it before anything is asked', async () => {
  const running = await start(
    `fw ingest ${CSV} > items.ndjson && fw run ${ROOT}/pipelines/fairwatch/batch.yaml ${CSV} ${two.flags} --limit 30 --metrics 127.0.0.1:0 --output out.jsonl`,
  );
  const { port } = new URL(running.url);
  const second = await shell(`fw chain ${two.flags} --metrics ${port} < ${CSV}`);
  expect(second.code).toBe(64);
  expect(second.stderr).not.toContain('chain: asking');
  expect(second.stderr).toContain(
    `--metrics: expected a free port of this machine, found one in use: 127.0.0.1:${port}`,
  );
  expect((await running.ended).code).toBe(0);
});

test.each(['99999', 'host', '127.0.0.1:', 'http://localhost:9400'])('--metrics %s is refused', async at => {
  const ran = await fw(`fw chain ${two.flags} --metrics ${at} < ${CSV}`);
  expect(ran.code).toBe(64);
  expect(ran.stderr).toContain('--metrics: expected');
});

test('the check of the form can fail', () => {
  const page = (...lines: string[]): string[] => complaintsAbout(`${lines.join('\n')}\n`);
  const good = ['# HELP a_total A.', '# TYPE a_total counter', 'a_total{b="c\\"d"} 1'];
  expect(page(...good)).toEqual([]);
  expect(page(...good, 'a_total{b="c\\"d"} 2')).toEqual(['a_total{b="c\\"d"}: twice']);
  expect(page('# HELP a A.', '# TYPE a counter', 'a 1')).toEqual(['a: a counter ends in _total']);
  expect(page('# HELP a_total A.', '# TYPE a_total gauge', 'a_total 1')).toEqual([
    'a_total: only a counter ends in _total',
  ]);
  expect(page('# TYPE a gauge', 'a 1')).toEqual(['a: no help']);
  expect(page('b 1')).toEqual(['b: no type', 'b: no help']);
  expect(page('# HELP a A.', '# TYPE a gauge', 'a one')).toEqual(['no sample: a one']);
  for (const name of ['a_ms', 'a_gauge', 'a_count']) {
    expect(page(`# HELP ${name} A.`, `# TYPE ${name} gauge`, `${name} 1`)).toHaveLength(1);
  }
  expect(page('# HELP a A.', '# TYPE a gauge', 'a{le="1"} 1')).toEqual([
    'a{le="1"}: a label that is kept for histograms',
  ]);
});
