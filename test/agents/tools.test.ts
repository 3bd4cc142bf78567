/** Agents with tools, and models that think before they answer: what is sent, kept, shown, verified and read from the ledger again. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { checkOf, readReply } from '../../engine/asking/agents/form.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { bodies, policyOf } from '../../engine/asking/agents/request-body.ts';
import { readCompletion } from '../../engine/asking/endpoints/completion.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Ask, serve } from '../pool/serving.ts';

const dir = folder();
const TOOL = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };
const CALL = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"id": 7}' } };
const agent = (key: string, more: string): string =>
  `key: ${key}\nshort: ${key}\ndisplay: The ${key}\nrole: agent\nsampling: { temperature: 0, max_tokens: 400 }\n${more}`;
const SCHEMA = 'schema: { type: object, required: [a], properties: { a: { type: number } } }\n';
const FILES: { [name: string]: string } = {
  'agents/caller.yaml': agent('caller', 'tools: ../tools.json\ntool_choice: auto\n'),
  'agents/form.yaml': agent('form', `tools: ../tools.json\n${SCHEMA}`),
  'agents/plain.yaml': agent('plain', SCHEMA),
  'agents/teller.yaml': agent(
    'teller',
    'template: true\npersona: >-\n  {{ steps.caller.tool_calls[0].function.arguments }} {{ steps.caller.reasoning }} {% row_as_json %}\n',
  ),
  'agents/orderings.yaml': 'default: [[caller, teller]]\n',
  'tools.json': JSON.stringify([TOOL]),
  'items.ndjson': `${JSON.stringify({ id: 'x', prompt: 'Who?', input: { a: 'b' }, ordering: ['caller', 'teller'] })}\n`,
};

let agents: ReturnType<typeof loadAgents>;
beforeAll(() => {
  mkdirSync(join(dir, 'agents'));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(dir, name), text);
  agents = loadAgents(join(dir, 'agents'));
});

const agentOf = (key: string) => agents.byKey.get(key)!;

test('a body has the tools as the file has them; that of an agent without any is what it always was', () => {
  const bodyOf = (key: string) =>
    bodies(agentOf(key), 'm', 'off').bodyOf(
      { context: 'Hi', temperature: 0, seed: 1 },
      { id: 'a', agent: key, round: 0, attempt: 1 },
    );
  expect(JSON.parse(bodyOf('caller').body.toString())).toMatchObject({ tools: [TOOL], tool_choice: 'auto' });
  expect(bodyOf('plain').body.toString()).toBe(
    '{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0,"seed":1,"max_tokens":400}',
  );
  const policy = (key: string): string => policyOf(agentOf(key), { guided: 'off', seed: 1 });
  expect(policy('form')).not.toBe(policy('plain'));
  expect(agentOf('form').hashes.sampling).not.toBe(agentOf('plain').hashes.sampling);
});

/** What a reply with this message is read as. */
function read(key: string, message: object, finish: string) {
  const reply = {
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
  };
  const completion = readCompletion(Buffer.from(JSON.stringify(reply)), undefined);
  if (typeof completion === 'string') return completion;
  const { rung, output, problem } = readReply(completion.answer, checkOf(agentOf(key)));
  return problem?.code ?? [rung, output];
}

test.each<[string, object, string, unknown]>([
  ['caller', { content: null, tool_calls: [CALL] }, 'tool_calls', ['clean', [CALL]]],
  ['caller', { tool_calls: [CALL] }, 'tool_calls', ['clean', [CALL]]],
  ['caller', { content: '', tool_calls: [CALL, CALL] }, 'stop', ['clean', [CALL, CALL]]],
  // what is cut off may lack half of its arguments
  ['caller', { content: null, tool_calls: [CALL] }, 'length', 'truncated'],
  ['caller', { content: 'I look.', tool_calls: [CALL] }, 'tool_calls', ['clean', 'I look.']],
  ['caller', { content: null, tool_calls: [] }, 'stop', 'empty-answer'],
  [
    'caller',
    { content: null, tool_calls: 'look' },
    'stop',
    'HTTP 200 with tool_calls that are no list of calls',
  ],
  [
    'caller',
    { content: null, tool_calls: ['look'] },
    'stop',
    'HTTP 200 with tool_calls that are no list of calls',
  ],
  ['caller', { refusal: 'No.', tool_calls: [CALL] }, 'stop', 'model-refused'],
  ['form', { content: 'I look.', tool_calls: [CALL] }, 'tool_calls', ['clean', [CALL]]],
  ['form', { content: '{"a":1}', tool_calls: [CALL] }, 'tool_calls', ['clean', { a: 1 }]],
  // calls that nobody has asked for are no answer
  ['plain', { content: null, tool_calls: [CALL] }, 'stop', 'no-json-found'],
  ['plain', { content: '{"a":1}', reasoning: '{"a":2}' }, 'stop', ['clean', { a: 1 }]],
  ['plain', { content: null, reasoning_content: '{"a":2}' }, 'stop', 'no-json-found'],
  [
    'plain',
    {
      content: [
        { type: 'text', text: '{"a"' },
        { type: 'text', text: ':1}' },
      ],
    },
    'stop',
    ['clean', { a: 1 }],
  ],
  // no key begins with the quote that begins a text
  ['caller', { content: ':)' }, 'stop', ['clean', ':)']],
  ['plain', { content: [{ type: 'image_url' }] }, 'stop', 'HTTP 200 without message.content'],
])('%s: %j, finish_reason %s', (key, message, finish, expected) => {
  expect(read(key, message, finish)).toEqual(expected);
});

