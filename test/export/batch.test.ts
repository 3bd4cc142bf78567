/** fw batch, as somebody uses it who had vllm run-batch. */
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileSchema } from '../../engine/answers/schema.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { every, runs } from '../all.ts';
import { binFolder, folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Asked, linesOf, serve } from './serving.ts';

const schemaOf = (name: string) =>
  compileSchema(JSON.parse(readFileSync(join(ROOT, 'schemas', `${name}.schema.json`), 'utf8')), name);
const isResult = schemaOf('batch-result');
const isRequest = schemaOf('batch-request');

interface Result {
  custom_id: string | null;
  response: { status_code: number; body: { error?: { message: string } } & Record<string, unknown> } | null;
  error: { code: string; message: string } | null;
}

/** Lines of a file of results, each of which fits its schema. */
function resultsIn(text: string): Result[] {
  const lines = text.split('\n').slice(0, -1);
  const results = lines.map(line => JSON.parse(line) as Result);
  for (const result of results) expect(isResult(result), JSON.stringify(result)).toEqual([]);
  return results;
}
const idsOf = (results: readonly Result[]) => results.map(({ custom_id }) => custom_id);

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ port: 0, seed: 7, latency: '0ms-20ms' });
});
afterAll(() => simulator.close());

/** Runs it in a folder of its own that holds `input.jsonl`; what it wrote. */
async function batch(input: string, flags = '', url = simulator.url, at = folder()) {
  writeFileSync(join(at, 'input.jsonl'), input);
  const ran = await fw(`fw batch -i input.jsonl -o output.jsonl ${flags}`, {
    cwd: at,
    env: { FW_ENDPOINTS: url },
  });
  const read = (name: string): string => readFileSync(join(at, name), 'utf8');
  return { ...ran, at, read };
}

const samples = readFileSync(join(ROOT, 'fixtures/requests.jsonl'), 'utf8');
const chat = { model: 'simulated-3b', messages: [{ role: 'user', content: 'Hello!' }] };

describe('what vllm run-batch does', () => {
  test('chat, completions and embeddings are answered with exit code 0', async () => {
    for (const line of samples.trim().split('\n')) expect(isRequest(JSON.parse(line))).toEqual([]);
    const { code, read, stderr } = await batch(samples);
    expect(code, stderr).toBe(0);
    const results = resultsIn(read('output.jsonl'));
    expect(idsOf(results)).toEqual(['chat-1', 'completion-1', 'embedding-1']);
    expect(results.map(({ response }) => response?.body.object)).toEqual([
      'chat.completion',
      'text_completion',
      'list',
    ]);
  });

  test('a bad model, a bad URL, a stream and a refused field are lines with an error, and exit code 0', async () => {
    const line = (custom_id: string, url: string, body: object): string =>
      JSON.stringify({ custom_id, method: 'POST', url, body });
    const input = [
      line('model', '/v1/chat/completions', { ...chat, model: 'NonExistModel' }),
      line('url', '/v1/bad_url', chat),
      line('stream', '/v1/chat/completions', { ...chat, stream: true }),
      line('stream as text', '/v1/chat/completions', { ...chat, stream: 'True' }),
      line('field', '/v1/chat/completions', { ...chat, temperature: -1 }),
    ];
    const { code, read, stderr } = await batch(input.join('\n')); // no newline at the end
    expect(code, stderr).toBe(0);
    const results = resultsIn(read('output.jsonl'));
    expect(
      results.map(({ custom_id, response, error }) => [custom_id, response?.status_code, error?.code]),
    ).toEqual([
      ['model', undefined, 'no-such-model'],
      ['url', 404, 'no-such-path'],
      ['stream', undefined, 'bad-request'],
      ['stream as text', undefined, 'bad-request'],
      ['field', 400, 'call-refused'],
    ]);
    expect(results[0]?.error?.message).toBe(
      'Expected a model that is served (simulated-3b), found "NonExistModel".',
    );
    expect(results[1]?.error?.message).toContain(
      `${simulator.url} does not answer POST /v1/bad_url (HTTP 404`,
    );
    expect(results[4]?.response?.body.error?.message).toContain('temperature');
  });

  test('an invalid field ends the run with 65 before anything is asked; an empty file gives an empty one', async () => {
    const broken = `${samples}{"invalid_field":"r","method":"POST","url":"/v1/completions","body":{}}\n`;
    const before = simulator.counts().requests;
    const refused = await batch(broken);
    expect([refused.code, simulator.counts().requests]).toEqual([65, before]);
    expect(refused.stderr).toContain('input.jsonl:4: expected custom_id, a text, found none');
    const skipped = await batch(broken, '--skip-invalid --errors errors.jsonl');
    expect(skipped.code).toBe(0);
    expect(resultsIn(skipped.read('output.jsonl'))).toHaveLength(3);
    expect(resultsIn(skipped.read('errors.jsonl')).map(({ error }) => error?.code)).toEqual([
      'not-a-request',
    ]);
    const empty = await batch('');
    expect([empty.code, empty.read('output.jsonl')]).toEqual([0, '']);
  });
});

