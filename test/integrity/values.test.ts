/** Answers that are no objects: lists, texts, numbers and booleans, by the schema that asks for them. */
import { expect, test } from 'vitest';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import { kindsOf } from '../../engine/answers/schema-words.ts';

const TAGS = { type: 'array', items: { enum: ['food', 'rent'] } };
const WORD = { enum: ['approve', 'deny'] };
const SCORE = { type: 'integer', minimum: 0, maximum: 10 };
const SHARE = { type: 'number', minimum: 0, maximum: 1 };
const YES = { type: 'boolean' };
const TEXT = { type: 'string' };
const EITHER = { oneOf: [{ type: 'number' }, { type: 'object', required: ['why'] }] };
const NULLABLE = { type: ['string', 'null'] };

test.each<[object, string, string, unknown]>([
  [TAGS, '["food"]', 'clean', ['food']],
  [TAGS, '[]', 'clean', []],
  [TAGS, 'The tags:\n```json\n["food", "rent",]\n```\nI hope this helps.', 'repaired', ['food', 'rent']],
  [TAGS, "['food'] as said in [the book]", 'repaired', ['food']],
  [TAGS, '["food"] as said in [1]', 'failed', 'several-answers'],
  [TAGS, 'First ["rent"], on second thought: ["food"]', 'repaired', ['food']],
  [TAGS, '<think>["rent"]</think>["food"]', 'repaired', ['food']],
  [TAGS, '["Food", "rent"]', 'coerced', ['food', 'rent']],
  [TAGS, '["food"]["rent"]', 'failed', 'several-answers'],
  [TAGS, '["food", "taxes"]', 'failed', 'schema-mismatch'],
  [TAGS, '["food", oops]', 'failed', 'no-json-found'],
  [TAGS, '<plan>["food"]</plan>', 'failed', 'no-json-found'],
  [TAGS, '{"tags": ["food"]}', 'failed', 'schema-mismatch'],
  [TAGS, 'food, rent', 'failed', 'no-json-found'],
  [TAGS, '"food"', 'failed', 'no-json-found'],
  [WORD, '"approve"', 'clean', 'approve'],
  [WORD, '"Approved."', 'coerced', 'approve'],
  [WORD, '```\n"deny"\n```', 'repaired', 'deny'],
  [WORD, 'My answer:\n"deny"', 'repaired', 'deny'],
  [WORD, 'I would not say "deny"', 'failed', 'no-json-found'],
  [WORD, 'approve', 'failed', 'no-json-found'],
  [WORD, '"approve"\n"deny"', 'failed', 'several-answers'],
  [WORD, '"approve"\n"approve"', 'repaired', 'approve'],
  [SCORE, '7', 'clean', 7],
  [SCORE, ' 7\n', 'clean', 7],
  [SCORE, '"7"', 'coerced', 7],
  [SCORE, '<think>5 or 7?</think>\n7', 'repaired', 7],
  [SCORE, 'Score: 7', 'repaired', 7],
  [SCORE, 'Page: 7', 'failed', 'no-json-found'],
  [SCORE, '7.5', 'failed', 'schema-mismatch'],
  [SCORE, '12345678901234567890', 'failed', 'value-not-kept'],
  [SHARE, '"85%"', 'coerced', 0.85],
  [YES, 'true', 'clean', true],
  [YES, 'True', 'repaired', true],
  [YES, '"false"', 'coerced', false],
  [YES, 'yes', 'failed', 'no-json-found'],
  [TEXT, '"Bonjour."', 'clean', 'Bonjour.'],
  [TEXT, 'Bonjour.', 'failed', 'no-json-found'],
  [EITHER, '5', 'clean', 5],
  [EITHER, 'Well: {"why": "so"}', 'repaired', { why: 'so' }],
  [NULLABLE, '"a"', 'clean', 'a'],
  [NULLABLE, 'null', 'failed', 'null-value'],
])('%j of %j', (schema, text, rung, output) => {
  const read = readAnswer(text, compileSchema(schema, 'test'), { finish: 'stop' });
  expect([read.rung, read.problem?.code ?? read.output]).toEqual([rung, output]);
});

test.each([
  [{ $ref: '#/$defs/tags', $defs: { tags: TAGS } }, ['array']],
  [{ properties: {} }, ['object']],
  [{ items: {} }, ['array']],
  [{}, ['object']],
  [{ const: 5 }, ['number']],
  [{ anyOf: [{ type: 'string' }, {}] }, ['object']],
  [{ allOf: [{ type: ['string', 'number'] }, { type: ['number', 'null'] }] }, ['number']],
  [{ $ref: '#' }, ['object']],
])('the kinds of %j are %j', (schema, kinds) => {
  expect([...kindsOf(schema)]).toEqual(kinds);
});

test('hostile lists take time that grows with their length alone', () => {
  const check = compileSchema(TAGS, 'test');
  for (const text of ['['.repeat(500_000), '[1,'.repeat(100_000), '["'.repeat(200_000), '[x'.repeat(200_000)])
    readAnswer(text, check, { finish: 'stop' });
});
