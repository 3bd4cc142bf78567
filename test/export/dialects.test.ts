/** Batch files of /v1/responses and /v1/messages: what is kept of each answer, and which of them are none. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { readUsage } from '../../engine/asking/endpoints/completion.ts';
import { finishIn } from '../../engine/core/item/dialects.ts';
import { answerText, troubleIn } from '../../engine/core/item/response.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { simulated } from '../server/serving.ts';
import { serve } from './serving.ts';

interface Result {
  custom_id: string;
  response: { status_code: number; body: Record<string, unknown> } | null;
  error: { code: string; message: string } | null;
}

async function batch(url: string, lines: readonly { url: string; body: object }[], flags = '') {
  const cwd = folder();
  const text = lines
    .map((line, n) => JSON.stringify({ custom_id: `${n}`, method: 'POST', ...line }))
    .join('\n');
  writeFileSync(join(cwd, 'in.jsonl'), text);
  const ran = await fw(`fw batch -i in.jsonl -o out.jsonl ${flags}`, { cwd, env: { FW_ENDPOINTS: url } });
  const out = readFileSync(join(cwd, 'out.jsonl'), 'utf8').trim().split('\n');
  return { ...ran, cwd, results: out.map(line => JSON.parse(line) as Result) };
}

test('lines of both paths against the simulator, their answers as tables, and the same again from the ledger', async () => {
  const { url, simulator } = await simulated();
  const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' } }];
  const user = [{ role: 'user', content: 'hello' }];
  const lines = [
    { url: '/v1/responses', body: { model: 'simulated-3b', input: 'hello' } },
    { url: '/v1/responses', body: { model: 'simulated-3b', input: user, tools, tool_choice: 'required' } },
    { url: '/v1/messages', body: { model: 'simulated-3b', max_tokens: 100, messages: user } },
    { url: '/v1/responses', body: { model: 'simulated-3b', input: 'x', background: true } },
    { url: '/v1/messages', body: { model: 'simulated-3b', messages: user } },
  ];
  const { code, stderr, results, cwd } = await batch(url, lines, '--ledger ledger');
  expect(code, stderr).toBe(0);
  expect(
    results.map(({ response, error }) => [response?.body.object ?? response?.body.type, error?.code]),
  ).toEqual([
    ['response', undefined],
    ['response', undefined],
    ['message', undefined],
    [undefined, 'bad-request'],
    ['error', 'call-refused'],
  ]);
  const table = await fw('fw export --format csv < out.jsonl', { cwd });
  const rows = parse(table.stdout, { columns: true }) as { answer: string }[];
  const texts = results.slice(0, 3).map(({ response }) => answerText(response?.body));
  expect([texts[0], texts[2]]).toEqual([expect.stringMatching(/./), expect.stringMatching(/./)]);
  expect(rows.slice(0, 3).map(({ answer }) => answer)).toEqual([texts[0], '', texts[2]]);
  const asked = simulator.counts().requests;
  const again = await fw('fw batch -i in.jsonl -o out2.jsonl --ledger ledger', {
    cwd,
    env: { FW_ENDPOINTS: url },
  });
  expect([again.code, simulator.counts().requests - asked]).toEqual([0, 1]); // the one that was refused
});

const message = (content: unknown, more: object = { stop_reason: 'end_turn' }) => ({
  type: 'message',
  content,
  ...more,
});
const response = (output: unknown, more: object = { status: 'completed' }) => ({
  object: 'response',
  output,
  ...more,
});
const said = (text: string, type = 'output_text') => ({
  type: 'message',
  content: [{ type, [type === 'refusal' ? 'refusal' : 'text']: text }],
});
const REASONING = { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hmm' }] };
const CALL = { type: 'function_call', name: 'f', arguments: '{}' };
const CUT = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };

/** A body, its text, why it ended, and what is wrong with it. */
const BODIES: readonly [object, string | undefined, string | undefined, RegExp | null][] = [
  [response([REASONING, said('yes'), said(' and no')]), 'yes and no', 'completed', null],
  [response([said('I will not', 'refusal')]), 'I will not', 'completed', null],
  [response([REASONING, CALL, CALL]), undefined, 'completed', null],
  [response([said('ye')], CUT), 'ye', 'max_output_tokens', null],
  [response([REASONING], CUT), '', 'max_output_tokens', /no text \(cut off: max_output_tokens\)/],
  [response([said('x')], { status: 'cancelled' }), 'x', 'cancelled', /status "cancelled"/],
  [response([said('x')], { status: 'failed', error: { message: 'engine' } }), 'x', 'failed', /engine/],
  [response([]), '', 'completed', /output without an entry/],
  [
    message([
      { type: 'thinking', thinking: 'hmm' },
      { type: 'text', text: 'yes' },
    ]),
    'yes',
    'end_turn',
    null,
  ],
  [message([{ type: 'tool_use', input: {} }], { stop_reason: 'tool_use' }), undefined, 'tool_use', null],
  [message([]), '', 'end_turn', null],
  [message([], { stop_reason: 'max_tokens' }), '', 'max_tokens', /no text \(cut off: max_tokens\)/],
  [message([{ type: 'text', text: 'no' }], { stop_reason: 'refusal' }), 'no', 'refusal', null],
  [message([{ type: 'text', text: 'x' }], {}), 'x', undefined, /without a stop_reason/],
  [message('x'), '', 'end_turn', /without content/],
  [
    {
      choices: [
        { message: { content: ['a', 'b'].map(text => ({ type: 'text', text })) }, finish_reason: 'stop' },
      ],
    },
    'ab',
    'stop',
    null,
  ],
  [{ type: 'error', error: { type: 'api_error', message: 'broken' } }, undefined, undefined, /broken/],
];

test('what an answer says, how it ended, and whether it is one', () => {
  for (const [body, text, finish, wrong] of BODIES) {
    const what = JSON.stringify(body);
    expect(answerText(body), what).toBe(text);
    expect(finishIn(body as Parameters<typeof finishIn>[0]), what).toBe(finish);
    const trouble = troubleIn({ status_code: 200, body })?.message;
    if (wrong === null) expect(trouble, what).toBeUndefined();
    else expect(trouble, what).toMatch(wrong);
  }
  expect(
    readUsage({ input_tokens: 5, output_tokens: 2, input_tokens_details: { cached_tokens: 3 } }),
  ).toEqual({
    ...{ prompt: 5, completion: 2, cached: 3 },
  });
  const anthropic = {
    input_tokens: 5,
    output_tokens: 2,
    cache_read_input_tokens: 3,
    cache_creation_input_tokens: 1,
  };
  expect(readUsage(anthropic)).toEqual({ prompt: 9, completion: 2, cached: 3 });
});

test('an answer that the engine gave up on is asked for again; one that was cut before it began is counted as none', async () => {
  const bodies = [
    response([said('x')], { status: 'cancelled' }),
    response([said('again')]),
    message([], { stop_reason: 'max_tokens' }),
  ];
  const server = await serve(['m'], (_asked, reply) => reply.end(JSON.stringify(bodies.shift())));
  const { results } = await batch(server.url, [{ url: '/v1/responses', body: { model: 'm', input: 'a' } }]);
  expect(results[0]?.response?.body.output).toEqual([said('again')]);
  const none = await batch(server.url, [{ url: '/v1/messages', body: { model: 'm', messages: [] } }]);
  expect(none.results[0]?.error).toEqual({
    code: 'no-answer',
    message: 'expected an answer, found no text (cut off: max_tokens)',
  });
});