const many = (count: number): string =>
  linesOf(Array.from({ length: count }, (_, n) => ({ prompt: `No. ${n}`, max_tokens: 4 })));
const ids = (count: number): string[] => Array.from({ length: count }, (_, n) => `line-${n}`);

test('lines leave in the order of the input, or as they are answered', async () => {
  const ordered = await batch(many(200));
  expect(idsOf(resultsIn(ordered.read('output.jsonl')))).toEqual(ids(200));
  const unordered = await batch(many(200), '--unordered');
  expect(idsOf(resultsIn(unordered.read('output.jsonl'))).toSorted()).toEqual(ids(200).toSorted());
});

test('in whatever order the lines come, sorted by id the output is the same', async () => {
  const documents = Array.from({ length: 9 }, (_, at) => `Document ${at}. ${`${at} says so. `.repeat(60)}`);
  const lines = documents.flatMap((document, at) =>
    Array.from({ length: 6 }, (_, question) =>
      JSON.stringify({
        custom_id: `${at}-${question}`,
        method: 'POST',
        url: '/v1/completions',
        body: { model: 'm', prompt: `${document}${question}`, temperature: question % 2 },
      }),
    ),
  );
  const answer = ({ bytes }: Asked, response: ServerResponse): void =>
    void response.end(JSON.stringify({ choices: [{ text: hash('sha1', bytes), finish_reason: 'stop' }] }));
  const servers = [await serve(['m'], answer), await serve(['m'], answer)];
  const urls = servers.map(({ url }) => url).join();
  const sorted = async (input: readonly string[], flags: string): Promise<string[]> => {
    const { code, read, stderr } = await batch(`${input.join('\n')}\n`, flags, urls);
    expect(code, stderr).toBe(0);
    const results = read('output.jsonl').trimEnd().split('\n');
    if (flags !== '--unordered')
      expect(results.map(text => JSON.parse(text).custom_id)).toEqual(
        input.map(text => JSON.parse(text).custom_id),
      );
    return results.toSorted();
  };
  const expected = await sorted(lines, '--look-ahead 1');
  const flags = fc.constantFrom('', '--unordered', '--look-ahead 5', '--endpoint-limit 1');
  await fc.assert(
    fc.asyncProperty(fc.shuffledSubarray(lines, { minLength: lines.length }), flags, async (input, flag) => {
      expect(await sorted(input, flag)).toEqual(expected);
    }),
    { numRuns: runs(6, 60) },
  );
});

test('one line that takes until all others are done holds up none of them', async () => {
  const count = 300;
  let first: (() => void) | null = null;
  const { url, asked } = await serve(['m'], ({ body }, response) => {
    const end = (): void => void response.end(JSON.stringify({ id: 'x', of: body.prompt }));
    if (body.prompt === 'No. 0') first = end;
    else end();
    if (asked.length === count) first?.();
  });
  const { code, read, stderr } = await batch(many(count), '--endpoint-limit 4 --in-flight 8', url);
  expect(code, stderr).toBe(0);
  expect(idsOf(resultsIn(read('output.jsonl')))).toEqual(ids(count));
});

test('killed it goes on: every custom_id once, in order, and little is asked twice', async () => {
  const [count, limit] = [120, 4];
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), many(count));
  let kill: () => void = () => {};
  const killAt = every(3, [20, 50, 80]);
  const kills = killAt.length;
  const { url, asked } = await serve(['m'], ({ body }, response) => {
    if (asked.length === killAt[0]) {
      killAt.shift();
      kill();
    } else
      response.end(
        JSON.stringify({ id: 'x', choices: [{ index: 0, text: body.prompt, finish_reason: 'stop' }] }),
      );
  });
  const run = (): Promise<number | null> =>
    new Promise(resolve => {
      const flags = [
        '-i',
        'input.jsonl',
        '-o',
        'output.jsonl',
        '--endpoint',
        url,
        '--endpoint-limit',
        String(limit),
      ];
      const child = spawn(join(binFolder, 'fw'), ['batch', ...flags], { cwd: at, stdio: 'ignore' });
      kill = () => void child.kill('SIGKILL');
      child.on('close', resolve);
    });
  for (let n = 0; n < kills; n++) expect(await run()).toBe(null);
  expect(await run()).toBe(0);
  const results = resultsIn(readFileSync(join(at, 'output.jsonl'), 'utf8'));
  expect(idsOf(results)).toEqual(ids(count));
  expect(results.every(({ error }) => error === null)).toBe(true);
  expect(asked.length).toBeLessThanOrEqual(count + kills * 2 * limit);
  expect(readdirSync(at).toSorted()).toEqual(['input.jsonl', 'ledger', 'output.jsonl']);
});

