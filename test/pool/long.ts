/** Calls that write as much as the test says, asked of simulated engines in virtual time. */
import type { Call } from '../../engine/core/item/call.ts';
import { promptOf } from '../../products/simulator/tokens.ts';
import type { Answering } from '../../products/simulator/virtual-servers.ts';
import { callOf } from './virtual.ts';

export interface Long {
  /** tokens that the model writes */
  writes: number;
  /** … and those that the request allows; it does not say without */
  max?: number;
  agent?: string;
  /** further fields of the body */
  more?: object;
  /** characters of the question */
  prompt?: number;
}

export function longCall(n: number, { writes, max, agent = 'a', more, prompt = 40 }: Long): Call {
  const body = {
    model: 'simulated',
    messages: [{ role: 'user', content: `${n} `.padEnd(prompt, 'word ') }],
    writes,
    ...(max !== undefined && { max_tokens: max }),
    ...more,
  };
  return {
    ...callOf(n, ''),
    agent,
    raw: true,
    path: '/v1/chat/completions',
    body: Buffer.from(JSON.stringify(body)),
  };
}

/** The model writes what `writes` of the body says: no request would tell it so. */
export const answersLong: Answering = bytes => {
  const {
    messages,
    writes,
    n = 1,
  } = JSON.parse(bytes.toString()) as {
    messages: { role: string; content: string }[];
    writes: number;
    n?: number;
  };
  const prompt = promptOf(messages);
  const choices = Array.from({ length: n }, (_, index) => ({
    index,
    message: { role: 'assistant', content: 'said' },
    finish_reason: 'stop',
  }));
  const usage = { prompt_tokens: prompt.tokens, completion_tokens: writes * n };
  return {
    prompt,
    tokens: writes,
    bodyOf: () =>
      Buffer.from(JSON.stringify({ object: 'chat.completion', model: 'simulated', choices, usage })),
  };
};
