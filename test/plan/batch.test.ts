/** Plans of batch files: what is asked and written, by max_tokens, an option or a ledger, and what nobody can foresee. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rawQuestionOf, whyUnforeseen } from '../../products/plan/raw-questions.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const PIPELINE = join(folder(), 'batch.yaml');
writeFileSync(
  PIPELINE,
  JSON.stringify({ stages: [{ ingest: { format: 'openai-batch' } }, { request: {} }] }),
);

interface Planned {
  items: { planned: number; input: number; seen: number };
  left_out: { why: string; count: number }[];
  lengths: { answers: string };
  table: { calls: number; failed: number; tokens_in: number; tokens_out: number; cached_share: number }[];
}

/** A batch file of these URLs and bodies. */
function fileOf(requests: readonly [url: string, body: object][]): string {
  const path = join(folder(), 'batch.jsonl');
  const lines = requests.map(([url, body], at) => ({ custom_id: `r-${at}`, method: 'POST', url, body }));
  writeFileSync(path, lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  return path;
}

async function plan(file: string, options = ''): Promise<Planned> {
  const { code, stdout, stderr } = await fw(
    `fw plan ${PIPELINE} ${file} --preset 3b-a6000 --json ${options}`,
  );
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Planned;
}

const times = (count: number, request: [string, object]): [string, object][] => Array(count).fill(request);
const chat = (more: object, content = 'Say something.'): [string, object] => [
  '/v1/chat/completions',
  { messages: [{ role: 'user', content }], ...more },
];

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
});
afterAll(() => simulator.close());

test('an answer is as long as max_tokens of its line allows, for each of its choices', async () => {
  const file = fileOf([
    chat({ max_tokens: 10 }),
    chat({ max_tokens: 9, max_completion_tokens: 20 }),
    chat({ max_tokens: 30, n: 3 }),
    ['/v1/completions', { prompt: 'Once upon a time', max_tokens: 40 }],
    ['/v1/completions', { prompt: ['one', 'two'], max_tokens: 5 }],
    ['/v1/completions', { prompt: 'Once upon a time' }],
  ]);
  const { table, left_out, lengths } = await plan(file);
  expect(table).toMatchObject([{ calls: 6, failed: 0, tokens_out: 10 + 20 + 90 + 40 + 10 + 16 }]);
  expect(left_out).toEqual([]);
  expect(lengths.answers).toContain('max_tokens');
});

test('embeddings write nothing, and each text of a line is read', async () => {
  const file = fileOf([
    ['/v1/embeddings', { input: 'x'.repeat(400) }],
    ['/v1/embeddings', { input: ['x'.repeat(400), 'y'.repeat(400)] }],
    ['/v1/embeddings', { input: [1, 2, 3, 4, 5] }],
    ['/v1/embeddings', { input: [[1, 2], [3]] }],
  ]);
  const { table, lengths } = await plan(file);
  expect(table).toMatchObject([{ calls: 4, failed: 0, tokens_in: 3 * 100 + 5 + 3, tokens_out: 0 }]);
  expect(lengths.answers).toBe('none: nothing is written');
});

test('scores, ranks, classes and pooled vectors are read as a server reads them, and write nothing', async () => {
  const [query, text] = ['q'.repeat(39), 'x'.repeat(400)];
  const file = fileOf([
    ['/v1/score', { text_1: query, text_2: [text, text] }],
    ['/score', { queries: [query, query], documents: [text, text] }],
    ['/v2/rerank', { query, documents: [text, text, text] }],
    ['/classify', { input: [text, text] }],
    ['/pooling', { input: text }],
    ['/v1/classify', { messages: [{ role: 'user', content: text }] }],
    ['/rerank', { documents: [text] }],
  ]);
  const { table, left_out, lengths } = await plan(file);
  expect(table).toMatchObject([{ calls: 7, failed: 1, tokens_in: 7 * 110 + 4 * 100, tokens_out: 0 }]);
  expect([left_out, lengths.answers]).toEqual([[], 'none: nothing is written']);
  const asked = [
    ['/v1/score', { text_1: query, text_2: [text, text] }],
    ['/classify', { input: [text, text] }],
  ] as const;
  for (const [path, body] of asked) {
    const url = `${simulator.url.slice(0, -3)}${path}`;
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    const { usage } = (await reply.json()) as { usage: { prompt_tokens: number } };
    const [row] = (await plan(fileOf([[path, body]]))).table;
    expect(row?.tokens_in, path).toBe(usage.prompt_tokens);
  }
});

