/** Each field of a request that vLLM knows: the answer has what it asks for, or there is none. None is passed over in silence. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { repliesOf, replyTo } from '../../products/simulator/chat.ts';
import { NO_FAULTS } from '../../products/simulator/faults.ts';
import { drawsOf, sha256 } from '../../products/simulator/random.ts';
import { FIELDS } from '../../products/simulator/request-fields.ts';
import { schemaCache } from '../../products/simulator/schemas.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { ROOT } from '../fw.ts';
import { post } from './loan.ts';

type Fields = { [name: string]: unknown };
type Kind = keyof typeof FIELDS;

const PATHS: { [kind in Kind]: string } = {
  chat: '/chat/completions',
  completion: '/completions',
  embedding: '/embeddings',
  pooling: '/score',
};
const ASKED: { [kind in Kind]: Fields } = {
  chat: { messages: [{ role: 'user', content: 'Tell me of the harbor.' }] },
  completion: { prompt: 'Of the harbor', max_tokens: 60 },
  embedding: { input: 'the harbor' },
  pooling: { text_1: 'the harbor', text_2: 'a harbor' },
};

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
});
afterAll(() => simulator.close());

// biome-ignore lint/suspicious/noExplicitAny: answers of three routes, looked into by each row
type Answer = any;

async function ask(kind: Kind, fields: Fields): Promise<{ status: number; answer: Answer }> {
  const response = await post(simulator.url, JSON.stringify({ ...ASKED[kind], ...fields }), PATHS[kind]);
  return { status: response.status, answer: await response.json() };
}

async function said(kind: Kind, fields: Fields): Promise<{ text: string; choice: Answer; answer: Answer }> {
  const { status, answer } = await ask(kind, fields);
  expect([status, answer.error?.message]).toEqual([200, undefined]);
  const [choice] = answer.choices;
  return { text: choice.message?.content ?? choice.text, choice, answer };
}

async function events(kind: Kind, fields: Fields): Promise<Answer[]> {
  const body = JSON.stringify({ ...ASKED[kind], stream: true, ...fields });
  const lines = (await (await post(simulator.url, body, PATHS[kind])).text()).split('\n\n').filter(Boolean);
  expect(lines.pop()).toBe('data: [DONE]');
  return lines.map(line => JSON.parse(line.slice('data: '.length)));
}

/** By route and field: a value that is refused, and what the refusal says. */
const REFUSED: [kinds: Kind[], fields: Fields, message: RegExp][] = [
  [['chat'], { tools: [{ type: 'function', function: { description: 'f' } }] }, /^tools: Input should be/],
  [['chat'], { tool_choice: 'auto' }, /^tool_choice needs `tools`/],
  [['chat'], { tool_choice: { type: 'function', function: { name: 'f' } } }, /^tool_choice needs `tools`/],
  [['chat'], { tools: { name: 'f' } }, /^tools must be a list of functions/],
  [['chat'], { tools: {}, reasoning_effort: 'low' }, /^tools must be a list of functions/],
  [['chat'], { tool_choice: 'auto', reasoning_effort: 'low' }, /^tool_choice needs `tools`/],
  [['chat'], { functions: [{ name: 'f' }] }, /^functions .* calls `tools`/],
  [['chat'], { function_call: 'auto' }, /^function_call .* calls `tools`/],
  [['chat'], { parallel_tool_calls: 'yes' }, /^parallel_tool_calls must be true or false, got "yes"/],
  [['chat'], { top_logprobs: 2 }, /^top_logprobs needs `logprobs`, which must be set to true/],
  [['chat'], { logprobs: true, top_logprobs: 21 }, /^top_logprobs is greater than the max allowed: 20/],
  [['chat'], { logprobs: true, top_logprobs: -1 }, /^top_logprobs must be a positive value/],
  [['chat'], { logprobs: 3 }, /^logprobs must be true or false/],
  [['completion'], { logprobs: 21 }, /^logprobs is greater than the max allowed/],
  [['completion'], { logprobs: true }, /^logprobs must be a positive value/],
  [['completion'], { echo: true, logprobs: 1 }, /^echo with logprobs/],
  [['completion'], { suffix: ' ends.' }, /^suffix is not currently supported/],
  [['completion'], { echo: 'yes' }, /^echo must be true or false/],
  [['chat'], { echo: true }, /^echo is not supported by the simulator/],
  [['chat'], { modalities: ['text', 'audio'] }, /^modalities/],
  [['chat'], { audio: { voice: 'alloy', format: 'wav' } }, /^audio/],
  [['chat'], { chat_template: '{{ messages }}' }, /^chat_template .*--trust-request-chat-template/],
  [['chat'], { documents: [{ title: 'a', text: 'b' }] }, /^documents/],
  [['chat'], { add_generation_prompt: false }, /^add_generation_prompt/],
  [['chat'], { continue_final_message: true }, /^continue_final_message/],
  [['chat'], { add_special_tokens: true }, /^add_special_tokens/],
  [['completion', 'embedding'], { add_special_tokens: false }, /^add_special_tokens/],
  [['chat'], { include_reasoning: 1 }, /^include_reasoning must be true or false/],
  [['chat', 'completion'], { n: 2 }, /^n must be 1/],
  [['chat', 'completion'], { n: 0 }, /^n must be 1/],
  [['chat', 'completion'], { best_of: 3 }, /^best_of/],
  [['chat', 'completion'], { use_beam_search: true }, /^use_beam_search .* beams/],
  [['chat', 'completion'], { logit_bias: { 128: 5 } }, /^logit_bias .* vocabulary/],
  [['chat', 'completion'], { allowed_token_ids: [5] }, /^allowed_token_ids/],
  [['chat', 'completion'], { bad_words: ['harbor'] }, /^bad_words/],
  [['chat', 'completion'], { repetition_detection: { max_pattern_size: 3 } }, /^repetition_detection/],
  [['chat', 'completion'], { thinking_token_budget: 100 }, /^thinking_token_budget .* reasoning parser/],
  [['chat', 'completion'], { prompt_logprobs: 1 }, /^prompt_logprobs/],
  [['chat', 'completion'], { logprob_token_ids: [1] }, /^logprob_token_ids/],
  [['chat', 'completion'], { return_tokens_as_token_ids: true }, /^return_tokens_as_token_ids/],
  [['chat', 'completion'], { return_token_ids: true }, /^return_token_ids/],
  [['chat', 'completion'], { return_prompt_text: true }, /^return_prompt_text/],
  [['chat', 'completion'], { include_metrics: true }, /^include_metrics .*\/metrics/],
  [['chat', 'completion'], { kv_transfer_params: {} }, /^kv_transfer_params/],
  [['chat', 'completion'], { vllm_xargs: { a: 1 } }, /^vllm_xargs/],
  [['chat', 'completion'], { guided_grammar: 'root ::= "a"' }, /^guided_grammar .* grammar/],
  [['chat', 'completion'], { grammar: 'root ::= "a"' }, /^grammar .* grammar/],
  [['chat', 'completion'], { guided_whitespace_pattern: ' ' }, /^guided_whitespace_pattern/],
  [
    ['chat', 'completion'],
    { guided_choice: ['a'], guided_regex: 'b' },
    /one constraint, found choice and regex/,
  ],
  [
    ['chat', 'completion'],
    { structured_outputs: { grammar: 'root ::= "a"' } },
    /structured_outputs, got grammar/,
  ],
  [['chat', 'completion'], { structured_outputs: { structural_tag: '{}' } }, /got structural_tag/],
  [['chat', 'completion'], { structured_outputs: {} }, /expected one of json, json_object, choice/],
  [['chat', 'completion'], { structured_outputs: 'json' }, /expected an object, got "json"/],
  [['chat', 'completion'], { structured_outputs: { choice: ['a'], regex: 'b' } }, /found choice and regex/],
  [['chat', 'completion'], { structured_outputs: { json: {}, whitespace_pattern: ' ' } }, /white space/],
  [['chat', 'completion'], { response_format: { type: 'structural_tag' } }, /got "structural_tag"/],
  [['chat', 'completion'], { response_format: 'json_object' }, /expected an object with a type/],
  [
    ['chat', 'completion'],
    { stream_options: { include_usage: true } },
    /^stream_options can only be defined/,
  ],
  [['chat', 'completion'], { stream: 'yes' }, /^stream must be true or false/],
  [['chat', 'completion'], { stop: ['a', ''] }, /^stop .* empty string/],
  [['chat', 'completion'], { stop_token_ids: ['a'] }, /^stop_token_ids must be a list/],
  [['chat', 'completion'], { include_stop_str_in_output: 1 }, /^include_stop_str_in_output must be/],
  [['chat', 'completion'], { ignore_eos: 1 }, /^ignore_eos must be true or false/],
  [['chat', 'completion'], { min_tokens: -1 }, /^min_tokens must be greater than or equal to 0/],
  [
    ['chat', 'completion'],
    { min_tokens: 50, max_tokens: 40 },
    /^min_tokens must be less than or equal to max_tokens=40/,
  ],
  [
    ['chat', 'completion'],
    { min_tokens: 40, structured_outputs: { choice: ['yes'] } },
    /^min_tokens: .* allows no more/,
  ],
  [['chat', 'completion'], { temperature: -1 }, /^temperature must be non-negative, got -1/],
  [['chat', 'completion'], { temperature: 'hot' }, /^temperature must be/],
  [['chat', 'completion'], { top_p: 0 }, /^top_p must be in/],
  [['chat', 'completion'], { top_k: -2 }, /^top_k must be/],
  [['chat', 'completion'], { min_p: 2 }, /^min_p must be/],
  [['chat', 'completion'], { presence_penalty: 3 }, /^presence_penalty must be/],
  [['chat', 'completion'], { frequency_penalty: -3 }, /^frequency_penalty must be/],
  [['chat', 'completion'], { repetition_penalty: 0 }, /^repetition_penalty must be/],
  [['chat', 'completion'], { length_penalty: '1' }, /^length_penalty must be/],
  [['chat', 'completion'], { seed: 1.5 }, /^seed must be an integer/],
  [['chat', 'completion'], { skip_special_tokens: 0 }, /^skip_special_tokens must be/],
  [['chat', 'completion'], { spaces_between_special_tokens: 0 }, /^spaces_between_special_tokens must be/],
  [['chat', 'completion', 'embedding', 'pooling'], { priority: 1 }, /^priority .* not enabled/],
  [['chat', 'completion', 'embedding', 'pooling'], { cache_salt: 'x' }, /^cache_salt/],
  [['chat', 'completion', 'embedding', 'pooling'], { truncate_prompt_tokens: 5 }, /^truncate_prompt_tokens/],
  [['chat', 'completion', 'embedding', 'pooling'], { prompt_embeds: 'AAAA' }, /^prompt_embeds/],
  [['chat'], { max_tokens: 0 }, /^max_tokens must be at least 1/],
  [['chat'], { max_completion_tokens: 0 }, /^max_tokens must be at least 1/],
  [['completion'], { prompt: ['a', 'b'] }, /^prompt: /],
  [['completion'], { prompt: [1, 2] }, /^prompt: /],
  [['embedding'], { input: [[1, 2]] }, /^input: /],
  [['embedding'], { dimensions: 0 }, /^dimensions: /],
  [['embedding'], { encoding_format: 'bytes' }, /^encoding_format: /],
  [['embedding'], { messages: [] }, /^messages/],
  [['pooling'], { dimensions: 8 }, /^dimensions is not supported/],
  [['pooling'], { encoding_format: 'base64' }, /^encoding_format/],
  [['pooling'], { add_special_tokens: false }, /^add_special_tokens/],
  [['pooling'], { use_activation: false }, /^use_activation/],
  [['embedding'], { normalize: false }, /^normalize/],
  [['embedding'], { use_activation: false }, /^use_activation/],
  [['embedding'], { embed_dtype: 'float16' }, /^embed_dtype/],
  [['embedding'], { endianness: 'big' }, /^endianness/],
];

