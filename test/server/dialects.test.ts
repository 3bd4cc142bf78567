/** /v1/responses and /v1/messages by the official clients, through the gateway and in batches, over the simulator. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { toFile } from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';
import { expect, test } from 'vitest';
import { answerText } from '../../engine/core/item/response.ts';
import { folder } from '../fw.ts';
import { type Ask, serve } from '../pool/serving.ts';
import { keyOf, MODEL, served } from './serving.ts';

const anthropic = (url: string, apiKey = 'none'): Anthropic =>
  new Anthropic({ apiKey, baseURL: url, maxRetries: 0 });

interface Line {
  agent: string;
  answer: string;
  finish: string;
  ttft?: number;
  usage: { prompt: number; completion: number; cached?: number };
}

/** The call lines of the gateway's ledger, oldest first. */
function recorded(data: string): Line[] {
  const at = join(data, 'gateway');
  return readdirSync(at, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ndjson'))
    .flatMap(name => readFileSync(join(at, name), 'utf8').trim().split('\n'))
    .map(line => JSON.parse(line))
    .filter(line => line.key !== undefined);
}

const WEATHER = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Oslo', 'Rome'] } },
  required: ['city'],
  additionalProperties: false,
} as const;
const CITY = expect.stringMatching(/^\{"city":"(Oslo|Rome)"\}$/);

test('openai responses: whole, with instructions, tools, a schema and reasoning; each is on record with its tokens', async () => {
  const { client, data, stop } = await served();
  const { responses } = client();
  const plain = await responses.create({
    model: MODEL,
    instructions: 'Be brief.',
    input: 'hello',
    max_output_tokens: 20,
  });
  expect(plain.output_text).not.toBe('');
  const tool = { type: 'function', name: 'weather', parameters: WEATHER, strict: true } as const;
  const called = await responses.create({
    model: MODEL,
    input: 'weather?',
    tools: [tool],
    tool_choice: 'required',
  });
  const [call] = called.output;
  expect(call).toMatchObject({ type: 'function_call', name: 'weather', arguments: CITY });
  const told = await responses.create({
    ...{ model: MODEL, tools: [tool], reasoning: { effort: 'low' } },
    input: [
      { role: 'user', content: 'weather?' },
      call as OpenAI.Responses.ResponseFunctionToolCall,
      { type: 'function_call_output', call_id: 'x', output: 'rain' },
    ],
  });
  expect(told.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
  const format = makeParseableTextFormat(
    { type: 'json_schema', name: 'city', schema: WEATHER, strict: true },
    text => JSON.parse(text) as { city: string },
  );
  const parsed = await responses.parse({ model: MODEL, input: 'where?', text: { format } });
  expect(['Oslo', 'Rome']).toContain(parsed.output_parsed?.city);
  await stop();
  const lines = recorded(data);
  expect(lines.map(({ agent }) => agent)).toEqual(Array(4).fill('/v1/responses'));
  expect(lines.map(({ answer }) => JSON.parse(answer).output)).toEqual(
    [plain, called, told, parsed].map(({ output }) =>
      JSON.parse(
        JSON.stringify(output, (key, value) =>
          key === 'parsed' || key === 'parsed_arguments' ? undefined : value,
        ),
      ),
    ),
  );
  expect(lines[0]?.usage).toEqual({
    prompt: plain.usage?.input_tokens,
    completion: plain.usage?.output_tokens,
    cached: 0,
  });
});

test('openai chat: calls of tools and reasoning, whole and streamed, are on record alike', async () => {
  const { client, data, stop } = await served();
  const { completions } = client().chat;
  const tools = [{ type: 'function', function: { name: 'weather', parameters: WEATHER } } as const];
  const messages = [{ role: 'user', content: 'weather?' } as const];
  const ask = { model: MODEL, messages, tools, reasoning_effort: 'low' } as const;
  const whole = await completions.create(ask);
  const [{ message, finish_reason }] = whole.choices as [OpenAI.ChatCompletion.Choice];
  expect([finish_reason, message.content]).toEqual(['tool_calls', null]);
  expect(message.tool_calls).toEqual([
    { id: expect.any(String), type: 'function', function: { name: 'weather', arguments: CITY } },
  ]);
  const streamed = await completions
    .stream({ ...ask, stream_options: { include_usage: true } })
    .finalChatCompletion();
  expect(streamed.choices[0]?.message.tool_calls).toMatchObject([
    { function: { name: 'weather', arguments: CITY } },
  ]);
  const result = { role: 'tool', tool_call_id: 'x', content: 'rain' } as const;
  const told = await completions.create({ ...ask, messages: [...messages, message, result] });
  expect(told.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.any(String) } });
  await stop();
  const [first, second] = recorded(data).map(({ answer }) => JSON.parse(answer).choices[0].message);
  expect(first).toMatchObject({ reasoning: expect.stringMatching(/./), tool_calls: message.tool_calls });
  expect(second).toMatchObject({
    reasoning: expect.stringMatching(/./),
    tool_calls: [{ index: 0, type: 'function', function: { name: 'weather', arguments: CITY } }],
  });
});

