/** `--jobs` as users meet it: the same bytes, files, sums and exit codes as one job, on real threads; and every way to end. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folder, type Ran, shell } from '../fw.ts';
import { corpus } from './corpus.ts';

const at = folder();
const big = join(at, 'big.ndjson');
const wide = join(at, 'wide.ndjson');
const empty = join(at, 'empty.ndjson');
const small = join(at, 'small.ndjson');
const document = join(at, 'document.json');

const PAD = { note: 'x'.repeat(24_000) };
/** About 6 MiB of all kinds of lines, padded by plain records. */
const parts = corpus.flatMap((line, n) => [
  line,
  Buffer.from(n % 3 === 0 ? `\n${JSON.stringify({ ...PAD, n })}\r\n` : '\n'),
]);
writeFileSync(big, Buffer.concat([Buffer.from('\ufeff'), ...parts, Buffer.from('{"id":"last"}')]));
writeFileSync(wide, `${JSON.stringify({ wide: 'y'.repeat(5 << 20) })}\n${JSON.stringify(PAD)}`);
writeFileSync(empty, '');
writeFileSync(small, '{"id":"i","prompt":"?","steps":[]}\n');
writeFileSync(
  document,
  JSON.stringify({ results: Array.from({ length: 80 }, () => PAD), status: 'complete' }),
);

const FILES = `${big} ${empty} ${wide} ${small}`;

/** What a line leaves behind; its time is not compared, nor how many threads it had. */
async function left(line: string, jobs: number, more = {}): Promise<Ran & { files: (string | null)[] }> {
  const ran = await shell(`rm -rf made; mkdir made; ${line.replaceAll('JOBS', `--jobs ${jobs}`)}`, {
    cwd: at,
    ...more,
  });
  const names = await shell('find made -type f | sort', { cwd: at });
  const files = names.stdout.split('\n').filter(Boolean);
  return {
    ...ran,
    stderr: ran.stderr.replace(/ · [\d.]+ s$/gm, ''),
    files: files.flatMap(name => [name, readFileSync(join(at, name), 'latin1')]),
  };
}

writeFileSync(
  join(at, 'check.yaml'),
  'stages:\n  - fix-escapes: {}\n  - validate: { failures: made/failed.ndjson }\n  - null-fix: {}\n' +
    '  - verify: { report: made/report.json, failures: made/failed.ndjson }\noutput: "made/{ordering}.ndjson"\n',
);

describe('several threads leave what one leaves', () => {
  test.each([
    `fw fix-escapes JOBS ${FILES}`,
    `fw validate JOBS --failures made/failed.ndjson ${FILES}`,
    `fw validate JOBS --max-line 1000 ${FILES}`,
    `fw null-fix JOBS ${FILES}`,
    `fw select JOBS --failed ${FILES}`,
    `fw verify JOBS --report made/report.json ${FILES}`,
    `fw verify JOBS --pass --ids ${small} --expect 3 ${FILES}`,
    `fw run check.yaml JOBS ${FILES}`,
    `fw run check.yaml JOBS --output - ${FILES}`,
    `fw validate JOBS ${big} ${document}`,
    `fw validate JOBS ${empty}`,
  ])('%s', async line => {
    const one = await left(line, 1);
    expect(one.code, one.stderr).toBeLessThan(2);
    expect(await left(line, 3)).toEqual(one);
  });
});

test('what cannot be shared is done by one thread, which is said', async () => {
  for (const [line, why] of [
    [`fw validate JOBS < ${big}`, 'standard input is not a file'],
    [`fw validate JOBS ${small} - ${big} < ${small}`, 'standard input is not a file'],
    [`fw validate JOBS ${big} .`, '. is not a file'],
    [`fw verify JOBS --pass ${big} ${document}`, 'document.json may be a document'],
  ] as const) {
    const one = await left(line, 1);
    const { stderr, ...more } = await left(line, 3);
    expect(stderr).toContain(`--jobs 3: one thread, since`);
    expect(stderr).toContain(why);
    expect(more).toEqual({ code: one.code, stdout: one.stdout, files: one.files });
  }
});