test.each(REFUSED.flatMap(([kinds, fields, message]) => kinds.map(kind => [kind, fields, message] as const)))(
  '%s refuses %j',
  async (kind, fields, message) => {
    const { status, answer } = await ask(kind, fields);
    expect([status, answer.error?.type, answer.error?.code]).toEqual([400, 'BadRequestError', 400]);
    expect(answer.error.message).toMatch(message);
  },
);

const part = (type: string) => ({ messages: [{ role: 'user', content: [{ type, [type]: {} }] }] });

test.each([
  [part('image_url'), /^At most 0 image\(s\)/],
  [part('input_audio'), /^At most 0 audio\(s\)/],
  [part('audio_url'), /^At most 0 audio\(s\)/],
  [part('video_url'), /^At most 0 video\(s\)/],
  [part('file'), /reads parts of type "text" only, got "file"/],
  [{ messages: [{ role: 'user', content: [{ image_url: 'a' }] }] }, /^At most 0 image\(s\)/],
  [{ messages: [{ role: 'user', content: [7] }] }, /parts that are objects/],
])('a chat refuses %j', async (fields, message) => {
  const { status, answer } = await ask('chat', fields);
  expect([status, answer.error?.message]).toEqual([400, expect.stringMatching(message)]);
});

/** Another value is another request, and so another answer, or nothing that an answer could show is asked for. */
const TAKEN: [kinds: Kind[], fields: Fields][] = [
  [
    ['chat', 'completion'],
    {
      model: 'simulated-3b',
      user: 'u',
      session_id: 's',
      mm_processor_kwargs: {},
      media_io_kwargs: {},
      temperature: 0,
      top_p: 0.5,
      top_k: 4,
      min_p: 0.1,
      presence_penalty: 1,
      frequency_penalty: 1,
      repetition_penalty: 1.1,
      length_penalty: 2,
      seed: 5,
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      guided_decoding_backend: 'xgrammar',
      stream: false,
      ignore_eos: false,
      include_stop_str_in_output: true,
    },
  ],
  // what asks for nothing
  [
    ['chat', 'completion'],
    {
      n: 1,
      best_of: 1,
      use_beam_search: false,
      logit_bias: {},
      bad_words: [],
      vllm_xargs: {},
      priority: 0,
      min_tokens: 0,
      stop: [],
      stop_token_ids: [],
      return_token_ids: false,
      return_tokens_as_token_ids: false,
      return_prompt_text: false,
      include_metrics: false,
      stream_options: {},
      tools: null,
      response_format: null,
      structured_outputs: null,
      allowed_token_ids: null,
      prompt_logprobs: null,
      suffix: null,
      guided_json: null,
      truncate_prompt_tokens: null,
    },
  ],
  [
    ['chat'],
    {
      tools: [],
      tool_choice: 'none',
      functions: [],
      function_call: 'none',
      parallel_tool_calls: true,
      modalities: ['text'],
      chat_template_kwargs: { enable_thinking: false },
      reasoning_effort: 'low',
      include_reasoning: false,
      documents: [],
      add_generation_prompt: true,
      continue_final_message: false,
      add_special_tokens: false,
      echo: false,
      logprobs: false,
    },
  ],
  [['completion'], { add_special_tokens: true }],
  [
    ['embedding'],
    {
      model: 'simulated-3b',
      user: 'u',
      session_id: 's',
      mm_processor_kwargs: {},
      media_io_kwargs: {},
      normalize: true,
      use_activation: true,
      embed_dtype: 'float32',
      endianness: 'native',
    },
  ],
  [
    ['pooling'],
    {
      model: 'simulated-3b',
      user: 'u',
      session_id: 's',
      mm_processor_kwargs: {},
      media_io_kwargs: {},
      encoding_format: 'float',
      add_special_tokens: true,
      use_activation: true,
    },
  ],
];