test('openai responses: streams of texts and of calls; the record is the response as its last event has it', async () => {
  const { client, data, stop } = await served();
  const { responses } = client();
  let text = '';
  let last: OpenAI.Responses.Response | undefined;
  const ask = { model: MODEL, input: 'hello', reasoning: { effort: 'low' }, stream: true } as const;
  for await (const event of await responses.create(ask)) {
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') last = event.response;
  }
  const tools = [{ type: 'function', name: 'weather', parameters: WEATHER, strict: false } as const];
  const final = await responses.stream({ model: MODEL, input: 'weather?', tools }).finalResponse();
  expect(final.output[0]).toMatchObject({ type: 'function_call', arguments: CITY });
  const cut = await responses.stream({ model: MODEL, input: 'hello', max_output_tokens: 2 }).finalResponse();
  expect([cut.status, cut.incomplete_details]).toEqual(['incomplete', { reason: 'max_output_tokens' }]);
  await stop();
  const lines = recorded(data);
  const [first, , third] = lines.map(({ answer }) => JSON.parse(answer));
  expect(first).toMatchObject({
    object: 'response',
    id: last?.id,
    output: last?.output,
    status: 'completed',
  });
  expect([answerText(first), text]).toEqual([text, expect.stringMatching(/./)]);
  expect(lines.map(({ finish }) => finish)).toEqual(['completed', 'completed', 'max_output_tokens']);
  expect(lines.map(({ ttft }) => typeof ttft)).toEqual(['number', 'number', 'number']);
  expect(lines[2]?.usage.completion).toBe(third.usage.output_tokens);
});

test('anthropic messages: whole, with tools and thinking, and counted; each is on record with its tokens', async () => {
  const { url, data, stop } = await served();
  const { messages } = anthropic(url);
  const ask = { model: MODEL, max_tokens: 200 };
  const plain = await messages.create({
    ...ask,
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'hello' }],
  });
  expect([plain.role, plain.stop_reason, plain.content[0]?.type]).toEqual(['assistant', 'end_turn', 'text']);
  expect(plain._request_id).toMatch(/^req_/);
  const tools = [{ name: 'weather', input_schema: WEATHER as unknown as Anthropic.Tool.InputSchema }];
  const turn = { role: 'user', content: 'weather?' } as const;
  const called = await messages.create({ ...ask, tools, tool_choice: { type: 'any' }, messages: [turn] });
  expect([called.stop_reason, called.content]).toEqual([
    'tool_use',
    [{ type: 'tool_use', id: expect.any(String), name: 'weather', input: { city: expect.any(String) } }],
  ]);
  const [use] = called.content as [Anthropic.ToolUseBlock];
  const result = { type: 'tool_result', tool_use_id: use.id, content: 'rain' } as const;
  const told = await messages.create({
    ...{ ...ask, tools, thinking: { type: 'enabled', budget_tokens: 1024 } },
    messages: [turn, { role: 'assistant', content: called.content }, { role: 'user', content: [result] }],
  });
  expect(told.content.map(({ type }) => type)).toEqual(['thinking', 'text']);
  const counted = await messages.countTokens({ model: MODEL, messages: [turn] });
  expect(counted.input_tokens).toBeGreaterThan(0);
  await stop();
  const lines = recorded(data);
  expect(lines.map(({ answer }) => JSON.parse(answer).content)).toEqual([
    ...[plain, called, told].map(({ content }) => content),
    undefined,
  ]);
  expect(lines[0]?.usage).toEqual({
    prompt: plain.usage.input_tokens,
    completion: plain.usage.output_tokens,
  });
});

