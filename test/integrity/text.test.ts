/** Answers in text: what is one, what is left out of it, and what is none. */
import { expect, test } from 'vitest';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { textCheck } from '../../engine/answers/schema.ts';
import { repetitionIn } from '../../engine/answers/text-faults.ts';
import { REFUSED } from '../../engine/core/item/call.ts';

const free = textCheck({}, 'test');
const choice = textCheck({ choice: ['approve', 'deny', 'ask again'] }, 'test');
const grade = textCheck({ regex: '[A-F][+-]?' }, 'test');
const LONG = Array.from({ length: 200_000 }, (_none, at) => `word${at}`).join(' ');
const HARMONY =
  '<|channel|>analysis<|message|>We say hello.<|end|><|start|>assistant<|channel|>final<|message|>Hello.';

test.each([
  ['Bonjour le monde.', 'clean', 'Bonjour le monde.'],
  ['  two spaces, and a line behind\n', 'clean', '  two spaces, and a line behind\n'],
  ['{"looks": "like JSON"}', 'clean', '{"looks": "like JSON"}'],
  ['```js\nlet a;\n```', 'clean', '```js\nlet a;\n```'],
  ['User: hello\nAssistant: hello', 'clean', 'User: hello\nAssistant: hello'],
  ['<s>old</s> new', 'clean', '<s>old</s> new'],
  ['Close it with `</think>`, always.', 'clean', 'Close it with `</think>`, always.'],
  ['<think>Hm. {"a":1}</think>\n\nBonjour.', 'repaired', 'Bonjour.'],
  ['the template opened it</think>Bonjour.', 'repaired', 'Bonjour.'],
  ['<think>a</think><think>b</think> Bonjour.', 'repaired', 'Bonjour.'],
  ['Bon<think>or not?</think>jour.', 'repaired', 'Bonjour.'],
  ['[THINK]a[/THINK]Bonjour.', 'repaired', 'Bonjour.'],
  [HARMONY, 'repaired', 'Hello.'],
  ['Bonjour.<|im_end|>', 'repaired', 'Bonjour.'],
  ['Bonjour.</s>', 'repaired', 'Bonjour.'],
  ['<|im_start|>assistant\nBonjour.', 'repaired', 'Bonjour.'],
  ['<|im_start|>assistant\n<think>Hm.</think>\nBonjour.<|im_end|>', 'repaired', 'Bonjour.'],
])('%j is %s', (said, rung, output) => {
  const read = readAnswer(said, free, { finish: 'stop' });
  expect([read.rung, read.output, read.compact]).toEqual([rung, output, output]);
});

test.each([
  ['', 'stop', 'empty-answer'],
  [' \n\u200b', 'stop', 'empty-answer'],
  ['<think>only that</think>\n', 'stop', 'empty-answer'],
  ['<think>without an end', 'stop', 'empty-answer'],
  ['Bonjour. <think>without an end', 'stop', 'empty-answer'],
  ['Bonjour le mon', 'length', 'truncated'],
  ['Bonjour.', 'unknown', 'truncated'],
  ['Bonjour.', 'repetition', 'repeats-itself'],
  [`Bonjour. ${'And again. '.repeat(60)}And a`, 'length', 'repeats-itself'],
  ['\n'.repeat(500), 'stop', 'repeats-itself'],
  ['I cannot help with that.', REFUSED, 'model-refused'],
  ['Bonjour.<|im_end|>\n<|im_start|>user\nAnd now?', 'stop', 'beyond-its-turn'],
  [LONG, 'stop', 'answer-too-long'],
])('no answer, %#', (said, finish, code) => {
  const { rung, output, problem } = readAnswer(said, free, { finish });
  expect([rung, output, problem?.code]).toEqual(['failed', undefined, code]);
});

test.each([
  [choice, 'approve', 'clean', 'approve', []],
  [choice, ' approve\n', 'repaired', 'approve', ['text-around', 'text-around']],
  [choice, '<think>no</think>\n deny', 'repaired', 'deny', ['think-block']],
  [choice, 'Approved.', 'coerced', 'approve', ['enum-form']],
  [choice, 'Ask-again\n', 'coerced', 'ask again', ['text-around', 'enum-form']],
  [choice, '"approve"', 'failed', undefined, []],
  [choice, 'I would approve', 'failed', undefined, []],
  [choice, 'approve deny', 'failed', undefined, []],
  [grade, 'B+', 'clean', 'B+', []],
  [grade, 'B+\n', 'repaired', 'B+', ['text-around']],
  [grade, 'B++', 'failed', undefined, []],
  [grade, 'Grade: B+', 'failed', undefined, []],
])('a choice or a regular expression, %#', (check, said, rung, output, rules) => {
  const read = readAnswer(said, check, { finish: 'stop' });
  expect([read.rung, read.output]).toEqual([rung, output]);
  if (rung === 'failed') expect(read.problem?.code).toBe('schema-mismatch');
  else expect(read.repairs.map(({ rule }) => rule)).toEqual(rules);
});

test('a loop is the shortest unit that the end repeats, often and long enough', () => {
  expect(repetitionIn('ha'.repeat(199))).toBeNull();
  expect(repetitionIn('ha'.repeat(200))).toEqual({ unit: 'ha', times: 200 });
  const verse = 'Row, row, row your boat, gently down the long stream. '.repeat(2);
  expect(repetitionIn(verse.repeat(3))).toBeNull();
  expect(repetitionIn(`A song: ${verse.repeat(4)}`)?.times).toBe(8);
  expect(repetitionIn(`${verse.repeat(4)} Life is but a dream.`)).toBeNull();
  const long = Array.from({ length: 1_000 }, (_none, at) =>
    String.fromCharCode(97 + ((at * at + at) % 23)),
  ).join('');
  expect(repetitionIn(long.repeat(7))?.unit.length ?? 1_000).toBeLessThan(1_001);
});

test('hostile texts take time that grows with their length alone', () => {
  const many = [
    '<think>'.repeat(100_000),
    '<think></think>'.repeat(60_000),
    `${' '.repeat(500_000)}x${'<think></think>'.repeat(30_000)}`,
    `${'a'.repeat(999)}b`.repeat(1_000),
    '</s>'.repeat(200_000),
    '<s></s>'.repeat(100_000),
  ];
  for (const text of many) readAnswer(text, free, { finish: 'stop' });
  for (const text of many) readAnswer(text, choice, { finish: 'stop' });
});
