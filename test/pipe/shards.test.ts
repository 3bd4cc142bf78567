/** fw run --shard: the shards of a run make up the run, wherever they run, and no two of them write one file. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { binFolder, environment, folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const BATCH = join(ROOT, 'pipelines', 'fairwatch', 'batch.yaml');
const TIME = '--set legacy-convert.timestamp=2026-01-01T00:00:00.000Z';
const SHARDS = [1, 2, 3, 4];
/** faults of answers alone, the same at each asking of the same question */
const FAULTS = 'fence=0.1,chatty=0.1,truncated=0.05,null=0.05';

const sortedLines = (folder: string, pattern: RegExp): string[] =>
  namesIn(folder, pattern)
    .flatMap(name => readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean))
    .sort();
const namesIn = (folder: string, pattern: RegExp): string[] =>
  readdirSync(folder).filter(name => pattern.test(name));

let url: string;
let requests = 0;
let onRequest = (): void => {};
beforeAll(async () => {
  const simulator = await startSimulator({
    port: 0,
    seed: 7,
    faults: FAULTS,
    name: 'shards',
    onRequest() {
      requests += 1;
      onRequest();
    },
  });
  afterAll(() => simulator.close());
  url = simulator.url;
});

describe('a study in four shards', () => {
  const whole = folder();
  const parts = folder();
  const run = `run ${BATCH} ${CSV} --limit 24 --set ingest.orderings=risk,data ${TIME} --set chain.attempts=1`;
  const results = (folder: string): string[] =>
    sortedLines(join(folder, 'out'), /_legacy\.(?:\d-of-4\.)?jsonl$/);

  /** The second one is killed on the way, and run again. */
  async function runShard(shard: number): Promise<void> {
    const line = `${run} --shard ${shard}/4 --endpoint ${url}`;
    if (shard === 2) {
      const child = spawn(join(binFolder, 'fw'), line.split(' '), {
        cwd: parts,
        env: environment({}),
        stdio: 'ignore',
      });
      const ended = once(child, 'exit');
      const from = requests;
      onRequest = () => void (requests - from >= 8 && child.kill('SIGKILL'));
      expect((await ended)[1]).toBe('SIGKILL');
      onRequest = () => {};
    }
    const ran = await fw(`fw ${line}`, { cwd: parts });
    expect(ran.code, ran.stderr).toBeLessThanOrEqual(1); // some of these answers cannot be read
  }

  beforeAll(async () => {
    const ran = await fw(`fw ${run} --endpoint ${url}`, { cwd: whole });
    expect(ran.code, ran.stderr).toBe(1);
    for (const shard of SHARDS) await runShard(shard);
    await fw(`fw ingest ${CSV} --limit 24 --orderings risk,data > asked.ndjson`, { cwd: parts });
  }, 60_000);

  test('is the study of one run, byte for byte: results, provenance, failures', () => {
    expect(results(parts)).toEqual(results(whole));
    for (const pattern of [/provenance\.ndjson$/, /^failed\..*ndjson$/]) {
      const [one, four] = [whole, parts].map(at => sortedLines(join(at, 'out'), pattern));
      expect(one?.length).toBeGreaterThan(0);
      expect(four).toEqual(one);
    }
  });

  test('each shard has files and a ledger of its own', () => {
    expect(readdirSync(join(parts, 'ledger')).sort()).toEqual(SHARDS.map(shard => `${shard}-of-4`));
    const outputs = namesIn(join(parts, 'out'), /_legacy\..*jsonl$/).sort();
    expect(outputs).toEqual(SHARDS.map(shard => `sequential_risk_data_legacy.${shard}-of-4.jsonl`));
    expect(namesIn(join(parts, 'out'), /partial$/)).toEqual([]);
  });

  test('a shard of the same command again asks nothing, and neither does the whole from the ledgers of all', async () => {
    const from = requests;
    const again = await fw(`fw ${run} --shard 2/4 --endpoint ${url}`, { cwd: parts });
    const one = await fw(`fw ${run} --output again.jsonl`, {
      cwd: parts,
      env: { FW_ENDPOINTS: url },
    });
    expect([again.code, one.code], again.stderr + one.stderr).toEqual([1, 1]);
    expect(requests).toBe(from);
    expect(sortedLines(parts, /^again\.jsonl$/)).toEqual(results(whole));
  });

  test('verify over all shards accounts for each id, and notices a shard that is missing', async () => {
    const failed = sortedLines(join(parts, 'out'), /^failed\..-of-4\.ndjson$/).length;
    const all = await fw("fw verify --ids asked.ndjson 'out/*_legacy.*-of-4.jsonl'", { cwd: parts });
    expect(all.stderr).toContain(`missing ids (of 24): ${failed}`);
    const three = await fw("fw verify --ids asked.ndjson 'out/*_legacy.[124]-of-4.jsonl'", { cwd: parts });
    expect(three.code).toBe(1);
    const missing = sortedLines(join(parts, 'out'), /_legacy\.3-of-4\.jsonl$/).length + failed;
    expect(three.stderr).toContain(`missing ids (of 24): ${missing}`);
  });

  test('merge puts the shards together, with their provenance', async () => {
    const ran = await fw("fw merge 'out/*_legacy.*-of-4.jsonl' > all.jsonl", { cwd: parts });
    expect(ran.code, ran.stderr).toBe(0);
    expect(sortedLines(parts, /^all\.jsonl$/)).toEqual(results(whole));
  });
});

