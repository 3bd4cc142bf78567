import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fill, parseDefaults } from '../../engine/answers/defaults.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import { getAt, type JsonObject, parsePointer, setAt, valueAt } from '../../engine/core/json/pointer.ts';
import { runs } from '../all.ts';
import { holds } from './property.ts';

const assessment = {
  type: 'object',
  required: ['verdict', 'rate', 'certainty', 'reasons'],
  properties: {
    verdict: { enum: ['approve', 'deny'] },
    rate: { type: 'number' },
    certainty: { type: 'integer' },
    note: { type: ['string', 'null'] },
    reasons: { type: 'object', required: ['a', 'b'], additionalProperties: { type: 'string' } },
  },
};
const check = compileSchema(assessment, 'assessment');
const document = compileSchema(
  {
    $defs: { assessment },
    properties: { history: { items: { properties: { output: { $ref: '#/$defs/assessment' } } } } },
  },
  'document',
);

const yaml = `
assessment:
  - { at: /rate, when: { /verdict: deny }, put: 25 }
  - { at: /rate, when: { /verdict: approve }, put: 10 }
  - { at: /certainty, put: 0 }
  - { at: /note, put: never }
  - { at: /reasons, put: {} }
  - { at: /reasons/*, put: Not provided }
document:
  - { at: /history/*/output, use: assessment }
`;
const defaults = parseDefaults(yaml, 'defaults.yaml');
const rules = defaults.get('assessment')!;

describe('fill', () => {
  it('fills what is null or missing where the schema forbids it, by condition, and nothing else', () => {
    const value = { verdict: 'deny', rate: null, note: null, reasons: { a: null } };
    const before = structuredClone(value);
    expect(fill(value, rules, check)).toEqual({
      value: {
        verdict: 'deny',
        rate: 25,
        note: null,
        certainty: 0,
        reasons: { a: 'Not provided', b: 'Not provided' },
      },
      repairs: [
        { rule: 'null-default', at: '/certainty', to: 0 },
        { rule: 'null-default', at: '/rate', from: null, to: 25 },
        { rule: 'null-default', at: '/reasons/b', to: 'Not provided' },
        { rule: 'null-default', at: '/reasons/a', from: null, to: 'Not provided' },
      ],
    });
    expect(value).toEqual(before);
    expect(fill({ ...value, verdict: 'approve' }, rules, check).value.rate).toBe(10);
  });

  it('makes room and goes on', () => {
    const { value, repairs } = fill({ verdict: 'deny', rate: 3, certainty: 1 }, rules, check);
    expect(value.reasons).toEqual({ a: 'Not provided', b: 'Not provided' });
    expect(repairs).toHaveLength(3);
    expect(rules.at(-2)).toMatchObject({ put: {} });
  });

  it('never decides: where no rule matches, the null stays', () => {
    const value = { verdict: null, rate: null, certainty: 1, reasons: { a: '', b: '' } };
    expect(fill(value, rules, check)).toEqual({ value, repairs: [] });
    expect(fill(value, rules, check).value).toBe(value);
  });

  it('returns a value that fits as the same object', () => {
    const value = { verdict: 'deny', rate: 1, certainty: 1, note: null, reasons: { a: '', b: '' } };
    expect(fill(value, rules, check).value).toBe(value);
  });

  it('applies the rules of another schema below a pattern, each place by its own conditions', () => {
    const turn = (verdict: string): JsonObject => ({
      output: { verdict, rate: null, certainty: null, reasons: { a: '', b: '' } },
    });
    const value = { history: [turn('deny'), turn('approve')] };
    const filled = fill(value, defaults.get('document')!, document);
    expect(valueAt(filled.value, '/history/0/output/rate')).toBe(25);
    expect(valueAt(filled.value, '/history/1/output/rate')).toBe(10);
    expect(filled.repairs.map(({ at }) => at)).toContain('/history/1/output/certainty');
  });
});

