/** Paths that write nothing (score, rerank, classify, pooling, tokenize): through the gateway, in batches and by fw batch. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formOf, whyNoForm } from '../../engine/asking/endpoints/form-body.ts';
import { promptIn } from '../../engine/core/item/dialects.ts';
import { unansweredIn } from '../../engine/core/item/response.ts';
import { folder, shell } from '../fw.ts';
import { serve } from '../pool/serving.ts';
import { begin, linesIn, reached } from './batching.ts';
import { MODEL, served, simulated } from './serving.ts';

// biome-ignore format: a row a line
const ROWS: [path: string, body: object, list: string, entries: number][] = [
  ['/v1/score', { text_1: 'a red house', text_2: ['a house', 'stocks'] }, 'data', 2],
  ['/score', { queries: 'a', documents: 'b' }, 'data', 1],
  ['/v1/rerank', { query: 'red house', documents: ['stocks', 'a red house'] }, 'results', 2],
  ['/v2/rerank', { query: 'red house', documents: ['stocks', 'a house'], top_n: 1 }, 'results', 1],
  ['/rerank', { query: 'red house', documents: ['stocks'] }, 'results', 1],
  ['/v1/classify', { input: ['one', 'two'] }, 'data', 2],
  ['/classify', { input: 'one' }, 'data', 1],
  ['/pooling', { messages: [{ role: 'user', content: 'one' }] }, 'data', 1],
  ['/tokenize', { prompt: 'twelve letter' }, 'tokens', 4],
];

/** Audio as a line has it. */
const AUDIO = Buffer.from([0x52, 0x49, 0x46, 0x46, 0, 255, 13, 10, 45, 45, 1]);
const HEARD = {
  language: 'en',
  temperature: 0,
  file_url: `data:audio/x-wav;base64,${AUDIO.toString('base64')}`,
};

type Answer = Record<string, unknown[]> & { usage?: Record<string, number> };

test('the gateway passes them on, their answers as they came', async () => {
  const { url } = await simulated();
  const { url: served_ } = await served({ endpoints: [url] });
  const post = async (root: string, path: string, body: object) => {
    const headers = { 'content-type': 'application/json', 'x-request-id': 'same' };
    const said = await fetch(root + path, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: said.status, body: (await said.json()) as Answer };
  };
  for (const [path, more, list, entries] of ROWS) {
    const body = { model: MODEL, ...more };
    const { status, body: answer } = await post(served_, path, body);
    expect([path, status, answer[list]?.length]).toEqual([path, 200, entries]);
    const direct = await post(url.replace(/\/v1$/, ''), path, body);
    expect(answer[list]).toEqual(direct.body[list]);
  }
  const wrong = await post(served_, '/v1/score', { model: MODEL, text_1: 'a' });
  expect([wrong.status, JSON.stringify(wrong.body)]).toEqual([
    400,
    expect.stringContaining('Field required'),
  ]);
});

test('a batch of scores and one of ranks, with their tokens', async () => {
  const { client } = await served();
  const openai = client();
  for (const [endpoint, body] of [ROWS[0], ROWS[2]] as typeof ROWS) {
    const lines = ['a', 'b'].map(id =>
      JSON.stringify({ custom_id: id, method: 'POST', url: endpoint, body: { model: MODEL, ...body } }),
    );
    const made = await begin(openai, `${lines.join('\n')}\n`, { endpoint: endpoint as '/v1/embeddings' });
    const { output_file_id, request_counts, usage } = await reached(openai, made.id);
    expect(request_counts).toMatchObject({ total: 2, completed: 2, failed: 0 });
    const said = (await linesIn(openai, output_file_id)).map(
      ({ response }) => response?.body as unknown as Answer,
    );
    expect(said.map(answer => (answer.data ?? answer.results)?.length)).toEqual([2, 2]);
    const tokens = said.reduce((sum, answer) => sum + (answer.usage?.prompt_tokens ?? 0), 0);
    expect(tokens).toBeGreaterThan(0);
    expect([usage?.input_tokens, usage?.output_tokens]).toEqual([tokens, 0]);
  }
});

