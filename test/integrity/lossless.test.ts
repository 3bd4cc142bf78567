import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isShallow, lossless } from '../../engine/core/json/lossless.ts';
import { holds, mangled } from './property.ts';

describe('lossless', () => {
  it.each([
    '0',
    '-1',
    '1.0',
    '1e2',
    '1E+2',
    '1e-7',
    '0.1',
    '100e-2',
    '0e999',
    '0.000',
    '9007199254740992',
    '-0.5e1',
    '0.30000000000000004',
    '1.7976931348623157e308',
    '5e-324',
    '123456789012345',
    '1e21',
    '123e20',
    '3.10',
  ])('keeps %s', number => {
    expect(lossless(`{"a":${number}}`)).toBeNull();
  });

  it.each([
    '-0',
    '-0.0',
    '-0e5',
    '9007199254740993',
    '12345678901234567890',
    '1e400',
    '-1e400',
    '1e-400',
    '0.1234567890123456789',
    '3.14159265358979323846',
    '4e-324',
    '0.10000000000000000555',
  ])('refuses %s', number => {
    expect(lossless(`{"a":[1,{"b/c":${number}}]}`)).toMatchObject({
      code: 'value-not-kept',
      at: '/a/1/b~1c',
      message: `/a/1/b~1c: expected a number that a double keeps, got ${number}`,
    });
  });

  it('keeps every double, however it is written', () => {
    holds(
      fc.tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: 0, max: 15 })),
      ([n, more]) => {
        if (Object.is(n, -0)) return;
        expect(lossless(`[${JSON.stringify(n)},${n.toExponential()}]`)).toBeNull();
        const [mantissa, exponent] = n.toExponential().split('e');
        const longer = `${mantissa}${mantissa!.includes('.') ? '' : '.'}${'0'.repeat(more + 1)}e${exponent}`;
        expect(lossless(longer)).toBeNull();
      },
    );
  });

  it('keeps an integer where JavaScript prints it as it stood', () => {
    holds(fc.bigInt({ min: -(2n ** 69n), max: 2n ** 69n }), n => {
      expect(lossless(`${n}`) === null).toBe(String(Number(n)) === String(n));
    });
  });

  it('refuses a second value for a key, also where it is spelled otherwise', () => {
    expect(lossless('{"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]}')).toBeNull();
    expect(lossless('{"x":{"a":1,"b":2,"\\u0061":3}}')).toMatchObject({
      at: '/x/a',
      keyword: 'duplicate-key',
    });
    expect(lossless('{"__proto__":1,"__proto__":1}')).not.toBeNull();
    expect(lossless('{"a":"a","b":"a","c":["a","a"]}')).toBeNull();
  });

  it('refuses what is nested deeper than 512 levels', () => {
    expect(lossless('['.repeat(512) + ']'.repeat(512))).toBeNull();
    expect(lossless('['.repeat(513))).toMatchObject({ code: 'too-deep' });
  });

  it('holds what it says: a text that it passes comes back as the same value', () => {
    const text = fc
      .tuple(fc.jsonValue(), fc.constantFrom('', ' '))
      .map(([value, space]) => JSON.stringify(value, null, space));
    holds(text, json => {
      expect(lossless(json)).toBeNull();
    });
  });

  it('passes whatever JSON.stringify gives back to the letter', () => {
    const said = fc
      .tuple(fc.constantFrom('-0', '1.0', '1e2', '1e400', '0.1', '{"a":1,"a":1}', '[1e21]'), mangled)
      .map(([value, more]) => `{"a":${value},"b":${JSON.stringify(more)}}`);
    holds(said, text => {
      if (JSON.stringify(JSON.parse(text)) === text) expect(lossless(text)).toBeNull();
    });
  });

  it('is sure of the depth of a text with few brackets', () => {
    expect(isShallow(`${'[{"a":'.repeat(256)}1${'}]'.repeat(256)}`)).toBe(true);
    expect(isShallow(`[${'[{"a":'.repeat(256)}1${'}]'.repeat(256)}]`)).toBe(false);
  });

  it('never throws, whatever the text', () => {
    holds(fc.oneof(mangled, fc.string({ unit: 'binary' })), text => {
      lossless(text);
    });
  });

  it.each(['[', '\\', '{"', '"\\', '-', '1', '1e', '{"a":', ',', ']', '0.'])(
    'is linear in a megabyte of %s',
    piece => {
      lossless(piece.repeat((1 << 20) / piece.length));
      lossless(`{"a":1${piece.repeat((1 << 20) / piece.length)}`);
    },
  );
});
