/** Lines come from anywhere, and what a model wrote goes to a terminal: nothing may throw, and nothing may take effect. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { answersIn, isAccountedFor } from '../../engine/answers/answers-of-line.ts';
import { storyOf } from '../../engine/audit/history.ts';
import { whoSaid } from '../../engine/audit/value-provenance.ts';
import { type JsonObject, join } from '../../engine/core/json/pointer.ts';
import { visible, visibleLines } from '../../engine/core/json/visible.ts';
import { runs } from '../all.ts';
import { holds } from '../integrity/property.ts';

const rule = fc.constantFrom('percent', 'null-default', 'flat-to-nested', 'illegal-escape', '__proto__', 'x');
const pointer = fc.constantFrom('/a', '/a/b', '', '/reasoning', '/a/0', '/__proto__', 'no pointer');
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom('{"a":1}', '{"a":{"b":[1]}}', '\u001b[2J'),
);
const repair = fc.record(
  {
    rule: fc.oneof(
      { weight: 9, arbitrary: rule as fc.Arbitrary<unknown> },
      { weight: 1, arbitrary: fc.jsonValue() },
    ),
    at: fc.oneof(pointer, fc.jsonValue({ maxDepth: 0 })),
    from: fc.jsonValue({ maxDepth: 2 }),
    to: fc.jsonValue({ maxDepth: 2 }),
    offset: fc.oneof(fc.integer({ min: -3, max: 20 }), fc.jsonValue({ maxDepth: 0 })),
    cut: fc.oneof(text, fc.jsonValue({ maxDepth: 0 })),
    put: fc.oneof(text, fc.jsonValue({ maxDepth: 0 })),
  },
  { requiredKeys: [] },
);
const odd = <T>(usual: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 6, arbitrary: usual as fc.Arbitrary<unknown> },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) },
  );
const step = fc.record(
  {
    agent: odd(text),
    output: odd(fc.constantFrom({ a: 1 }, { a: { b: [1] }, reasoning: { x: 'y' } }, {})),
    raw: odd(text),
    whole: odd(fc.record({ bytes: fc.nat(), sha256: text })),
    rung: odd(fc.constantFrom('clean', 'defaulted', 'failed')),
    saw: odd(fc.constantFrom('clean')),
    repairs: odd(fc.array(repair, { maxLength: 4 })),
    calls: odd(fc.array(text, { maxLength: 2 })),
    attempts: odd(fc.integer({ min: -1, max: 5 })),
    round: odd(fc.nat(3)),
    rejected: odd(
      fc.array(odd(fc.record({ raw: text, code: text, message: text, temperature: fc.double() })), {
        maxLength: 2,
      }),
    ),
    problem: odd(fc.record({ code: text, message: text })),
    usage: odd(fc.record({ prompt: fc.nat(), completion: fc.nat() })),
  },
  { requiredKeys: [] },
);
const failure = odd(
  fc.record(
    { stage: text, code: text, message: text, text, would: odd(fc.array(repair, { maxLength: 2 })) },
    { requiredKeys: [] },
  ),
);
const item = fc.record(
  {
    id: odd(text),
    prompt: odd(text),
    input: odd(fc.dictionary(text, odd(text), { maxKeys: 3 })),
    steps: odd(fc.array(odd(step), { maxLength: 3 })),
    decision: odd(step),
    failure,
    _fw: odd(fc.record({ rung: fc.constant('coerced'), repairs: odd(fc.array(repair, { maxLength: 3 })) })),
  },
  { requiredKeys: ['id', 'steps'] },
);
const legacy = fc.record(
  {
    prompt_id: odd(fc.nat()),
    ordering: odd(text),
    initial_prompt: odd(text),
    conversation_history: odd(fc.array(odd(fc.record({ agent: text, output: step })), { maxLength: 2 })),
    business_decision: odd(fc.constantFrom({ a: 1 }, { a: { b: [1] } })),
    final_output: odd(fc.constant({ a: 1 })),
    _fw: odd(fc.record({ rung: fc.constant('coerced'), repairs: odd(fc.array(repair, { maxLength: 3 })) })),
    failure,
  },
  { requiredKeys: ['conversation_history', 'business_decision'] },
);
const provenance = fc.record({ id: text, rung: odd(text), agents: fc.array(odd(step), { maxLength: 3 }) });
// what a file may hold, nothing else: no prototypes but Object's, no undefined
const line = fc
  .oneof(item, legacy, provenance, fc.dictionary(text, fc.jsonValue()))
  .map(value => JSON.parse(JSON.stringify(value)) as JsonObject);

function placesIn(value: unknown, at = ''): string[] {
  const below = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [at, ...below.flatMap(([name, inner]) => placesIn(inner, join(at, name)))];
}

/** Controls, separators, direction marks, lone surrogates: what a terminal would obey or hide. */
const HARMFUL = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069\u200e\u200f\ufeff]/u;

