/**
 * The types of the official client (the package `openai`) take the lines and bodies that go in and come out: tsc reads the
 * samples here as those types, and the test holds what fw sends and writes to the samples.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

type Url = OpenAI.BatchCreateParams['endpoint'];
interface Line<U extends Url, Body> {
  custom_id: string;
  method: 'POST';
  url: U;
  body: Body;
}
interface Output<Body> {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: Body };
  error: Pick<OpenAI.BatchError, 'code' | 'message'> | null;
}

const chatLine: Line<'/v1/chat/completions', OpenAI.ChatCompletionCreateParamsNonStreaming> = {
  custom_id: 'chat-1',
  method: 'POST',
  url: '/v1/chat/completions',
  body: {
    model: 'simulated-3b',
    messages: [
      { role: 'system', content: 'You are a helpful assistant.' },
      { role: 'user', content: 'Say hello.' },
    ],
    max_completion_tokens: 64,
  },
};
const completionLine: Line<'/v1/completions', OpenAI.CompletionCreateParamsNonStreaming> = {
  custom_id: 'completion-1',
  method: 'POST',
  url: '/v1/completions',
  body: { model: 'simulated-3b', prompt: 'Once upon a time', max_tokens: 16 },
};
const embeddingLine: Line<'/v1/embeddings', OpenAI.EmbeddingCreateParams> = {
  custom_id: 'embedding-1',
  method: 'POST',
  url: '/v1/embeddings',
  body: { model: 'simulated-3b', input: ['a red house', 'a blue house'], dimensions: 4 },
};

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const written = { id: 'batch_req_0', error: null };
const answered = { status_code: 200, request_id: '0' };
const chat: Output<OpenAI.ChatCompletion> = {
  ...written,
  custom_id: 'chat-1',
  response: {
    ...answered,
    body: {
      id: 'chatcmpl-0',
      object: 'chat.completion',
      created: 0,
      model: 'simulated-3b',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello.', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage,
    },
  },
};
const completion: Output<OpenAI.Completion> = {
  ...written,
  custom_id: 'completion-1',
  response: {
    ...answered,
    body: {
      id: 'cmpl-0',
      object: 'text_completion',
      created: 0,
      model: 'simulated-3b',
      choices: [{ index: 0, text: '…', logprobs: null, finish_reason: 'length' }],
      usage,
    },
  },
};
const embedding: Output<OpenAI.CreateEmbeddingResponse> = {
  ...written,
  custom_id: 'embedding-1',
  response: {
    ...answered,
    body: {
      object: 'list',
      model: 'simulated-3b',
      data: [{ object: 'embedding', index: 0, embedding: [1] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    },
  },
};

/** Keys with the kinds of their values; of a list the first element. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return [shapeOf(value[0])];
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, within]) => [key, shapeOf(within)]));
}

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ port: 0, seed: 7 });
});
afterAll(() => simulator.close());

test('the lines of fixtures/requests.jsonl are those that the types take', () => {
  const lines = readFileSync(join(ROOT, 'fixtures/requests.jsonl'), 'utf8').trim().split('\n');
  expect(lines.map(line => JSON.parse(line))).toEqual([chatLine, completionLine, embeddingLine]);
});

test('what is written has all that the types say', async () => {
  const at = folder();
  const input = join(ROOT, 'fixtures/requests.jsonl');
  const ran = await fw(`fw batch -i ${input} -o out.jsonl`, {
    cwd: at,
    env: { FW_ENDPOINTS: simulator.url },
  });
  expect(ran.code, ran.stderr).toBe(0);
  const lines = readFileSync(join(at, 'out.jsonl'), 'utf8').trim().split('\n');
  const expected = [chat, completion, embedding];
  for (const [index, line] of lines.entries())
    expect(shapeOf(JSON.parse(line))).toMatchObject(shapeOf(expected[index]) as object);
});
