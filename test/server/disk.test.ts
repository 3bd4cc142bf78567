/** A full disk: an upload is refused and not kept, a batch that runs is paused and says so, and goes on with more room. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { ALL } from '../all.ts';
import { canMount } from '../crash/faults.ts';
import { environment, folder } from '../fw.ts';
import { serve } from '../pool/serving.ts';
import { begin, lineOf, linesIn, put, reached } from './batching.ts';
import { serveProcess, simulated } from './serving.ts';

const STREAMED =
  'data: {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n';

test('a disk that takes no more while calls are out: 507 in plain words; a stream that was given whole has no error', async () => {
  const server = await serve(one => {
    if (!JSON.parse(one.body).stream) return one.answer('yes');
    one.response.writeHead(200, { 'content-type': 'text/event-stream' }).end(STREAMED);
  });
  // files take their first lines, and no request of 20,000 characters
  const { url, child } = await serveProcess(
    ['--data', join(folder(), 'data'), '--endpoint', server.url],
    'ulimit -f 8',
  );
  let said = '';
  child.stderr?.on('data', chunk => {
    said += chunk;
  });
  const ask = (content: string, stream: boolean) =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content }] }),
    });
  for (const stream of [false, true, false, true]) {
    // the disk is tried again once a second, and only what was asked then is in the air when it takes no more
    await expect
      .poll(async () => {
        const asked = server.asked;
        const reply = await ask('x'.repeat(20_000), stream);
        const text = await reply.text();
        if (stream && reply.status === 200) expect(text).toBe(STREAMED);
        else {
          const { error } = JSON.parse(text);
          expect([reply.status, error.code]).toEqual([507, 'insufficient_storage']);
          expect(error.message).toMatch(/^The server cannot keep its record: its disk is full/);
          expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0);
        }
        return server.asked - asked;
      })
      .toBe(1);
  }
  expect(said.split('until it can be recorded')).toHaveLength(2); // once, however often the disk was tried
  expect(said).not.toContain('again');
  await expect.poll(async () => (await ask('x', false)).status).toBe(200);
  await expect.poll(() => said).toContain('requests are recorded and answered again');
});

test('record: best_effort answers without a record, counts that, and says so', async () => {
  const server = await serve(one => one.answer('yes'));
  const config = join(folder(), 'serve.yaml');
  writeFileSync(config, 'record: best_effort\n');
  const { url, child } = await serveProcess(
    ['--config', config, '--data', join(folder(), 'data'), '--endpoint', server.url],
    'ulimit -f 8',
  );
  let said = '';
  child.stderr?.on('data', chunk => {
    said += chunk;
  });
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(20_000) }] });
  const headers = { 'content-type': 'application/json' };
  for (let n = 0; n < 3; n++) {
    const reply = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
    expect(reply.status).toBe(200);
    expect(await reply.text()).toContain('yes');
  }
  expect(await (await fetch(`${url}/metrics`)).text()).toMatch(/^fw_gateway_unrecorded_total 3$/m);
  await expect.poll(() => said).toContain('requests are answered without a record: ');
});

const LINES = 1500;
const LIMIT = 16;

if (ALL && !canMount) console.log('left out, for a file system of its own is not permitted: a full tmpfs');
test.runIf(ALL && canMount)('a full disk', async () => {
  const { url, simulator } = await simulated({ latency: '1ms' });
  const disk = folder();
  const flag = join(folder(), 'more');
  const script = [
    `mount -t tmpfs -o size=3m none ${disk}`,
    `{ until [ -e ${flag} ]; do sleep 0.1; done; mount -o remount,size=128m ${disk}; } &`,
    `exec fw serve --data ${disk}/data --listen 127.0.0.1:0 --endpoint ${url} --endpoint-limit ${LIMIT}`,
  ].join('\n');
  const child = spawn('unshare', ['-m', 'bash', '-c', script], { env: environment({}) });
  onTestFinished(() => {
    writeFileSync(flag, '');
    child.kill('SIGKILL');
  });
  let said = '';
  const heard: (() => void)[] = [];
  child.stderr.on('data', chunk => {
    said += chunk;
    for (const hear of heard) hear();
  });
  const paused = new Promise<void>(resolve => {
    heard.push(() => /is paused.*disk is full/.test(said) && resolve());
  });
  const base = await new Promise<string>(resolve => {
    child.stdout.once('data', chunk => resolve(JSON.parse(chunk.toString()).url));
  });
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${base}/v1`, maxRetries: 0 });
  await expect(put(openai, 'x'.repeat(5_000_000))).rejects.toMatchObject({
    status: 507,
    code: 'insufficient_storage',
  });
  expect((await openai.files.list()).data).toEqual([]);
  const text = Array.from({ length: LINES }, (_, n) => lineOf(`r-${n}`, { user: 'u'.repeat(900) })).join(
    '\n',
  );
  const { id } = await begin(openai, text);
  await paused;
  expect(await openai.batches.retrieve(id)).toMatchObject({ status: 'in_progress' });
  expect((await fetch(`${base}/health`)).status).toBe(200);
  expect(await (await fetch(`${base}/metrics`)).text()).toContain('\nfw_batches_paused 1\n');
  writeFileSync(flag, '');
  const done = await reached(openai, id);
  expect(done, said).toMatchObject({ status: 'completed', request_counts: { completed: LINES, failed: 0 } });
  const lines = await linesIn(openai, done.output_file_id);
  expect(lines.map(({ custom_id }) => custom_id)).toEqual(Array.from({ length: LINES }, (_, n) => `r-${n}`));
  expect(simulator.counts().answers - LINES).toBeLessThanOrEqual(4 * LIMIT);
});
