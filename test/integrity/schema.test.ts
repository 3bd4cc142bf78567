import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileSchema } from '../../engine/answers/schema.ts';
import { stripAnnotations } from '../../engine/answers/schema-words.ts';
import { scaled } from '../../engine/answers/sum.ts';
import { holds } from './property.ts';

const messages = (schema: unknown, value: unknown): string[] =>
  compileSchema(schema, 'test.json')(value).map(({ message }) => message);

describe('compileSchema', () => {
  it('judges by the dialect that $schema names', () => {
    const tuple = { items: [{ type: 'string' }], prefixItems: [{ type: 'number' }] };
    const draft7 = { $schema: 'http://json-schema.org/draft-07/schema#', ...tuple };
    expect(messages(draft7, [1])).toEqual(['/0: expected string, got 1']);
    const { items: _, ...prefix } = tuple;
    expect(messages(prefix, ['a'])).toEqual(['/0: expected number, got "a"']);
    const recursive = {
      $schema: 'https://json-schema.org/draft/2019-09/schema',
      $recursiveAnchor: true,
      additionalProperties: { $recursiveRef: '#' },
      type: 'object',
    };
    expect(messages(recursive, { a: { b: 1 } })).toEqual(['/a/b: expected object, got 1']);
  });

  it.each([
    [{ type: 'number' }, '8.5%', '(root): expected number, got "8.5%"'],
    [{ type: ['number', 'null'] }, 'x', '(root): expected number or null, got "x"'],
    [{ const: 'a' }, 'b', '(root): expected "a", got "b"'],
    [{ properties: { a: { minimum: 2 } } }, { a: 1 }, '/a: expected a number >= 2, got 1'],
    [{ additionalProperties: false }, { 'x/y': 1 }, '/x~1y: expected no such property, got one'],
    [{ pattern: '^a' }, 'b', '(root): expected text that matches ^a, got "b"'],
    [{ format: 'date' }, 'b', '(root): expected text in the format date, got "b"'],
    [{ minLength: 3 }, 'b', '(root): expected at least 3 characters, got "b"'],
    [
      { not: { pattern: 'Error' } },
      'System Error',
      '(root): expected none of what {"pattern":"Error"} allows, got "System Error"',
    ],
    [{ uniqueItems: true }, [1, 1], '(root): expected items that differ, got two that are equal'],
    [
      { 'x-fw-sum': { of: ['a', 'b'], is: 1 } },
      { a: 0.5, b: 0.2 },
      '(root): expected "a", "b" to sum to 1, got 0.7',
    ],
    [{ type: 'string' }, { a: 1 }, '(root): expected string, got an object'],
    [{ type: 'number' }, 'x'.repeat(500), `(root): expected number, got "${'x'.repeat(60)}…"`],
    [false, 1, '(root): expected no value, got 1'],
  ])('%j, case %#', (schema, value, message) => {
    expect(messages(schema, value)).toEqual([message]);
  });

  it('sees own properties only', () => {
    const schema = { type: 'object', required: ['constructor', '__proto__', 'toString'] };
    expect(messages(schema, {})).toHaveLength(3);
    expect(messages(schema, JSON.parse('{"constructor":1,"__proto__":2,"toString":3}'))).toEqual([]);
  });

  it('compiles a text once', () => {
    expect(compileSchema({ type: 'string' }, 'a')).toBe(compileSchema({ type: 'string' }, 'b'));
  });

  it('does not remember an $id from one schema to the next', () => {
    const one = { $id: 'https://example.test/s', type: 'string' };
    expect(messages(one, 1)).toHaveLength(1);
    expect(messages({ ...one, type: 'number' }, 1)).toHaveLength(0);
  });

  it.each([
    [3, /expected a JSON Schema/],
    [{ $schema: 'http://json-schema.org/draft-04/schema#' }, /expected \$schema to be one of/],
    [{ type: 'strnig' }, /expected a valid schema: \/type: expected one of .*, got "strnig"/],
    [
      { $ref: 'https://example.test/other.json' },
      /references inside the schema, got https:\/\/example.test\/other.json/,
    ],
    [{ $ref: '#/$defs/none' }, /references inside the schema, got #\/\$defs\/none/],
    [{ $async: true, type: 'string' }, /without \$async/],
    [{ pattern: '(?=a)' }, /without lookahead/],
    [{ patternProperties: { '(a)\\1': true } }, /without back references/],
    [{ 'x-fw-sum': { of: 'a' } }, /x-fw-sum/],
    [{ enum: ['x'.repeat(1 << 20)] }, /at most 1048576 characters/],
    [Array.from({ length: 70 }).reduce<object>(inner => ({ not: inner }), {}), /at most 64 levels/],
  ])('refuses %#', (schema, why) => {
    expect(() => compileSchema(schema, 'test.json')).toThrow(why);
    expect(() => compileSchema(schema, 'test.json')).toThrow(/^test\.json: /);
  });

  it('comes to an end on schemas that would not', () => {
    expect(messages({ allOf: [{ $ref: '#' }] }, 1)).toEqual([
      '(root): expected a schema of fewer parts, or whose references come to an end, got more',
    ]);
    const chain = Object.fromEntries(
      Array.from({ length: 40 }, (_, n) => [
        `d${n}`,
        n === 39
          ? { type: 'string' }
          : { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
      ]),
    );
    expect(messages({ $ref: '#/$defs/d0', $defs: chain }, 'x')[0]).toMatch(/within \d+ references/);
    const doubling = { properties: { c: { allOf: [{ $ref: '#' }, { $ref: '#' }] } } };
    const deep = Array.from({ length: 60 }).reduce<unknown>(c => ({ c }), 1);
    expect(messages(doubling, deep)[0]).toMatch(/within \d+ references/);
    expect(messages(doubling, { c: { c: 1 } })).toEqual([]);
  });

  it('bounds the problems that it lists, and the pairs that it compares', () => {
    const wrong = Array.from({ length: 20_000 }, () => 'x');
    expect(messages({ items: { type: 'number' } }, wrong)).toEqual(['/0: expected number, got "x"']);
    expect(messages({ uniqueItems: true }, wrong)[0]).toMatch(/at most 4096 items/);
    const patterned = { type: 'string', pattern: '^(a?){900}$' };
    expect(messages(patterned, 'a'.repeat(1 << 20))[0]).toMatch(/^\(root\): expected a text of at most/);
  });

  it('compiles references by the thousand, and says which bound a large schema meets', () => {
    const properties = (count: number, part: unknown) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, part]));
    const referring = {
      $defs: { a: { properties: properties(300, { type: 'number', minimum: 0 }) } },
      allOf: [0, 1].map(() => ({ properties: properties(1_000, { $ref: '#/$defs/a' }) })),
    };
    expect(messages(referring, { p1: { p1: -1 } })).toContain('/p1/p1: expected a number >= 0, got -1');
    expect(() => messages({ properties: properties(9_000, true) }, 1)).toThrow(/at most 1000 .*, got 9000/);
    const alternatives = { oneOf: Array.from({ length: 4_000 }, (_, n) => ({ const: n })) };
    expect(() => messages(alternatives, 1)).toThrow(/at most 1000 subschemas under one keyword.*got 4000/);
    expect(() => messages({ $defs: properties(5_000, {}) }, 1)).toThrow(/at most 5000 subschemas, got 5001/);
    expect(messages({ format: 'url' }, `http://${'a'.repeat(320_000)}`)).toHaveLength(1);
    expect(messages({ enum: Array.from({ length: 50_000 }, (_, n) => n) }, 'x')).toHaveLength(1);
  });

  it('compiles the schemas of the first study', () => {
    for (const name of ['assessment', 'decision', 'legacy', 'defaults']) {
      const schema = JSON.parse(
        readFileSync(new URL(`../../schemas/${name}.schema.json`, import.meta.url), 'utf8'),
      );
      expect(compileSchema(schema, name)(undefined)).not.toEqual([]);
    }
  });
});

