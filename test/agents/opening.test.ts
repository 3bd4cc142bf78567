/** What an agent reads before the answers of others: personas of columns, messages of an item, files that they name. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { bodies, type Openings, openingsOf } from '../../engine/asking/agents/request-body.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const dir = folder();
const SAMPLING = 'sampling: { temperature: 0, max_tokens: 400 }\n';
const agent = (key: string, more: string): string =>
  `key: ${key}\nshort: ${key}\ndisplay: The ${key}\nrole: agent\n${SAMPLING}${more}`;
const FILES: { [name: string]: string } = {
  'agents/plain.yaml': agent('plain', ''),
  'agents/with.yaml': agent('with', 'persona: Be brief.\n'),
  'agents/columns.yaml': agent('columns', 'persona: You speak {{ language }}.\ntemplate: true\n'),
  'files/a.png': 'not really a picture',
  'files/b.txt': 'a text',
  'files/c.png': `${'large '.repeat(3_000_000)}`,
  'elsewhere.png': 'a secret',
};

let openings: Openings;
let none: Openings;
let agents: ReturnType<typeof loadAgents>;
beforeAll(async () => {
  mkdirSync(join(dir, 'agents'));
  mkdirSync(join(dir, 'files'));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(dir, name), text);
  symlinkSync(join(dir, 'elsewhere.png'), join(dir, 'files', 'link.png'));
  agents = loadAgents(join(dir, 'agents'));
  openings = await openingsOf(agents, join(dir, 'files'));
  none = await openingsOf(agents, undefined);
});

/** The messages of a request to `key`, after `turns` of others. */
function sent(key: string, item: Partial<Item>, turns = '', from = openings): unknown[] {
  const one = agents.byKey.get(key)!;
  const { opening } = from(one, { id: 'a', ...item }, turns !== '');
  const identity = { id: 'a', agent: key, round: 0, attempt: 1 };
  const context = JSON.stringify((item.prompt ?? '') + turns).slice(1, -1);
  const { body } = bodies(one, 'm', 'on').bodyOf({ context, opening, temperature: 0, seed: 1 }, identity);
  return (JSON.parse(body.toString()) as { messages: unknown[] }).messages;
}

const user = (content: unknown) => ({ role: 'user', content });
const image = (url: string) => ({ type: 'image_url', image_url: { url } });
const DATA = `data:image/png;base64,${Buffer.from('not really a picture').toString('base64')}`;
const TURNS = '\n\nOther:\nA "text".';

test.each<[string, Partial<Item>, string, unknown[]]>([
  ['plain', { prompt: 'Hi.' }, TURNS, [user(`Hi.${TURNS}`)]],
  ['plain', { messages: [user('Hi "you".')] }, TURNS, [user(`Hi "you".${TURNS}`)]],
  [
    'plain',
    { messages: [{ role: 'user', name: 'ann', content: 'Hi.' }] },
    TURNS,
    [{ ...user(`Hi.${TURNS}`), name: 'ann' }],
  ],
  ['plain', { messages: [user([image('file:a.png')])] }, '', [user([image(DATA)])]],
  [
    'plain',
    { messages: [user([image('file:a.png')])] },
    TURNS,
    [user([image(DATA), { type: 'text', text: TURNS }])],
  ],
  [
    'plain',
    { messages: [user('Hi.'), { role: 'assistant', content: 'He' }] },
    TURNS,
    [user('Hi.'), { role: 'assistant', content: 'He' }, user(TURNS)],
  ],
  [
    'with',
    { messages: [user('Hi.')] },
    TURNS,
    [{ role: 'system', content: 'Be brief.' }, user(`Hi.${TURNS}`)],
  ],
  [
    'columns',
    { prompt: 'Hi.', input: { language: 'Khmer' } },
    '',
    [{ role: 'system', content: 'You speak Khmer.' }, user('Hi.')],
  ],
  [
    'columns',
    { messages: [user('Hi.')], input: { language: '"' } },
    TURNS,
    [{ role: 'system', content: 'You speak ".' }, user(`Hi.${TURNS}`)],
  ],
])('%s is sent %j', (key, item, turns, messages) => {
  expect(sent(key, item, turns)).toEqual(messages);
});