test('anthropic messages: streams of thinking, texts and calls; the record is the message put together', async () => {
  const { url, data, stop } = await served();
  const { messages } = anthropic(url);
  const ask = { model: MODEL, max_tokens: 200, messages: [{ role: 'user', content: 'hello' } as const] };
  const thinking = { type: 'enabled', budget_tokens: 1024 } as const;
  const said = await messages.stream({ ...ask, thinking }).finalMessage();
  const tools = [{ name: 'weather', input_schema: WEATHER as unknown as Anthropic.Tool.InputSchema }];
  const called = await messages.stream({ ...ask, tools }).finalMessage();
  const cut = await messages.stream({ ...ask, max_tokens: 2 }).finalMessage();
  expect([said, called, cut].map(({ stop_reason }) => stop_reason)).toEqual([
    'end_turn',
    'tool_use',
    'max_tokens',
  ]);
  await stop();
  const lines = recorded(data);
  expect(lines.map(({ answer }) => JSON.parse(answer).content)).toEqual(
    [said, called, cut].map(({ content }) => content),
  );
  expect(lines.map(({ finish, ttft }) => [finish, typeof ttft])).toEqual([
    ['end_turn', 'number'],
    ['tool_use', 'number'],
    ['max_tokens', 'number'],
  ]);
  expect(lines[0]?.usage).toEqual({ prompt: said.usage.input_tokens, completion: said.usage.output_tokens });
});

test('keys from x-api-key, and errors in the shape of their clients', async () => {
  const data = join(folder(), 'data');
  mkdirSync(data, { recursive: true });
  const key = keyOf(data, 'claude');
  const { url, client } = await served({ data });
  const ask = { model: MODEL, max_tokens: 5, messages: [{ role: 'user', content: 'hello' } as const] };
  expect((await anthropic(url, key).messages.create(ask)).type).toBe('message');
  const strange = await anthropic(url, 'fw_none')
    .messages.create(ask)
    .catch(error => error);
  expect(strange).toBeInstanceOf(Anthropic.AuthenticationError);
  expect(strange.error).toEqual({
    type: 'error',
    error: { type: 'authentication_error', message: 'Incorrect API key provided.' },
  });
  const none = await anthropic(url, key)
    .messages.create({ ...ask, model: 'none' })
    .catch(error => error);
  expect(none).toBeInstanceOf(Anthropic.NotFoundError);
  expect(none.error.error.type).toBe('not_found_error');
  const wrong = await anthropic(url, key)
    .messages.create({ ...ask, max_tokens: 0 })
    .catch(error => error);
  expect(wrong).toBeInstanceOf(Anthropic.BadRequestError);
  const later = await client(key)
    .responses.create({ model: MODEL, input: 'x', background: true })
    .catch(error => error);
  expect(later).toMatchObject({ status: 400, param: 'background', code: 'unsupported_parameter' });
});

/** Writes a stream in pieces, each once the one before it has gone. */
async function stream({ response }: Ask, pieces: readonly string[], isWhole = true): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (const piece of pieces) await new Promise(resolve => response.write(piece, resolve));
  if (isWhole) response.end();
  else response.destroy();
}

const event = (type: string, more: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const ITEMS = [
  event('response.created', { response: { id: 'r-1', model: 'm', usage: null } }),
  event('response.output_item.added', { output_index: 0, item: { type: 'reasoning', id: 'rs' } }),
  event('response.reasoning_text.delta', { output_index: 0, content_index: 0, delta: 'hmm ' }),
  event('response.output_item.added', {
    output_index: 1,
    item: { type: 'message', id: 'msg', role: 'assistant', content: [] },
  }),
  event('response.refusal.delta', { output_index: 1, content_index: 0, delta: 'I will nöt' }),
];
const BLOCKS = [
  event('message_start', {
    message: {
      id: 'm-1',
      role: 'assistant',
      content: [],
      model: 'm',
      usage: { input_tokens: 7, output_tokens: 0 },
    },
  }),
  event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  event('ping', {}),
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'héllo' } }),
];

