/** What a stream tells, however its bytes are cut and its events are written: the same answer and the same record. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { Answer } from '../../engine/core/item/call.ts';
import type { Dialect } from '../../engine/core/item/dialects.ts';
import { ItemsStream } from '../../products/serve/gateway/items-stream.ts';
import { KeptText } from '../../products/serve/gateway/kept-text.ts';
import { Sink } from '../../products/serve/gateway/sink.ts';

type Kind = NonNullable<Dialect['stream']>;

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A client that takes everything. */
const client = (): ServerResponse =>
  ({ writeHead: () => {}, write: () => true, on: () => {}, off: () => {} }) as unknown as ServerResponse;

/** What the gateway makes of a stream that comes in these chunks. */
function told(stream: Kind, chunks: readonly Buffer[]): Answer | string {
  const sink = new Sink({ raw: client(), headers: {}, runaway: null, stream, prompt: 7, onCut: () => {} });
  sink.head({ 'content-type': 'text/event-stream' }, { pause() {}, resume() {} });
  for (const chunk of chunks) sink.data(chunk);
  return sink.end();
}

const plain = (events: readonly (object | string)[]): Buffer =>
  Buffer.from(events.map(one => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join(''));

/** The same events as another server would write them. */
function written(events: readonly (object | string)[], random: (below: number) => number): Buffer {
  const end = random(2) === 0 ? '\n' : '\r\n';
  const space = random(2) === 0 ? ' ' : '';
  let text = random(2) === 0 ? '\ufeff' : '';
  for (const one of events) {
    if (random(3) === 0) text += `: ping ✓${end}${random(2) === 0 ? end : ''}`;
    if (random(3) === 0) text += `event: anything${end}id: 7${end}retry: 10${end}`;
    const json = typeof one === 'string' ? one : JSON.stringify(one, null, random(3) === 0 ? 1 : 0);
    for (const line of json.split('\n')) text += `data:${space}${line}${end}`;
    if (random(4) === 0) text += `datas: none${end}`;
    text += end;
  }
  return Buffer.from(text);
}

function cutAnywhere(bytes: Buffer, random: (below: number) => number): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const to = at + 1 + random(random(3) === 0 ? 2 : 40);
    chunks.push(bytes.subarray(at, to));
    at = to;
  }
  return chunks;
}

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  model: 'm',
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});
const call = (made: object, more: object = {}) => chunk({ tool_calls: [{ ...more, function: made }] });
const USAGE = { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 };
const response = (type: string, more: object) => ({ type: `response.${type}`, ...more });
const logprob = (token: string) => ({ token, logprob: -0.5, bytes: [1], top_logprobs: [] });