test.each(
  TAKEN.flatMap(([kinds, fields]) => kinds.map(kind => [kind, Object.keys(fields)[0], fields] as const)),
)('%s takes %s and the others of its row', async (kind, _, fields) => {
  for (const [name, value] of Object.entries(fields)) {
    const { status, answer } = await ask(kind, { [name]: value });
    expect([name, status, answer.error?.message]).toEqual([name, 200, undefined]);
  }
});

test('what a model samples by draws another answer', async () => {
  for (const fields of [{ temperature: 0.3 }, { top_p: 0.5 }, { seed: 1 }, { top_k: 3 }, { min_p: 0.2 }]) {
    const { text } = await said('chat', fields);
    expect((await said('chat', {})).text).not.toBe(text);
    expect((await said('chat', fields)).text).toBe(text);
  }
});

describe('heard', () => {
  test.each<Kind>(['chat', 'completion'])('%s: stop ends the text before it, or behind it', async kind => {
    // another body draws another answer, so that nobody knows what would have come
    const { text, choice } = await said(kind, { stop: 'e' });
    expect(text).not.toContain('e');
    expect([choice.finish_reason, choice.stop_reason]).toEqual(['stop', 'e']);
    const kept = await said(kind, { stop: ['e'], include_stop_str_in_output: true });
    expect(kept.text.indexOf('e')).toBe(kept.text.length - 1);
    const late = await said(kind, { stop: 'e', min_tokens: 10 });
    expect(late.answer.usage.completion_tokens).toBeGreaterThan(9);
  });

  test('stop_token_ids are those that /tokenize tells', async () => {
    const fields = { stop_token_ids: [] as number[], include_stop_str_in_output: true };
    const root = simulator.url.slice(0, -'/v1'.length);
    for (let seed = 0; ; seed++) {
      const ids = Array.from({ length: 1_000 }, (_, at) => 127_000 + at);
      const { text, choice, answer } = await said('chat', {
        ...fields,
        seed,
        max_tokens: 400,
        stop_token_ids: ids,
        ignore_eos: true,
      });
      if (choice.stop_reason === null) continue;
      const told = await post(root, JSON.stringify({ prompt: text }), '/tokenize');
      const { tokens } = (await told.json()) as { tokens: number[] };
      expect(tokens.findIndex(id => ids.includes(id))).toBe(tokens.length - 1);
      expect(tokens.at(-1)).toBe(choice.stop_reason);
      expect(answer.usage.completion_tokens).toBe(tokens.length);
      return;
    }
  });

  test.each<Kind>(['chat', 'completion'])('%s: min_tokens, max_tokens and ignore_eos', async kind => {
    for (const least of [1, 30, 60]) {
      const { answer } = await said(kind, { min_tokens: least, max_tokens: 60 });
      expect(answer.usage.completion_tokens).toBeGreaterThanOrEqual(least);
      expect(answer.usage.completion_tokens).toBeLessThanOrEqual(60);
    }
    const { answer, choice } = await said(kind, { ignore_eos: true, max_tokens: 33 });
    expect([answer.usage.completion_tokens, choice.finish_reason]).toEqual([33, 'length']);
  });

  test('min_tokens makes JSON longer with white space, and it stays JSON', async () => {
    const response_format = {
      type: 'json_schema',
      json_schema: { schema: { properties: { a: { type: 'boolean' } }, required: ['a'] } },
    };
    const { text, answer } = await said('chat', { min_tokens: 50, response_format });
    expect(answer.usage.completion_tokens).toBe(50);
    expect(JSON.parse(text).a).toBeTypeOf('boolean');
  });

  test('logprobs of a chat, whole and streamed', async () => {
    const { text, choice } = await said('chat', { logprobs: true, top_logprobs: 4 });
    const { content } = choice.logprobs;
    expect(content.map(({ token }: Answer) => token).join('')).toBe(text);
    for (const { token, logprob, bytes, top_logprobs } of content) {
      expect(Buffer.from(bytes).toString()).toBe(token);
      expect(top_logprobs[0]).toEqual({ token, logprob, bytes });
      const all = top_logprobs.map((one: Answer) => one.logprob);
      expect(all).toEqual([...all].sort((a, b) => b - a));
      expect(all.reduce((sum: number, one: number) => sum + Math.exp(one), 0)).toBeLessThanOrEqual(1);
      expect(new Set(top_logprobs.map((one: Answer) => one.token)).size).toBe(4);
    }
    expect((await said('chat', { logprobs: true })).choice.logprobs.content[0].top_logprobs).toEqual([]);
    const pieces = (await events('chat', { logprobs: true, top_logprobs: 1 })).map(
      ({ choices }) => choices[0],
    );
    const spoken = pieces.filter(({ delta }) => delta.content);
    expect(spoken.length).toBeGreaterThan(1);
    for (const { delta, logprobs } of spoken)
      expect(logprobs.content.map(({ token }: Answer) => token)).toEqual([delta.content]);
  });

  test('logprobs of a completion, whole and streamed', async () => {
    const { text, choice } = await said('completion', { logprobs: 2 });
    const { tokens, token_logprobs, text_offset, top_logprobs } = choice.logprobs;
    expect(tokens.join('')).toBe(text);
    expect(tokens.map((token: string, at: number) => text.startsWith(token, text_offset[at]))).not.toContain(
      false,
    );
    expect(top_logprobs.map((top: Answer) => Object.keys(top).length)).toEqual(tokens.map(() => 2));
    expect(token_logprobs).toEqual(tokens.map((token: string, at: number) => top_logprobs[at][token]));
    const pieces = (await events('completion', { logprobs: 0 })).map(({ choices }) => choices[0]);
    let offset = 0;
    for (const { text: piece, logprobs } of pieces.filter(one => one.text)) {
      expect([logprobs.tokens, logprobs.text_offset]).toEqual([[piece], [offset]]);
      offset += piece.length;
    }
  });

  test('echo says the prompt first, and counts it once', async () => {
    const { text, answer } = await said('completion', { echo: true });
    expect(text.startsWith('Of the harbor')).toBe(true);
    expect(answer.usage.completion_tokens).toBe(Math.ceil((text.length - 'Of the harbor'.length) / 4));
    const pieces = await events('completion', { echo: true });
    expect(pieces.map(({ choices }) => choices[0].text).join('')).toMatch(/^Of the harbor./);
  });

  test.each<Kind>(['chat', 'completion'])('%s: stream_options', async kind => {
    const plain = await events(kind, {});
    expect(plain.filter(event => 'usage' in event)).toEqual([]);
    const atEnd = await events(kind, { stream_options: { include_usage: true } });
    expect(atEnd.filter(event => 'usage' in event)).toEqual([atEnd.at(-1)]);
    const each = await events(kind, {
      stream_options: { include_usage: true, continuous_usage_stats: true },
    });
    const counts = each.map(({ usage }) => usage.completion_tokens);
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect(counts[0]).toBeLessThan(2);
    expect(counts.at(-1)).toBe(each.length - (kind === 'chat' ? 3 : 2));
  });

  test.each<Kind>(['chat', 'completion'])('%s: every way to ask for a form', async kind => {
    const schema = { type: 'integer', minimum: 3, maximum: 4 };
    const forms: [Fields, RegExp][] = [
      [
        { response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } } },
        /^[34]$/,
      ],
      [{ response_format: { type: 'json_object' } }, /^\{.*\}$/s],
      [{ response_format: { type: 'text' } }, /^[A-Za-z]/],
      [{ structured_outputs: { json: schema } }, /^[34]$/],
      [{ structured_outputs: { json: JSON.stringify(schema), disable_any_whitespace: true } }, /^[34]$/],
      [{ structured_outputs: { json_object: true } }, /^\{.*\}$/s],
      [{ structured_outputs: { choice: ['yes', 'no'], json: null } }, /^(?:yes|no)$/],
      [{ structured_outputs: { regex: '[A-F]{3}' } }, /^[A-F]{3}$/],
      [{ guided_json: schema }, /^[34]$/],
      [{ guided_choice: ['yes', 'no'] }, /^(?:yes|no)$/],
      [{ guided_regex: '[A-F]{3}' }, /^[A-F]{3}$/],
    ];
    for (const [fields, wanted] of forms) expect((await said(kind, fields)).text).toMatch(wanted);
  });

  test('request_id is the id of the answer, unless there is an X-Request-Id', async () => {
    expect((await said('chat', { request_id: 'mine' })).answer.id).toBe('chatcmpl-mine');
    expect((await said('completion', { request_id: 'mine' })).answer.id).toBe('cmpl-mine');
    expect((await ask('embedding', { request_id: 'mine' })).answer.id).toBe('embd-mine');
  });

  test('tool calls of an earlier turn are in the prompt', async () => {
    const turn = { role: 'assistant', content: null };
    const calls = [{ id: '1', type: 'function', function: { name: 'look', arguments: '{"at":"the sea"}' } }];
    const tokens = async (message: Fields) =>
      (await said('chat', { messages: [message, { role: 'user', content: 'Hi.' }] })).answer.usage
        .prompt_tokens;
    expect(await tokens({ ...turn, tool_calls: calls })).toBeGreaterThan((await tokens(turn)) + 15);
  });

  test('embeddings: dimensions, and base64 is the same vector', async () => {
    const vector = async (fields: Fields) => (await ask('embedding', fields)).answer.data[0].embedding;
    for (const dimensions of [1, 7, 384, 1024]) {
      const floats = await vector({ dimensions });
      expect(floats).toHaveLength(dimensions);
      const bytes = Buffer.from(await vector({ dimensions, encoding_format: 'base64' }), 'base64');
      expect(floats.map((_: number, at: number) => bytes.readFloatLE(4 * at))).toEqual(
        floats.map((value: number) => Math.fround(value)),
      );
    }
    expect(await vector({ dimensions: null, encoding_format: null })).toHaveLength(384);
  });
});

