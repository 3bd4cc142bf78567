/** Batch 4 by make, killed once on the way and given again: twelve files, checked by a script that knows nothing of fw. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { every, runs } from '../all.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const LIMIT = runs(4, 96, 'LIMIT');
const cwd = folder();
const open: Server[] = [];
let urls: string[] = [];
/** answers that were given, and what happens at the one of this number */
let answered = 0;
let atAnswer = { number: -1, act: () => {} };

beforeAll(async () => {
  for (const name of ['dist', 'pipelines', 'schemas', 'node_modules', 'package.json'])
    symlinkSync(join(ROOT, name), join(cwd, name));
  const made = await shell(`node ${ROOT}/dist/fixtures/applications.js > prompts.csv`, { cwd });
  expect(made.code, made.stderr).toBe(0);
  const { all } = await servers(3, { faults: 'escape=0.05,429=0.02,500=0.01' });
  urls = await Promise.all(all.map(({ url }) => before(url)));
});
afterAll(() => Promise.all(open.map(server => new Promise(resolve => server.close(resolve)))));

/** A server before another one, which counts the answers. */
async function before(url: string): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const isAsked = request.method === 'POST';
    const given = await fetch(new URL(request.url as string, url), {
      method: request.method as string,
      headers: {
        'content-type': 'application/json',
        'x-request-id': String(request.headers['x-request-id'] ?? ''),
      },
      ...(isAsked && { body: Buffer.concat(chunks) }),
    });
    const body = Buffer.from(await given.arrayBuffer());
    if (isAsked && given.status === 200 && ++answered === atAnswer.number) atAnswer.act();
    const retry = given.headers.get('retry-after');
    response.writeHead(given.status, {
      'content-type': 'application/json',
      ...(retry && { 'retry-after': retry }),
    });
    response.end(body);
  });
  open.push(server);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

/** make batch4; killed with all that it started when `killAt` answers were given. */
async function makeBatch4(killAt?: number): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(
    'make',
    ['-s', '-f', `${ROOT}/Makefile`, '-o', 'dist/.built', 'batch4', `LIMIT=${LIMIT}`],
    {
      cwd,
      detached: true,
      env: { ...process.env, FW_ENDPOINTS: urls.join() },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  if (killAt !== undefined)
    atAnswer = { number: answered + killAt, act: () => void process.kill(-(child.pid as number), 'SIGKILL') };
  let stderr = '';
  child.stderr.on('data', text => {
    stderr += text;
  });
  return new Promise(resolve => child.on('close', code => resolve({ code, stderr })));
}

test('twelve files with each agent in its place, after a kill and the same command again', async () => {
  const killed = await makeBatch4(LIMIT * 12);
  expect(killed.code, killed.stderr).toBeNull();
  expect(
    existsSync(join(cwd, 'out')) ? readdirSync(join(cwd, 'out')).filter(name => name.endsWith('.jsonl')) : [],
  ).toEqual([]);
  const whole = await makeBatch4();
  expect(whole.code, whole.stderr).toBe(0);
  expect(whole.stderr).toMatch(/ \+ [\d,]+ replayed/);
  const checked = await shell(`node ${ROOT}/test/legacy/twelve-files.mjs out prompts.csv ${LIMIT}`, { cwd });
  expect(checked.code, checked.stderr).toBe(0);
  expect(checked.stdout).toContain(`12 files, ${LIMIT * 12} results`);
  const verified = await fw(`fw verify --expect ${LIMIT * 12} 'out/sequential_*_legacy.jsonl'`, { cwd });
  expect(verified.code, verified.stderr).toBe(0);
  // no call has two answers on record, but those that were at the servers when the run was killed have none
  const ledger = await fw('fw ledger check ledger', { cwd });
  expect(ledger.code, ledger.stderr).toBe(0);
  const at = answered;
  const again = await makeBatch4();
  expect([again.code, answered - at]).toEqual([0, 0]);
});

test.each(
  every(3, [
    [
      'two turns that change places',
      (line: string) => line.replace('"agent":"risk_manager"', '"agent":"data_science"'),
    ],
    ['a line that is there twice', (line: string) => `${line}\n${line}`],
    ['a line that is gone', () => ''],
  ] as [string, (line: string) => string][]),
)('the script finds %s', async (_what, change) => {
  const name = join(cwd, 'out', 'sequential_risk_data_consumer_regulatory_legacy.jsonl');
  const before = readFileSync(name, 'utf8');
  const [first = '', ...others] = before.split('\n');
  writeFileSync(name, [change(first), ...others].filter((line, at) => at > 0 || line !== '').join('\n'));
  const checked = await shell(`node ${ROOT}/test/legacy/twelve-files.mjs out prompts.csv ${LIMIT}`, { cwd });
  writeFileSync(name, before);
  expect([checked.code, checked.stderr.startsWith('expected ')]).toEqual([1, true]);
});
