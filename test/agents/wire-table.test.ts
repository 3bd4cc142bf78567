/**
 * Requests as they go over the wire, by the socket of a server that writes them down: what agent files and items say, and
 * what vLLM's documentation (0.32) has fields for. One run asks all of them.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

/** Fields of a chat completion that vLLM documents. */
const DOCUMENTED = new Set(
  `messages model frequency_penalty logit_bias logprobs top_logprobs max_tokens max_completion_tokens n
  presence_penalty response_format seed stop stream stream_options temperature top_p tools tool_choice reasoning_effort
  include_reasoning thinking_token_budget use_beam_search top_k min_p repetition_penalty length_penalty stop_token_ids
  include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens
  prompt_logprobs allowed_token_ids bad_words echo add_generation_prompt continue_final_message add_special_tokens documents
  chat_template chat_template_kwargs mm_processor_kwargs structured_outputs priority request_id session_id
  return_tokens_as_token_ids return_token_ids return_prompt_text cache_salt kv_transfer_params vllm_xargs logprob_token_ids
  repetition_detection include_metrics parallel_tool_calls user media_io_kwargs`.split(/\s+/),
);
/** vLLM up to 0.11, and llama.cpp. */
const OF_OTHERS = new Set(['guided_json', 'guided_choice', 'guided_regex', 'grammar']);

interface Row {
  agent?: JsonObject;
  /** beside temperature and max_tokens */
  sampling?: JsonObject;
  item?: JsonObject;
  /** beside model, messages, temperature, seed and max_tokens */
  sent?: JsonObject;
  messages?: unknown[];
  model?: string;
  /** of the answer that the server gives; default: some text */
  says?: string;
  without?: string[];
}

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const DATA = `data:image/png;base64,${PIXEL.toString('base64')}`;
const FREE = { persona: undefined };
const SYSTEM = { role: 'system', content: 'Be brief.' };
const user = (content: unknown) => ({ role: 'user', content });
const HI = user('Hi.');
const sampled = (sampling: JsonObject): Row => ({ sampling, sent: sampling });
const extra = (fields: JsonObject): Row => ({ agent: { extra: fields }, sent: fields });
const asks = (item: JsonObject, messages: unknown[], agent: JsonObject = FREE): Row => ({
  item,
  messages,
  agent,
});
const link = (url: string) => ({ type: 'image_url', image_url: { url, detail: 'low' } });
const text = (said: string) => ({ type: 'text', text: said });
const json = (schema: JsonObject, name: string) => ({
  response_format: { type: 'json_schema', json_schema: { name, schema, strict: true } },
});
const TAGS = { type: 'array', items: { type: 'string' } };