test('reasoning is read under both of its names, and a long one is cut with its length and hash', () => {
  const answer = (message: object) => {
    const reply = { choices: [{ message: { content: 'a', ...message }, finish_reason: 'stop' }] };
    const completion = readCompletion(Buffer.from(JSON.stringify(reply)), undefined);
    return typeof completion === 'string' ? completion : completion.answer;
  };
  expect(answer({ reasoning: 'A.' })).toMatchObject({ text: 'a', reasoning: 'A.' });
  expect(answer({ reasoning: null, reasoning_content: 'B.' })).toMatchObject({ reasoning: 'B.' });
  expect(answer({ reasoning: 'A.', reasoning_content: 'A.' })).toMatchObject({ reasoning: 'A.' });
  expect(answer({ reasoning: '', reasoning_content: null })).not.toHaveProperty('reasoning');
  const long = answer({ reasoning: 'x'.repeat(2_000_000) });
  expect(long).toMatchObject({ reasoning_whole: { bytes: 2_000_000 } });
  const deep = `{"choices":[{"message":{"tool_calls":[${'{"d":'.repeat(5_000)}1${'}'.repeat(5_000)}]}}]}`;
  expect(readCompletion(Buffer.from(deep), undefined)).toMatch(/nest too deep/);
});

test('a chain keeps calls and reasoning, shows them to a persona by their names, and has them again from its ledger', async () => {
  const asked: string[] = [];
  const { url, close } = await serve((ask: Ask) => {
    const { messages } = JSON.parse(ask.body);
    asked.push(JSON.stringify(messages));
    const isFirst = messages[0].role === 'user';
    const message = isFirst
      ? { content: null, tool_calls: [CALL], reasoning: 'I must look.' }
      : { content: 'Ann.', reasoning_content: 'It says so.' };
    const choice = { index: 0, message, finish_reason: isFirst ? 'tool_calls' : 'stop' };
    ask.send(200, { choices: [choice], usage: { prompt_tokens: 3, completion_tokens: 2 } });
  });
  const run = 'fw chain --no-decision --agents agents --ledger ledger';
  const first = await fw(`${run} --endpoint ${url} items.ndjson > out.ndjson`, { cwd: dir });
  expect(first.code, first.stderr).toBe(0);
  expect(JSON.parse(asked[1]!)).toEqual([
    { role: 'system', content: '{"id": 7} I must look. {"a": "b"}' },
    { role: 'user', content: `Who?\n\nThe caller:\n${JSON.stringify([CALL])}` },
  ]);
  const again = await fw(`${run} items.ndjson`, { cwd: dir });
  expect(again.code, again.stderr).toBe(0);
  await close();
  const { steps } = JSON.parse(again.stdout) as Item;
  expect(
    steps?.map(({ output, raw, rung, tool_calls, reasoning }) => ({
      output,
      raw,
      rung,
      tool_calls,
      reasoning,
    })),
  ).toEqual([
    { output: [CALL], raw: '', rung: 'clean', tool_calls: [CALL], reasoning: 'I must look.' },
    { output: 'Ann.', raw: undefined, rung: 'clean', tool_calls: undefined, reasoning: 'It says so.' },
  ]);
  const verified = await fw(
    'cat out.ndjson | fw validate --agents agents | fw verify --agents agents --ledger ledger',
    {
      cwd: dir,
    },
  );
  expect(verified.code, verified.stderr).toBe(0);
  const edited = await fw(
    `sed 's/"reasoning":"I must/"reasoning":"You must/' out.ndjson | fw verify --agents agents --ledger ledger`,
    { cwd: dir },
  );
  expect([edited.code, edited.stderr]).toEqual([1, expect.stringMatching(/steps\/0\/reasoning/)]);
  const exported = await fw('fw ledger export --ledger ledger', { cwd: dir });
  expect(exported.stdout).toContain('"reasoning":"I must look."');
  expect((await fw('fw ledger check --read-data --ledger ledger', { cwd: dir })).code).toBe(0);
});