test('what was answered is not asked again, and the same bytes come of it, by its stages too', async () => {
  const { at, read } = await batch(samples);
  const before = simulator.counts().requests;
  const env = { FW_ENDPOINTS: simulator.url };
  const again = await fw('fw batch -i input.jsonl -o again.jsonl', { cwd: at, env });
  expect(again.stderr).toContain('0 calls + 3 replayed');
  const piped = await fw(
    'fw ingest --format openai-batch input.jsonl | fw request --ledger ledger | fw export --format openai-batch --ordered',
    { cwd: at, env },
  );
  expect(piped.code, piped.stderr).toBe(0);
  const fromStdin = await fw('fw batch < input.jsonl', { cwd: at, env });
  for (const text of [read('again.jsonl'), piped.stdout, fromStdin.stdout])
    expect(text).toBe(read('output.jsonl'));
  expect(simulator.counts().requests).toBe(before);
  const checked = await fw('fw ledger check --read-data ledger', { cwd: at });
  expect(checked.code, checked.stdout).toBe(0);
  expect(checked.stdout).toMatch(/keys that fit their requests 3/);
  const exported = await fw('fw ledger export ledger', { cwd: at });
  expect(exported.stdout.match(/"agent":"[^"]*"/g)?.toSorted()).toEqual([
    '"agent":"/v1/chat/completions"',
    '"agent":"/v1/completions"',
    '"agent":"/v1/embeddings"',
  ]);
});

test('a request goes to an endpoint that serves its model, and to its path; the body goes as it is', async () => {
  const one = await serve(['a', 'b'], (_, response) => void response.end('{"of":"one"}'));
  const other = await serve(['c'], (_, response) => void response.end('[{"of":"other"}]'));
  const bodies = [{ model: 'c', top_n: 1e-7 }, { model: 'a' }, { model: 'b', 'Größe ': ['\u2028', null] }];
  const input = `${linesOf(bodies, '/v2/rerank?x=1')}${JSON.stringify({ custom_id: 'below', method: 'POST', url: '/v1/score', body: { model: 'c' } })}\n`;
  const { code, read, stderr } = await batch(input, '', `${one.url},${other.url}`);
  expect(code, stderr).toBe(0);
  expect(resultsIn(read('output.jsonl')).map(({ response }) => response?.body)).toEqual([
    [{ of: 'other' }],
    { of: 'one' },
    { of: 'one' },
    [{ of: 'other' }],
  ]);
  expect(other.asked.map(({ path }) => path).toSorted()).toEqual(['/v1/score', '/v2/rerank?x=1']);
  const sent = [...one.asked, ...other.asked].map(({ bytes }) => bytes.toString());
  expect(sent.toSorted()).toEqual([...bodies, { model: 'c' }].map(body => JSON.stringify(body)).toSorted());
});

test('an answer beyond --max-body fails at once; what is no JSON, or an error with HTTP 200, is asked again', async () => {
  const large = await serve(
    ['m'],
    (_, response) => void response.end(JSON.stringify({ data: 'x'.repeat(4000) })),
  );
  const { code, read } = await batch(many(1), '--max-body 2000', large.url);
  expect([code, resultsIn(read('output.jsonl'))[0]?.error?.code, large.asked.length]).toEqual([
    0,
    'answer-too-long',
    1,
  ]);
  const bad = ['data: {"choices":[]}\n\ndata: [DONE]\n\n', '{"error":{"message":"engine died"}}', ''];
  const server = await serve(
    ['m'],
    (_, response) => void response.end(bad[server.asked.length - 1] ?? '{"ok":true}'),
  );
  const mended = await batch(many(1), '', server.url);
  expect(resultsIn(mended.read('output.jsonl'))[0]?.response?.body).toEqual({ ok: true });
  expect(server.asked).toHaveLength(4);
});

test('nothing but a refused key ends the run with 69; nothing is written over that the run reads', async () => {
  const locked = await serve(
    ['m'],
    (_, response) => void response.writeHead(401).end('{"error":"Unauthorized"}'),
  );
  const { code, stderr } = await batch(many(3), '', locked.url);
  expect([code, stderr.includes('expected answers, found none')]).toEqual([69, true]);
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), samples);
  const env = { FW_ENDPOINTS: simulator.url };
  expect((await fw('fw batch -i input.jsonl --errors input.jsonl', { cwd: at, env })).code).toBe(64);
  expect((await fw('fw batch -i input.jsonl -o ./input.jsonl', { cwd: at, env })).code).toBe(64);
  expect((await fw('fw batch -i none.jsonl', { cwd: at, env })).code).toBe(65);
  expect(readFileSync(join(at, 'input.jsonl'), 'utf8')).toBe(samples);
});
