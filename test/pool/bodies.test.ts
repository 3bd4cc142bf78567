/**
 * What a reply with HTTP 200 must be, as a table: by what vLLM, llama.cpp, OpenAI and the proxies before them send. A row
 * says what is read of a body, or the words in which a person is told that nobody knows what it says.
 */

import { expect, test } from 'vitest';
import { compileSchema } from '../../engine/answers/schema.ts';
import { readReply } from '../../engine/asking/agents/form.ts';
import { readCompletion } from '../../engine/asking/endpoints/completion.ts';
import { callOf, echo, idOf, nonceIn, open, outcome, serve } from './serving.ts';

const JSON_ANSWER = '{"a":1}';
const message = { role: 'assistant', content: JSON_ANSWER };
const choice = { index: 0, message, finish_reason: 'stop' };
const reply = { id: 'chatcmpl-1', object: 'chat.completion', model: 'm', choices: [choice] };
const withMessage = (more: object) => ({
  ...reply,
  choices: [{ ...choice, message: { ...message, ...more } }],
});
const CLEAN = { text: JSON_ANSWER, finish: 'stop' };

/** servers as they are */
const VLLM = {
  id: 'chatcmpl-fw-0123',
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'm',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: JSON_ANSWER,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: [],
        reasoning: null,
      },
      logprobs: null,
      finish_reason: 'stop',
      stop_reason: null,
      token_ids: null,
    },
  ],
  service_tier: null,
  system_fingerprint: null,
  usage: { prompt_tokens: 5, total_tokens: 9, completion_tokens: 4, prompt_tokens_details: null },
  prompt_logprobs: null,
  kv_transfer_params: null,
};
const LLAMA = {
  choices: [{ finish_reason: 'stop', index: 0, message }],
  created: 1,
  model: 'gpt-3.5-turbo',
  system_fingerprint: 'b6000-abc',
  object: 'chat.completion',
  usage: { completion_tokens: 4, prompt_tokens: 5, total_tokens: 9 },
  id: 'chatcmpl-aBcD',
  timings: { prompt_n: 5, predicted_per_second: 91.20000001 },
};
const OPENAI_REFUSAL = {
  ...reply,
  choices: [
    { ...choice, message: { role: 'assistant', content: null, refusal: 'I cannot help.', annotations: [] } },
  ],
};

const ROWS: [what: string, body: unknown, read: object | RegExp][] = [
  ['vLLM', VLLM, CLEAN],
  ['llama.cpp', LLAMA, CLEAN],
  ['with spaces and line breaks', JSON.stringify(VLLM, null, 2).replace(/"(\w+)":/g, '"$1" :'), CLEAN],
  [
    'words like those of JSON inside the answer',
    withMessage({ content: '{"a":1} "a": "\\": {"a":' }),
    { finish: 'stop' },
  ],
  ['a key that ends in a backslash', { ...reply, 'x\\': 1, 'y\\\\': { 'x\\': 2 } }, CLEAN],
  ['the same key in two objects', { ...reply, usage: { id: 1, model: 2, choices: [] } }, CLEAN],

  ['error beside choices', { ...reply, error: { message: 'worker died' } }, /with an error: "worker died"/],
  ['error as a text beside choices', { ...reply, error: 'worker died' }, /with an error: "worker died"/],
  ['error that is null, as proxies write where there is none', { ...reply, error: null }, CLEAN],
  ['object: error beside choices', { ...reply, object: 'error', message: 'no' }, /with an error/],
  [
    'error inside the choice',
    { ...reply, choices: [{ ...choice, error: { code: 502 } }] },
    /an error in its choice/,
  ],

  ['refusal, and no content', OPENAI_REFUSAL, { text: 'I cannot help.', finish: 'refusal' }],
  [
    'refusal beside JSON',
    withMessage({ refusal: 'I cannot help.' }),
    { text: JSON_ANSWER, finish: 'refusal' },
  ],
  ['refusal that is null', withMessage({ refusal: null }), CLEAN],
  ['refusal that is empty', withMessage({ refusal: '' }), CLEAN],
  ['refusal that is no text', withMessage({ refusal: { why: 'x' } }), /message.refusal that is no text/],

  ['role user', withMessage({ role: 'user' }), /a message of the role "user", not assistant/],
  ['role tool', withMessage({ role: 'tool' }), /a message of the role "tool"/],
  ['role that is no text', withMessage({ role: 7 }), /a message of the role 7/],
  ['no role', { ...reply, choices: [{ ...choice, message: { content: JSON_ANSWER } }] }, CLEAN],

  [
    'two choices with index 0',
    { ...reply, choices: [choice, choice] },
    /with 2 choices that are the first one/,
  ],
  [
    'two choices without an index',
    { ...reply, choices: [1, 2].map(() => ({ message, finish_reason: 'stop' })) },
    /with 2 choices that are the first one/,
  ],
  [
    'choices 1 and 0',
    { ...reply, choices: [{ ...choice, index: 1, message: { ...message, content: 'second' } }, choice] },
    CLEAN,
  ],

  ['choices twice', JSON.stringify(reply).replace('{', '{"choices":[],'), /the same key twice/],
  [
    'content twice',
    JSON.stringify(reply).replace('"content":', '"content":"{\\"a\\":2}","content":'),
    /the same key twice/,
  ],
  [
    'content twice, once with an escape in its name',
    JSON.stringify(reply).replace('"content":', '"cont\\u0065nt":"{\\"a\\":2}","content":'),
    /the same key twice/,
  ],
  [
    'content twice, with spaces before the colons and keys that end in backslashes',
    JSON.stringify(reply).replace('"content":', '"x\\\\" :1,"content" :"no","content"\n:'),
    /the same key twice/,
  ],
  [
    'finish_reason twice',
    JSON.stringify(reply).replace('"index"', '"finish_reason":"stop","index"'),
    /the same key twice/,
  ],
];

