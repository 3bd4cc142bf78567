/**
 * What a model says around an answer: the outputs of outputs/, each of which was decided before the code that reads it.
 * Two rates are held: how many are taken for an answer that are none, or another one, and how many are refused that are one.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FIXES, readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema, textCheck } from '../../engine/answers/schema.ts';
import type { Check } from '../../engine/answers/schema-check.ts';

const decision = {
  type: 'object',
  required: ['decision'],
  properties: { decision: { enum: ['approve', 'deny'] } },
};
const CHECKS: { [form: string]: Check } = {
  object: compileSchema(decision, 'test'),
  list: compileSchema({ type: 'array', items: decision }, 'test'),
  number: compileSchema({ type: 'number' }, 'test'),
  boolean: compileSchema({ type: 'boolean' }, 'test'),
  text: textCheck({}, 'test'),
  choice: textCheck({ choice: ['approve', 'deny'] }, 'test'),
};
const APPROVE = '{"decision":"approve"}';
const DENY = '{"decision":"deny"}';
const EXPECTED: { [mark: string]: string } = { A: APPROVE, D: DENY };

interface Case {
  group: string;
  form: string;
  expected: string;
  text: string;
}

function casesIn(table: string): Case[] {
  let group = '';
  return table.split('\n').flatMap(line => {
    if (line.startsWith('## ')) group = line.slice(3);
    if (line === '' || line.startsWith('#')) return [];
    const at = line.indexOf(' | ');
    const mark = line.slice(0, at);
    const text = line
      .slice(at + 3)
      .replaceAll('⏎', '\n')
      .replaceAll('{A}', APPROVE)
      .replaceAll('{D}', DENY)
      .replace(/\\u(?:\{([\da-f]+)\}|([\da-f]{4}))/g, (_, long, short) =>
        String.fromCodePoint(Number.parseInt(long ?? short, 16)),
      );
    return [{ group, form: group.split(' ')[0] as string, expected: EXPECTED[mark] ?? mark, text }];
  });
}

const FOLDER = join(import.meta.dirname, 'outputs');
const tables = readdirSync(FOLDER).map(name => ({
  name,
  cases: casesIn(readFileSync(join(FOLDER, name), 'utf8')),
}));

function readAs({ form, text }: Case): string {
  const { output, problem } = readAnswer(text, CHECKS[form] as Check, { finish: 'stop' });
  if (problem !== undefined) return 'ask';
  // what an object says beside its decision is in the table once
  const { decision } = Object(output) as { decision?: string };
  return JSON.stringify(decision === undefined ? output : { decision });
}

function told(some: Case[]): string {
  return some
    .map(one => `${one.group}: ${JSON.stringify(one.text)} is read as ${readings.get(one)}`)
    .join('\n');
}

/** Each output as it is read; all of them once. */
const readings = new Map(tables.flatMap(({ cases }) => cases.map(one => [one, readAs(one)] as const)));
const honest = (cases: Case[]): Case[] => cases.filter(({ expected }) => expected !== 'ask');
const wrong = (cases: Case[]): Case[] =>
  cases.filter(one => readings.get(one) !== 'ask' && readings.get(one) !== one.expected);
const strict = (cases: Case[]): Case[] => honest(cases).filter(one => readings.get(one) === 'ask');
const rate = (some: Case[], of: Case[]): string =>
  `${some.length} of ${of.length} (${((100 * some.length) / of.length).toFixed(1)} %)`;
const all = tables.flatMap(({ cases }) => cases);

describe(`${all.length} outputs: taken for an answer, and refused, by table`, () => {
  it.each(
    tables.map(({ name, cases }) => [
      name,
      rate(wrong(cases), cases),
      rate(strict(cases), honest(cases)),
      cases,
    ]),
  )('%s: %s, %s', (_name, _wrong, _strict, cases) => {
    expect((cases as Case[]).length).toBeGreaterThan(100);
  });

  it('are taken for another answer in at most 1 %', () => {
    expect(wrong(all).length / all.length, told(wrong(all))).toBeLessThanOrEqual(0.01);
  });

  it('are refused in at most 3 % of those that are an answer', () => {
    expect(strict(all).length / honest(all).length, told(strict(all))).toBeLessThanOrEqual(0.03);
  });
});

describe('text behind an answer', () => {
  const text = `${DENY}\n\nI chose deny because the score is low.`;
  it('has a rule of its own, which may be left out', () => {
    const { rung, repairs } = readAnswer(text, CHECKS.object as Check, { finish: 'stop' });
    expect([rung, ...repairs.map(({ rule }) => rule)]).toEqual(['repaired', 'text-after']);
    const fixes = new Set([...FIXES].filter(rule => rule !== 'text-after'));
    expect(readAnswer(text, CHECKS.object as Check, { finish: 'stop', fixes }).rung).toBe('failed');
  });

  it('is another one where it says nothing, or stands before', () => {
    for (const [around, rules] of [
      [`${DENY}.`, 'text-around'],
      [`${DENY}\n</answer>`, 'text-around'],
      [`${DENY}<|im_end|>`, 'text-around'],
      [`\`\`\`json\n${DENY}\n\`\`\``, 'fence fence'],
      [`Here: ${DENY} I hope this helps.`, 'text-around text-after'],
      [`${DENY} Note: none. <think>ok</think> Bye.`, 'text-after think-block text-after'],
    ])
      expect(
        readAnswer(String(around), CHECKS.object as Check, { finish: 'stop' })
          .repairs.map(({ rule }) => rule)
          .join(' '),
        around,
      ).toBe(rules);
  });

  it('makes it none where the agent refuses that', () => {
    const check = { ...(CHECKS.object as Check), textAfter: 'refuse' } as Check;
    const strict = Object.assign((value: unknown) => (CHECKS.object as Check)(value), check);
    const read = (said: string) => readAnswer(said, strict, { finish: 'stop' });
    expect(read(text).problem).toEqual({
      code: 'text-after',
      message: 'expected nothing behind the answer, got text',
    });
    expect(read(`My answer:\n${DENY}.`).rung).toBe('repaired');
  });
});