const ROWS: { [name: string]: Row } = {
  text: { messages: [SYSTEM, HI] },
  text_without_persona: { agent: FREE, messages: [HI] },
  top_p: sampled({ top_p: 0.9 }),
  top_k: sampled({ top_k: 40 }),
  top_k_off: sampled({ top_k: -1 }),
  min_p: sampled({ min_p: 0.05 }),
  min_tokens: sampled({ min_tokens: 3 }),
  stop_text: sampled({ stop: '\n\n' }),
  stop_list: sampled({ stop: ['END', '###'] }),
  stop_tokens: sampled({ stop_token_ids: [128001, 128009] }),
  stop_kept: sampled({ stop: ['END'], include_stop_str_in_output: true }),
  presence: sampled({ presence_penalty: 0.5 }),
  frequency: sampled({ frequency_penalty: -0.5 }),
  repetition: sampled({ repetition_penalty: 1.1 }),
  penalties: sampled({ presence_penalty: 0.1, frequency_penalty: 0.2, repetition_penalty: 1.05 }),
  length_penalty: sampled({ length_penalty: 0.8 }),
  loops: sampled({ repetition_detection: { max_pattern_size: 20, min_count: 5 } }),
  bias: sampled({ logit_bias: { '50256': -100 } }),
  allowed: sampled({ allowed_token_ids: [1, 2, 3] }),
  bad_words: sampled({ bad_words: ['alas'] }),
  endless: sampled({ ignore_eos: true }),
  special: sampled({ skip_special_tokens: false, spaces_between_special_tokens: false }),
  truncated: sampled({ truncate_prompt_tokens: 512 }),
  completion_tokens: {
    agent: { sampling: { temperature: 0, max_completion_tokens: 60 } },
    sent: { max_completion_tokens: 60 },
    without: ['max_tokens'],
  },
  logprobs: sampled({ logprobs: true, top_logprobs: 5 }),
  thinks: extra({ chat_template_kwargs: { enable_thinking: false } }),
  effort: extra({ reasoning_effort: 'low', include_reasoning: true }),
  budget: extra({ thinking_token_budget: 256 }),
  priority: extra({ priority: -1 }),
  salt: extra({ cache_salt: 'study-7' }),
  session: extra({ session_id: 'study-7' }),
  xargs: extra({ vllm_xargs: { my_processor: 'on' } }),
  template_field: extra({ chat_template: '{{ messages }}' }),
  documents: extra({ documents: [{ title: 'a', text: 'b' }] }),
  pixels: extra({ mm_processor_kwargs: { num_crops: 4 } }),
  grammar: extra({ grammar: 'root ::= "yes" | "no"' }),
  own_constraint: {
    agent: { schema: TAGS, extra: { response_format: { type: 'json_object' } } },
    sent: { response_format: { type: 'json_object' } },
    says: '["a"]',
  },
  lora: { agent: { model: 'khmer-lora' }, model: 'khmer-lora' },
  object: {
    agent: { schema: { type: 'object', required: ['a'], properties: { a: { type: 'string' } } } },
    sent: json({ type: 'object', required: ['a'], properties: { a: { type: 'string' } } }, 'object'),
    says: '{"a":"b"}',
  },
  list: { agent: { schema: TAGS }, sent: json(TAGS, 'list'), says: '["a"]' },
  word: { agent: { schema: { enum: ['a', 'b'] } }, sent: json({ enum: ['a', 'b'] }, 'word'), says: '"a"' },
  number: { agent: { schema: { type: 'number' } }, sent: json({ type: 'number' }, 'number'), says: '4.5' },
  truth: { agent: { schema: { type: 'boolean' } }, sent: json({ type: 'boolean' }, 'truth'), says: 'true' },
  string: { agent: { schema: { type: 'string' } }, sent: json({ type: 'string' }, 'string'), says: '"a"' },
  annotated: {
    agent: {
      schema: { type: 'object', 'x-fw-sum': { of: ['a'], is: 1 }, properties: { a: { type: 'number' } } },
    },
    sent: json({ type: 'object', properties: { a: { type: 'number' } } }, 'annotated'),
    says: '{"a":1}',
  },
  choice: {
    agent: { choice: ['yes', 'no'] },
    sent: { structured_outputs: { choice: ['yes', 'no'] } },
    says: 'yes',
  },
  regex: {
    agent: { regex: '[A-F][+-]?' },
    sent: { structured_outputs: { regex: '[A-F][+-]?' } },
    says: 'B+',
  },
  persona_with_columns: {
    agent: { persona: 'You speak {{ language }}.', template: true },
    item: { prompt: 'Hi.', input: { language: 'Khmer "ខ្មែរ"' } },
    messages: [{ role: 'system', content: 'You speak Khmer "ខ្មែរ".' }, HI],
  },
  persona_with_filters: {
    agent: { persona: '{% if age > "60" %}Speak {{ how | upcase }}.{% endif %}', template: true },
    item: { prompt: 'Hi.', input: { age: '70', how: 'slowly' } },
    messages: [{ role: 'system', content: 'Speak SLOWLY.' }, HI],
  },
  persona_with_braces: {
    agent: { persona: 'Write {{ name }} as it is.' },
    messages: [{ role: 'system', content: 'Write {{ name }} as it is.' }, HI],
  },
  messages_of_text: asks({ messages: [HI] }, [HI]),
  messages_and_persona: asks({ messages: [HI] }, [SYSTEM, HI], {}),
  messages_with_system: asks({ messages: [SYSTEM, HI] }, [SYSTEM, HI]),
  messages_of_many_turns: asks({ messages: [HI, { role: 'assistant', content: 'Hello.' }, user('And?')] }, [
    HI,
    { role: 'assistant', content: 'Hello.' },
    user('And?'),
  ]),
  messages_with_name: asks({ messages: [{ ...HI, name: 'ann' }] }, [{ ...HI, name: 'ann' }]),
  messages_with_prefill: asks({ messages: [HI, { role: 'assistant', content: 'He' }] }, [
    HI,
    { role: 'assistant', content: 'He' },
  ]),
  image_by_url: asks({ messages: [user([text('What?'), link('https://example.org/a.png')])] }, [
    user([text('What?'), link('https://example.org/a.png')]),
  ]),
  image_by_data: asks({ messages: [user([link(DATA)])] }, [user([link(DATA)])]),
  image_by_path: asks({ messages: [user([link('file:photos/a.png'), text('What?')])] }, [
    user([link(DATA), text('What?')]),
  ]),
  two_images: asks({ messages: [user([link('file:photos/a.png')]), user([link('file:photos/a.png')])] }, [
    user([link(DATA)]),
    user([link(DATA)]),
  ]),
  audio_by_path: asks({ messages: [user([{ type: 'audio_url', audio_url: { url: 'file:a.wav' } }])] }, [
    user([{ type: 'audio_url', audio_url: { url: `data:audio/wav;base64,${PIXEL.toString('base64')}` } }]),
  ]),
  text_in_many_scripts: asks({ prompt: 'ខ្មែរ "🙂"\n\\' }, [user('ខ្មែរ "🙂"\n\\')]),
  sample_1: asks({ id: 'same#1', prompt: 'Hi.' }, [HI]),
  sample_2: asks({ id: 'same#2', prompt: 'Hi.' }, [HI]),
};

