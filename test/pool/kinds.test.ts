/** Servers of other kinds, in a run: what they say of their load, how they refuse long prompts, and what they do not take. */
import { expect, test } from 'vitest';
import { isTooLong } from '../../engine/asking/endpoints/endpoint-words.ts';
import { pageOf, readLoad } from '../../engine/asking/endpoints/server-load.ts';
import { type Ask, callOf, open, outcome, serve } from './serving.ts';

const load = (text: string) => readLoad(pageOf(Buffer.from(text)));

test('the load that SGLang and TGI say', () => {
  const sglang = `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",dp_rank="0"} 162.0
sglang:num_running_reqs{model_name="m",dp_rank="1"} 8.0
sglang:num_queue_reqs{model_name="m"} 2826.0
sglang:token_usage{model_name="m",dp_rank="0"} 0.28
sglang:token_usage{model_name="m",dp_rank="1"} 0.31
sglang:num_retracted_requests_total{model_name="m"} 3.0
sglang:prompt_tokens_total{model_name="m"} 8.128902e+06
sglang:cached_tokens_total{cache_source="device",model_name="m"} 40.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 2.0
sglang:generation_tokens_total{model_name="m"} 7.557572e+06
`;
  expect(load(sglang)).toEqual({
    ...{ running: 170, waiting: 2826, kv: 0.31, preemptions: 3 },
    ...{ prompts: 8_128_902, cached: 42, written: 7_557_572 },
  });
  const tgi = `tgi_batch_current_size 4
tgi_queue_size 7
tgi_request_input_length_sum 900
tgi_request_generated_tokens_bucket{le="1"} 0
tgi_request_generated_tokens_sum 8123
tgi_request_generated_tokens_count 44
`;
  expect(load(tgi)).toEqual({
    ...{ running: 4, waiting: 7, kv: 0, preemptions: 0 },
    ...{ prompts: 900, cached: 0, written: 8123 },
  });
});

// biome-ignore format: a row a line
const REFUSALS: [string, number, string | object][] = [
  ['vLLM', 400, "You passed 9000 input tokens and requested 10 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8182 tokens."],
  ['SGLang', 400, { object: 'error', message: "The input (8391 tokens) is longer than the model's context length (8192 tokens).", code: 400 }],
  ['SGLang', 400, { object: 'error', message: "Requested token count exceeds the model's maximum context length of 8192 tokens.", code: 400 }],
  ['SGLang', 400, { object: 'error', message: 'Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens). Use a shorter input or enable --allow-auto-truncate.' }],
  ['TGI', 422, { error: 'Input validation error: `inputs` must have less than 4095 tokens. Given: 5000', error_type: 'validation' }],
  ['TGI', 422, { error: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`', error_type: 'validation' }],
  ['llama.cpp', 400, { error: { code: 400, message: 'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it', type: 'exceed_context_size_error', n_prompt_tokens: 5000, n_ctx: 4096 } }],
  ['Ollama', 400, 'the prompt is longer than the context length currently available to the model; shorten the prompt'],
  ['Ollama', 400, 'the input length exceeds the context length'],
  ['LM Studio', 400, { error: 'Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.' }],
  ['OpenAI', 400, { error: { message: 'Your input is too long.', code: 'context_length_exceeded' } }],
];
test.each(REFUSALS)('a prompt that is too long, as %s says it (%i)', (_, status, said) => {
  const body = typeof said === 'string' ? { error: { message: said } } : said;
  expect(isTooLong(status, Buffer.from(JSON.stringify(body)))).toBe(true);
});

/** One that knows no schema of an answer. */
const formless = (ask: Ask, sent: string[]): void => {
  const { response_format, messages } = JSON.parse(ask.body);
  sent.push(response_format === undefined ? 'plain' : 'with a form');
  if (response_format === undefined) return ask.answer(messages[0].content);
  const words =
    'Failed to deserialize the JSON body into the target type: response_format: invalid type: map';
  ask.send(422, words, { 'content-type': 'text/plain' });
};
const response_format = { type: 'json_schema', json_schema: { name: 'a', schema: {}, strict: true } };
const tail = `,"response_format":${JSON.stringify(response_format)}}`;
const formed = () => {
  const { item } = callOf();
  const body = Buffer.from(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: item }], response_format }),
  );
  return callOf({ item, body, tail });
};

test('a server that knows no schema is asked again without, at no cost, and then no more with one', async () => {
  const sent: string[] = [];
  const server = await serve(ask => formless(ask, sent));
  const pool = await open([server.url]);
  for (let n = 0; n < 3; n++) expect(await outcome(pool, formed())).toMatch(/^item-/);
  expect(sent).toEqual(['with a form', 'plain', 'plain', 'plain']);
  const [endpoint] = pool.stats().endpoints;
  expect([endpoint?.failed, endpoint?.lacks?.formless]).toEqual([{}, 3]);
  expect(pool.warnings.filter(text => text.includes('does not know response_format'))).toHaveLength(1);
});

test.each([true, false])(
  'TGI gets the schema as its value; if it has no grammars (%j), none',
  async hasGrammars => {
    const sent: unknown[] = [];
    const tgi = await serve(ask => {
      const { response_format: form, messages } = JSON.parse(ask.body);
      sent.push(form);
      if (form === undefined || (form.value !== undefined && hasGrammars))
        return ask.answer(messages[0].content);
      if (form.value === undefined)
        return ask.send(
          422,
          'Failed to deserialize the JSON body into the target type: response_format: missing field `value` at line 1 column 99',
        );
      ask.send(422, {
        error: 'Input validation error: `grammar` is not supported',
        error_type: 'validation',
      });
    });
    const pool = await open([tgi.url]);
    for (let n = 0; n < 2; n++) expect(await outcome(pool, formed())).toMatch(/^item-/);
    const value = { type: 'json', value: {} };
    expect(sent).toEqual([response_format, value, ...(hasGrammars ? [value] : [undefined, undefined])]);
    const [endpoint] = pool.stats().endpoints;
    expect([endpoint?.failed, endpoint?.lacks?.formless ?? 0]).toEqual([{}, hasGrammars ? 0 : 2]);
  },
);

test('a request of somebody else keeps its fields, and a schema with a fault its refusal', async () => {
  const sent: string[] = [];
  const server = await serve(ask => formless(ask, sent));
  const pool = await open([server.url]);
  const raw = { ...formed(), raw: true as const, path: '/v1/chat/completions' };
  expect(await outcome(pool, raw)).toBe('call-refused');
  expect(sent).toEqual(['with a form']);

  const strict = await serve(ask =>
    ask.send(400, { error: { message: "Invalid schema for response_format 'a': schema must be an object" } }),
  );
  const other = await open([strict.url]);
  expect(await outcome(other, formed())).toBe('call-refused');
  expect(strict.asked).toBe(1);
});
