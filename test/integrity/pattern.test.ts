import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { linearPattern } from '../../engine/answers/linear-pattern.ts';
import { holds } from './property.ts';

describe('linearPattern', () => {
  const atom = fc.constantFrom(
    'a',
    'b',
    '.',
    '[ab]',
    '[^a]',
    '\\d',
    '\\w',
    '\\s',
    '\\u0061',
    '\\x62',
    '\\p{L}',
    '\\u{1F600}',
    '\\.',
    '[\\]a]',
    '😀',
  );
  const pattern = fc.letrec<{ any: string; one: string; row: string }>(tie => ({
    one: fc.oneof(
      { weight: 4, arbitrary: atom },
      { weight: 1, arbitrary: fc.constantFrom('^', '$', '\\b', '\\B') },
      {
        weight: 2,
        arbitrary: fc
          .tuple(fc.constantFrom('(', '(?:', '(?<n>'), tie('any'))
          .map(([open, inner]) => `${open}${inner})`),
      },
    ),
    row: fc
      .array(fc.tuple(tie('one'), fc.constantFrom('', '', '', '*', '+', '?', '{2}', '{1,2}', '{0,}', '*?')), {
        maxLength: 4,
      })
      .map(parts =>
        parts.map(([one, times]) => (/^(?:\^|\$|\\[bB])$/.test(one) ? one : one + times)).join(''),
      ),
    any: fc.array(tie('row'), { minLength: 1, maxLength: 3 }).map(rows => rows.join('|')),
  })).any;
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', '1', ' ', '\n', '😀', '.', ']', '\ud83d'),
    maxLength: 8,
  });

  // The built-in engine is the oracle, and takes forever on patterns with many repetitions inside each other.
  const tame = pattern.filter(source => source.length <= 60 && source.split(/[*+?}]/).length <= 4);

  it('agrees with the built-in engine', () => {
    holds(fc.tuple(tame, text), ([source, subject]) => {
      // V8 also tries the middle of a surrogate pair, where ECMA 262 has no position.
      if (source.includes('\\B') && subject.includes('😀')) return;
      let expected: boolean;
      try {
        expected = new RegExp(source, 'u').test(subject);
      } catch {
        // two groups of one name
        expect(() => linearPattern(source)).toThrow(/ECMA 262/);
        return;
      }
      expect(linearPattern(source).test(subject)).toBe(expected);
    });
  });

  it.each([
    '(a+)+$',
    '^(a|a)*$',
    '(a|aa)+$',
    '^(\\w+\\s?)*$',
    '(.*)(.*)(.*)(.*)x',
    '(a*)*b',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
  ])('does not hang on %s', source => {
    expect(linearPattern(source).test(`${'a'.repeat(5_000)}!`)).toBe(false);
  });

  it.each([
    ['(?=a)b', /lookahead or lookbehind/],
    ['(?<!a)b', /lookahead or lookbehind/],
    ['(a)\\1', /back references/],
    ['(?<x>a)\\k<x>', /back references/],
    ['a{3000}', /repetitions/],
    ['((a{100}){100}){100}', /states/],
    ['('.repeat(200) + ')'.repeat(200), /nested groups/],
    ['a'.repeat(5_000), /4096 characters/],
    ['(', /ECMA 262/],
  ])('refuses pattern %#', (source, why) => {
    expect(() => linearPattern(source)).toThrow(why);
  });

  it('refuses a text that would take too long', () => {
    expect(() => linearPattern('(?:a?){900}$').test('a'.repeat(1 << 20))).toThrow(
      /expected a text of at most/,
    );
  });
});
