/** Values that fit a schema, made by the schema: enough of JSON Schema for those of this repository. */
import { isObject, type JsonObject, valueAt } from '../../engine/core/json/pointer.ts';
import { pick, type Random } from '../../products/simulator/random.ts';

const TEXTS = [
  'The income covers the loan.',
  "The applicant's history isn't long; it's short.",
  'He said "yes", and signed.',
  'Ratio {debt / income} is [0.3], see // policy, /* rule 4 */ and # 5.',
  'Line one\nline two\tand a tab, 50\\50.',
  'Zażółć gęślą jaźń, 你好, 😀.',
  'Braces } and ] closing, ,} trailing, <think>, ```.',
  'approve',
  '8.5%',
];
/** For the patterns of our schemas. */
const SAMPLES = [
  'risk',
  'data_science',
  'risk,data',
  'b1',
  '2026-01-02T03:04:05Z',
  '2026-01-02',
  '/rate',
  '0123456789abcdef'.repeat(4),
  '8',
  '1.0',
  '0123abcd',
  '0123456789abcdef',
  `batch_req_${'0123456789abcdef'.repeat(2)}`,
];
const BY_FORMAT: { [format: string]: string } = {
  'date-time': '2026-01-02T03:04:05Z',
  date: '2026-01-02',
  time: '03:04:05Z',
  email: 'a@example.org',
  uri: 'https://example.org/x',
  uuid: '00000000-0000-4000-8000-000000000000',
};

/** A value of the schema, most likely one that fits. */
export function madeBy(schema: unknown, random: Random, root: unknown = schema, level = 0): unknown {
  if (!isObject(schema)) return pick(random, [1, 'x', true, null]);
  const below = (next: unknown): unknown => madeBy(next, random, root, level + 1);
  const { $ref, anyOf, oneOf, allOf, if: when, ...rest } = schema;
  if (typeof $ref === 'string') return below(merged(rest, valueAt(root, $ref.slice(1))));
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return pick(random, schema.enum as unknown[]);
  if (Array.isArray(allOf)) return below(allOf.reduce(merged, { ...schema, allOf: undefined }));
  if (Array.isArray(anyOf)) return below(merged({ ...schema, anyOf: undefined }, pick(random, anyOf)));
  if (Array.isArray(oneOf)) return below(merged({ ...schema, oneOf: undefined }, pick(random, oneOf)));
  if (when !== undefined)
    return below(random() < 0.5 ? [when, schema.then].reduce(merged, rest) : merged(rest, schema.else));
  const type = Array.isArray(schema.type)
    ? pick(random, schema.type as unknown[])
    : (schema.type ?? guessed(schema));
  if (type === 'object') return objectOf(schema, random, below, level);
  if (type === 'array') {
    const {
      minItems = 0,
      prefixItems = [],
      items = {},
    } = schema as { minItems?: number; prefixItems?: unknown[]; items?: unknown };
    const count = Math.max(minItems, prefixItems.length) + (level < 5 ? Math.floor(random() * 3) : 0);
    return Array.from({ length: Math.min(count, (schema.maxItems as number) ?? count) }, (_, at) =>
      below(prefixItems[at] ?? items),
    );
  }
  if (type === 'number' || type === 'integer') return numberOf(schema, random, type === 'integer');
  if (type === 'boolean') return random() < 0.5;
  if (type === 'null') return null;
  return textOf(schema, random);
}

/** Both at once, as far as keys of objects go. */
function merged(a: unknown, b: unknown): JsonObject {
  const [one, other] = [a, b].map(schema => (isObject(schema) ? schema : {})) as [JsonObject, JsonObject];
  const properties: JsonObject = { ...(one.properties as object) };
  for (const [key, own] of Object.entries((other.properties ?? {}) as JsonObject))
    properties[key] = isObject(properties[key]) && isObject(own) ? { ...properties[key], ...own } : own;
  const required = [...((one.required ?? []) as string[]), ...((other.required ?? []) as string[])];
  const both = { ...one, ...other };
  if (Object.keys(properties).length > 0) both.properties = properties;
  return required.length > 0 ? { ...both, required } : both;
}

function guessed({ properties, items }: JsonObject): string {
  return properties ? 'object' : items ? 'array' : 'string';
}

function objectOf(
  schema: JsonObject,
  random: Random,
  below: (schema: unknown) => unknown,
  level: number,
): JsonObject {
  const {
    properties = {},
    required = [],
    additionalProperties,
  } = schema as {
    properties?: JsonObject;
    required?: string[];
    additionalProperties?: unknown;
  };
  const made: JsonObject = {};
  for (const [key, own] of Object.entries(properties)) {
    if (required.includes(key) || (level < 4 && random() < 0.5)) made[key] = below(own);
  }
  if (isObject(additionalProperties)) made[pick(random, ['first', 'other'])] = below(additionalProperties);
  if (Object.keys(made).length === 0 && additionalProperties !== false) {
    made.decision = pick(random, ['approve', 'deny']);
    made.note = pick(random, TEXTS);
  }
  const { of } = (schema['x-fw-sum'] ?? {}) as { of?: string[] };
  for (const [at, key] of (of ?? []).entries())
    made[key] = at === 0 ? 0.5 : 0.5 / ((of as string[]).length - 1);
  return made;
}

function numberOf(schema: JsonObject, random: Random, isInteger: boolean): number {
  const lowest = Number(schema.minimum ?? schema.exclusiveMinimum ?? 0);
  const highest = Number(schema.maximum ?? schema.exclusiveMaximum ?? lowest + 1000);
  const number = lowest + (highest - lowest) * (0.05 + 0.9 * random());
  return isInteger ? Math.round(number) : Number(number.toFixed(pick(random, [1, 2, 4])));
}

function textOf({ format, pattern, minLength = 0, maxLength = 1e9 }: JsonObject, random: Random): string {
  if (typeof format === 'string') return BY_FORMAT[format] ?? 'https://example.org/x';
  if (typeof pattern === 'string') {
    const fitting = SAMPLES.filter(sample => new RegExp(pattern, 'u').test(sample));
    return fitting.length > 0 ? pick(random, fitting) : 'no sample fits';
  }
  const text = pick(random, TEXTS);
  return text.length <= Number(maxLength)
    ? text.padEnd(Number(minLength), 'x')
    : 'xyz'.slice(0, Number(maxLength));
}
