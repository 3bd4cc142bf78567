/** What an agent file cannot mean, said with file, line and column; and what changes its hashes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkOf } from '../../engine/asking/agents/form.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { openingsOf } from '../../engine/asking/agents/request-body.ts';
import { folder } from '../fw.ts';

const HEAD = 'key: one\nshort: one\ndisplay: One\nrole: agent\nsampling: { temperature: 0, max_tokens: 9 }\n';

async function loaded(yaml: string) {
  const dir = folder();
  writeFileSync(join(dir, 'one.yaml'), HEAD + yaml);
  writeFileSync(
    join(dir, 'bad.schema.json'),
    '{\n  "type": "object",\n  "properties": { "a": { "type": "text" } }\n}\n',
  );
  const agents = loadAgents(dir);
  const agent = agents.byKey.get('one')!;
  await openingsOf(agents, undefined);
  return { agent, check: checkOf(agent) };
}

test.each([
  ['schema: { type: text }\n', /one\.yaml:6:17: expected a valid schema: .*type/],
  ['schema:\n  properties:\n    a: { minimum: low }\n', /one\.yaml:8:19: expected a valid schema/],
  ['schema: bad.schema.json\n', /bad\.schema\.json:3:34: expected a valid schema/],
  ['schema: { $ref: "other.json" }\n', /one\.yaml:6:9: expected references inside the schema/],
  ['schema: { type: "null" }\n', /one\.yaml:6:9: expected a schema that some value fits/],
  ['schema: { type: string, enum: [1] }\n', /one\.yaml:6:9: expected a schema that some value fits/],
  [
    'schema: { type: string }\nchoice: [a]\n',
    /one\.yaml:7:1: expected one of schema, choice and regex, found schema and choice/,
  ],
  ['choice: [a, a]\n', /one\.yaml:6:9: choice: expected a value that must NOT have duplicate items/],
  ['choice: []\n', /one\.yaml:6:9: choice/],
  ['choice: [" a"]\n', /one\.yaml:6:10: choice\.0/],
  ['choice: [1]\n', /one\.yaml:6:10: choice\.0: expected string, found 1/],
  ['regex: "(a)\\\\1"\n', /one\.yaml:6:8: regex: expected/],
  ['regex: "[a"\n', /one\.yaml:6:8: regex: /],
  ['extra: { messages: [] }\n', /one\.yaml:6:10: extra: messages: .*one that it owns: fw makes them/],
  ['extra: { model: a }\n', /one\.yaml:6:10: extra: model: .*the key `model` of the agent file/],
  ['extra: { stream: true }\n', /extra: stream: .*whole answers/],
  ['extra: { n: 3 }\n', /extra: n: .*--samples/],
  ['extra: { seed: 3 }\n', /extra: seed: .*--seed/],
  ['extra: { tools: [] }\n', /extra: tools: .*the key `tools` of the agent file/],
  ['tools: []\n', /one\.yaml:6:8: tools: expected a list of at least one tool/],
  ['tools: [{ name: look }]\n', /one\.yaml:6:8: tools: expected \{type: function, .*as tool 1/],
  [
    'tools: [{ type: function, function: { name: a } }, { type: function, function: { name: a } }]\n',
    /tools: expected names of their own, found 'a' twice/,
  ],
  [
    'tools: [{ type: function, function: { name: a } }]\ntool_choice: { type: function, function: { name: b } }\n',
    /one\.yaml:7:14: tool_choice: expected one of the tools \(a\), found 'b'/,
  ],
  ['tool_choice: auto\n', /one\.yaml:6:1: tool_choice: expected tools beside it/],
  ['tools: none.json\n', /one\.yaml:6:8: tools: expected the path of a list of tools, found no file/],
  ['extra: { max_tokens: 5 }\n', /extra: max_tokens: expected it under sampling/],
  ['extra: { temperature: 1 }\n', /extra: temperature: expected it under sampling/],
  [
    'ask_again: { at: /a, when: [0], temperatures: [1] }\n',
    /one\.yaml:6:1: ask_again: expected a schema beside it/,
  ],
  ['template: true\n', /one\.yaml:6:1: template: expected a persona beside it/],
  ['persona: "{{ name"\ntemplate: true\n', /one\.yaml: expected a Liquid template/],
  ['persona: "{% include \'a\' %}"\ntemplate: true\n', /one\.yaml: expected a Liquid template/],
])('%j', async (yaml, message) => {
  await expect(loaded(yaml)).rejects.toThrow(message);
});

test('a field that sampling does not know is named, with those that it knows', async () => {
  const dir = folder();
  writeFileSync(join(dir, 'one.yaml'), HEAD.replace('max_tokens: 9', 'max_tokens: 9, tempreature: 1'));
  expect(() => loadAgents(dir)).toThrow(
    /one\.yaml:5:44: sampling: expected the keys .*stop.*found 'tempreature'/,
  );
});

test('each part of the question changes a hash', async () => {
  const hashes = [];
  for (const yaml of [
    '',
    'choice: [a]\n',
    'regex: a\n',
    'schema: { enum: [a] }\n',
    'extra: { priority: 1 }\n',
    'persona: a\n',
    'persona: a\ntemplate: true\n',
  ])
    hashes.push(JSON.stringify((await loaded(yaml)).agent.hashes));
  expect(new Set(hashes).size).toBe(7);
});

test('a choice and a regular expression judge what was said', async () => {
  const { check } = await loaded('choice: [yes it is, no]\n');
  expect(check('no')).toEqual([]);
  expect(check('maybe')[0]?.message).toContain('expected one of "yes it is", "no", got "maybe"');
  expect((await loaded('regex: a|b\n')).check('ab').length).toBe(1);
});
