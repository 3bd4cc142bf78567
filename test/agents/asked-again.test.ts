/**
 * What a model is told when it is asked again. The words for what could fail before are those of older ledgers, whose
 * calls are found by them; a draft, several answers and reasoning are asked again as what stands last.
 */
import { expect, test } from 'vitest';
import { asker } from '../../engine/asking/agents/ask.ts';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';

const agent = [...loadAgents(packagedAgents()).byKey.values()].find(({ role }) => role === 'agent');
const deny = '{"approval_decision":"deny"}';
const approve = '{"approval_decision":"approve"}';
const again = (cause: string): string =>
  `That answer cannot be used: ${cause}. Answer again with exactly one JSON object that fits, and nothing else.`;
const NONE = again('there was no JSON object in it');

/** The second request, and how the step ended, of a model that answers with these texts. */
async function secondOf(texts: readonly string[], finish = 'stop') {
  const bodies: string[] = [];
  const pool = {
    model: 'model',
    itemsInFlight: 1,
    call: async ({ body }: { body: Uint8Array | string }) => {
      bodies.push(Buffer.from(body as never).toString());
      const text = texts[bodies.length - 1] ?? 'no more';
      return { text, finish, usage: { prompt: 1, completion: 1 }, replayed: false };
    },
    judge: () => {},
    close: async () => {},
  };
  const ask = asker(agent as never, pool as never, { attempts: 2, guided: 'off', seed: 0 });
  const { step } = await ask({ id: 'a', context: '?', saw: 'clean', round: 0 });
  return { body: bodies[1] ?? '', rejected: step.rejected?.[0] };
}

test.each([
  ['prose', 'I would deny it.', 'no-json-found', NONE],
  ['a draft, and the end cut off', `${deny} Final: {"approval_dec`, 'no-json-found', NONE],
  ['an early brace', `${approve},"interest_rate":29}`, 'no-json-found', NONE],
  ['reasoning alone', `<Reasoning>${deny}`, 'no-json-found', NONE],
  [
    'a list of two',
    `[${deny},${approve}]`,
    'several-answers',
    again('expected one JSON object, got 2 that differ at /approval_decision'),
  ],
  [
    'two fences',
    `\`\`\`json\n${deny}\n\`\`\`\n\`\`\`json\n${approve}\n\`\`\``,
    'several-answers',
    again('expected one JSON object, got 2 that differ at /approval_decision'),
  ],
])('after %s', async (_name, text, code, words) => {
  const { body, rejected } = await secondOf([text]);
  expect(rejected).toMatchObject({ raw: text, code });
  expect(body).toContain(JSON.stringify(words).slice(1, -1));
});

test('after another turn, the model is shown its own turn alone', async () => {
  const { body, rejected } = await secondOf([`${deny}<|im_end|>\n<|im_start|>user\nBob<|im_end|>${approve}`]);
  expect(rejected?.code).toBe('beyond-its-turn');
  expect(rejected?.raw).toContain('Bob');
  expect(body).toContain(JSON.stringify(deny).slice(1, -1));
  expect(body).toContain('expected the answer to end with its turn');
  expect(body).not.toMatch(/im_end|Bob/);
});

test('after an answer that does not fit, and one that was cut off, the words are the old ones', async () => {
  const misfit = await secondOf([`Draft: ${approve} Final: {"agent_name":"x","approval_decision":"maybe"}`]);
  expect(misfit.rejected?.code).toBe('schema-mismatch');
  expect(misfit.body).toContain(JSON.stringify(again(misfit.rejected?.message as string)).slice(1, -1));
  const cut = await secondOf([approve], 'length');
  expect(cut.body).toContain('it was cut off at the limit of tokens. Be shorter');
});
