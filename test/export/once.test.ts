/** Equal requests are asked once (--once), and each line has the answer, under its own custom_id. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { every } from '../all.ts';
import { binFolder, folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Asked, serve } from './serving.ts';

interface Result {
  id: string;
  custom_id: string;
  response: { request_id: string; body: { choices: { text: string }[] } } | null;
  error: { code: string; message: string } | null;
}

const CHAT = '/v1/completions';
const bodyOf = (question: number, more: object = {}) => ({
  model: 'm',
  prompt: `Question ${question}`,
  temperature: 0,
  ...more,
});
const line = (custom_id: string, body: object, url = CHAT): string =>
  `${JSON.stringify({ custom_id, method: 'POST', url, body })}\n`;
/** `count` lines that ask `distinct` questions in turn. */
const repeating = (count: number, distinct: number): string =>
  Array.from({ length: count }, (_, n) => line(`line-${n}`, bodyOf(n % distinct))).join('');

/** A server that says which question it was asked, and for the how-manieth time. */
const answering = (asked: Asked, response: ServerResponse, nth: number): void => {
  const text = `${asked.body.prompt}, answer ${nth}`;
  response.end(
    JSON.stringify({
      model: asked.body.model,
      choices: [{ index: 0, text, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    }),
  );
};

async function server(models: readonly string[] = ['m'], answer = answering) {
  const times = new Map<string, number>();
  const served = await serve(models, (asked, response) => {
    const name = `${asked.path} ${asked.bytes}`;
    times.set(name, (times.get(name) ?? 0) + 1);
    answer(asked, response, times.get(name) as number);
  });
  return { ...served, times };
}

async function batch(input: string, url: string, flags = '--once', at = folder()) {
  writeFileSync(join(at, 'input.jsonl'), input);
  const ran = await fw(`fw batch -i input.jsonl -o output.jsonl ${flags}`, {
    cwd: at,
    env: { FW_ENDPOINTS: url },
  });
  expect(ran.code, ran.stderr).toBe(0);
  return { ...ran, at, results: resultsAt(at) };
}

function resultsAt(at: string): Result[] {
  const text = readFileSync(join(at, 'output.jsonl'), 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map(each => JSON.parse(each) as Result);
}

const textIn = ({ response }: Result) => response?.body.choices[0]?.text;

test('of 200 lines with 7 questions the server is asked 7, and each line has its answer', async () => {
  const { url, times } = await server();
  const { at, results, stderr } = await batch(repeating(200, 7), url);
  expect([...times.values()]).toEqual(Array(7).fill(1));
  expect(results.map(({ custom_id }) => custom_id)).toEqual(
    Array.from({ length: 200 }, (_, n) => `line-${n}`),
  );
  for (const [n, result] of results.entries()) expect(textIn(result)).toBe(`Question ${n % 7}, answer 1`);
  // each line is known by itself, and names the call that was made
  expect(new Set(results.map(({ id }) => id)).size).toBe(200);
  expect(new Set(results.map(({ response }) => response?.request_id)).size).toBe(7);
  expect(stderr).toContain('7 calls + 193 replayed');
  const shown = await fw(`fw ledger show ${results[0]?.response?.request_id}`, { cwd: at });
  expect([shown.code, shown.stdout.includes('Question 0, answer 1')]).toEqual([0, true]);
  const checked = await fw('fw ledger check --read-data ledger', { cwd: at });
  expect([checked.code, checked.stdout]).toEqual([
    0,
    expect.stringContaining('keys that fit their requests 7'),
  ]);
  // the same command again asks nothing, and writes the same bytes
  const before = readFileSync(join(at, 'output.jsonl'), 'utf8');
  const again = await batch(repeating(200, 7), url, '--once', at);
  expect(again.stderr).toContain('0 calls + 200 replayed');
  expect(readFileSync(join(at, 'output.jsonl'), 'utf8')).toBe(before);
  // without --once each line is asked for itself, which is said
  const each = await batch(repeating(200, 7), url, '', at);
  expect(each.stderr).toContain('once: true before, none now');
  expect(each.stderr).toContain('200 calls');
});

test('what may be answered otherwise is asked each time', async () => {
  const { url, asked } = await server(['m', 'n']);
  const alone = [
    bodyOf(0, { temperature: 0.7 }),
    bodyOf(0, { temperature: undefined }),
    bodyOf(0, { temperature: null }),
    bodyOf(0, { model: undefined }),
  ];
  const once = [bodyOf(0), bodyOf(0, { model: 'n' }), bodyOf(0, { max_tokens: 9 }), bodyOf(0, { seed: 1 })];
  const lines = [...alone, ...once].flatMap((body, n) => [line(`a-${n}`, body), line(`b-${n}`, body)]);
  lines.push(line('a-url', bodyOf(0), '/v1/other'), line('b-url', bodyOf(0), '/v1/other'));
  for (const id of ['a', 'b'])
    lines.push(line(`${id}-vector`, { model: 'm', input: 'text' }, '/v1/embeddings'));
  await batch(lines.join(''), url);
  expect(asked).toHaveLength(2 * alone.length + once.length + 2);
});

test('samples are asked each time', async () => {
  const { url, asked } = await server();
  const items = [undefined, undefined, 1, 2].map((sample, n) =>
    JSON.stringify({ id: `i${n}`, sample, request: { method: 'POST', url: CHAT, body: bodyOf(0) } }),
  );
  const at = folder();
  writeFileSync(join(at, 'items.ndjson'), `${items.join('\n')}\n`);
  const env = { FW_ENDPOINTS: url };
  const ran = await fw('fw request --once --ledger ledger < items.ndjson', { cwd: at, env });
  expect([ran.code, asked.length]).toEqual([0, 3]);
  const without = await fw('fw request --once < items.ndjson', { cwd: at, env });
  expect([without.code, without.stderr]).toEqual([64, expect.stringContaining('--ledger DIR')]);
});

test('what failed failed for each, is counted for each, and was asked once', async () => {
  const refusing = await server(['m'], (asked, response, nth) => {
    if (asked.body.prompt === 'Question 1')
      response.writeHead(400).end('{"error":{"message":"too hard","code":400}}');
    else if (asked.body.prompt === 'Question 2')
      response.end('{"choices":[{"index":0,"text":"","finish_reason":"length"}]}');
    else answering(asked, response, nth);
  });
  const { at, results, stderr } = await batch(repeating(300, 3), refusing.url, '--once --in-flight 5');
  expect([...refusing.times.values()]).toEqual([1, 1, 1]);
  const codes = results.map(({ error }) => error?.code);
  expect(codes).toEqual(results.map((_, n) => [undefined, 'call-refused', 'no-answer'][n % 3]));
  expect(stderr).toContain('in 300 = 100 clean + 0 repaired + 0 coerced + 0 defaulted + 200 failed');
  expect(stderr).toMatch(/100 call-refused/);
  // the same command again asks what failed once more
  await batch(repeating(300, 3), refusing.url, '--once', at);
  const asked = [...refusing.times].sort(([one], [other]) => (one < other ? -1 : 1)); // they came in any order
  expect(asked.map(([, times]) => times)).toEqual([1, 2, 2]);
});

test('a server that fails for a while is asked again, once for all', async () => {
  const { url, times } = await server(['m'], (asked, response, nth) => {
    if (nth < 3) response.writeHead(500).end('busy');
    else answering(asked, response, nth);
  });
  const { results } = await batch(repeating(50, 1), url);
  expect([...times.values()]).toEqual([3]);
  expect(results.every(result => textIn(result) === 'Question 0, answer 3')).toBe(true);
});

test('what was asked without --once is not asked again with it', async () => {
  const { url, asked } = await server();
  const { at } = await batch(repeating(20, 4), url, '');
  expect(asked).toHaveLength(20);
  const before = readFileSync(join(at, 'output.jsonl'), 'utf8');
  await batch(repeating(20, 4), url, '--once', at);
  expect(asked).toHaveLength(20);
  expect(readFileSync(join(at, 'output.jsonl'), 'utf8')).toBe(before);
  // and what is new is asked once, though lines that ask the same were asked before
  const { results } = await batch(repeating(40, 4), url, '--once', at);
  expect(asked).toHaveLength(24);
  expect(results).toHaveLength(40);
});

test('verify and explain say what was asked, and verify finds what was changed', async () => {
  const { url } = await server();
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), repeating(12, 3));
  const env = { FW_ENDPOINTS: url };
  const run =
    'fw ingest --format openai-batch input.jsonl | fw request --once --ledger ledger > items.ndjson';
  expect((await fw(run, { cwd: at, env })).code).toBe(0);
  const verify = (file: string) => fw(`fw verify --ledger ledger ${file}`, { cwd: at });
  const whole = await verify('items.ndjson');
  expect([whole.code, whole.stderr]).toEqual([0, expect.stringContaining('12 answers compared')]);
  const told = await fw('fw explain line-4 items.ndjson', { cwd: at });
  expect(told.stdout).toMatch(/asked once for all equal requests, as same\/[0-9a-f]{32}/);
  const items = readFileSync(join(at, 'items.ndjson'), 'utf8');
  const swapped = items
    .trimEnd()
    .split('\n')
    .map(text => JSON.parse(text));
  const [first, second] = ['line-0', 'line-1'].map(id => swapped.find(item => item.id === id));
  [first.steps, second.steps] = [second.steps, first.steps];
  writeFileSync(join(at, 'swapped.ndjson'), swapped.map(item => `${JSON.stringify(item)}\n`).join(''));
  const other = await verify('swapped.ndjson');
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('shared answer')]);
  const edited = items.replaceAll('Question 2, answer 1', 'Question 2, answer 9');
  writeFileSync(join(at, 'edited.ndjson'), edited);
  expect((await verify('edited.ndjson')).code).toBe(1);
  expect((await fw('fw verify --ids input.jsonl items.ndjson', { cwd: at })).code).toBe(0);
});

