/** Stages and pipelines over a store, as processes: what they read of it, what they write to it, and what a kill leaves there. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { every, runs } from '../all.ts';
import { environment, folder, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { simulated } from '../server/serving.ts';
import { ownStub, type Stub } from './stub-s3.ts';

const MIB = 1024 * 1024;
let stub: Stub;
let cwd: string;
let env: Record<string, string>;
beforeEach(async () => {
  stub = await ownStub();
  cwd = folder();
  env = { ...stub.env, HOME: cwd };
});

const TABLE = `id,prompt\n${Array.from({ length: 400 }, (_, at) => `${at},"say ${at}"`).join('\n')}\n`;
const lines = (count: number, length: number): string =>
  Array.from(
    { length: count },
    (_, at) => `${JSON.stringify({ id: `${at}`, text: 'x'.repeat(length) })}\n`,
  ).join('');

test('a table in a store is the items that it is on disk: as CSV, compressed, as Parquet, and by a pattern', async () => {
  writeFileSync(join(cwd, 'in.csv'), TABLE);
  const { stdout: expected } = await fw('fw ingest in.csv', { cwd });
  const rows = TABLE.trim()
    .split('\n')
    .slice(1)
    .map(line => /^(\d+),"(.*)"$/.exec(line) as unknown as string[]);
  const columnData = [
    { name: 'id', data: rows.map(([, id]) => id as string), type: 'STRING' as const },
    { name: 'prompt', data: rows.map(([, , prompt]) => prompt as string), type: 'STRING' as const },
  ];
  stub.objects.set('a/in.csv', Buffer.from(TABLE));
  stub.objects.set('b/in.csv.gz', gzipSync(TABLE));
  stub.objects.set('c/in.parquet', Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 100 })));
  for (const path of ['a/in.csv', 'b/in.csv.gz', 'c/in.parquet', 'c/*.parquet']) {
    const { code, stdout, stderr } = await fw(`fw ingest 's3://bucket/${path}'`, { cwd, env });
    expect([code, stderr.replace(/ · .*/s, '')]).toEqual([0, expect.not.stringContaining('secret')]);
    expect(stdout).toBe(expected);
  }
});

test('a batch file is read twice and not copied, and has to be the same both times', async () => {
  const request = (at: number) => ({
    custom_id: `${at}`,
    method: 'POST',
    url: '/v1/completions',
    body: { prompt: 'x' },
  });
  const batch = [1, 2, 3].map(at => `${JSON.stringify(request(at))}\n`).join('');
  stub.objects.set('batch.jsonl', Buffer.from(batch));
  const command = 'fw ingest --format openai-batch s3://bucket/batch.jsonl';
  const { code, stdout } = await fw(command, { cwd, env });
  expect([code, stdout.trim().split('\n').length]).toEqual([0, 3]);
  expect(stub.asked.map(({ line }) => line)).toEqual(['GET batch.jsonl', 'GET batch.jsonl']);
  stub.onDone = ({ key }) => void stub.objects.set(key, Buffer.from(batch.replace('"x"', '"y"')));
  const changed = await fw(command, { cwd, env });
  expect([changed.code, changed.stderr]).toEqual([74, expect.stringContaining('found another in its place')]);
});

/** A pipeline that passes lines on, from the store and to it. */
function pipeline(): string {
  const path = join(cwd, 'pass.yaml');
  writeFileSync(
    path,
    'input: s3://bucket/in.ndjson\nstages:\n  - select: {}\noutput: s3://bucket/out/all.ndjson\n',
  );
  return path;
}

test('a pipeline from the store to the store: parts of 8 MiB, and the object when all is there', async () => {
  const input = Buffer.from(lines(160, 64 * 1024));
  stub.objects.set('in.ndjson', input);
  stub.objects.set('out/all.ndjson', Buffer.from('old\n'));
  const seen: string[] = [];
  stub.onDone = ({ line }) => {
    if (!line.startsWith('POST out/all.ndjson?uploadId'))
      seen.push(String(stub.objects.get('out/all.ndjson')));
  };
  const { code, stderr } = await fw(`fw run ${pipeline()}`, { cwd, env });
  expect([code, stderr]).toEqual([0, expect.stringContaining('wrote s3://bucket/out/all.ndjson')]);
  expect(stub.objects.get('out/all.ndjson')?.equals(input)).toBe(true);
  expect(new Set(seen)).toEqual(new Set(['old\n']));
  expect(
    stub.asked
      .map(({ line }) => line)
      .filter(line => line.startsWith('PUT'))
      .sort(),
  ).toEqual([1, 2].map(part => `PUT out/all.ndjson?partNumber=${part}&uploadId`));
  expect(stub.uploads.size).toBe(0);
  expect(stderr).not.toContain('secret');
});