test('streams go on byte for byte; one that breaks off ends as its client reads it, and is charged for what came', async () => {
  const ends: Record<string, string> = {
    '/v1/responses': event('response.completed', {
      response: {
        object: 'response',
        id: 'r-1',
        status: 'completed',
        output: [{ type: 'web_search_call', id: 'ws' }],
        usage: { input_tokens: 3, output_tokens: 2, input_tokens_details: { cached_tokens: 1 } },
      },
    }),
    '/v1/messages':
      event('message_delta', {
        delta: { stop_reason: 'refusal' },
        usage: { output_tokens: 2, cache_read_input_tokens: 5 },
      }) + event('message_stop', {}),
  };
  let isWhole = true;
  const server = await serve(
    one => {
      const path = one.request.url as string;
      const begin = path === '/v1/responses' ? ITEMS : BLOCKS;
      void stream(one, isWhole ? [...begin, ends[path] as string] : begin, isWhole);
    },
    { models: ['m'] },
  );
  const { url, data, stop, client } = await served({ endpoints: [server.url] });
  const raw = async (path: string): Promise<string> => {
    const body = JSON.stringify({ model: 'm', stream: true, max_tokens: 5, input: 'x', messages: [] });
    return (
      await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    ).text();
  };
  expect(await raw('/v1/responses')).toBe(ITEMS.join('') + ends['/v1/responses']);
  expect(await raw('/v1/messages')).toBe(BLOCKS.join('') + ends['/v1/messages']);
  isWhole = false;
  const read = async (): Promise<void> => {
    const ask = { model: 'm', input: 'x', stream: true } as const;
    for await (const _ of await client().responses.create(ask));
  };
  await expect(read()).rejects.toThrow(/broke off/);
  const ask = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'x' } as const] };
  await expect(anthropic(url).messages.stream(ask).finalMessage()).rejects.toThrow(/broke off/);
  await stop();
  const lines = recorded(data);
  expect(lines.map(({ usage }) => usage)).toEqual([
    { prompt: 3, completion: 2, cached: 1 },
    { prompt: 12, completion: 2, cached: 5 },
    { prompt: expect.any(Number), completion: 2 },
    { prompt: 7, completion: 1 },
  ]);
  expect(JSON.parse(lines[0]?.answer as string).output).toEqual([{ type: 'web_search_call', id: 'ws' }]);
  expect(JSON.parse(lines[1]?.answer as string)).toMatchObject({
    content: [{ type: 'text', text: 'héllo' }],
    stop_reason: 'refusal',
  });
});

test('batches of both paths: outputs as the servers gave them, tokens counted, what a path cannot have named by its line', async () => {
  const { client } = await served();
  const { files, batches } = client();
  async function ran(endpoint: string, bodies: readonly object[]) {
    const text = bodies
      .map((body, n) => JSON.stringify({ custom_id: `${n}`, method: 'POST', url: endpoint, body }))
      .join('\n');
    const input = await files.create({ purpose: 'batch', file: await toFile(Buffer.from(text), 'in.jsonl') });
    const { id } = await batches.create({
      input_file_id: input.id,
      endpoint: endpoint as '/v1/responses',
      completion_window: '24h',
    });
    const get = () => batches.retrieve(id);
    await expect.poll(async () => (await get()).status, { interval: 20 }).toMatch(/completed|failed/);
    const batch = await get();
    const lines =
      batch.output_file_id == null
        ? []
        : (await (await files.content(batch.output_file_id)).text()).trim().split('\n');
    return { batch, bodies: lines.map(line => JSON.parse(line).response.body) };
  }
  const responses = await ran('/v1/responses', [
    { model: MODEL, input: 'a' },
    { model: MODEL, input: 'b', max_output_tokens: 2 },
  ]);
  expect(responses.bodies.map(({ object, status }) => [object, status])).toEqual([
    ['response', 'completed'],
    ['response', 'incomplete'],
  ]);
  const sum = (name: string): number => responses.bodies.reduce((all, { usage }) => all + usage[name], 0);
  expect(responses.batch.usage).toMatchObject({
    input_tokens: sum('input_tokens'),
    output_tokens: sum('output_tokens'),
  });
  const messages = await ran('/v1/messages', [
    { model: MODEL, max_tokens: 9, messages: [{ role: 'user', content: 'a' }] },
  ]);
  expect(messages.bodies.map(({ type }) => type)).toEqual(['message']);
  const wrong = await ran('/v1/responses', [{ model: MODEL, input: 'a', previous_response_id: 'resp_1' }]);
  expect(wrong.batch.errors?.data?.[0]).toMatchObject({ line: 1, param: 'body.previous_response_id' });
});