const TOKEN = { token: 'B', logprob: -0.5 };
const bodies = new Map<string, JsonObject>();
let requests = 0;
const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', part => parts.push(part));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') {
      const data = ['m', 'khmer-lora'].map(id => ({ id, object: 'model' }));
      return response.end(JSON.stringify({ object: 'list', data }));
    }
    const body = JSON.parse(Buffer.concat(parts).toString()) as JsonObject;
    const name = byAgent.get(String(body.user)) ?? '';
    bodies.set(name, body);
    requests += 1;
    const content = ROWS[name.replace(/^older_/, '')]?.says ?? 'Bonjour.';
    const logprobs = body.logprobs ? { content: [{ ...TOKEN, bytes: [66], top_logprobs: [TOKEN] }] } : null;
    const choices = [{ index: 0, message: { role: 'assistant', content }, logprobs, finish_reason: 'stop' }];
    response.end(JSON.stringify({ id: 'x', object: 'chat.completion', model: body.model, choices }));
  });
});
/** `user` of each request says which row it is of. */
const byAgent = new Map<string, string>();

const dir = folder();
let run: () => ReturnType<typeof fw>;
let ran: Awaited<ReturnType<typeof fw>>;
beforeAll(async () => {
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  mkdirSync(join(dir, 'agents'));
  mkdirSync(join(dir, 'files', 'photos'), { recursive: true });
  writeFileSync(join(dir, 'files', 'photos', 'a.png'), PIXEL);
  writeFileSync(join(dir, 'files', 'a.wav'), PIXEL);
  const items = Object.entries(ROWS).map(([name, { agent = {}, sampling = {}, item = {} }], index) => {
    const extra = { ...(agent.extra as JsonObject), user: name };
    byAgent.set(name, name);
    const file = {
      ...{ key: name, short: `a${index}`, display: name, role: 'agent', persona: 'Be brief.' },
      sampling: { temperature: 0, max_tokens: 50, ...sampling },
      ...agent,
      extra,
    };
    writeFileSync(join(dir, 'agents', `${name}.yaml`), stringify(file));
    const own = item.messages === undefined ? { prompt: 'Hi.' } : {};
    return JSON.stringify({ id: name, ...own, ...item, ordering: [name] });
  });
  writeFileSync(join(dir, 'items.ndjson'), `${items.join('\n')}\n`);
  const asking = `--agents agents --files files --no-decision --endpoint ${url} --model m`;
  run = () => fw(`fw chain --ordered --ledger ledger ${asking} items.ndjson`, { cwd: dir });
  ran = await run();
  expect(ran.code, ran.stderr).toBe(0);
  const older = ['object', 'choice', 'regex', 'text'];
  const chosen = items.filter(line => older.includes(JSON.parse(line).ordering[0]));
  writeFileSync(join(dir, 'older.ndjson'), `${chosen.join('\n')}\n`);
  for (const name of older) byAgent.set(name, `older_${name}`);
  expect((await fw(`fw chain --guided older ${asking} older.ndjson`, { cwd: dir })).code).toBe(0);
});
afterAll(() => void server.close());

