/** Why items fail: by cause, with the first of each, in the account and while the run lasts. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { count, describeAccount, firstOf, newAccount } from '../../engine/core/item/account.ts';
import { CODES } from '../../engine/core/item/codes.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { createNews } from '../../engine/running/watch/run-facts.ts';
import { folder, shell } from '../fw.ts';
import { type Ask, serve } from '../pool/serving.ts';

const RISK = '{"risk":0.5}';
const AGENT =
  'key: risk\nshort: risk\ndisplay: Risk\nrole: agent\npersona: Judge.\nsampling: { temperature: 0, max_tokens: 50 }\n' +
  'schema: { type: object, required: [risk], additionalProperties: false, properties: { risk: { type: number } } }\n';
const SYNTHESIS =
  'key: decide\nshort: decide\ndisplay: Decide\nrole: synthesis\npersona: Decide.\nsampling: { temperature: 0, max_tokens: 50 }\n' +
  'ask_again: { at: /confidence, when: [0], temperatures: [0.1] }\n' +
  'schema: { type: object, required: [confidence], additionalProperties: false, properties: { confidence: { type: number } } }\n';

/** What the server does with a prompt, by its first word, and what the account then says. */
const CAUSES: [word: string, cause: string, answer: (ask: Ask) => void][] = [
  [
    'long',
    'no-valid-answer (truncated)',
    ask => ask.answer('', { choices: [{ message: { content: '{"risk":0.' }, finish_reason: 'length' }] }),
  ],
  ['null', 'no-valid-answer (null-value)', ask => ask.answer('{"risk":null}')],
  ['prose', 'no-valid-answer (no-json-found)', ask => ask.answer('I would rather not say.\u001b[2J')],
  ['other', 'no-valid-answer (schema-mismatch)', ask => ask.answer('{"risk":"high"}')],
  ['refused', 'call-refused', ask => ask.send(400, { error: { message: 'no\u001b[31m such thing' } })],
  ['zero', 'zero-confidence', ask => ask.answer(/Decide/.test(ask.body) ? '{"confidence":0}' : RISK)],
];

test('each cause of a chain with how often, and the first of it with its id', async () => {
  const { url } = await serve(ask => {
    const word = /"content":"(\w+) \d/.exec(ask.body)?.[1];
    const [, , act] = CAUSES.find(([name]) => name === word) ?? [];
    if (act) act(ask);
    else ask.answer(/Decide/.test(ask.body) ? '{"confidence":0.9}' : RISK);
  });
  const cwd = folder();
  writeFileSync(join(cwd, 'risk.yaml'), AGENT);
  writeFileSync(join(cwd, 'decide.yaml'), SYNTHESIS);
  const items = [...CAUSES.map(([word]) => word), 'fine'].flatMap((word, at) =>
    Array.from({ length: at + 2 }, (_, index) => ({ id: `${word}-${index}`, prompt: `${word} ${index}` })),
  );
  writeFileSync(join(cwd, 'items.ndjson'), items.map(item => `${JSON.stringify(item)}\n`).join(''));
  const ran = await shell(
    `fw chain --agents . --attempts 1 --in-flight 1 --endpoint ${url} items.ndjson > done.ndjson`,
    { cwd },
  );
  expect(ran.code, ran.stderr).toBe(1);
  for (const [at, [word, cause]] of CAUSES.entries())
    expect(ran.stderr).toContain(`chain: failed: ${at + 2} ${cause}, the first: ${word}-0: `);
  expect(ran.stderr.match(/^chain: failed: /gm)).toHaveLength(CAUSES.length);
  expect(ran.stderr).not.toContain('\u001b');
});

const failed = (id: string | null, failure: object, more: object = {}): Item => ({
  id,
  prompt: 'p',
  steps: [],
  failure: { stage: 's', code: 'call-failed', message: 'gone', ...failure },
  ...more,
});

test('whatever a line says of itself, the lines of the account are few, short, and steer no terminal', () => {
  const account = newAccount('x');
  for (let at = 0; at < 500; at++) {
    count(
      account,
      failed(`${'i'.repeat(5_000)}\u001b[2J${at}`, {
        code: `c${at}${'c'.repeat(5_000)}`,
        message: '\u0007\n'.repeat(9_000),
      }),
    );
  }
  count(account, failed(null, { line: 1234 }));
  const lines = describeAccount(account, 1);
  expect(lines.length).toBeLessThan(70);
  for (const line of lines) {
    expect(line.length).toBeLessThan(500);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is the test
    expect(line).not.toMatch(/[\u0000-\u001f]/);
  }
  expect([...account.failures.values()].reduce((sum, { times }) => sum + times, 0)).toBe(501);
});

test('the problem is that of the step that failed, and only where it says more than the failure', () => {
  const step = (agent: string, code: string, more = {}) => ({
    agent,
    problem: { code, message: 'm' },
    ...more,
  });
  const of = (failure: object, more: object): string[] => {
    const account = newAccount('x');
    count(account, failed('a', { code: 'no-valid-answer', ...failure }, more));
    return [...account.failures.keys()];
  };
  const steps = [step('one', 'truncated', { output: {} }), step('two', 'null-value')];
  expect(of({ agent: 'two' }, { steps })).toEqual(['no-valid-answer (null-value)']);
  expect(of({ agent: 'one' }, { steps })).toEqual(['no-valid-answer']);
  expect(of({}, { steps })).toEqual(['no-valid-answer']);
  expect(of({ agent: 'd' }, { steps, decision: step('d', 'truncated') })).toEqual([
    'no-valid-answer (truncated)',
  ]);
  expect(of({ agent: 'd', code: 'zero-confidence' }, { decision: step('d', 'zero-confidence') })).toEqual([
    'zero-confidence',
  ]);
  for (const odd of [null, 5, [null, 3], { agent: 'two', problem: 7 }]) {
    expect(of({ agent: 'two' }, { steps: odd, decision: odd })).toEqual(['no-valid-answer']);
  }
});

test('while a run lasts the first of each cause is told once, and no more than ten', () => {
  const account = newAccount('x');
  const news = createNews(account);
  expect(news()).toEqual([]);
  count(account, failed('a', {}));
  count(account, failed('b', {}));
  expect(news()).toEqual(['the first to fail with call-failed: a: gone']);
  expect(news()).toEqual([]);
  for (const code of Object.keys(CODES)) count(account, failed(`of ${code}`, { code }));
  expect(news()).toHaveLength(9);
  expect(news()).toEqual([]);
  expect([...account.failures.values()].map(firstOf)).toContain('of truncated: gone');
});