test.each(ROWS)('%s', (_, body, read) => {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const found = readCompletion(bytes, undefined);
  if (read instanceof RegExp) expect(found).toMatch(read);
  else expect(found).toMatchObject({ answer: read });
});

test('a key twice is found in a large body too, and deep nesting ends nothing', () => {
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, { 'a"b': [at] }]));
  const large = JSON.stringify({ ...reply, many });
  expect(readCompletion(Buffer.from(large), undefined)).toMatchObject({ answer: CLEAN });
  const twice = large.replace('"k19999":', '"k5":');
  expect(readCompletion(Buffer.from(twice), undefined)).toMatch(/the same key twice/);
  const deep = `${'{"a":['.repeat(50_000)}1${']}'.repeat(50_000)}`;
  const body = JSON.stringify(reply).replace('{', `{"deep":${deep},`);
  expect(readCompletion(Buffer.from(body), undefined)).toMatch(/HTTP 200 with a body of more than/);
});

test('a refusal is no answer, whatever stands beside it', () => {
  const check = compileSchema({ type: 'object', required: ['a'] }, 'a schema');
  const { rung, problem } = readReply({ text: JSON_ANSWER, finish: 'refusal' }, check);
  expect(rung).toBe('failed');
  expect(problem).toMatchObject({ code: 'model-refused', message: expect.stringContaining('refusal') });
});

test('a body that nobody can read as one answer is asked again, and fails under the name of the pool', async () => {
  let broken = 1;
  const fake = await serve(ask =>
    broken-- > 0 ? ask.send(200, { id: idOf(ask.headers), choices: [choice, choice] }) : echo(ask),
  );
  const pool = await open([fake.url]);
  const call = callOf();
  expect(await outcome(pool, call)).toBe(call.item);
  expect(pool.stats().endpoints[0]?.failed).toEqual({ 'bad answer': 1 });
  broken = 100;
  expect(await outcome(pool)).toBe('call-failed');
});

test('a model of another name is told once for an endpoint, counted, and no failure', async () => {
  const fakes = [];
  for (const model of ['m', 'm-2025-08-06', undefined]) {
    const fake = await serve(ask => ask.answer(nonceIn(ask.body), { model }));
    fakes.push(fake);
  }
  const pool = await open(fakes.map(({ url }) => url));
  const calls = Array.from({ length: 60 }, () => callOf());
  const said = await Promise.all(calls.map(call => outcome(pool, call)));
  expect(said).toEqual(calls.map(({ item }) => item));
  const words = pool.warnings.filter(text => text.includes('model'));
  expect(words).toEqual([
    `${fakes[1]?.url} answers as the model "m-2025-08-06" where "m" was asked: an alias or a snapshot of it, or another model?`,
  ]);
  const [same, other, silent] = pool.stats().endpoints;
  expect([same?.otherModel, silent?.otherModel]).toEqual([0, 0]);
  expect(other?.otherModel).toBe(other?.answered);
  expect(other?.otherModel).toBeGreaterThan(0);
});

test("a server's name for its model does not steer a terminal, and does not hold the key", async () => {
  const key = { name: '$FW_API_KEY', read: () => 'sk-SECRET1234' };
  const fake = await serve(ask => ask.answer(nonceIn(ask.body), { model: 'x\u001b[31m sk-SECRET1234' }));
  const pool = await open([fake.url], { key });
  await outcome(pool);
  expect(pool.warnings).toEqual([expect.stringContaining('the model "x [31m ***"')]);
});