describe('over the wire', () => {
  test('sixty requests, each of its own kind', () => {
    expect(Object.keys(ROWS).length).toBeGreaterThanOrEqual(60);
    expect(bodies.size).toBe(Object.keys(ROWS).length + 4);
  });

  test.each(Object.entries(ROWS))('%s', (name, { sent = {}, messages, model = 'm', without = [] }) => {
    const { messages: said, seed, ...body } = bodies.get(name) as JsonObject;
    const limits = without.includes('max_tokens') ? {} : { max_tokens: 50 };
    expect(body).toEqual({ model, temperature: 0, ...limits, ...sent, user: name });
    if (messages) expect(said).toEqual(messages);
    expect(seed).toBeGreaterThanOrEqual(0);
    const strange = Object.keys(body).filter(field => !DOCUMENTED.has(field) && !OF_OTHERS.has(field));
    expect(strange).toEqual([]);
  });

  test('servers of before have the fields of before', () => {
    const fieldsOf = (name: string) => {
      const {
        messages: _messages,
        seed: _seed,
        user: _user,
        ...rest
      } = bodies.get(`older_${name}`) as JsonObject;
      return rest;
    };
    const usual = { model: 'm', temperature: 0, max_tokens: 50 };
    expect(fieldsOf('choice')).toEqual({ ...usual, guided_choice: ['yes', 'no'] });
    expect(fieldsOf('regex')).toEqual({ ...usual, guided_regex: '[A-F][+-]?' });
    expect(fieldsOf('object').guided_json).toEqual(ROWS.object?.agent?.schema);
    expect(fieldsOf('text')).toEqual(usual);
  });

  test('log probabilities go with the answer, less their bytes', () => {
    const lines = ran.stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line));
    const withThem = lines.filter(({ steps }) => steps[0].logprobs !== undefined);
    expect(withThem.map(({ id }) => id)).toEqual(['logprobs']);
    expect(withThem[0].steps[0].logprobs).toEqual([{ ...TOKEN, top_logprobs: [TOKEN] }]);
  });

  test('the same again asks nothing, and says the same', async () => {
    const before = requests;
    expect((await run()).stdout).toBe(ran.stdout);
    expect(requests).toBe(before);
    const checked = await fw('fw ledger check --read-data --ledger ledger', { cwd: dir });
    expect(checked.code, checked.stdout).toBe(0);
  });

  test('samples of one prompt have seeds of their own', () => {
    expect(bodies.get('sample_1')?.seed).not.toBe(bodies.get('sample_2')?.seed);
  });
});
