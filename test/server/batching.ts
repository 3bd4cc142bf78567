/** Batches by the official client: made, waited for, read. */
import type OpenAI from 'openai';
import { toFile } from 'openai';
import { MODEL } from './serving.ts';

export const lineOf = (id: string, body: object = {}, url = '/v1/chat/completions') =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url,
    body: { model: MODEL, messages: [{ role: 'user', content: `Say ${id}` }], ...body },
  });
export const linesOf = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, n) => `${lineOf(`r-${from + n}`)}\n`).join('');

export const ENDPOINT = '/v1/chat/completions';

export async function put(openai: OpenAI, text: string): Promise<string> {
  const file = await toFile(Buffer.from(text), 'in.jsonl');
  return (await openai.files.create({ file, purpose: 'batch' })).id;
}

export async function begin(openai: OpenAI, text: string, more: Partial<OpenAI.BatchCreateParams> = {}) {
  const input_file_id = await put(openai, text);
  return openai.batches.create({ input_file_id, endpoint: ENDPOINT, completion_window: '24h', ...more });
}

const FINAL = ['failed', 'completed', 'expired', 'cancelled'];

/** Asks until it has ended, or is as `until` says. */
export async function reached(
  openai: OpenAI,
  id: string,
  until = (batch: OpenAI.Batch) => FINAL.includes(batch.status),
) {
  for (;;) {
    const batch = await openai.batches.retrieve(id);
    if (until(batch)) return batch;
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

export interface Line {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: OpenAI.ChatCompletion } | null;
  error: { code: string; message: string } | null;
}

export async function linesIn(openai: OpenAI, id: string | null | undefined): Promise<Line[]> {
  if (!id) return [];
  const text = await (await openai.files.content(id)).text();
  return text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
}