test('--output-tokens is the mean, and no answer is longer than its line allows', async () => {
  const file = fileOf([...times(300, chat({})), ...times(10, chat({ max_tokens: 4 }))]);
  const { table } = await plan(file, '--output-tokens 80');
  const free = (table[0]?.tokens_out ?? 0) - 40;
  expect(free / 300).toBeGreaterThan(74);
  expect(free / 300).toBeLessThan(86);
});

test('a ledger has the lengths of an earlier run, by URL, and of other lines it says nothing', async () => {
  const file = fileOf([
    ...times(20, chat({})),
    ['/v1/completions', { prompt: 'Once upon a time', max_tokens: 7 }],
  ]);
  const ledger = folder();
  const output = join(folder(), 'items.ndjson');
  const ran = await fw(
    `fw run ${PIPELINE} ${file} --endpoint ${simulator.url} --ledger ${ledger} --output ${output}`,
  );
  expect(ran.code, ran.stderr).toBe(0);
  const [, text = ''] = /tokens [\d,]+ in.*?, ([\d,]+) out/.exec(ran.stderr) ?? [];
  const { table, lengths } = await plan(file, `--ledger ${ledger}`);
  expect(lengths.answers).toContain(`of an earlier run (${ledger}: 21 answers`);
  // each is drawn from all of them
  const said = table[0]?.tokens_out ?? 0;
  expect(said).toBeGreaterThan(0.6 * Number(text.replaceAll(',', '')));
  expect(said).toBeLessThan(1.5 * Number(text.replaceAll(',', '')));
});

test('what nobody can foresee is left out and named; where it is all, that is the end', async () => {
  const image = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }];
  const others: [string, object][] = [
    ['/tokenize', { prompt: 'p' }],
    ['/v1/moderations', { input: 'a' }],
    chat({}),
    ['/v1/chat/completions', { max_tokens: 5, messages: [{ role: 'user', content: image }] }],
  ];
  const { table, left_out, items } = await plan(fileOf([...times(3, chat({ max_tokens: 5 })), ...others]));
  expect(items).toEqual({ planned: 3, input: 3, seen: 3 });
  expect(table).toMatchObject([{ calls: 3, tokens_out: 15 }]);
  expect(left_out).toEqual([
    { why: '/tokenize, whose work a plan does not know', count: 1 },
    { why: '/v1/moderations, whose work a plan does not know', count: 1 },
    {
      why: '/v1/chat/completions without max_tokens, whose answers have any length: --output-tokens or --ledger says it',
      count: 1,
    },
    { why: '/v1/chat/completions with images, sound or video, whose tokens a plan does not know', count: 1 },
  ]);
  const page = await fw(
    `fw plan ${PIPELINE} ${fileOf([...times(3, chat({ max_tokens: 5 })), ...others])} --preset 3b-a6000`,
  );
  expect(page.stdout).toMatch(/left out {2}1 request to \/tokenize, whose work/);
  const none = await fw(`fw plan ${PIPELINE} ${fileOf(others)} --preset 3b-a6000`);
  expect(none.code).toBe(65);
  expect(none.stderr).toContain('1 request to /v1/moderations, whose work a plan does not know');
});