describe('stripAnnotations', () => {
  it('takes our keywords out of schemas, and leaves names and constants', () => {
    const schema = {
      'x-fw-sum': { of: ['a'], is: 1 },
      properties: { 'x-fw-a': { 'x-fw-b': 1, const: { 'x-fw-c': 1 } } },
      items: [{ 'x-fw-d': 1, anyOf: [{ 'x-fw-e': 1 }, true] }],
    };
    const before = JSON.stringify(schema);
    expect(stripAnnotations(schema)).toEqual({
      properties: { 'x-fw-a': { const: { 'x-fw-c': 1 } } },
      items: [{ anyOf: [{}, true] }],
    });
    expect(JSON.stringify(schema)).toBe(before);
  });
});

describe('scaled', () => {
  it('sums exactly, in proportion, and only within a hundredth of the total', () => {
    const weight = fc.oneof(fc.constant(0), fc.double({ min: 1e-3, max: 1e6, noNaN: true }));
    const weights = fc.array(weight, { minLength: 1, maxLength: 12 });
    const off = fc.double({ min: 0.97, max: 1.03, noNaN: true });
    holds(fc.tuple(weights, fc.constantFrom(1, 100, 0.5), off), ([parts, is, factor]) => {
      const all = parts.reduce((a, b) => a + b, 0);
      const numbers = parts.map(part => (all === 0 ? 0 : (part / all) * is * factor));
      const data = Object.fromEntries(numbers.map((number, index) => [`w${index}`, number]));
      const to = scaled({ of: Object.keys(data), is }, data);
      const sum = numbers.reduce((a, b) => a + b, 0);
      const missed = Math.abs(sum - is) / is;
      if (Math.abs(missed - 0.01) < 1e-5) return; // at the edge either may be right
      if (missed > 0.01) return expect(to).toBeUndefined();
      const units = [...to!.values()].map(weight => Math.round(weight * 1e6));
      expect(units.reduce((a, b) => a + b, 0)).toBe(is * 1e6);
      for (const [index, weight] of [...to!.values()].entries()) {
        expect(Math.abs(weight - (numbers[index]! / sum) * is)).toBeLessThan(1.1e-6);
      }
    });
  });
});
