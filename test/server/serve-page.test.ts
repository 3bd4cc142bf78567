/** The first commands of docs/serve.md, as a reader types them, on a simulated server. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { STATUSES, shown as shownBatch } from '../../products/serve/batches/batch-state.ts';
import { freePort } from '../free-port.ts';
import { environment, folder, ROOT } from '../fw.ts';
import { linesIn, linesOf, reached } from './batching.ts';
import { simulated } from './serving.ts';

const page = readFileSync(join(ROOT, 'docs/serve.md'), 'utf8');

test('from nothing to a batch that is completed', async () => {
  const [, block = ''] = /^```sh\n(.*?)^```/ms.exec(page) ?? [];
  const [start = '', ...rest] = block.trim().split('\n');
  expect(rest).toHaveLength(2);
  const { url } = await simulated();
  const port = await freePort();
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), linesOf(12));
  // as a reader's shell: what is started stays, and the next lines are typed when it listens
  const placed = (line: string): string =>
    line
      .replace(/ --endpoint \S+/, ` --endpoint ${url} --listen 127.0.0.1:${port}`)
      .replace(/ --endpoint http:\/\/gpu2\S+/, '')
      .replaceAll('8080', String(port));
  const script = ['set -e', placed(start), 'read -r', ...rest.map(placed), 'wait'].join('\n');
  const child = spawn('bash', ['-c', script], { cwd: at, env: environment({}), detached: true });
  onTestFinished(() => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // it has ended
    }
  });
  let out = '';
  const made = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', chunk => {
      out += chunk;
      if (out.includes('"url"') && child.stdin.writable) child.stdin.end('\n');
      const [id] = /batch_[0-9a-f]{32}/.exec(out) ?? [];
      if (id !== undefined) resolve(id);
    });
    child.on('exit', code => reject(new Error(`ended with ${code}: ${out}`)));
  });
  const openai = new OpenAI({ apiKey: 'none', baseURL: `http://127.0.0.1:${port}/v1` });
  const done = await reached(openai, await made);
  expect(done).toMatchObject({ status: 'completed', request_counts: { completed: 12 } });
  expect(await linesIn(openai, done.output_file_id)).toHaveLength(12);
});

test('the page names every state and every field of a batch', () => {
  const record = {
    id: 'b',
    counts: { total: 1 },
    usage: { input: 0, output: 0 },
    errors: [],
    times: {},
    status: 'completed',
  };
  const fields = Object.keys(shownBatch(record as unknown as Parameters<typeof shownBatch>[0]));
  expect(fields.length).toBeGreaterThan(20);
  expect([...fields, ...STATUSES].filter(name => !page.includes(`\`${name}\``))).toEqual([]);
});