test('a server without the path is named with what it lacks, to clients and in batches', async () => {
  const server = await serve(
    ({ response }) =>
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}'),
    { models: ['m'] },
  );
  const { url } = await served({ endpoints: [server.url] });
  const ask = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'x' } as const] };
  const lacking = await anthropic(url)
    .messages.create(ask)
    .catch(error => error);
  expect(lacking).toBeInstanceOf(Anthropic.NotFoundError);
  expect(lacking.error.error.message).toBe(
    `${server.url} does not answer POST /v1/messages (HTTP 404 "Not Found"): name a server that has this path, or start this one with a model that does`,
  );
});

test('a runaway stream is cut off as its client reads it, counted by its events, and the record says why', async () => {
  const words = 'again and again ';
  const text = { type: 'output_text', text: '', annotations: [] };
  const items = [
    event('response.created', { response: { id: 'r-1', object: 'response', model: 'm', output: [] } }),
    event('response.output_item.added', {
      output_index: 0,
      item: { type: 'message', id: 'msg', role: 'assistant', content: [] },
    }),
    event('response.content_part.added', { output_index: 0, content_index: 0, part: text }),
    ...Array(400).fill(
      event('response.output_text.delta', { output_index: 0, content_index: 0, delta: words }),
    ),
  ];
  const delta = { index: 0, delta: { type: 'text_delta', text: words } };
  const blocks = [...BLOCKS.slice(0, 2), ...Array(400).fill(event('content_block_delta', delta))];
  const server = await serve(one => void stream(one, one.request.url === '/v1/responses' ? items : blocks), {
    models: ['m'],
  });
  const { url, client, data, stop } = await served({
    endpoints: [server.url],
    gateway: { runaway: { repeats: true, blanks: 100 } },
  });
  const cut = await client().responses.stream({ model: 'm', input: 'x' }).finalResponse();
  expect([cut.status, cut.incomplete_details?.reason]).toEqual(['incomplete', 'max_output_tokens']);
  const ask = { model: 'm', max_tokens: 500, messages: [{ role: 'user', content: 'x' } as const] };
  const message = await anthropic(url).messages.stream(ask).finalMessage();
  expect(message.stop_reason).toBe('max_tokens');
  await stop();
  const lines = recorded(data);
  const answers = lines.map(({ answer }) => JSON.parse(answer));
  expect(lines.map(({ finish }) => finish)).toEqual(['max_output_tokens', 'max_tokens']);
  expect(answers.map(({ cut: why }) => why)).toEqual(Array(2).fill(expect.stringContaining('16 characters')));
  expect(answers.map(answerText)).toEqual([
    cut.output_text,
    (message.content[0] as Anthropic.TextBlock).text,
  ]);
  expect(lines.map(({ usage }) => usage.completion)).toEqual(answers.map(({ events }) => events));
});

test('whatever refuses a client of Anthropic: its shape, and the id where it looks', async () => {
  const { url, stop } = await served();
  for (const [path, method] of [
    ['/v1/messages/batches', 'GET'],
    ['/v1/models/nobody', 'GET'],
    ['/v1/messages', 'POST'],
  ] as const) {
    const reply = await fetch(`${url}${path}`, {
      method,
      headers: {
        'anthropic-version': '2023-06-01',
        'x-api-key': 'wrong',
        'content-type': 'application/json',
      },
      ...(method === 'POST' && { body: '{}' }),
    });
    expect(reply.status).toBeGreaterThanOrEqual(400);
    expect(reply.headers.get('request-id')).toBe(reply.headers.get('x-request-id'));
    expect(await reply.json()).toMatchObject({ type: 'error', error: { message: expect.any(String) } });
  }
  await stop();
});