describe('any line', () => {
  test('has a story that a terminal shows as it is', () => {
    holds(line, value => {
      const lines = storyOf({ line: value, id: '\u001b[2J', where: 'a\u202eb:1' }, () => []);
      for (const one of lines) expect(one.replaceAll(/[\t\n]/g, '')).not.toMatch(HARMFUL);
    });
  });

  test('has an answer for each of its values', () => {
    holds(fc.tuple(line, line), ([value, other]) => {
      const vouching = { answers: answersIn(other), where: 'x:1', isBound: true };
      for (const at of placesIn(value)) {
        const said = whoSaid(value, at, vouching);
        expect(said?.length, at).toBeGreaterThan(1);
        for (const one of said ?? []) expect(one).not.toMatch(HARMFUL);
      }
      expect(whoSaid(value, '/nothing/is/here', null)).toBe(null);
    });
  });

  test('is told even where it has very many of everything', () => {
    const many = runs(20_000, 200_000, 'MANY');
    const repairs = Array.from({ length: many }, () => ({ rule: 'percent', at: '/a', from: 1, to: 1 }));
    const step = { agent: 'b', output: { a: 1 }, raw: '{"a": 1}', repairs };
    const input = Object.fromEntries(Array.from({ length: many }, (_, at) => [`k${at}`, 'v']));
    const lines = storyOf(
      { line: { id: 'a', input, prompt: '\n'.repeat(many), steps: [step] }, id: 'a', where: 'a:1' },
      () => [],
    );
    expect(lines.join('\n').split('\n').length).toBeGreaterThan(3 * many);
    expect(whoSaid({ id: 'a', steps: [step] }, '/steps/0/output/a', null)?.length).toBeGreaterThan(many);
  });

  test('is never vouched for by a text that does not lead to it', () => {
    const answer = (raw: string, repairs: unknown[]) =>
      answersIn({ id: 'a', steps: [{ agent: 'b', output: { a: 1 }, raw, repairs }] })[0];
    const verdicts = [
      answer('{"a": 1}', []),
      answer('{"a": 2}', []),
      answer('{"a": 2}', [{ rule: 'percent', at: '/a', from: 2, to: 1 }]),
      answer('{"a": 1', []),
      answer('{"a": 1', [{ rule: 'missing-bracket', offset: 7, cut: '', put: '}' }]),
      answer('{"a": '.repeat(100_000), []),
    ];
    expect(verdicts.map(one => one && isAccountedFor(one))).toEqual([true, false, true, false, true, false]);
  });
});

test('visible shows what hides, and leaves letters, joiners and line breaks of a text alone', () => {
  expect(visible('a\u001b[2J\u0085\u202e\ud800\u{e0041}')).toBe(
    'a<U+001B>[2J<U+0085><U+202E><U+D800><U+E0041>',
  );
  expect(visible('ក្មេង 👩‍👩‍👧 می‌خواهم')).toBe('ក្មេង 👩‍👩‍👧 می‌خواهم');
  expect(visibleLines('a\tb\r\nc')).toEqual(['a\tb<U+000D>', 'c']);
});