describe('parseDefaults', () => {
  it.each([
    ['a: [', 1, /expected YAML/],
    ['- 1', 1, /expected object, found a list/],
    ['', 1, /expected object, found nothing/],
    ['a: 3', 1, /a: expected array, found 3/],
    ['a:\n  - 3', 2, /a\.0: expected object, found 3/],
    ['a:\n  - { put: 1 }', 2, /expected the key 'at', found none/],
    ['a:\n  - { at: x, put: 1 }', 2, /must match pattern/],
    ['a:\n  - { at: /x }', 2, /expected the key 'put', found none/],
    ['a:\n  - { at: /x, put: 1, use: a }', 2, /expected either put or use, found both/],
    ['a:\n  - { at: /x, put: null }', 2, /expected string or number .* found nothing/],
    ['a:\n  - { at: /x, put: .inf }', 2, /expected a value of JSON/],
    ['a:\n  - at: /x\n    where: 1', 3, /expected the keys at, when, put, use, found 'where'/],
    ['a:\n  - { at: /x, put: 1, when: { y: 1 } }', 2, /key 'y' must match pattern|must match pattern/],
    ['a:\n  - { at: /x, put: 1, when: { /y: [] } }', 2, /expected string or number or boolean, found a list/],
    ['a:\n  - { at: /x, use: b, when: { /y: 1 } }', 2, /when is present/],
    ['a:\n  - { at: /x, use: b }', 2, /expected one of a, found b/],
    ['a:\n  - { at: /x, use: b }\nb:\n  - { at: /y, use: a }', 4, /do not lead back to a/],
    ['a: []\na: []', 2, /expected YAML/],
    ['a:\n  - { at: /b, put: &v { q: 1 } }\n  - { at: /c, put: *v }', 3, /written out, found the alias \*v/],
    ['a:\n  - { at: /b, put: *v }', 2, /an alias of an anchor above it/],
    ['a:\n  - { at: /b, put: !!binary aGk= }', 2, /found one with the tag .*binary/],
    ['a:\n  - { at: /b, put: { <<: { q: 1 } } }', 2, /found the merge key/],
    ['a:\n  - { at: /b, put: { q: 1, q: 2 } }', 2, /keys must be unique/],
    ['a:\n  - { at: /b, put: { [q]: 1 } }', 2, /expected a text as the key/],
    [`a: ${'['.repeat(50_000)}`, 1, /expected YAML/],
    [`a: [&x ${'[&y '.repeat(5)}1${']'.repeat(6)}\nb: *x`, 2, /written out, found the alias/],
  ])('refuses text %#', (text, line, why) => {
    expect(() => parseDefaults(text, 'defaults.yaml')).toThrow(why);
    expect(() => parseDefaults(text, 'defaults.yaml')).toThrow(new RegExp(`^defaults\\.yaml:${line}:\\d+: `));
  });

  const LISTS = runs(3_000, 12_000, 'LISTS');
  it('follows a chain of thousands of lists, and finds its end or the circle', () => {
    const chain = (last: string) =>
      Array.from(
        { length: LISTS },
        (_, n) => `l${n}: [{ at: /a, use: ${n < LISTS - 1 ? `l${n + 1}` : last} }]`,
      );
    const rules = parseDefaults([...chain('end'), 'end: []'].join('\n'), 'f');
    expect(rules.size).toBe(LISTS + 1);
    expect(() => parseDefaults(chain('l600').join('\n'), 'f')).toThrow(
      new RegExp(`^f:${LISTS}:\\d+: .*lead back to l600`),
    );
  });

  it('takes any text without another error than its own', () => {
    holds(fc.string({ unit: fc.constantFrom(...'ab:-{}[],&*!|>#"\'/ \n\t'.split('')) }), text => {
      try {
        parseDefaults(text, 'f');
      } catch (error) {
        expect((error as Error).message).toMatch(/^f:\d+:\d+: .*expected/);
      }
    });
  });
});

describe('pointers', () => {
  it('read what they wrote, and change nothing else', () => {
    const key = fc.constantFrom('a', 'b/c', '~', '__proto__', 'constructor', '0', '1');
    holds(fc.tuple(fc.array(key, { minLength: 1, maxLength: 3 }), fc.jsonValue()), ([tokens, to]) => {
      const start = tokens
        .slice(0, -1)
        .reduceRight<unknown>((below, token) => Object.fromEntries([[token, below]]), { z: 1 });
      const before = JSON.stringify(start);
      const after = setAt(start, tokens, to);
      expect(getAt(after, tokens)).toEqual(to);
      expect(JSON.stringify(start)).toBe(before);
      expect(Object.getPrototypeOf(after)).toBe(Object.prototype);
      expect(JSON.stringify(setAt(after, tokens, undefined))).toBe(before);
    });
  });

  it('find nothing in prototypes', () => {
    for (const pointer of ['/constructor', '/__proto__', '/a/length', '/b/length', '/a/-1', '/a/01']) {
      expect(valueAt({ a: [1, 2], b: 'text' }, pointer)).toBeUndefined();
    }
    expect(parsePointer('/a~1b/~0/')).toEqual(['a/b', '~', '']);
  });
});
