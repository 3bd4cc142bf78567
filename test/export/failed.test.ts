/** A line of a batch's output that is no answer is a failure to everybody: they all count the same. */
import { readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { failureOf, rungOf } from '../../engine/core/item/item.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { begin, lineOf, reached } from '../server/batching.ts';
import { served } from '../server/serving.ts';
import { type Asked, serve } from './serving.ts';

const chat = (message: object, finish_reason = 'stop', more: object = {}) => ({
  id: 'c',
  object: 'chat.completion',
  model: 'simulated-3b',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
  ...more,
});
const said = (status_code: number, body: unknown) => ({ status_code, request_id: 'r', body });
const refused = (message: string, code: unknown = null) => ({
  error: { message, type: 'x', param: null, code },
});
const call = { type: 'function', id: 't', function: { name: 'f', arguments: '{}' } };

/** What each line has beside its ids, and the code of its failure; null: it is answered. */
const LINES: [response: unknown, error: unknown, code: string | null][] = [
  [said(200, chat({ content: 'Yes' })), null, null],
  [said(200, chat({ content: 'a long one that was cut' }, 'length')), null, null],
  [said(200, chat({ content: '' })), null, null],
  [said(200, chat({ content: null, tool_calls: [call] }, 'tool_calls')), null, null],
  [said(200, chat({ content: null, refusal: 'I cannot' })), null, null],
  [
    said(200, { object: 'text_completion', choices: [{ index: 0, text: ' 42', finish_reason: 'stop' }] }),
    null,
    null,
  ],
  [said(200, { object: 'list', data: [{ index: 0, embedding: [0.1, 0.2] }] }), null, null],
  [said(200, { results: [{ index: 0, relevance_score: 0.5 }] }), null, null],
  [said(200, chat({ content: 'Yes', refusal: null, tool_calls: [] }, 'stop', { error: null })), '', null],
  [said(200, { tokens: [1, 2], count: 2 }), null, null],
  [said(400, refused('temperature must be non-negative', 400)), null, 'call-refused'],
  [said(404, refused('The model `x` does not exist.')), null, 'call-refused'],
  [said(500, { detail: 'Internal Server Error' }), null, 'call-failed'],
  [null, { code: 'batch_expired', message: 'This request could not be executed.' }, 'batch_expired'],
  [null, { code: 'no-such-model', message: 'Expected a model that is served.' }, 'no-such-model'],
  [said(400, null), 'Request must be POST', 'call-refused'],
  [null, null, 'no-answer'],
  [said(200, null), null, 'no-answer'],
  [said(200, chat({}, 'stop', { choices: [] })), null, 'no-answer'],
  [said(200, refused('the engine is dead')), null, 'no-answer'],
  [said(200, chat({ content: null }, 'length')), null, 'no-answer'],
  [
    said(200, { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'Y' } }] }),
    null,
    'no-answer',
  ],
  [said(200, { object: 'list', data: [] }), null, 'no-answer'],
];
const FAILED = 13;

const textOf = (lines: readonly object[]): string => lines.map(line => `${JSON.stringify(line)}\n`).join('');
const idsIn = (text: string): string[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line).custom_id);

/** Runs the verbs over the files of an output; how many lines each takes for failures, and which. */
async function countsOf(at: string, files: string, failed: readonly string[]) {
  const run = (line: string) => fw(line, { cwd: at });
  const verified = await run(`fw verify --report verdict.json ${files}`);
  const verdict = JSON.parse(readFileSync(join(at, 'verdict.json'), 'utf8'));
  expect(verified.code, verified.stderr).toBe(1);
  const selected = await run(`fw select --failed ${files}`);
  expect(idsIn(selected.stdout).toSorted()).toEqual(failed.toSorted());
  const others = await run(`fw select --no-failed ${files}`);
  const table = await run(`fw export --format csv --errors errors.csv ${files}`);
  const rows = (text: string) => text.trimEnd().split('\n').slice(1);
  const errors = readFileSync(join(at, 'errors.csv'), 'utf8');
  expect(errors.split('\n', 1)[0]).toMatch(/^id,rung,failure\.stage,failure\.code,failure\.message,/);
  expect(rows(errors).every(row => /^[^,]*,failed,/.test(row))).toBe(true);
  for (const id of every(6, failed)) {
    const told = await run(`fw explain ${id} ${files}`);
    expect([told.code, told.stdout], told.stderr).toEqual([0, expect.stringContaining('failed in batch: ')]);
  }
  for (const name of files.split(' ')) writeFileSync(join(at, `copy-${name}`), readFileSync(join(at, name)));
  const copies = files.split(' ').map(name => `copy-${name}`);
  const merged = await run(`fw merge ${files} ${copies.join(' ')} | fw select --failed`);
  const untouched = await run(`fw null-fix ${files} | fw fix-escapes | fw validate | fw select --failed`);
  return {
    verify: verdict.failed,
    refused: verdict.kinds?.['batch results']?.refused ?? 0,
    select: idsIn(selected.stdout).length,
    others: idsIn(others.stdout).length,
    export: rows(errors).length,
    exported: rows(table.stdout).length,
    merge: idsIn(merged.stdout).length,
    text: idsIn(untouched.stdout).length,
  };
}
const agreed = (failed: number, good: number) => ({
  ...{ verify: failed, refused: 0, select: failed, others: good },
  ...{ export: failed, exported: good, merge: failed, text: failed },
});