test('an old object that is longer is kept, as a file on disk is', async () => {
  stub.objects.set('in.ndjson', Buffer.from(lines(1, 10)));
  stub.objects.set('out/all.ndjson', Buffer.alloc(5000, 'a'));
  stub.objects.set('out/all.ndjson.before', Buffer.alloc(9000, 'b'));
  const { code, stderr } = await fw(`fw run ${pipeline()}`, { cwd, env });
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining(
      'had 5,000 bytes and has 31 now; the old one is s3://bucket/out/all.ndjson.before.2',
    ),
  ]);
  const sizes = [...stub.objects].map(([key, { length }]) => [key, length]);
  expect(sizes).toEqual([
    ['in.ndjson', 31],
    ['out/all.ndjson', 31],
    ['out/all.ndjson.before', 9000],
    ['out/all.ndjson.before.2', 5000],
  ]);
});

test('no lines are an empty object; a failed part is sent again; a completion whose answer was lost is one', async () => {
  stub.objects.set('in.ndjson', Buffer.alloc(0));
  expect((await fw(`fw run ${pipeline()}`, { cwd, env })).code).toBe(0);
  expect(stub.objects.get('out/all.ndjson')?.length).toBe(0);
  const input = Buffer.from(lines(20, 1000));
  stub.objects.set('in.ndjson', input);
  const before = stub.asked.length;
  const isFirst = (line: string): boolean =>
    stub.asked.slice(before).filter(other => other.line === line).length === 1;
  stub.fault = ({ line }) => {
    if (line.startsWith('PUT') && isFirst(line)) return { status: 500, code: 'InternalError' };
    // done, and nobody hears of it
    return line === 'POST out/all.ndjson?uploadId' && isFirst(line) ? { cutAfter: 0 } : null;
  };
  const { code, stderr } = await fw(`fw run ${pipeline()}`, { cwd, env });
  expect([code, stderr]).toEqual([0, expect.stringContaining('wrote s3://')]);
  expect(stub.objects.get('out/all.ndjson')?.equals(input)).toBe(true);
});

test('what may not be written is said before anything is read', async () => {
  stub.objects.set('in.ndjson', Buffer.from(lines(3, 10)));
  const file = pipeline();
  const { code, stderr } = await fw(`fw run ${file}`, {
    cwd,
    env: { ...env, AWS_SECRET_ACCESS_KEY: 'wrong' },
  });
  expect([code, stderr]).toEqual([
    65,
    expect.stringContaining('expected to begin to write it, found status 403'),
  ]);
  expect(stub.asked).toHaveLength(1);
  for (const [option, message] of [
    ['--output https://example.org/x', '--output: expected s3://BUCKET/KEY or a file to write'],
    ['--set select.failures=s3://bucket/f', '--failures: expected a file on disk to write'],
  ]) {
    const refused = await fw(`fw run ${file} ${option}`, { cwd, env });
    expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining(message as string)]);
  }
});

test('a run that fails takes its parts back, and leaves the old object', async () => {
  stub.objects.set('in.ndjson', Buffer.from(lines(160, 64 * 1024)));
  stub.objects.set('out/all.ndjson', Buffer.from('old\n'));
  stub.fault = ({ query }) =>
    query.get('partNumber') === '2' ? { status: 403, code: 'AccessDenied' } : null;
  const { code, stderr } = await fw(`fw run ${pipeline()}`, { cwd, env });
  expect([code, stderr]).toEqual([65, expect.stringContaining('expected to write part 2, found status 403')]);
  expect(stderr).toContain('wrote no s3://bucket/out/all.ndjson');
  expect([String(stub.objects.get('out/all.ndjson')), stub.uploads.size]).toEqual(['old\n', 0]);
});

