/** How runs end: every exit code with its one clear message, signals, readers that go away. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { every } from '../all.ts';
import { binFolder, folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { serve } from '../pool/serving.ts';
import { type Servers, servers } from './servers.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const CLI = join(ROOT, 'dist', 'bin', 'fw.js');
let one: Servers;
const at = folder();
const file = (name: string, content: string | Buffer): string => {
  writeFileSync(join(at, name), content);
  return name;
};

beforeAll(async () => {
  one = await servers(1);
});

test('a pool that gives up in the middle: what is in flight comes out with its paid steps, then 69', async () => {
  const refusing = await serve(ask => ask.send(404, { error: { message: 'gone' } }));
  const paid = { agent: 'risk_manager', output: { paid: true }, rung: 'clean', saw: 'clean', repairs: [] };
  const step = { ...paid, calls: ['k'], attempts: 1, usage: { prompt: 1, completion: 1 } };
  const items = Array.from({ length: 200 }, (_, n) => ({ id: `i${n}`, prompt: '?', steps: [step] }));
  const { code, stdout, stderr } = await fw(`fw chain --in-flight 100 --endpoint ${refusing.url} | cat`, {
    stdin: items.map(item => `${JSON.stringify(item)}\n`).join(''),
  });
  const lines = stdout.split('\n').filter(Boolean);
  const out = lines.map(line => JSON.parse(line));
  expect({ code, last: out.at(-1)?.failure.code }).toEqual({ code: 69, last: 'input-incomplete' });
  expect(stderr).toContain('expected answers, found none');
  const kept = out.slice(0, -1);
  expect(kept.length).toBeGreaterThanOrEqual(100);
  expect(kept.length).toBeLessThan(200);
  expect(new Set(kept.map(item => item.failure.code))).toEqual(new Set(['call-refused', 'interrupted']));
  for (const item of kept) expect(item.steps[0]).toEqual(step);
});

describe('bad input', () => {
  const item = '{"id":"a","prompt":"?"}';
  const cases: [what: string, line: () => string, exit: number, says: RegExp][] = [
    ['no endpoint', () => `echo '${item}' | fw chain`, 64, /--endpoint/],
    [
      'a dead endpoint',
      () => `echo '${item}' | fw chain --endpoint http://127.0.0.1:9/v1`,
      69,
      /http:\/\/127\.0\.0\.1:9\/v1: .*refused/,
    ],
    ['a URL that is none', () => `echo '${item}' | fw chain --endpoint gpu1:8005`, 64, /expected a base URL/],
    [
      'a URL without /v1',
      () => `echo '${item}' | fw chain --endpoint ${one.all[0]?.url.replace('/v1', '')}`,
      69,
      /did you mean .*\/v1/i,
    ],
    ['a wrong model', () => `echo '${item}' | fw chain --model nope ${one.flags}`, 64, /nope/],
    ['an unknown stage', () => 'fw chian', 64, /no stage or command 'chian'/],
    ['an unknown option', () => 'fw chain --bogus', 64, /bogus/],
    [
      'an option that is no number',
      () => 'fw chain --attempts many',
      64,
      /--attempts: expected a whole number, found "many"/,
    ],
    [
      'a duration that is none',
      () => `fw chain --grace soon ${one.flags}`,
      64,
      /--grace: .* such as .*'soon'/,
    ],
    [
      'a duration beyond any timer',
      () => `echo '${item}' | fw chain --wait 600h ${one.flags}`,
      64,
      /--wait: expected a duration of at most 576h, found '600h'/,
    ],
    ['an unknown agent', () => `fw agent-step --agent nobody ${one.flags} </dev/null`, 64, /nobody/],
    ['no agents folder', () => `fw chain --agents nowhere ${one.flags} </dev/null`, 64, /nowhere/],
    [
      'broken YAML',
      () => `fw run ${file('broken.yaml', 'stages:\n  - ingest: {}\n - x: [\n')}`,
      65,
      /broken\.yaml:3:\d+: /,
    ],
    [
      'a stage that a pipeline does not have',
      () => `fw run ${file('stage.yaml', 'stages: [ { chian: {} } ]\n')}`,
      65,
      /stage\.yaml:1:\d+: expected a stage .* found 'chian'/,
    ],
    [
      'an option that a pipeline gets wrong',
      () => `fw run ${file('option.yaml', 'stages:\n  - chain: { attempts: many }\n')}`,
      65,
      /option\.yaml:2:\d+: attempts: expected a whole number/,
    ],
    ['a missing column', () => `fw ingest --id nope ${CSV}`, 65, /nope/],
    ['an empty file', () => `fw ingest ${file('empty.csv', '')}`, 65, /empty\.csv/],
    ['a header only', () => `fw ingest ${file('header.csv', 'id,prompt\n')}`, 65, /header\.csv/],
    [
      'a binary file',
      () => `fw ingest ${file('binary.csv', Buffer.from([0, 1, 2, 255, 254, 10, 0, 0]))}`,
      65,
      /binary\.csv/,
    ],
    ['a missing file', () => 'fw validate nowhere.ndjson', 65, /nowhere\.ndjson/],
    ['a folder', () => 'fw validate .', 65, /folder/],
    [
      'a failures file that is the input',
      () => `cp ${file('mine.ndjson', `${item}\n`)} x.ndjson; fw select --failures x.ndjson x.ndjson`,
      64,
      /which it would overwrite/,
    ],
    [
      'several URLs in one',
      () => `echo '${item}' | fw chain --endpoint http://a/v1,http://b/v1`,
      64,
      /repeat --endpoint/,
    ],
    ['a single dash', () => 'fw chain -endpoint x', 64, /--endpoint\?/],
    ['a full disk', () => `yes '${item}' | head -100000 | fw select > /dev/full`, 74, /ENOSPC/],
  ];
  test.each(cases)('%s', async (_what, line, exit, says) => {
    const ran = await fw(line(), { cwd: at });
    expect(ran.code, ran.stderr).toBe(exit);
    expect(ran.stderr).toMatch(says);
    expect(ran.stderr).not.toMatch(/\bat .*\.js:\d+/);
  });

  test('lines that cannot be read become failed items that hold them', async () => {
    const long = `{"id":"long","text":"${'x'.repeat(20_000_000)}"}`;
    const bytes = Buffer.concat([
      Buffer.from(`${item}\nnull\n[1]\n{"id":\n${long}\n`),
      Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d, 0x0a]),
      Buffer.from('{"id":"b","prompt":"!"}'),
    ]);
    const ran = await fw(`fw validate < ${file('lines.ndjson', bytes)}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    const lines = ran.stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line));
    expect(lines.map(line => line.failure?.code ?? line.id)).toEqual([
      'a',
      'not-an-object',
      'not-an-object',
      'not-json',
      'line-too-long',
      'not-utf8',
      'b',
    ]);
    expect(lines[4].failure).toMatchObject({ line: 5, bytes: long.length });
    expect(Buffer.from(lines[5].failure.base64, 'base64')).toEqual(
      Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
    );
  });
});

describe('outputs of a pipeline file', () => {
  const pipeline = () => file('out.yaml', 'stages: [ { select: {} } ]\n');
  test('a link keeps its target, and a device is written as it is', async () => {
    file('target.ndjson', 'old\n');
    file('line.ndjson', '{"id":"a","prompt":"?"}\n');
    const ran = await fw(
      `ln -sf target.ndjson link.ndjson && fw run ${pipeline()} line.ndjson --output link.ndjson && mkfifo fifo && (cat fifo > read.ndjson & fw run ${pipeline()} line.ndjson --output fifo; wait)`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(lstatSync(join(at, 'link.ndjson')).isSymbolicLink()).toBe(true);
    expect(lstatSync(join(at, 'fifo')).isFIFO()).toBe(true);
    for (const name of ['target', 'read']) {
      expect(readFileSync(join(at, `${name}.ndjson`), 'utf8')).toBe('{"id":"a","prompt":"?"}\n');
    }
  });

  test('a failures file keeps the bytes that came in', async () => {
    const line =
      '{ "id":"a", "prompt":"?", "big":12345678901234567890, "failure":{"stage":"s","code":"call-failed","message":"m"} }\n';
    file('failed-before.ndjson', line);
    const ran = await fw('fw select --failures kept.ndjson failed-before.ndjson', { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(readFileSync(join(at, 'kept.ndjson'), 'utf8')).toBe(line);
  });
});

describe('neighbours', () => {
  test('a stage that dies leaves a line that says so, and the results are not taken for whole', async () => {
    const ran = await fw(
      `fw ingest --id nope ${CSV} 2>/dev/null | fw chain ${one.flags} | tee marked.ndjson | fw legacy`,
      { cwd: at },
    );
    expect(ran.stdout).toBe('');
    expect(ran.code).toBe(1);
    // the last one alone says so too: not every shell has pipefail
    const marked = await fw('fw legacy marked.ndjson', { cwd: at });
    expect(marked.code).toBe(1);
    expect(marked.stderr).toContain('input-incomplete');
  });

  test('head stops the asking, quietly', async () => {
    const slow = await servers(1, { latency: '20ms' });
    const ran = await shell(
      `fw ingest ${CSV} 2>/dev/null | fw chain --in-flight 4 ${slow.flags} | head -1; echo "\${PIPESTATUS[1]}"`,
    );
    const [first, code] = ran.stdout.trimEnd().split('\n');
    expect(JSON.parse(first as string).steps).toHaveLength(4);
    expect(code).toBe('141');
    // and of its progress what it said while it asked
    expect(ran.stderr).toMatch(/^chain: asking .*\n(?:chain: \d+ items? done .*\n)*$/);
    expect(slow.requests()).toBeLessThan(60 * 5);
  });

  test('a reader that does not read stops the asking', async () => {
    const bounded = await servers(1);
    const child = spawn(process.execPath, [
      CLI,
      'chain',
      '--no-decision',
      '--in-flight',
      '3',
      '--endpoint',
      bounded.all[0]?.url as string,
    ]);
    child.stdin.on('error', () => {}); // it is killed while there is more to read
    const many = 2_000;
    for (let n = 0; n < many; n++)
      child.stdin.write(`${JSON.stringify({ id: `${n}`, prompt: 'x'.repeat(20_000) })}\n`);
    // each item is some 22 KB: a pipe of 64 KiB, the stream before it and three in flight hold a few, never all
    child.stdout.pause();
    await until(() => bounded.requests() > 0);
    let before = -1;
    while (before !== bounded.requests()) {
      before = bounded.requests();
      await new Promise(resolve => setTimeout(resolve, 500)); // quiet for half a second is what stopped means here
    }
    expect(before).toBeLessThan(many);
    child.kill('SIGKILL');
    await once(child, 'close');
  });
});

describe('signals', () => {
  test.each(every(2, ['SIGINT', 'SIGTERM'] as const))(
    '%s lets go of nothing that was paid for',
    async signal => {
      const slow = await servers(1, { latency: '100ms' });
      const child = spawn(process.execPath, [
        CLI,
        'chain',
        '--in-flight',
        '8',
        '--grace',
        '0s',
        '--endpoint',
        slow.all[0]?.url as string,
      ]);
      const out: Buffer[] = [];
      const err: Buffer[] = [];
      child.stdout.on('data', chunk => out.push(chunk));
      child.stderr.on('data', chunk => err.push(chunk));
      for (let n = 0; n < 40; n++)
        child.stdin.write(`${JSON.stringify({ id: `${n}`, prompt: `Credit score: ${500 + n}` })}\n`);
      await until(() => slow.all.some(server => server.counts().answers >= 20));
      child.kill(signal);
      const [code] = (await once(child, 'close')) as [number];
      expect(code, Buffer.concat(err).toString()).toBe(signal === 'SIGINT' ? 130 : 143);
      const lines = Buffer.concat(out)
        .toString()
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line));
      expect(lines.at(-1).failure.code).toBe('input-incomplete');
      const interrupted = lines.filter(line => line.failure?.code === 'interrupted');
      expect(interrupted.length).toBeGreaterThan(0);
      const kept = interrupted.flatMap(line => line.steps).filter(step => step.output !== undefined);
      expect(kept.length).toBeGreaterThan(0);

      // what was left is taken up without being told to, and the answers that are there are not asked for again
      const rest = await fw(`grep interrupted | fw chain ${one.flags}`, { stdin: Buffer.concat(out) });
      expect(rest.code, rest.stderr).toBe(0);
      const finished = rest.stdout
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line));
      expect(finished).toHaveLength(interrupted.length);
      for (const line of interrupted) {
        const after = finished.find(({ id }) => id === line.id);
        const answered = line.steps.filter((step: { output?: unknown }) => step.output !== undefined);
        expect(after.steps.slice(0, answered.length)).toEqual(answered);
      }
    },
  );

  /** Asks 40 items and is stopped once some are answered; resolves to the lines that came out. */
  async function stopped(inFlight: number, signal: NodeJS.Signals, from: string): Promise<string[]> {
    const slow = await servers(1, { latency: '100ms' });
    const { url } = slow.all[0] as { url: string };
    const args = ['chain', '--in-flight', `${inFlight}`, '--grace', '0s', '--endpoint', url, from];
    const child = spawn(process.execPath, [CLI, ...args], { cwd: at });
    const out: Buffer[] = [];
    child.stdout.on('data', chunk => out.push(chunk));
    await until(() => slow.all.some(server => server.counts().answers >= 20));
    child.kill(signal);
    const [code] = (await once(child, 'close')) as [number];
    expect(code).toBe(signal === 'SIGINT' ? 130 : 143);
    return Buffer.concat(out).toString().trimEnd().split('\n');
  }
  const codesIn = (lines: string[]) => lines.map(line => JSON.parse(line).failure?.code);

  test('what was stopped with all of its input in hand leaves no mark that something is missing', async () => {
    const ingested = await fw(`fw ingest ${CSV} --limit 40 > all-in-hand.ndjson`, { cwd: at });
    expect(ingested.code).toBe(0);
    const lines = await stopped(64, 'SIGTERM', 'all-in-hand.ndjson');
    expect(lines).toHaveLength(40);
    expect(codesIn(lines)).toContain('interrupted');
    expect(codesIn(lines)).not.toContain('input-incomplete');
    const rest = await fw(`fw chain ${one.flags}`, { stdin: `${lines.join('\n')}\n` });
    expect([rest.code, new Set(codesIn(rest.stdout.trimEnd().split('\n')))]).toEqual([
      0,
      new Set([undefined]),
    ]);
  });

  test('the way out of docs/pipelines.md takes the mark away, and nothing else', async () => {
    await fw(`fw ingest ${CSV} --limit 40 > asked.ndjson`, { cwd: at });
    const done = await stopped(8, 'SIGINT', 'asked.ndjson');
    expect(codesIn(done).at(-1)).toBe('input-incomplete');
    const lines = readFileSync(join(ROOT, 'docs', 'pipelines.md'), 'utf8');
    const [, select, merge] = /^(fw select --no-failed done.*)\n(fw merge [^|]*)\|/m.exec(lines) ?? [];
    file('done.ndjson', `${done.join('\n')}\n`);
    const ran = await fw(`${select} && ${merge} | fw chain ${one.flags}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    const ids = ran.stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line).id);
    const asked = readFileSync(join(at, 'asked.ndjson'), 'utf8').trimEnd().split('\n');
    expect(ids.sort()).toEqual(asked.map(line => JSON.parse(line).id).sort());
    expect(new Set(codesIn(ran.stdout.trimEnd().split('\n')))).toEqual(new Set([undefined]));
  });

  test('Ctrl-C reaches every stage of a pipe, and the later ones drain what chain passes on', async () => {
    const slow = await servers(1, { latency: '100ms' });
    const out = join(at, 'drained.jsonl');
    const line = `set -m; (fw ingest ${CSV} | fw chain --in-flight 16 --grace 30s ${slow.flags} | fw legacy --failures ${at}/rest.ndjson > ${out}) & echo $!; wait $!`;
    const child = spawn('bash', ['--norc', '-c', line], {
      env: { ...process.env, PATH: `${binFolder}:${process.env.PATH}` },
    });
    const [first] = (await once(child.stdout, 'data')) as [Buffer];
    await until(() => slow.all.some(server => server.counts().answers >= 60));
    process.kill(-Number(first.toString()), 'SIGINT'); // to the whole group, as a terminal does
    await once(child, 'close');
    const results = readFileSync(out, 'utf8').trimEnd().split('\n');
    const rest = readFileSync(join(at, 'rest.ndjson'), 'utf8').trimEnd().split('\n');
    for (const text of results) expect(JSON.parse(text).business_decision).toBeDefined();
    // every item that was begun was finished within the grace, and the pipe says that more would have come
    expect(rest.map(text => JSON.parse(text).failure.code)).toContain('input-incomplete');
    expect(slow.requests()).toBeGreaterThanOrEqual(results.length * 5);
    expect(slow.requests()).toBeLessThanOrEqual(results.length * 5 + 5);
  });

  test('the wait for a server ends with the first signal', async () => {
    const closing = createServer(socket => socket.destroy()).listen(0, '127.0.0.1');
    afterAll(() => closing.close());
    await once(closing, 'listening');
    const { port } = closing.address() as { port: number };
    const url = `http://127.0.0.1:${port}/v1`;
    const child = spawn(process.execPath, [CLI, 'chain', '--wait', '10m', '--endpoint', url]);
    const closed = once(child, 'close');
    await once(closing, 'connection');
    child.kill('SIGINT');
    expect(await closed).toEqual([130, null]);
  });
});

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise(resolve => setTimeout(resolve, 5));
}