test('23 lines of other programs, 13 of them failures of all kinds', async () => {
  const lines = LINES.map(([response, error], n) => ({
    id: `vllm-${n}`,
    custom_id: `q-${n}`,
    response,
    error,
  }));
  expect(lines.map(line => failureOf(line)?.code ?? null)).toEqual(LINES.map(([, , code]) => code));
  expect(lines.map(line => rungOf(line) === 'failed')).toEqual(LINES.map(([, , code]) => code !== null));
  const at = folder();
  writeFileSync(join(at, 'out.jsonl'), textOf(lines));
  const failed = LINES.flatMap(([, , code], n) => (code === null ? [] : [`q-${n}`]));
  expect(failed).toHaveLength(FAILED);
  expect(await countsOf(at, 'out.jsonl', failed)).toEqual(agreed(FAILED, 10));
  const { stdout } = await fw('fw export --format csv out.jsonl', { cwd: at });
  const rows: { answer: string }[] = parse(stdout, { columns: true });
  const answers = ['Yes', 'a long one that was cut', '', '', 'I cannot', ' 42', ...Array(17).fill('')];
  answers[8] = 'Yes';
  expect(rows.map(({ answer }) => answer)).toEqual(answers);
});

test('what is wrong with a line is said in its words, and cut', () => {
  const messageOf = (response: unknown, error: unknown = null) =>
    failureOf({ custom_id: 'a', response, error })?.message;
  expect(LINES.slice(10).map(([response, error]) => messageOf(response, error))).toEqual([
    'HTTP 400: temperature must be non-negative',
    'HTTP 404: The model `x` does not exist.',
    'HTTP 500: Internal Server Error',
    'This request could not be executed.',
    'Expected a model that is served.',
    'Request must be POST',
    'expected an answer, found null as the response',
    'expected an answer, found null as the body',
    'expected an answer, found choices without an entry',
    'expected an answer, found an error: the engine is dead',
    'expected an answer, found choices without a text (finish_reason "length")',
    'expected an answer, found choices without a text (finish_reason nothing)',
    'expected an answer, found data without an entry',
  ]);
  expect(messageOf(said(400, refused('x'.repeat(9_999))))?.length).toBeLessThan(2_010);
});

test('records with such names that are no lines of a batch are records', () => {
  const records = [
    { custom_id: 'a', method: 'POST', url: '/v1/embeddings', body: {} },
    { custom_id: 'a', response: 'Yes' },
    { custom_id: 'a', response: { text: 'Yes' } },
    { custom_id: 'a', error: null, score: 3 },
    { id: 'a', response: null, error: 'none of a batch' },
    { id: 'a', prompt: '?', custom_id: 'a', response: null },
  ];
  expect(records.map(record => failureOf(record))).toEqual(records.map(() => undefined));
});

/** What the server answers to the n-th request: the failures first. */
const ANSWERS: [status: number, body: unknown][] = [
  [400, refused('no')],
  [400, refused("This model's maximum context length is 8 tokens.")],
  [404, refused('unknown')],
  [409, 'in words'],
  [422, { detail: 'not that field' }],
  [501, refused('cannot')],
  [200, chat({ content: null })],
  [200, chat({ content: '' }, 'length')],
  [200, chat({ content: null, tool_calls: [] }, 'tool_calls')],
  [200, { object: 'list', data: [{ index: 0, embedding: [] }] }],
  [200, { object: 'chat.completion.chunk', choices: [{ index: 0, delta: {} }] }],
];