test('fw batch asks them all, and its account has their tokens', async () => {
  const { url } = await simulated();
  const cwd = folder();
  const lines = ROWS.map(([path, body], at) =>
    JSON.stringify({ custom_id: `${at}`, method: 'POST', url: path, body: { model: MODEL, ...body } }),
  );
  writeFileSync(join(cwd, 'in.jsonl'), `${lines.join('\n')}\n`);
  const { code, stderr } = await shell(`fw batch -i in.jsonl -o out.jsonl --endpoint ${url}`, { cwd });
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(/ 0 failed · 9 calls · tokens [1-9]\d* in, 0 out /),
  ]);
  const out = readFileSync(join(cwd, 'out.jsonl'), 'utf8').trim().split('\n');
  for (const [at, line] of out.entries()) {
    const [path, , list, entries] = ROWS[at] as (typeof ROWS)[number];
    const { response, error } = JSON.parse(line);
    expect([path, error, response.body[list]?.length]).toEqual([path, null, entries]);
  }
});

test('audio goes out as a form, with its bytes as they are, and comes back as JSON', async () => {
  const { url } = await simulated();
  const cwd = folder();
  const line = (id: string, body: object) =>
    JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/audio/transcriptions', body });
  const lines = [
    line('a', { model: MODEL, ...HEARD }),
    line('b', { model: MODEL, ...HEARD, response_format: 'srt' }),
    line('c', { model: MODEL, file_url: 'https://example.com/a.wav' }),
  ];
  writeFileSync(join(cwd, 'in.jsonl'), `${lines.join('\n')}\n`);
  const run = () => shell(`fw batch -i in.jsonl -o out.jsonl --ledger kept --endpoint ${url}`, { cwd });
  expect((await run()).stderr).toContain('1 clean');
  const out = readFileSync(join(cwd, 'out.jsonl'), 'utf8').trim().split('\n');
  const [heard, subtitles, fetched] = out.map(text => JSON.parse(text));
  expect(heard.response.body).toEqual({
    text: expect.stringMatching(/^A simulated transcript/),
    usage: { type: 'duration', seconds: 1 },
  });
  expect(subtitles.error.message).toContain('response_format json or verbose_json');
  expect(fetched.error.message).toContain('nothing is fetched');
  // from the ledger, which knows the line and not the form
  expect((await run()).stderr).toMatch(/1 replayed|0 calls/);

  const { url: gateway } = await served({ endpoints: [url] });
  const to = `${gateway}/v1/audio/transcriptions`;
  const post = (body: string, type: string) =>
    fetch(to, { method: 'POST', headers: { 'content-type': type }, body });
  const same = await post(JSON.stringify({ model: MODEL, ...HEARD }), 'application/json');
  expect([same.status, await same.json()]).toEqual([200, heard.response.body]);
  const bad = await post(JSON.stringify({ model: MODEL, file_url: 'x' }), 'application/json');
  expect([bad.status, await bad.text()]).toEqual([400, expect.stringContaining('data: URL')]);

  // as official clients send it
  const form = async (name: string, ...fields: [string, string][]) => {
    const body = new FormData();
    for (const [field, value] of [['model', MODEL] as const, ...fields]) body.append(field, value);
    body.append(name, new File([AUDIO], 'a.wav'));
    const answer = await fetch(to, { method: 'POST', body });
    return [answer.status, await answer.json()];
  };
  expect(await form('file')).toEqual([200, heard.response.body]);
  const lists: [string, string][] = ['word', 'segment'].map(one => ['timestamp_granularities[]', one]);
  expect(await form('file', ['stream', 'false'], ...lists)).toEqual([200, heard.response.body]);
  const refused = (words: string) => [
    400,
    { error: expect.objectContaining({ message: expect.stringContaining(words) }) },
  ];
  expect(await form('audio')).toEqual(refused("part 'file'"));
  expect(await form('file', ['language', 'en'], ['language', 'de'])).toEqual(refused('once'));
  expect(await form('file', ['stream', 'true'])).toEqual(refused('no stream'));
  expect(await form('file', ['file_url', 'data:'])).toEqual(refused('file_url'));
  const broken = await post(
    '--x\r\nContent-Disposition: form-data; name="model"\r\n',
    'multipart/form-data; boundary=x',
  );
  expect([broken.status, await broken.text()]).toEqual([
    400,
    expect.stringContaining('whole multipart form'),
  ]);
  expect((await post('x', 'multipart/form-data')).status).toBe(400);
  const elsewhere = await fetch(`${gateway}/v1/chat/completions`, { method: 'POST', body: new FormData() });
  expect([elsewhere.status, await elsewhere.text()]).toEqual([
    400,
    expect.stringContaining('application/json'),
  ]);
});