test.each<[string, Partial<Item>, RegExp]>([
  [
    'with',
    { messages: [{ role: 'system', content: 'x' }, user('Hi.')] },
    /expected no system message beside the persona of with/,
  ],
  ['columns', { prompt: 'Hi.', input: { tongue: 'Khmer' } }, /columns\.yaml: .*language/],
  ['columns', { prompt: 'Hi.' }, /columns\.yaml: .*language/],
  ['plain', { messages: 'Hi.' }, /expected a list of chat messages/],
  ['plain', { messages: [user([image('file:missing.png')])] }, /no such file/],
  ['plain', { messages: [user([image('file:../elsewhere.png')])] }, /lies elsewhere/],
  ['plain', { messages: [user([image(`file://${join(dir, 'elsewhere.png')}`)])] }, /lies elsewhere/],
  ['plain', { messages: [user([image('file:link.png')])] }, /lies elsewhere/],
  ['plain', { messages: [user([image('file:b.txt')])] }, /expected a file that ends in \.png/],
  [
    'plain',
    { messages: [user([image('file:c.png')])] },
    /expected a file of at most 16777216 bytes, found "c\.png" of 18000000/,
  ],
])('%s is not sent %j', (key, item, why) => {
  expect(() => sent(key, item)).toThrow(why);
});

test('without --files no file is read', () => {
  expect(() => sent('plain', { messages: [user([image('file:a.png')])] }, '', none)).toThrow(
    /expected --files FOLDER/,
  );
});

describe('a run', async () => {
  const one = await servers(1);
  const run = 'fw chain --no-decision --agents agents --files files --ledger ledger';
  const items = [
    {
      id: 'a',
      messages: [user([{ type: 'text', text: 'What?' }])],
      input: { language: 'Khmer' },
      ordering: ['plain', 'with', 'columns'],
    },
    { id: 'b', prompt: 'Hi.', input: { tongue: 'Khmer' }, ordering: ['plain', 'columns'] },
  ];

  test('is resumed without a call, and a failure keeps what was paid for', async () => {
    writeFileSync(join(dir, 'items.ndjson'), `${items.map(item => JSON.stringify(item)).join('\n')}\n`);
    const first = await fw(`${run} ${one.flags} --ordered items.ndjson`, { cwd: dir });
    expect(first.code, first.stderr).toBe(1);
    const [a, b] = first.stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as Item);
    expect(a?.steps?.map(({ agent: name, rung }) => [name, rung])).toEqual([
      ['plain', 'clean'],
      ['with', 'clean'],
      ['columns', 'clean'],
    ]);
    expect([b?.failure?.code, b?.failure?.agent, b?.steps?.length]).toEqual([
      'template-failed',
      'columns',
      1,
    ]);
    const asked = one.requests();
    const again = await fw(`${run} ${one.flags} --ordered items.ndjson`, { cwd: dir });
    expect(again.stdout).toBe(first.stdout);
    expect(one.requests()).toBe(asked);
    expect((await fw('fw ledger check --read-data --ledger ledger', { cwd: dir })).code).toBe(0);
  });

  test('keeps no file in its ledger', async () => {
    const item = {
      id: 'c',
      messages: [user([{ type: 'text', text: 'What?' }, image('file:a.png')])],
      ordering: ['plain'],
    };
    writeFileSync(join(dir, 'files.ndjson'), `${JSON.stringify(item)}\n`);
    await fw(`${run.replace('--ledger ledger', '--ledger other')} ${one.flags} files.ndjson`, { cwd: dir });
    const [day = ''] = readdirSync(join(dir, 'other')).filter(name => name !== 'locks');
    const [file = ''] = readdirSync(join(dir, 'other', day));
    const text = readFileSync(join(dir, 'other', day, file), 'utf8');
    expect(text).toContain('data:image/png;base64,[redacted]');
    expect(text).not.toContain(DATA);
    expect((await fw('fw ledger check --read-data --ledger other', { cwd: dir })).code).toBe(0);
  });
});