test('a dry run counts equal requests, names one, and with --once counts no calls for them', async () => {
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), repeating(90, 9));
  const run = async (once: boolean) => {
    writeFileSync(
      join(at, 'row.yaml'),
      `input: input.jsonl\noutput: out.ndjson\nstages:\n  - ingest: {format: openai-batch}\n  - request: {once: ${once}}\n`,
    );
    return fw('fw run --dry-run row.yaml', { cwd: at });
  };
  const plain = await run(false);
  expect(plain.stdout).toContain(
    '81 requests are equal to an earlier one, such as line-9: --once asks them once',
  );
  expect(plain.stdout).toMatch(/calls +90,/);
  const once = await run(true);
  expect(once.stdout).toContain('81 requests are equal to an earlier one, such as line-9: asked once');
  expect(once.stdout).toMatch(/items +90\n/);
  expect(once.stdout).toMatch(/calls +9,/);
});

test('killed it goes on: each custom_id once, in order, with the one answer that was given', async () => {
  const [count, distinct, limit] = [240, 60, 4];
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), repeating(count, distinct));
  const killAt = every(3, [10, 25, 40]);
  const kills = killAt.length;
  let kill: () => void = () => {};
  const { url, asked } = await server(['m'], (one, response, nth) => {
    if (asked.length === killAt[0]) {
      killAt.shift();
      kill();
    } else answering(one, response, nth);
  });
  const run = (): Promise<number | null> =>
    new Promise(resolve => {
      const flags = ['-i', 'input.jsonl', '-o', 'output.jsonl', '--once', '--endpoint', url];
      const all = ['batch', ...flags, '--endpoint-limit', String(limit)];
      const child = spawn(join(binFolder, 'fw'), all, { cwd: at, stdio: 'ignore' });
      kill = () => void child.kill('SIGKILL');
      child.on('close', resolve);
    });
  for (let n = 0; n < kills; n++) expect(await run()).toBe(null);
  expect(await run()).toBe(0);
  const results = resultsAt(at);
  expect(results.map(({ custom_id }) => custom_id)).toEqual(
    Array.from({ length: count }, (_, n) => `line-${n}`),
  );
  const said = new Map<string, string | undefined>();
  for (const [n, result] of results.entries()) {
    const question = `Question ${n % distinct}`;
    expect(textIn(result)).toContain(`${question}, answer`);
    expect(said.get(question) ?? textIn(result)).toBe(textIn(result));
    said.set(question, textIn(result));
  }
  expect(asked.length).toBeLessThanOrEqual(distinct + kills * 2 * limit);
});
