/** Schemas that are made to hurt who compiles them or judges by them, by rule; and values to judge. */
import type { JsonObject } from '../../engine/core/json/pointer.ts';

export interface HostileSchema {
  name: string;
  schema: unknown;
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const named = <T>(count: number, make: (index: number) => T, prefix = 'k'): Record<string, T> =>
  Object.fromEntries(times(count, i => [`${prefix}${i}`, make(i)]));

/** Levels of definitions, each of which refers to the next one `width` times. */
function fan(levels: number, width: number, keyword: string, leaf: unknown): JsonObject {
  const $defs: JsonObject = { [`d${levels}`]: leaf };
  for (let level = 0; level < levels; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` };
    $defs[`d${level}`] =
      keyword === 'properties'
        ? { properties: named(width, () => next, 'x') }
        : keyword === 'dependentSchemas'
          ? { dependentSchemas: named(width, () => next, 'x') }
          : keyword === 'not'
            ? { not: { anyOf: times(width, () => ({ not: next })) } }
            : keyword === 'if'
              ? Object.fromEntries(['if', 'then', 'else'].map(branch => [branch, next]))
              : keyword === 'contains'
                ? { contains: next, items: next }
                : { [keyword]: times(width, () => next) };
  }
  return { $ref: '#/$defs/d0', $defs };
}

function nested(levels: number, wrap: (below: unknown) => unknown, leaf: unknown): unknown {
  let schema = leaf;
  for (let level = 0; level < levels; level++) schema = wrap(schema);
  return schema;
}

const LEAVES = [
  { type: 'string' },
  { required: ['a', 'b', 'c'] },
  { type: 'object', additionalProperties: false },
  false,
];
const FANS = ['anyOf', 'oneOf', 'allOf', 'not', 'if', 'contains', 'properties', 'dependentSchemas'];
const PATTERNS = [
  '(a+)+$',
  '^(a|a)*$',
  '(.*)*x',
  '^(([a-z])+.)+[A-Z]([a-z])+$',
  '(x{1,1000}){1,1000}',
  '(?=a+)a*b',
  '\\1(a)',
  '(a?){500}a{500}',
  '['.repeat(5000),
  '(?:'.repeat(3000) + ')'.repeat(3000),
];

function* schemas(): Generator<[string, unknown]> {
  for (const keyword of FANS) {
    for (const [levels, width] of [
      [12, 2],
      [19, 2],
      [30, 2],
      [9, 6],
      [4, 40],
    ] as const) {
      for (const [index, leaf] of LEAVES.entries()) {
        if (index > 0 && levels !== 19) continue;
        yield [`${keyword} of ${width}, ${levels} levels, leaf ${index}`, fan(levels, width, keyword, leaf)];
      }
    }
  }
  for (const pattern of PATTERNS) {
    yield [`pattern ${pattern.slice(0, 20)}`, { properties: { s: { pattern } } }];
    yield [
      `patternProperties ${pattern.slice(0, 20)}`,
      { patternProperties: { [pattern]: { type: 'string' } } },
    ];
    yield [`propertyNames ${pattern.slice(0, 20)}`, { propertyNames: { pattern } }];
  }
  for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
    for (const count of [900, 1_001, 20_000]) {
      yield [
        `${count} forms by ${keyword} for each item`,
        { properties: { l: { items: { [keyword]: times(count, i => ({ const: i })) } } } },
      ];
      yield [
        `${count} lists by ${keyword}`,
        { [keyword]: times(count, i => ({ required: [`k${i}`, `j${i}`] })) },
      ];
    }
  }
  for (const count of [5_000, 60_000]) {
    yield [
      `${count} required of each item`,
      { properties: { l: { items: { required: Object.keys(named(count, () => 0)) } } } },
    ];
    yield [`enum of ${count}`, { properties: { l: { items: { enum: times(count, i => ({ a: i })) } } } }];
    yield [
      `${count} properties`,
      { properties: named(count, () => ({ type: 'string' })), additionalProperties: false },
    ];
    yield [`${count} dependentRequired`, { dependentRequired: named(count, i => [`z${i}`]) }];
    yield [`sum of ${count}`, { 'x-fw-sum': { of: Object.keys(named(count, () => 0)), is: 1 } }];
  }
  yield [
    'a loop of two references',
    { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
  ];
  yield ['a reference to itself', { $ref: '#' }];
  yield ['a loop by anyOf', { anyOf: [{ $ref: '#' }, { $ref: '#' }] }];
  yield ['a loop by not', { not: { $ref: '#' } }];
  yield [
    'a loop by allOf of definitions',
    { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }] } } },
  ];
  yield ['a dynamic loop', { $dynamicAnchor: 'n', anyOf: [{ $dynamicRef: '#n' }, { $dynamicRef: '#n' }] }];
  yield [
    'a tree that doubles',
    {
      anyOf: [
        { items: { $ref: '#' } },
        { additionalProperties: { $ref: '#' } },
        { prefixItems: [{ $ref: '#' }], items: { $ref: '#' } },
      ],
    },
  ];
  yield [
    'two ways down each level',
    {
      allOf: [{ additionalProperties: { $ref: '#' } }, { additionalProperties: { $ref: '#' } }],
      items: { $ref: '#' },
    },
  ];
  yield [
    'unevaluated beside a fan',
    { ...fan(16, 2, 'anyOf', { properties: { x: true } }), unevaluatedProperties: false },
  ];
  yield [
    'unevaluated at each level',
    nested(40, below => ({ allOf: [below], unevaluatedProperties: false }), { properties: { x: true } }),
  ];
  yield [
    'unique items of unique items',
    { items: { uniqueItems: true }, uniqueItems: true, properties: { l: { uniqueItems: true } } },
  ];
  yield [
    'many contained',
    { properties: { l: { contains: { contains: {} }, minContains: 1e9, maxContains: 2e9 } } },
  ];
  for (const levels of [60, 64, 70, 5_000]) {
    yield [`${levels} levels of items`, nested(levels, items => ({ items }), { type: 'string' })];
    yield [`${levels} levels of not`, nested(levels, not => ({ not }), { type: 'string' })];
  }
  yield ['a constant of 2,000 levels', { const: nested(2_000, below => [below], 1) }];
  for (const uri of [
    'http://example.com/x.json',
    'file:///etc/passwd',
    '#/nowhere',
    '#/$defs/%00',
    'urn:x',
    '//',
    '#/__proto__/toString',
  ])
    yield [`reference to ${uri}`, { $ref: uri }];
  for (const key of [
    '__proto__',
    'constructor',
    'hasOwnProperty',
    'errors++;',
    '\nerrors++;\n',
    '";process.exit(7);//',
    '`$' + '{process.exit(7)}`',
    '\u2028errors++;\u2028',
  ]) {
    yield [
      `the name ${JSON.stringify(key)}`,
      JSON.parse(
        `{"required":[${JSON.stringify(key)}],"properties":{${JSON.stringify(key)}:{"const":${JSON.stringify(key)}}},"additionalProperties":false}`,
      ),
    ];
    yield [
      `the definition ${JSON.stringify(key)}`,
      JSON.parse(
        `{"$ref":${JSON.stringify(`#/$defs/${key}`)},"$defs":{${JSON.stringify(key)}:{"type":"string"}}}`,
      ),
    ];
  }
  yield ['$async', { $async: true, type: 'string' }];
  for (const $schema of ['http://json-schema.org/draft-04/schema#', 'x', 7, { $ref: '#' }])
    yield [`$schema ${JSON.stringify($schema)}`, { $schema }];
  yield [
    'identities that repeat',
    { $defs: { a: { $id: 'http://a/b' }, b: { $id: 'http://a/b', type: 'string' } } },
  ];
  yield [
    'numbers beyond bounds',
    { properties: { l: { items: { multipleOf: 1e-300, minimum: -1e308, maximum: 1e308 } } } },
  ];
  yield ['lengths beyond bounds', { properties: { s: { minLength: 1e300, maxLength: -1 } } }];
  yield ['1 MiB of description', { description: 'x'.repeat((1 << 20) + 1) }];
  yield [
    '5,001 parts',
    { properties: named(5, () => ({ properties: named(1_000, () => ({ type: 'string' })) }), 'p') },
  ];
  for (const schema of [null, [], 7, 'x', { type: 7 }, { properties: [] }, { anyOf: {} }, { $ref: 7 }])
    yield [`no schema: ${JSON.stringify(schema)}`, schema];
  for (const keyword of [
    'if',
    'not',
    'contains',
    'items',
    'prefixItems',
    'patternProperties',
    'propertyNames',
  ]) {
    yield [`a wrong ${keyword}`, { [keyword]: 7 }];
    yield [
      `a loop by ${keyword}`,
      {
        $ref: '#/$defs/a',
        $defs: { a: { [keyword]: { $ref: '#/$defs/a' }, allOf: [{ $ref: '#/$defs/a' }] } },
      },
    ];
  }
  for (const format of [
    'uri',
    'url',
    'email',
    'regex',
    'date-time',
    'json-pointer',
    'hostname',
    'ipv6',
    'nonsense',
  ])
    yield [`format ${format}`, { properties: { s: { format } } }];
}

export const HOSTILE: readonly HostileSchema[] = [...schemas()].map(([name, schema]) => ({ name, schema }));

const deep = (levels: number, wrap: (below: unknown) => unknown): unknown => nested(levels, wrap, 1);

export const VALUES: readonly JsonObject[] = [
  { x: 1 },
  { x0: { x0: { x0: 1, x1: 1 }, x1: 1 }, x1: { x0: 1 } },
  { l: times(5_000, i => i * 7) },
  { l: times(5_000, () => ({})) },
  { l: times(3_000, i => [i % 2]) },
  { s: `${'a'.repeat(30_000)}!` },
  { s: `http://${'a.'.repeat(15_000)}` },
  { d: deep(400, below => [below]) },
  { d: deep(400, d => ({ d })) },
  named(3_000, i => i) as JsonObject,
];
