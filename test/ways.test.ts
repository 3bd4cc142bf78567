/**
 * How many files a way goes through, from the first function that is called to the last: the figure by which a stranger
 * feels how far the code is spread. Each is measured by the coverage that V8 counts in a real process, over the sources as
 * one JavaScript file each. The bounds are what there is: a way that grows is a decision, and is written down here.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { environment, folder, ROOT } from './fw.ts';
import { simulated } from './server/serving.ts';

const TRACED = join(ROOT, 'dist', `traced-${process.pid}`);

beforeAll(() => {
  for (const top of ['bin', 'engine', 'products', 'stages', 'schemas']) {
    for (const name of readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' })) {
      const [from, to] = [join(ROOT, top, name), join(TRACED, top, name)];
      if (/\.(json|css|js)$/.test(name)) {
        mkdirSync(dirname(to), { recursive: true });
        cpSync(from, to);
      }
      if (!name.endsWith('.ts')) continue;
      const supported = { 'import-attributes': true };
      const { code } = transformSync(readFileSync(from, 'utf8'), { loader: 'ts', format: 'esm', supported });
      const named = code
        .replace(/((?:from|import|import\()\s*["']\.[^"']+)\.ts(["'])/g, '$1.js$2')
        .replace(/import (\{[^}]*\}) from "(cli-progress)"/g, 'import cjs from "$2"; const $1 = cjs');
      mkdirSync(dirname(to), { recursive: true });
      writeFileSync(to.replace(/\.ts$/, '.js'), named);
    }
  }
  symlinkSync(join(ROOT, 'pipelines'), join(TRACED, 'pipelines'));
});
afterAll(() => rmSync(TRACED, { recursive: true, force: true }));

/** Starts `fw` of the traced sources; `files` are those of which a function was called, once it has ended. */
function traced(args: readonly string[], cwd: string) {
  const cover = folder();
  const env = { ...environment({}), NODE_V8_COVERAGE: cover };
  const child = spawn(process.execPath, [join(TRACED, 'bin/fw.js'), ...args], { cwd, env });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr.on('data', text => {
    said += text;
  });
  const files = async (): Promise<string[]> => {
    if (child.exitCode === null) await once(child, 'close');
    expect(child.exitCode, said).toBe(0);
    const called = readdirSync(cover)
      .flatMap(name => JSON.parse(readFileSync(join(cover, name), 'utf8')).result as Script[])
      // the first function of a script is the script itself
      .filter(({ functions }) => functions.slice(1).some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
      .flatMap(({ url }) => (url.includes(TRACED) ? url.slice(url.indexOf(TRACED) + TRACED.length + 1) : []));
    return [...new Set(called)];
  };
  return { child, files };
}

interface Script {
  url: string;
  functions: { ranges: { count: number }[] }[];
}

test('fw run, one row', async () => {
  const { url } = await simulated();
  const cwd = folder();
  const ask = ['--endpoint', url, '--limit', '1', '--set', 'ingest.orderings=default'];
  const files = [join(ROOT, 'pipelines/fairwatch/batch.yaml'), join(ROOT, 'fixtures/applications-60.csv')];
  expect((await traced(['run', ...files, ...ask], cwd).files()).length).toBeLessThanOrEqual(RUN);
});

test('fw bench', async () => {
  const { url } = await simulated();
  const load = ['--input-tokens', '20', '--output-tokens', '4', '--requests', '4'];
  const { files } = traced(['bench', '--endpoint', url, ...load], folder());
  expect((await files()).length).toBeLessThanOrEqual(BENCH);
});

test('a batch of one line, posted to fw serve', async () => {
  const { url: endpoint } = await simulated();
  const args = ['serve', '--data', 'data', '--listen', '127.0.0.1:0', '--endpoint', endpoint];
  const { child, files } = traced(args, folder());
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { url } = JSON.parse(line.toString()) as { url: string };
  const path = '/v1/chat/completions';
  const body = { model: 'simulated-3b', messages: [{ role: 'user', content: 'x' }] };
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set(
    'file',
    new Blob([JSON.stringify({ custom_id: 'a', method: 'POST', url: path, body })]),
    'in.jsonl',
  );
  const json = async (where: string, init?: RequestInit): Promise<{ id: string; status: string }> =>
    (await (await fetch(`${url}${where}`, init)).json()) as { id: string; status: string };
  const file = await json('/v1/files', { method: 'POST', body: form });
  const { id } = await json('/v1/batches', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: file.id, endpoint: path, completion_window: '24h' }),
  });
  const status = async (): Promise<string> => (await json(`/v1/batches/${id}`)).status;
  await expect.poll(status).toBe('completed'); // a busy machine is no fault
  child.kill('SIGTERM');
  expect((await files()).length).toBeLessThanOrEqual(BATCH);
});

/**
 * Files today, over all that the process does from its start to its end, and three more: what a timer calls is called on a
 * machine that is busy, and not on one that is quiet.
 */
const RUN = 163 + 3;
const BENCH = 56 + 3;
const BATCH = 186 + 3;