test('lines that begin alike share what they begin with, and those to another model do not', async () => {
  const words = 'evidence on this very point '.repeat(200);
  const lines = (model: (at: number) => string) =>
    fileOf(
      Array.from({ length: 40 }, (_, at) => chat({ max_tokens: 5, model: model(at) }, `${words} ${at}`)),
    );
  const [one] = (await plan(lines(() => 'm'))).table;
  const [many] = (await plan(lines(at => `m${at}`))).table;
  expect(one?.cached_share).toBeGreaterThan(0.9);
  expect(many?.cached_share).toBe(0);
});

test('what a server refuses is a failed item', async () => {
  const { table } = await plan(
    fileOf([chat({ max_tokens: 5 }), ['/v1/chat/completions', { max_tokens: 5 }], ['/v1/embeddings', {}]]),
  );
  expect(table).toMatchObject([{ failed: 2, tokens_out: 5 }]);
});

test('a tokenizer counts the prompts of lines', async () => {
  const file = fileOf(times(3, chat({ max_tokens: 5 }, 'x'.repeat(4_000))));
  const { code, stdout } = await fw(
    `fw plan ${PIPELINE} ${file} --preset 3b-a6000 --tokenizer ${simulator.url}`,
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/prompts {2,}(3\.9\d|4\.0\d) characters a token, as http/);
});

test('what prompts have in common is said as a dry run says it, and in the figures', async () => {
  const documents = Array.from({ length: 12 }, (_, at) => `Document ${at}. ${`${at} says it. `.repeat(150)}`);
  const lines = ['Is it true?', 'When was it?', 'Who is it?', 'Why?', 'How?'].flatMap(question =>
    documents.map(document =>
      chat({ model: 'm', max_tokens: 4, temperature: 0 }, `${question}\n${document}`),
    ),
  );
  const file = fileOf([...lines, ...lines.slice(0, 7)]);
  const { shared } = (await plan(file)) as unknown as { shared: Record<string, object> };
  expect(shared).toEqual({
    share: expect.closeTo(0.1, 1),
    reordered: { share: expect.closeTo(0.8, 1), first: expect.stringMatching(/^"Document 0/) },
    equal: { count: 7, first: 'r-60' },
  });
  const planned = await fw(`fw plan ${PIPELINE} ${file} --preset 3b-a6000`);
  const dry = await fw(`fw run --dry-run --output out.ndjson ${PIPELINE} ${file}`, { cwd: folder() });
  const linesIn = (text: string): string[] => {
    const all = text.split('\n');
    const from = all.findIndex(line => line.startsWith('shared '));
    return all.slice(from, from + 3).map(line => line.replace(/^(shared)? +/, ''));
  };
  expect(linesIn(planned.stdout)).toEqual(linesIn(dry.stdout));
  expect(linesIn(planned.stdout)[2]).toContain('7 requests are equal to an earlier one, such as r-60');
});

test('equal requests that are asked once are planned once', async () => {
  const file = fileOf(times(30, chat({ model: 'm', max_tokens: 4, temperature: 0 })));
  expect((await plan(file)).table[0]).toMatchObject({ calls: 30 });
  expect((await plan(file, '--set request.once=true')).table[0]).toMatchObject({ calls: 1, failed: 0 });
});

test('responses and messages are planned as the chats that they are', () => {
  const turn = { role: 'user', content: 'x' };
  const chat = { messages: [{ role: 'system', content: 'S' }, turn], max_tokens: 5 };
  const asked = rawQuestionOf('/v1/chat/completions', chat);
  const response = { instructions: 'S', input: [turn], max_output_tokens: 5 };
  expect(rawQuestionOf('/v1/responses', response)).toEqual(asked);
  expect(rawQuestionOf('/v1/messages', { system: 'S', messages: [turn], max_tokens: 5 })).toEqual(asked);
  const why = (url: string, body: object) =>
    whyUnforeseen({ method: 'POST', url, body: { ...body } }, () => false);
  expect(why('/v1/responses', response)).toBeUndefined();
  expect(why('/v1/responses', { input: 'x' })).toMatch(/without max_output_tokens/);
  expect(why('/v1/responses', { input: [{ role: 'user', content: [{ type: 'input_image' }] }] })).toMatch(
    /images/,
  );
});