test('a form: fields, lists, names with quotes, and the file last', async () => {
  const json = Buffer.from(
    JSON.stringify({ model: 'm', 'a"b': 'x', timestamp_granularities: ['word', 'segment'], ...HEARD }),
  );
  const { body, type } = formOf(json);
  const form = await new Response(body, { headers: { 'content-type': type } }).formData();
  expect(form.getAll('timestamp_granularities[]')).toEqual(['word', 'segment']);
  expect([form.get('model'), form.get('a"b'), form.get('temperature')]).toEqual(['m', 'x', '0']);
  const file = form.get('file') as File;
  expect([file.name, file.type]).toEqual(['audio.wav', 'audio/x-wav']);
  expect(Buffer.from(await file.arrayBuffer())).toEqual(AUDIO);
  expect(formOf(json)).toEqual({ body, type });
  for (const body of [
    { ...HEARD, x: {} },
    { ...HEARD, stream: true },
    { file_url: 'data:audio/wav;base64,@@@@' },
  ])
    expect(whyNoForm(body)).toMatch(/^expected /);
});

test('an answer without its numbers is none', () => {
  const trouble = (body: object) =>
    unansweredIn({ custom_id: 'a', response: { status_code: 200, body }, error: null })?.message;
  for (const [body, words] of [
    [{ data: [{ index: 0, object: 'score', score: null }] }, 'a score that is none'],
    [{ results: [{ index: 0, relevance_score: null }] }, 'a rank without a score'],
    [{ data: [{ index: 0, label: 'a', probs: [] }] }, 'a class without chances'],
    [{ data: [{ index: 0, object: 'pooling', data: [] }] }, 'a pooled vector without numbers'],
    [{ data: [{ index: 0, embedding: null }] }, 'an embedding without numbers'],
    [{ scores: [] }, 'scores without an entry'],
    [{ results: [] }, 'results without an entry'],
  ] as const)
    expect(trouble(body)).toContain(words);
  expect(trouble({ data: [{ score: 0 }] })).toBeUndefined();
  // of an empty text, what is no list of tokens alone, and where nobody knows what was asked
  for (const body of [
    { tokens: [] },
    { count: 0, max_model_len: 4096, tokens: [] },
    { content: '', tokens: [] },
  ])
    expect(trouble(body)).toBeUndefined();
  expect(trouble({ results: [{ index: 0, relevance_score: 0 }] })).toBeUndefined();
});

test('llama.cpp passes over a prompt: the line fails and says why, and the server has done nothing wrong', async () => {
  const model = await serve(
    one => {
      const { content = '' } = JSON.parse(one.body);
      one.send(200, { tokens: content === '' ? [] : [1, 2] });
    },
    { prefix: '' },
  );
  const server = await served({ endpoints: [model.url] });
  const openai = server.client();
  const asked = [{ prompt: 'a' }, { content: 'a' }, { content: '' }, { prompt: '' }, { messages: [{}] }];
  const bodies = [...asked, ...Array.from({ length: 8 }, () => ({ prompt: 'b' }))];
  const lines = bodies.map((body, at) =>
    JSON.stringify({ custom_id: `${at}`, method: 'POST', url: '/tokenize', body: { model: 'm', ...body } }),
  );
  const made = await begin(openai, lines.join('\n'), { endpoint: '/tokenize' as '/v1/embeddings' });
  const { request_counts, error_file_id } = await reached(openai, made.id);
  expect(request_counts).toMatchObject({ completed: 3, failed: 10 });
  for (const { error } of await linesIn(openai, error_file_id))
    expect(error).toEqual({
      code: 'no-answer',
      message:
        'expected an answer, found tokens without an entry (llama.cpp reads `content`, and neither `prompt` nor `messages`)',
    });
  for (const body of bodies) {
    const said = await fetch(`${server.url}/tokenize`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ model: 'm', ...body }),
    });
    expect([said.status, await said.json()]).toEqual([200, { tokens: body === asked[1] ? [1, 2] : [] }]);
  }
  // none was asked twice, and nothing is held against it
  expect(model.asked).toBe(2 * bodies.length);
  expect(server.said.filter(line => / fails: /.test(line))).toEqual([]);
});

test('tokens of a rank of which the server says no more than how many there were', () => {
  expect(promptIn({ total_tokens: 56 })).toBe(56);
  expect(promptIn({ prompt_tokens: 5, total_tokens: 5 })).toBe(5);
  expect(promptIn({ completion_tokens: 3, total_tokens: 8 })).toBe(0);
});