function answer({ body }: Asked, response: ServerResponse): void {
  const [status, reply] = ANSWERS[body.nth as number] ?? [200, chat({ content: `answer ${body.nth}` })];
  response.writeHead(status).end(JSON.stringify(reply));
}

test('fw batch, the server, verify, select, export, explain and merge agree on 13 of 23', async () => {
  const { url, asked } = await serve(['simulated-3b'], answer);
  const input = Array.from({ length: 23 }, (_, nth) =>
    lineOf(`q-${nth}`, {
      nth,
      ...(nth === 11 && { model: 'other' }),
      ...(nth === 12 && { model: 'another' }),
    }),
  );
  const failed = Array.from({ length: FAILED }, (_, nth) => `q-${nth}`);
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), `${input.join('\n')}\n`);
  const batch = 'fw batch -i input.jsonl -o output.jsonl';
  const ran = await fw(batch, { cwd: at, env: { FW_ENDPOINTS: url } });
  expect([ran.code, ran.stderr]).toEqual([0, expect.stringMatching(/in 23 = 10 clean .* \+ 13 failed/)]);
  expect(await countsOf(at, 'output.jsonl', failed)).toEqual(agreed(FAILED, 10));

  const { client } = await served({ endpoints: [url] });
  const openai = client();
  const made = await begin(openai, `${input.join('\n')}\n`);
  const done = await reached(openai, made.id);
  expect(done.request_counts).toEqual({ total: 23, completed: 10, failed: FAILED });
  for (const [name, id] of [
    ['o.jsonl', done.output_file_id],
    ['e.jsonl', done.error_file_id],
  ] as const)
    writeFileSync(join(at, name), await (await openai.files.content(id as string)).text());
  expect(await countsOf(at, 'o.jsonl e.jsonl', failed)).toEqual(agreed(FAILED, 10));

  // what failed is asked again: by the same command, and by a run of its own from the lines that failed
  const before = asked.length;
  ANSWERS.length = 0;
  const again = await fw(batch, { cwd: at, env: { FW_ENDPOINTS: url } });
  expect([again.code, again.stderr]).toEqual([
    0,
    expect.stringMatching(/in 23 = 21 clean .* \+ 2 failed.*11 calls.* \+ 15 replayed/),
  ]);
  expect(asked.length - before).toBe(11);
  const asAnew = [
    'fw select --failed o.jsonl e.jsonl > failed.jsonl; fw select --ids failed.jsonl input.jsonl > again.jsonl',
    'fw batch -i again.jsonl -o more.jsonl',
    'fw merge o.jsonl e.jsonl more.jsonl > whole.jsonl; fw verify --ids input.jsonl --expect 21 --report verdict.json whole.jsonl',
  ];
  for (const line of asAnew) await fw(line, { cwd: at, env: { FW_ENDPOINTS: url, FW_LEDGER: 'another' } });
  expect(idsIn(readFileSync(join(at, 'again.jsonl'), 'utf8')).toSorted()).toEqual(failed.toSorted());
  const verdict = JSON.parse(readFileSync(join(at, 'verdict.json'), 'utf8'));
  expect([verdict.in, verdict.failed, verdict.accepted, verdict.findings]).toEqual([23, 2, 21, []]);
});

test('a reply without an answer that is on record is asked once more by each run, and its answer stays', async () => {
  let reply: object = chat({ content: null }, 'length');
  const { url, asked } = await serve(
    ['simulated-3b'],
    (_asked, response) => void response.end(JSON.stringify(reply)),
  );
  const at = folder();
  writeFileSync(join(at, 'input.jsonl'), `${lineOf('q')}\n`);
  const run = async (more = '') => {
    const { stderr } = await fw(`fw batch -i input.jsonl -o output.jsonl ${more}`, { cwd: at });
    const text = readFileSync(join(at, 'output.jsonl'), 'utf8');
    return [asked.length, /(\d) failed/.exec(stderr)?.[1], JSON.parse(text).error?.code ?? null];
  };
  expect(await run(`--endpoint ${url}`)).toEqual([1, '1', 'no-answer']);
  expect(await run(`--endpoint ${url}`)).toEqual([2, '1', 'no-answer']);
  reply = chat({ content: 'Here it is' });
  expect(await run(`--endpoint ${url}`)).toEqual([3, '0', null]);
  expect(await run()).toEqual([3, '0', null]);
});