test('stages that ask, or look at lines together, have no jobs: 64', async () => {
  writeFileSync(join(at, 'ask.yaml'), `stages:\n  - chain: {}\noutput: made/out.ndjson\n`);
  const asked = await left(`fw run ask.yaml JOBS ${big}`, 2);
  expect(asked.code).toBe(64);
  expect(asked.stderr).toContain('--jobs 2: expected stages that look at each line by itself, found chain');
  expect(asked.files).toEqual([]);
  const limited = await left(`fw run check.yaml JOBS --limit 3 ${big}`, 2);
  expect(limited.code).toBe(64);
  expect(limited.stderr).toContain('found limit');
  expect((await left(`fw merge JOBS ${small} ${big}`, 2)).code).toBe(64);
  expect((await left(`fw validate JOBS ${big}`, 0)).code).toBe(64);
});

/** Loaded into every thread as well as the main one. */
function preload(name: string, code: string): { env: Record<string, string> } {
  const path = join(at, name);
  writeFileSync(
    path,
    `const { isMainThread, parentPort, threadId } = require('node:worker_threads');\n${code}\n`,
  );
  return { env: { NODE_OPTIONS: `--require ${path}` } };
}

test('a thread that dies ends the run with 70, what breaks in one likewise, with its stack', async () => {
  const dies = preload('dies.cjs', `if (!isMainThread) parentPort.on('message', () => process.exit(0));`);
  const died = await left(`fw validate JOBS ${big}`, 2, dies);
  expect(died.code).toBe(70);
  expect(died.stderr).toContain('a thread ended before its work');
  expect(died.stdout.split('\n').at(-2)).toContain('"code":"input-incomplete"');

  const throws = preload(
    'throws.cjs',
    `if (!isMainThread) parentPort.on('message', () => (Buffer.prototype.indexOf = () => null.broken));`,
  );
  const broke = await left(`fw run check.yaml JOBS ${big}`, 2, throws);
  expect(broke.code).toBe(70);
  expect(broke.stderr).toContain('a bug, please report it');
  expect(broke.stderr).toContain('at Buffer.indexOf');
});

test('what ends a run in a thread ends it with the exit code of one thread', async () => {
  for (const line of [
    `fw validate JOBS --schema nowhere.json ${big}`,
    `fw null-fix JOBS --defaults nowhere.yaml ${big}`,
    `fw verify JOBS --accept nonsense ${big}`,
    `fw verify JOBS --ids nowhere.txt ${big}`,
    `fw validate JOBS ${big} nowhere.ndjson`,
    `fw validate JOBS --failures ${big} ${big}`,
  ]) {
    const one = await left(line, 1);
    expect(one.code, line).toBeGreaterThan(63);
    const { code, stderr } = await left(line, 2);
    expect({ line, code, stderr }).toEqual({ line, code: one.code, stderr: one.stderr });
  }
});

test('a full disk ends the run with 74', async () => {
  const { code, stderr } = await left(`fw validate JOBS ${big} > /dev/full`, 2);
  expect(code).toBe(74);
  expect(stderr).toContain('stdout: expected to write, found ENOSPC');
});

test('a reader that goes away ends the run quietly with 141', async () => {
  const { stdout, stderr } = await left(
    `fw validate JOBS ${big} ${big} ${big} | head -c 100 > /dev/null; echo \${PIPESTATUS[0]}`,
    2,
  );
  expect({ stdout, stderr }).toEqual({ stdout: '141\n', stderr: '' });
});

test('SIGINT leaves the rest of a file unread, as with one job', async () => {
  // the third piece of a thread comes after the first was written
  const stop = preload(
    'stop.cjs',
    `let pieces = 0; if (threadId === 1) parentPort.on('message', () => { pieces += 1; if (pieces === 3) process.kill(process.pid, 'SIGINT'); });`,
  );
  const many = Array.from({ length: 30 }, () => big).join(' ');
  const { code, stdout, stderr } = await left(
    `fw validate JOBS ${many} > made/out.ndjson; code=$?; tail -n 1 made/out.ndjson; exit $code`,
    2,
    stop,
  );
  expect(code).toBe(130);
  expect(stdout).toContain('"code":"input-incomplete","message":"stopped by SIGINT"');
  expect(stderr).toContain('stopped by SIGINT');
});