/** Fields that tests above ask for by themselves. */
const HEARD = new Set(
  `messages prompt input max_tokens max_completion_tokens min_tokens stop_token_ids stream_options logprobs top_logprobs
  dimensions encoding_format request_id response_format structured_outputs guided_json guided_choice guided_regex stop echo`.split(
    /\s+/,
  ),
);

test('a server that schedules by priority takes one, and refuses what is none', () => {
  const settings = { seed: 7, byPriority: true };
  const chat = (priority: unknown) =>
    Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'a' }], priority }));
  expect(repliesOf(settings).reply(chat(-3), 'm').priority).toBe(-3);
  expect(() => repliesOf(settings).reply(chat('high'), 'm')).toThrow(
    'priority must be an integer, got "high"',
  );
  expect(() => repliesOf({ seed: 7 }).reply(chat(-3), 'm')).toThrow('not enabled');
});

test('a plan, which wants the length of an answer, passes over what is refused', () => {
  const body = JSON.stringify({ ...ASKED.chat, logit_bias: { 5: 1 }, bad_words: ['a'], max_tokens: 50 });
  const settings = {
    model: 'simulated-3b',
    maxModelLength: 100,
    faults: NO_FAULTS,
    draws: drawsOf(7),
    schemaOf: schemaCache(),
  };
  expect(() => replyTo(body, sha256(body), settings)).toThrow('logit_bias');
  expect(replyTo(body, sha256(body), { ...settings, forLength: true }).usage.completion).toBeGreaterThan(0);
});