test('a ledger that is one file is made for each shard, and once it is there read by all', async () => {
  const at = folder();
  const run = `fw run ${BATCH} ${CSV} --limit 2 --set chain.attempts=1`;
  const made = await fw(`${run} --shard 1/2 --ledger l.ndjson --endpoint ${url}`, { cwd: at });
  expect(made.code, made.stderr).toBeLessThanOrEqual(1);
  expect(namesIn(at, /^l\./)).toEqual(['l.1-of-2.ndjson']);
  const again = await fw(`${run} --shard 1/2 --ledger l.1-of-2.ndjson`, { cwd: at });
  expect(again.code, again.stderr).toBe(made.code);
});

test('the ids of all rows count: a row that is there twice fails in its shard', async () => {
  const at = folder();
  writeFileSync(join(at, 'twice.csv'), 'id,prompt\na,one\nb,two\nc,three\na,four\n');
  writeFileSync(
    join(at, 'p.yaml'),
    'stages: [ ingest: {}, select: {} ]\ninput: twice.csv\noutput: out.ndjson\n',
  );
  for (const shard of ['1/2', '2/2']) await fw(`fw run p.yaml --shard ${shard}`, { cwd: at });
  await fw('fw run p.yaml', { cwd: at });
  const one = sortedLines(at, /^out\.ndjson$/);
  expect(one.join()).toContain('duplicate-id');
  expect(sortedLines(at, /^out\..-of-2\.ndjson$/)).toEqual(one);
});

test('lines that are no table are shared out too, broken ones among them, and what is left out is counted', async () => {
  const at = folder();
  const lines = [
    '{"id":"a","prompt":"x"}',
    '{"id":',
    '{"id":"c","prompt":"x"}',
    'null',
    '{"id":"e","prompt":"x"}',
  ];
  writeFileSync(join(at, 'in.ndjson'), `${lines.join('\n')}\n`);
  writeFileSync(join(at, 'p.yaml'), 'stages: [ validate: {} ]\ninput: in.ndjson\noutput: out.ndjson\n');
  const [first, second] = [
    await fw('fw run p.yaml --shard 1/2', { cwd: at }),
    await fw('fw run p.yaml --shard 2/2', { cwd: at }),
  ];
  await fw('fw run p.yaml', { cwd: at });
  expect(first.stderr).toMatch(/in 5 = 3 clean .* 0 failed, 2 left out/);
  expect(second.stderr).toMatch(/in 5 = 0 clean .* 2 failed, 3 left out/);
  expect(sortedLines(at, /^out\..-of-2\.ndjson$/)).toEqual(sortedLines(at, /^out\.ndjson$/));
  await fw('fw run p.yaml --limit 3 --shard 2/2 --output few.ndjson', { cwd: at });
  expect(sortedLines(at, /^few\.2-of-2\.ndjson$/)).toHaveLength(1);
});

