import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { undoEdits } from '../../engine/answers/entries.ts';
import { fixEscapes } from '../../engine/answers/escapes.ts';
import { holds, mangled } from './property.ts';

describe('fixEscapes', () => {
  it('returns a valid text as it is', () => {
    const spaced = fc.tuple(fc.jsonValue(), fc.constantFrom(0, 1, 2));
    holds(spaced, ([value, space]) => {
      const text = JSON.stringify(value, null, space);
      expect(fixEscapes(text).text).toBe(text);
    });
    const escapes = fc.array(
      fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\n', '\\uD834', '\\u00e9', 'u', '12', 'x'),
    );
    holds(escapes, parts => {
      const text = `{"${parts.join('')}":"${parts.join('')}"}`;
      expect(fixEscapes(text)).toMatchObject({ text, repairs: [] });
    });
  });

  it('makes illegal escapes parse, with those backslashes doubled, or left out before an apostrophe', () => {
    const part = fc.oneof(
      fc.record({
        raw: fc.constantFrom('\\O', '\\ ', '\\$', '\\u12', '\\u', '\\x41', "\\'", '\\%', '\\ud8', '\\-'),
      }),
      fc.record({
        raw: fc.constantFrom('\\n', '\\\\', '\\"', '\\u0041', '\\/', 'a', '{', '}', '[', ' ', ': ', ','),
      }),
    );
    holds(fc.array(part), parts => {
      // a hexadecimal digit behind a lone `\u12` would make it another escape
      const raws = parts.map(({ raw }) => raw);
      const legal = (raw: string): boolean => /^(?:\\[n\\"/]|\\u0041|[^\\].*)$/.test(raw);
      const separated = raws.map(raw => (legal(raw) ? raw : `${raw}.`));
      const text = `{"k":"${separated.join('')}"}`;
      const meant = (raw: string): string => (raw === "\\'" ? "'." : `\\${raw}.`);
      const doubled = raws.map(raw => (legal(raw) ? raw : meant(raw))).join('');
      const fixed = fixEscapes(text);
      expect(JSON.parse(fixed.text)).toEqual({ k: JSON.parse(`"${doubled}"`) });
      expect(fixed.repairs).toHaveLength(raws.filter(raw => !legal(raw)).length);
    });
  });

  it('twice is once, and what it did can be undone', () => {
    holds(fc.oneof(mangled, fc.string({ unit: 'binary' })), text => {
      const once = fixEscapes(text);
      expect(undoEdits(once.text, once.repairs)).toBe(text);
      const twice = fixEscapes(once.text);
      expect(twice.text).toBe(once.text);
      expect(twice.repairs).toEqual([]);
    });
  });

  it('changes backslashes in strings only, and only the illegal ones', () => {
    const line = '{"a":"\\O \\n \\\\O \\u0041 \\u12 \\","b":"C:\\Program"}';
    expect(fixEscapes(line).text).toBe('{"a":"\\\\O \\n \\\\O \\u0041 \\\\u12 \\","b":"C:\\Program"}');
    expect(fixEscapes('a \\O {"a": \\O}').repairs).toEqual([]);
    expect(fixEscapes('He said "\\O": {"a":"\\O"}').repairs).toMatchObject([{ offset: 20 }]);
    expect(fixEscapes(' "\\O"').text).toBe(' "\\\\O"');
    expect(fixEscapes('{"a":"\\').text).toBe('{"a":"\\\\');
  });

  it('leaves legal escapes that lie', () => {
    const text = '{"a":"\\frac{1}{2} \\times \\beta \\nu, but \\nunder and \\n\\not, \\\\frac \\u12"}';
    expect(fixEscapes(text).repairs).toHaveLength(1);
  });

  it.each(['\\', '{"\\', '"', '{"\\u', '{"\\frac'])('is linear in a megabyte of %s', piece => {
    const text = piece.repeat((1 << 20) / piece.length);
    expect(fixEscapes(fixEscapes(text).text).repairs).toEqual([]);
  });
});