test('a batch from the store to the store, killed when all was asked: the next run asks nothing, and writes the same bytes', async () => {
  const { url } = await simulated();
  const body = { model: 'simulated-3b', messages: [{ role: 'user', content: 'x' }], max_tokens: 4 };
  const request = (at: number) => ({ custom_id: `${at}`, method: 'POST', url: '/v1/chat/completions', body });
  stub.objects.set('in.jsonl', Buffer.from([1, 2, 3].map(at => `${JSON.stringify(request(at))}\n`).join('')));
  const command = `fw batch -i s3://bucket/in.jsonl -o s3://bucket/out.jsonl --endpoint ${url}`;
  const child = spawn('bash', ['-c', `exec ${command}`], { cwd, env: environment(env), stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  stub.fault = ({ method }) => {
    if (method !== 'PUT') return null;
    child.kill('SIGKILL');
    return 'silence';
  };
  await once(child, 'close');
  expect([child.signalCode, stub.objects.has('out.jsonl')]).toEqual(['SIGKILL', false]);
  stub.fault = () => null;
  const again = await fw(command, { cwd, env });
  expect([again.code, again.stderr]).toEqual([0, expect.stringMatching(/3 replayed/)]);
  // the same from a signed link; no key is left anywhere
  const web = createServer((_request, response) =>
    response.writeHead(200, { etag: '"1"' }).end(stub.objects.get('in.jsonl')),
  );
  await new Promise<void>(resolve => web.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void web.close());
  const { port } = web.address() as AddressInfo;
  const link = `http://user:pw123@127.0.0.1:${port}/in.jsonl?X-Amz-Signature=s3cr3t`;
  const linked = await fw(`fw batch -i '${link}' -o out.jsonl --endpoint ${url}`, { cwd, env });
  expect([linked.code, linked.stderr]).toEqual([0, expect.not.stringMatching(/s3cr3t|pw123/)]);
  expect(stub.objects.get('out.jsonl')?.toString()).toBe(readFileSync(join(cwd, 'out.jsonl'), 'utf8'));
  const noLedger = await fw(command, { cwd, env: { ...env, FW_LEDGER: 's3://bucket/ledger' } });
  expect([noLedger.code, noLedger.stderr]).toEqual([
    64,
    expect.stringContaining('--ledger: expected a folder on disk'),
  ]);
  expect(stub.uploads.size).toBe(1); // that of the one that was killed
  const ledger = await shell('grep -rl -e AKIDSTUB -e secret -e s3cr3t -e pw123 . || true', { cwd });
  expect(ledger.stdout).toBe('');
});

test('stopped, it takes its parts back, and the same command goes on', async () => {
  const input = Buffer.from(lines(320, 64 * 1024));
  stub.objects.set('in.ndjson', input);
  const file = pipeline();
  const child = spawn('bash', ['-c', `exec fw run ${file}`], { cwd, env: environment(env) });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr.on('data', text => {
    said += text;
  });
  // the answer waits until the signal was heard
  stub.fault = async ({ query }) => {
    if (query.get('partNumber') !== '1') return null;
    child.kill('SIGTERM');
    while (!said.includes('SIGTERM')) await once(child.stderr, 'data');
    return null;
  };
  const [code] = await once(child, 'close');
  expect([code, said]).toEqual([143, expect.stringContaining('wrote no s3://bucket/out/all.ndjson')]);
  expect([stub.objects.has('out/all.ndjson'), stub.uploads.size]).toEqual([false, 0]);
});

const SIZE = runs(12, 40, 'MIB') * MIB;

/** Killed while the request of that number is at the store: before it has done it, and behind it. */
test('killed at every part, it leaves no object; the next run writes the same bytes', async () => {
  const input = Buffer.from(lines(SIZE / (64 * 1024), 64 * 1024));
  stub.objects.set('in.ndjson', input);
  const file = pipeline();
  const points = 2 + Math.ceil(input.length / (8 * MIB)); // begin, the parts, complete
  for (const kill of every(
    2,
    Array.from({ length: points * 2 }, (_, at) => at),
  )) {
    stub.objects.delete('out/all.ndjson');
    const child = spawn('bash', ['-c', `exec fw run ${file}`], {
      cwd,
      env: environment(env),
      stdio: 'ignore',
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const isWrite = (line: string): boolean => !line.startsWith('GET');
    let begun = 0;
    let done = 0;
    const die = async (): Promise<void> => {
      child.kill('SIGKILL');
      await once(child, 'close');
    };
    stub.fault = async ({ line }) => {
      if (!isWrite(line) || begun++ * 2 !== kill) return null;
      await die();
      return 'silence';
    };
    stub.onDone = async ({ line }) => {
      if (isWrite(line) && done++ * 2 + 1 === kill) await die();
    };
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
    expect(child.signalCode).toBe('SIGKILL');
    const left = stub.objects.get('out/all.ndjson');
    // there is none, or, where it was killed behind the completion, the whole
    expect(left === undefined || left.equals(input), `killed at ${kill}`).toBe(true);
  }
  stub.fault = () => null;
  stub.onDone = () => {};
  expect((await fw(`fw run ${file}`, { cwd, env })).code).toBe(0);
  expect(stub.objects.get('out/all.ndjson')?.equals(input)).toBe(true);
  expect(readFileSync(file, 'utf8')).not.toContain('secret');
});