describe('where a run of one shard writes', () => {
  const at = folder();
  const rows = 'stages: [ ingest: {}, select: {} ]';
  beforeAll(() => {
    writeFileSync(join(at, 'in.csv'), 'id,prompt\na,one\nb,two\n');
    writeFileSync(join(at, 'p.yaml'), `${rows}\ninput: in.csv\noutput: out.ndjson\n`);
    mkdirSync(join(at, 'x'));
  });

  test.each([
    ['--shard 2/16', 'out.02-of-16.ndjson'],
    ['--set ingest.shard=1/2', 'out.1-of-2.ndjson'],
    ['--shard 1/2 --set ingest.shard=1/2', 'out.1-of-2.ndjson'],
    ['--shard 1/2 --output x/all', 'x/all.1-of-2'],
    ['--shard 1/2 --output x/{ordering}.tar.gz', 'x/unordered.tar.1-of-2.gz'],
    ['--shard 1/2 --set select.failures=x/no.ndjson', 'x/no.1-of-2.ndjson'],
  ])('%s: %s', async (flags, path) => {
    const ran = await fw(`fw run p.yaml ${flags}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(() => readFileSync(join(at, path))).not.toThrow();
  });

  test('standard output and devices are as they are', async () => {
    const ran = await fw(
      'fw run p.yaml --shard 2/2 --output - && fw run p.yaml --shard 2/2 --output /dev/null',
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(
      ran.stdout
        .trim()
        .split('\n')
        .map(line => JSON.parse(line).id),
    ).toEqual(['b']);
  });

  test.each([
    ['p.yaml --shard 3/2', /expected i\/n with i from 1 to n/],
    ['p.yaml --shard 0/2', /expected i\/n with i from 1 to n/],
    ['p.yaml --shard 1/2 --set ingest.shard=2/2', /found 2\/2 for ingest; leave one out/],
    ['verify.yaml --shard 1/2', /expected verify without expect, .* fw verify --expect … over their files/],
    ['merge.yaml --shard 1/2', /expected a pipeline without merge/],
    [
      'p.yaml --shard 1/2 --output x',
      /expected a file to write, found a folder|expected a file, found a folder/,
    ],
    ['p.yaml --shard 1/2 --output x/', /found the name of a folder/],
  ])('fw run %s is refused', async (line, says) => {
    writeFileSync(
      join(at, 'verify.yaml'),
      'stages: [ ingest: {}, verify: { expect: 2 } ]\ninput: in.csv\noutput: o\n',
    );
    writeFileSync(
      join(at, 'merge.yaml'),
      'stages: [ select: {}, merge: { old: [in.csv] } ]\ninput: in.csv\noutput: o\n',
    );
    const ran = await fw(`fw run ${line}`, { cwd: at });
    expect(ran.stderr).toMatch(says);
    expect(ran.code).toBe(64);
  });

  test('--dry-run counts the calls of the shard alone', async () => {
    const [all, half] = await Promise.all(
      ['', '--shard 1/2'].map(flag => fw(`fw run ${BATCH} ${CSV} ${flag} --dry-run`, { cwd: at })),
    );
    expect(all?.stdout).toMatch(/^items +60$/m);
    expect(half?.stdout).toMatch(/^items +30$/m);
    expect(half?.stdout).toMatch(/ledger\/1-of-2/);
    expect(half?.stdout).toMatch(/^output .*_legacy\.1-of-2\.jsonl/m);
  });
});