test('what an agent file has fields for is known', () => {
  const { properties } = JSON.parse(readFileSync(join(ROOT, 'schemas/agent.schema.json'), 'utf8'));
  const names = Object.keys(properties.sampling.properties);
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter(name => !FIELDS.chat.has(name))).toEqual([]);
});

test.each(Object.keys(FIELDS) as Kind[])('every field of %s is tried, and in the documentation', kind => {
  const page = readFileSync(join(ROOT, 'docs/simulator.md'), 'utf8');
  const tried = new Set(
    [...REFUSED, ...TAKEN].flatMap(([kinds, fields]) => (kinds.includes(kind) ? Object.keys(fields) : [])),
  );
  const missing = [...FIELDS[kind].keys()].filter(name => !tried.has(name) && !HEARD.has(name));
  expect(missing).toEqual([]);
  const untold = [...FIELDS[kind].keys()].filter(name => !page.includes(`\`${name}\``));
  expect(untold).toEqual([]);
});

test('tools that may not be called are read, and answered with a text', async () => {
  const tool = { type: 'function', function: { name: 'find', parameters: { type: 'object' } } };
  const none = await said('chat', { tools: [tool], tool_choice: 'none' });
  const { content, tool_calls: calls } = none.choice.message;
  expect([typeof content, content === '', calls]).toEqual(['string', false, []]);
  const auto = (await ask('chat', { tools: [tool], tool_choice: 'auto' })).answer;
  expect(auto.choices[0].message.tool_calls).toHaveLength(1);
  // as vLLM puts them before the model either way
  expect(none.answer.usage.prompt_tokens).toBe(auto.usage.prompt_tokens);
});
