/** fw doctor as it is typed: exit codes, the page, JSON, the key, Ctrl-C. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checks } from '../../products/measure/doctor/judge.ts';
import type { Simulator } from '../../products/simulator/simulator.ts';
import { binFolder, folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';
import { deadUrl } from '../pool/serving.ts';
import { M, models, play } from './playing.ts';

/** Beside other work it may take as long that it says what it waits for. */
const besidesWaiting = (stderr: string): string => stderr.replace(/^fw doctor: waiting for .*\n/gm, '');

const simulated = await servers(2, { latency: '5ms' });
const [{ url }] = simulated.all as [Simulator, Simulator];

test('simulated servers: a page without colour, exit 0', async () => {
  const { code, stdout, stderr } = await fw(`fw doctor ${simulated.flags}`);
  expect([code, besidesWaiting(stderr)]).toEqual([0, '']);
  expect(stdout).not.toContain('\u001b');
  for (const { url } of simulated.all)
    expect(stdout).toContain(`${url} vLLM 0.32.0+fw.simulated · simulated-3b\n`);
  expect(stdout).toMatch(/^ {2}ok {7}guided decoding {2}two schemas/m);
  expect(stdout).toMatch(/^together\n/m);
  expect(stdout.trimEnd().split('\n').at(-1)).toMatch(
    /^2 of 2 endpoints usable · \d+ ok, \d+ notes?, 0 troubles$/,
  );
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
});

test('--json, FW_ENDPOINTS', async () => {
  const { code, stdout } = await fw('fw doctor --json', { env: { FW_ENDPOINTS: url } });
  const report = JSON.parse(stdout);
  expect([code, report.exit]).toEqual([0, 0]);
  expect(report.endpoints[0]).toMatchObject({
    url,
    reachable: true,
    server: 'vLLM',
    figures: { limit: expect.any(Number), context: 8192 },
  });
  expect(report.endpoints[0].figures.calls).toBeLessThanOrEqual(12);
  for (const finding of report.endpoints[0].findings) {
    expect(finding).toMatchObject({
      check: expect.any(String),
      mark: expect.stringMatching(/^(ok|note|trouble)$/),
      expected: expect.any(String),
      found: expect.any(String),
    });
  }
});

test('a pool file: its limits and its model count', async () => {
  const file = join(folder(), 'pool.yaml');
  writeFileSync(file, `endpoints: [ { url: ${url}, limit: 9 } ]\nmodel: other\n`);
  const { code, stdout } = await fw(`fw doctor --pool ${file} --json`);
  const [endpoint] = JSON.parse(stdout).endpoints;
  expect([code, endpoint.figures.limit]).toEqual([69, 9]);
  expect(endpoint.findings).toContainEqual(
    expect.objectContaining({ check: 'model', mark: 'trouble', found: 'it serves simulated-3b, not other' }),
  );
});

test('trouble is 1, one that is gone beside one that is there too; none at all is 69; wrong usage is 64', async () => {
  const dead = await deadUrl();
  const deaf = await play(undefined, { obey: false });
  expect((await fw(`fw doctor --endpoint ${deaf.url}`)).code).toBe(1);
  expect((await fw(`fw doctor --endpoint ${url} --endpoint ${dead}`)).code).toBe(1);
  const none = await fw(`fw doctor --endpoint ${dead} --endpoint http://nowhere.invalid/v1`);
  expect(none.code).toBe(69);
  expect(none.stdout).toMatch(/0 of 2 endpoints usable · 0 ok, 0 notes, 2 troubles\n$/);
  // it is there, and answers nothing
  const failing = await play((path, response) =>
    path.endsWith('/completions') ? response.writeHead(500).end('boom') : undefined,
  );
  const useless = await fw(`fw doctor --endpoint ${url} --endpoint ${failing.url}`);
  expect(useless.code).toBe(1);
  expect(useless.stdout).toContain('1 of 2 endpoints usable · ');
  expect((await fw(`fw doctor --endpoint ${failing.url}`)).code).toBe(69);
  const unnamed = await fw('fw doctor');
  expect([unnamed.code, unnamed.stdout]).toEqual([64, '']);
  expect(unnamed.stderr).toContain('FW_ENDPOINTS');
  for (const wrong of [
    'doctor http://x/v1',
    'doctor --endpoint x',
    'doctor --endpoint http://x/v1 --timeout soon',
  ])
    expect((await fw(`fw ${wrong}`)).code, wrong).toBe(64);
});

test('a key is sent, and never shown', async () => {
  const SECRET = 'sk-secret-0123456789';
  let sent = 0;
  const server = await play((path, response) => {
    if (response.req.headers.authorization === `Bearer ${SECRET}`) sent++;
    return path === '/v1/models' ? models({ ...M, root: `weights of ${SECRET}` }) : undefined;
  });
  const refusing = await play((_, response) => response.writeHead(401).end(`wrong key ${SECRET}`));
  for (const flags of ['', '--json']) {
    const { stdout, stderr } = await fw(
      `fw doctor --endpoint ${server.url} --endpoint ${refusing.url} --api-key-env MY_KEY ${flags}`,
      { env: { MY_KEY: SECRET } },
    );
    expect(stdout).toContain('the key of $MY_KEY was refused');
    expect(stdout + stderr).not.toContain(SECRET);
  }
  expect(sent).toBe(server.asked.length);
});

test('who keeps it waiting is said', async () => {
  const silent = await play((path, response) => (path === '/v1/models' ? response : undefined));
  const { code, stderr } = await fw(`fw doctor --endpoint ${url} --endpoint ${silent.url}`);
  expect([code, stderr]).toEqual([1, `fw doctor: waiting for ${silent.url}, for 60 s at most (--timeout)\n`]);
});

test('Ctrl-C ends at once', async () => {
  let reached = (): void => {};
  const asked = new Promise<void>(resolve => {
    reached = resolve;
  });
  const silent = await play((_, response) => {
    reached();
    return response;
  });
  const child = spawn(join(binFolder, 'fw'), ['doctor', '--endpoint', silent.url, '--timeout', '1h']);
  const ended = new Promise<unknown>(resolve => child.on('close', (code, signal) => resolve(code ?? signal)));
  await asked;
  child.kill('SIGINT');
  expect(await ended).toBe('SIGINT');
});

test('a reader that goes away ends it quietly', async () => {
  const { code, stderr } = await fw(`fw doctor ${simulated.flags} | true; exit "\${PIPESTATUS[0]}"`);
  expect([code, besidesWaiting(stderr)]).toEqual([141, '']);
});

test('the page in docs knows every check, and no other', () => {
  const page = readFileSync(join(ROOT, 'docs/doctor.md'), 'utf8');
  const listed = [...page.matchAll(/^\| `(.+?)` \|/gm)].map(match => match[1]);
  expect(listed).toEqual(
    [...new Set(checks({}).map(({ name }) => name))].sort((a, b) => listed.indexOf(a) - listed.indexOf(b)),
  );
});