/** Of each: its dialect, its events, and what the record has of it; a text where it is no answer. */
const STREAMS: Record<string, [Kind, (object | string)[], unknown]> = {
  'a text in pieces, with usage in each chunk and again at the end': [
    'choices',
    [
      chunk({ role: 'assistant', content: '' }, null, { usage: { ...USAGE, completion_tokens: 0 } }),
      chunk({ content: 'Zürich ' }, null, { usage: { ...USAGE, completion_tokens: 1 } }),
      chunk({ content: '🦊漢字' }),
      chunk({}, 'stop'),
      { id: 'chatcmpl-1', choices: [], usage: USAGE },
      '[DONE]',
    ],
    {
      choices: [{ message: { role: 'assistant', content: 'Zürich 🦊漢字' }, finish_reason: 'stop' }],
      usage: { prompt: 5, completion: 9 },
    },
  ],
  'a content as a list of parts, reasoning under both names, and logprobs': [
    'choices',
    [
      chunk({ reasoning_content: 'I ' }),
      chunk({ reasoning: 'think.', reasoning_content: 'think.' }),
      {
        ...chunk({}),
        choices: [
          {
            index: 0,
            delta: {
              content: [
                { type: 'text', text: 'a' },
                { type: 'text', text: 'b' },
              ],
            },
            logprobs: { content: [logprob('a'), logprob('b')] },
          },
        ],
      },
      chunk({ content: null }, 'length'),
    ],
    {
      choices: [
        {
          message: { content: 'ab', reasoning: 'I think.' },
          logprobs: { content: [logprob('a'), logprob('b')] },
          finish_reason: 'length',
        },
      ],
    },
  ],
  'a refusal': [
    'choices',
    [
      chunk({ role: 'assistant', refusal: '' }),
      chunk({ refusal: 'I must ' }),
      chunk({ refusal: 'not.' }),
      chunk({}, 'stop'),
    ],
    { choices: [{ message: { content: '', refusal: 'I must not.' }, finish_reason: 'stop' }], events: 2 },
  ],
  'two calls, interleaved, whose arguments are cut anywhere': [
    'choices',
    [
      call({ name: 'a', arguments: '' }, { index: 0, id: 'call_a', type: 'function' }),
      call({ name: 'b', arguments: '{"x' }, { index: 1, id: 'call_b', type: 'function' }),
      call({ arguments: '{"é": "\\' }, { index: 0 }),
      call({ arguments: '":1}' }, { index: 1 }),
      call({ arguments: 'n"}' }, { index: 0 }),
      chunk({}, 'tool_calls'),
      '[DONE]',
    ],
    {
      choices: [
        {
          message: {
            content: '',
            tool_calls: [
              {
                index: 0,
                id: 'call_a',
                type: 'function',
                function: { name: 'a', arguments: '{"é": "\\n"}' },
              },
              { index: 1, id: 'call_b', type: 'function', function: { name: 'b', arguments: '{"x":1}' } },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
    },
  ],
  'calls without an index: a name and another id begin the next': [
    'choices',
    [
      call({ name: 'a', arguments: '{}' }, { id: 'call_a' }),
      call({ name: 'a', arguments: '{"y"' }, { id: 'call_b' }),
      call({ arguments: ':2}' }),
      chunk({}, 'tool_calls'),
    ],
    {
      choices: [
        {
          message: {
            tool_calls: [
              { id: 'call_a', function: { name: 'a', arguments: '{}' } },
              { id: 'call_b', function: { name: 'a', arguments: '{"y":2}' } },
            ],
          },
        },
      ],
    },
  ],
  'calls that all have the index 0': [
    'choices',
    [
      call({ name: 'a', arguments: '{}' }, { index: 0, id: 'call_a' }),
      call({ name: 'b', arguments: '{}' }, { index: 0, id: 'call_b' }),
      chunk({}, 'stop'),
    ],
    { choices: [{ message: { tool_calls: [{ id: 'call_a' }, { id: 'call_b' }] } }] },
  ],
  'a call with a new id in each piece, and one without any id': [
    'choices',
    [
      call({ name: 'a' }, { index: 0, id: 'x1' }),
      call({ arguments: '{}' }, { index: 0, id: 'x2' }),
      call({ name: 'b', arguments: '{"z":' }, { index: 1 }),
      call({ name: null, arguments: '1}' }, { index: 1 }),
      chunk({}, 'tool_calls'),
    ],
    {
      choices: [
        {
          message: {
            tool_calls: [
              { id: 'x1', function: { name: 'a', arguments: '{}' } },
              { index: 1, function: { name: 'b', arguments: '{"z":1}' } },
            ],
          },
        },
      ],
    },
  ],
  'two choices, one of which the engine gave up': [
    'choices',
    [
      chunk({ content: 'a' }),
      { choices: [{ index: 1, delta: { content: 'b' }, finish_reason: 'abort' }] },
      chunk({}, 'stop'),
      '[DONE]',
    ],
    'finish_reason abort',
  ],
  'two choices, one of which never ends': [
    'choices',
    [chunk({ content: 'a' }, 'stop'), { choices: [{ index: 1, delta: { content: 'b' } }] }],
    'before the model said',
  ],
  'a completion': [
    'choices',
    [{ choices: [{ index: 0, text: 'a' }] }, { choices: [{ index: 0, text: 'b', finish_reason: 'stop' }] }],
    { choices: [{ message: { content: 'ab' } }] },
  ],
  'an error in the middle': [
    'choices',
    [chunk({ content: 'a' }), { error: { message: 'lost' } }, '[DONE]'],
    'lost',
  ],
  'an error as older servers write it': [
    'choices',
    [chunk({ content: 'a' }, 'stop'), { object: 'error', message: 'lost', code: 500 }, '[DONE]'],
    'lost',
  ],
  'items of a response that ends without its last event': [
    'items',
    [
      response('created', { response: { id: 'resp_1', model: 'm' } }),
      response('output_item.added', {
        output_index: 1,
        item: { type: 'function_call', name: 'a', arguments: '' },
      }),
      response('output_item.added', { output_index: 0, item: { type: 'reasoning', summary: [] } }),
      response('function_call_arguments.delta', { output_index: 1, delta: '{"é"' }),
      response('reasoning_text.delta', { output_index: 0, content_index: 0, delta: 'Hm.' }),
      response('function_call_arguments.delta', { output_index: 1, delta: ':1}' }),
    ],
    'before the model said',
  ],
  'items of a response that have ids in place of numbers': [
    'items',
    [
      response('output_item.added', { item: { type: 'reasoning', id: 'rs_1', content: [] } }),
      response('reasoning_text.delta', { item_id: 'rs_1', delta: 'Hm.' }),
      response('output_item.added', { item: { type: 'message', id: 'msg_1', content: [] } }),
      response('output_text.delta', { item_id: 'msg_1', delta: 'é' }),
    ],
    'before the model said',
  ],
  'a response whose last event has all of it': [
    'items',
    [
      response('output_text.delta', { output_index: 0, content_index: 0, delta: '🦊' }),
      response('completed', {
        response: {
          ...{ id: 'resp_1', object: 'response', status: 'completed', output: [{ type: 'message' }] },
          usage: { input_tokens: 3, output_tokens: 1 },
        },
      }),
    ],
    { id: 'resp_1', output: [{ type: 'message' }] },
  ],
  'a response that fails': [
    'items',
    [response('failed', { response: { error: { message: 'lost' } } })],
    'lost',
  ],
  'a response with an error in its middle': ['items', [{ type: 'error', message: 'lost' }], 'lost'],
  'blocks of a message, with thinking and a call': [
    'blocks',
    [
      { type: 'message_start', message: { id: 'msg_1', role: 'assistant', usage: { input_tokens: 4 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'ping' },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm é.' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 's' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 't', name: 'a', input: {} },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '' } },
      {
        type: 'content_block_delta',
        index: 1,
        delta: { type: 'input_json_delta', partial_json: '{"x": "🦊' },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '"}' } },
      { type: 'content_block_stop', index: 1 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 6 } },
      { type: 'message_delta', delta: {} },
      { type: 'message_stop' },
    ],
    {
      content: [
        { type: 'thinking', thinking: 'Hm é.', signature: 's' },
        { type: 'tool_use', name: 'a', input: { x: '🦊' } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 4, output_tokens: 6 },
    },
  ],
  'a message with an error in its middle': [
    'blocks',
    [{ type: 'error', error: { type: 'overloaded_error', message: 'lost' } }],
    'lost',
  ],
};

test.each(Object.entries(STREAMS))('%s', (name, [kind, events, expected]) => {
  const bytes = plain(events);
  const whole = told(kind, [bytes]);
  if (typeof whole === 'string') expect(whole).toContain(expected);
  else expect(JSON.parse(whole.text)).toMatchObject(expected as object);
  for (let at = 1; at < bytes.length; at++)
    expect(told(kind, [bytes.subarray(0, at), bytes.subarray(at)]), `cut at ${at}`).toEqual(whole);
  const random = randomOf(SEED + name.length);
  for (let round = 0; round < 60; round++) {
    const other = written(events, random);
    const why = `SEED=${SEED}, round ${round}: ${JSON.stringify(other.toString())}`;
    expect(told(kind, cutAnywhere(other, random)), why).toEqual(whole);
  }
});

test('a response that is cut off is put together of its items, known by a number or by an id alone', () => {
  const items = new ItemsStream(new KeptText(null));
  for (const one of STREAMS['items of a response that have ids in place of numbers']![1])
    items.event(JSON.stringify(one));
  expect(JSON.parse(items.answer('too long').text).output).toEqual([
    { type: 'reasoning', role: 'assistant', id: 'rs_1', content: [{ type: 'reasoning_text', text: 'Hm.' }] },
    { type: 'message', role: 'assistant', id: 'msg_1', content: [{ type: 'output_text', text: 'é' }] },
  ]);
});
