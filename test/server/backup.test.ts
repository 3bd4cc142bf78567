/**
 * A folder that is copied while its server works, as docs/backup.md says it: a server on the copy starts, each of its
 * batches goes on to its end, and nothing is asked again that was on record before the copy was begun.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { begin, linesIn, linesOf, reached } from './batching.ts';
import { keyOf, MODEL, served, simulated } from './serving.ts';

const COPIES = runs(2, 12, 'COPIES');
const LINES = 60;
const LIMIT = 8;

/** The commands of the page, with other folders. */
const COMMANDS = /```sh\n(mkdir -p backup[\s\S]*?)```/.exec(
  readFileSync(join(ROOT, 'docs', 'backup.md'), 'utf8'),
)?.[1] as string;

function backup(data: string, to: string): Promise<void> {
  const script = COMMANDS.replaceAll(/\bserve\b(?=[ /]|$)/gm, data).replaceAll(/\bbackup\b/g, to);
  // tar says what was removed or has grown meanwhile, and ends with 1
  return new Promise(resolve => void execFile('bash', ['-c', script], () => resolve()));
}

const answersIn = (data: string): number => {
  const names = readdirSync(data, { recursive: true, encoding: 'utf8' });
  const ledgers = names.filter(name => name.startsWith('batches/') && name.endsWith('.ndjson'));
  const texts = ledgers.map(name => readFileSync(join(data, name), 'latin1'));
  return texts.reduce((sum, text) => sum + text.split('"outcome":"answer"').length - 1, 0);
};

test('copied at random moments under load', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  const waits = fc.sample(fc.integer({ min: 0, max: 200 }), { numRuns: COPIES, seed });
  const { url } = await simulated({ latency: '1ms-4ms' });
  const data = folder();
  const key = keyOf(data, 'alice', ['batch', 'chat'], { tokens_per_day: 1e9 });
  const server = await served({ data, endpoints: [url], limit: LIMIT });
  const openai = server.client(key);
  const ask = { model: MODEL, messages: [{ role: 'user' as const, content: 'hello' }], max_tokens: 4 };
  let isOver = false;
  let begun = 0;
  const load = async (): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const { id, input_file_id } = await begin(openai, linesOf(LINES, n * LINES));
      begun += 1;
      if (n % 3 === 0) await openai.files.delete(input_file_id);
      await openai.chat.completions.create(ask);
      await reached(openai, id, ({ request_counts: counts }) => (counts?.completed ?? 0) > LINES / 2);
    }
  };
  const loading = load();
  const copies: { to: string; before: number }[] = [];
  for (const wait of waits) {
    const next = begun + 2;
    await expect.poll(() => begun, { interval: 1 }).toBeGreaterThanOrEqual(next);
    await pause(wait);
    const to = join(folder(), 'backup');
    copies.push({ to, before: answersIn(data) });
    await backup(data, to);
  }
  isOver = true;
  await loading;
  for (const { to, before } of copies) {
    const point = `seed ${seed}`;
    const isLost = (id: string): boolean => {
      const { outputs, input_file_id } = JSON.parse(
        readFileSync(join(to, 'batches', id, 'state.json'), 'utf8'),
      );
      const inputs = [join(to, 'batches', id, 'input.jsonl'), join(to, 'files', `${input_file_id}.data`)];
      return outputs === null && !inputs.some(path => existsSync(path));
    };
    const known = readdirSync(join(to, 'batches')).filter(id =>
      existsSync(join(to, 'batches', id, 'state.json')),
    );
    const lost = known.filter(isLost);
    console.log(`backup: SEED=${seed} ${known.length} batches, ${lost.length} without an input`);
    const own = await simulated();
    const again = await served({ data: to, endpoints: [own.url], limit: LIMIT });
    const client = again.client(key);
    const all = await client.batches.list({ limit: 100 });
    expect(all.data.length, point).toBe(Math.min(100, known.length));
    expect(known.length, point).toBeGreaterThan(0);
    let lines = 0;
    for (const { id } of all.data) {
      lines += LINES;
      if (lost.includes(id)) continue;
      const done = await reached(client, id);
      expect(done, point).toMatchObject({
        ...{ status: 'completed', request_counts: { completed: LINES, failed: 0 } },
      });
      const ids = (await linesIn(client, done.output_file_id)).map(({ custom_id }) => custom_id);
      expect([new Set(ids).size, ids.length], point).toEqual([LINES, LINES]);
    }
    expect(own.simulator.counts().answers, point).toBeLessThanOrEqual(lines - before);
    expect(
      again.said.filter(line => line.includes('expected')),
      point,
    ).toEqual([]);
    await again.stop();
  }
});

test('lines that were copied while they were written are written again; an input that is gone is taken from its file', async () => {
  const { url, simulator } = await simulated();
  const first = await served({ endpoints: [url] });
  const openai = first.client();
  const { id, input_file_id } = await reached(openai, (await begin(openai, linesOf(20))).id);
  await first.stop();
  const state = join(first.data, 'batches', id, 'state.json');
  const ended = JSON.parse(readFileSync(state, 'utf8'));
  const output = join(first.data, 'files', `${ended.outputs.output}.data`);
  const text = readFileSync(output);
  rmSync(output);
  rmSync(output.replace('.data', '.json'));
  for (const name of ['output.jsonl', 'error.jsonl'])
    writeFileSync(join(first.data, 'batches', id, name), text);
  truncateSync(join(first.data, 'batches', id, 'output.jsonl'), text.length - 100);
  truncateSync(join(first.data, 'batches', id, 'error.jsonl'), 0);
  writeFileSync(state, JSON.stringify({ ...ended, status: 'finalizing' }));
  const asked = simulator.counts().answers;
  const second = await served({ data: first.data, endpoints: [url] });
  const client = second.client();
  const done = await reached(client, id);
  expect((await linesIn(client, done.output_file_id)).length).toBe(20);
  expect([done.input_file_id, simulator.counts().answers]).toEqual([input_file_id, asked]);
});

test('a batch whose input is nowhere says so, and can be cancelled', async () => {
  const { url } = await simulated();
  const data = join(folder(), 'data');
  const first = await served({ data, endpoints: [url] });
  const { id } = await reached(first.client(), (await begin(first.client(), linesOf(2))).id);
  await first.stop();
  const state = join(data, 'batches', id, 'state.json');
  const record = { ...JSON.parse(readFileSync(state, 'utf8')), status: 'in_progress', outputs: null };
  rmSync(join(data, 'files'), { recursive: true });
  mkdirSync(join(data, 'files'));
  writeFileSync(state, JSON.stringify(record));
  const again = await served({ data, endpoints: [url] });
  await expect.poll(() => again.said.join('\n')).toContain('its input is gone, and file-');
  await again.client().batches.cancel(id);
  expect((await reached(again.client(), id)).status).toBe('cancelled');
});
