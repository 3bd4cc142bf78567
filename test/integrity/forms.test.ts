/** Which words are a form of an allowed value, and which numbers are a multiple: tables, and properties of the classes. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema, isMultipleOf } from '../../engine/answers/schema.ts';
import { enumForm } from '../../engine/answers/written-forms.ts';
import { holds } from './property.ts';

const formOf = (text: string, allowed: unknown[]): unknown => enumForm(text, allowed)?.to;

describe('a form of an allowed value', () => {
  it.each([
    ['Approve', 'approve'],
    ['Approved.', 'approve'],
    ['DENY', 'deny'],
    ['Denied', 'deny'],
    [' deny ', 'deny'],
    ['standard terms', 'STANDARD_TERMS'],
    ['Standard-Terms', 'STANDARD_TERMS'],
    ['36 months', '36-months'],
    ['Rejected', 'reject'],
  ])('%j is %j', (text, to) => {
    expect(formOf(text, ['approve', 'deny', 'STANDARD_TERMS', '36-months', 'reject'])).toBe(to);
  });

  it.each([
    ['fine', 'final'],
    ['party', 'partial'],
    ['more', 'moral'],
    ['new', 'news'],
    ['fee', 'feed'],
    ['feed', 'fee'],
    ['try', 'trial'],
    ['ore', 'oral'],
    ['personal', 'person'],
    ['person', 'personal'],
    ['form', 'formal'],
    ['approval', 'approve'],
    ['approving', 'approve'],
    ['approve', 'approved'],
    ['deny', 'denied'],
    ['_1', '-1'],
    ['1', '-1'],
    ['A -1', 'A 1'],
    ['10 20', '10-20'],
    ['A', 'A-'],
    ['A_', 'A-'],
    ['approve!', 'approve'],
    ['approve..', 'approve'],
    ['disapproved', 'approve'],
    ['approve deny', 'approve'],
  ])('%j is no %j', (text, word) => {
    expect(formOf(text, [word, 'something else'])).toBeUndefined();
  });

  it('is none where two values fit', () => {
    expect(formOf('manual review', ['manual_review', 'MANUAL-REVIEW'])).toBeUndefined();
    expect(formOf('denied', ['deny', 'DENY'])).toBeUndefined();
  });

  it('keeps all letters of the value, but for its past form', () => {
    const word = fc.string({ unit: fc.constantFrom(...'aeidlnsty-_ 1.'.split('')), maxLength: 8 });
    const lettersOf = (text: string): string => text.toLowerCase().replace(/[\s_.-]/g, '');
    holds(fc.tuple(word, word), ([text, value]) => {
      if (formOf(text, [value]) === undefined) return;
      const [said, meant] = [lettersOf(text), lettersOf(value)];
      const past = [`${meant}d`, `${meant}ed`, meant.replace(/y$/, 'ied')];
      expect(said === meant || past.includes(said), `${text} for ${value}`).toBe(true);
      expect(/-\d/.test(text.trim().replace(/[a-z]-/g, '')), `${text} for ${value}`).toBe(
        /-\d/.test(value.trim().replace(/[a-z]-/g, '')),
      );
    });
  });
});

describe('a multiple', () => {
  it('is judged by the decimals that are written', () => {
    const step = fc.constantFrom(...([1, 2, 5, 25] as const));
    const places = fc.integer({ min: 0, max: 9 });
    holds(fc.tuple(fc.integer({ min: -1e5, max: 1e5 }), step, places), ([times, digits, power]) => {
      const of = Number(`${digits}e-${power}`);
      const value = Number(`${times * digits}e-${power}`);
      expect(isMultipleOf(value, of), `${value} of ${of}`).toBe(true);
      const off = Number(`${times * digits * 10 + 1}e-${power + 1}`);
      expect(isMultipleOf(off, of), `${off} of ${of}`).toBe(false);
    });
  });

  it.each([
    [1e21, 1, true],
    [1e308, 1e-300, true],
    [1e308, 3e-300, false],
    [5e-324, 5e-324, true],
    [0, 0.01, true],
    [-0, 0.01, true],
    [0.1 + 0.2, 0.1, false],
    [12345678.91, 0.01, true],
    [12345678.911, 0.01, false],
    [7.5, 2.5, true],
  ])('%d of %d: %s', (value, step, fits) => {
    expect(isMultipleOf(value, step)).toBe(fits);
  });

  it.each(['2020-12/schema', '2019-09/schema'])('in answers and rows, in %s', dialect => {
    const $schema = `https://json-schema.org/draft/${dialect}`;
    const check = compileSchema({ $schema, properties: { rate: { multipleOf: 0.01 } } }, 'test');
    for (const rate of [0.29, 8.29, -8.29, 17.1, 1.1, 0])
      expect(readAnswer(JSON.stringify({ rate }), check, { finish: 'stop' }).rung).toBe('clean');
    const { problem } = readAnswer('{"rate":8.295}', check, { finish: 'stop' });
    expect(problem?.message).toBe('/rate: expected a multiple of 0.01, got 8.295');
  });
});
