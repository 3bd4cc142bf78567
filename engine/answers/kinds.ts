/** Which kinds of JSON values a schema lets an answer be, so that an answer is looked for as what it may be. */
import { isObject, type JsonObject, valueAt } from '../core/json/pointer.ts';

export type Kind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

const ALL: readonly Kind[] = ['object', 'array', 'string', 'number', 'boolean', 'null'];
/** References that are followed, one after the other. */
const MOST_STEPS = 16;
const OF_OBJECTS =
  /^(?:properties|required|additionalProperties|patternProperties|minProperties|maxProperties)$/;
const OF_ARRAYS = /^(?:items|prefixItems|minItems|maxItems|uniqueItems|contains)$/;

const known = new WeakMap<object, ReadonlySet<Kind>>();

/** The kinds at the root. A schema that says nothing of it means an object: nearly all answers are. */
export function kindsOf(schema: JsonObject | boolean): ReadonlySet<Kind> {
  if (!isObject(schema)) return new Set<Kind>(['object']);
  const before = known.get(schema);
  if (before) return before;
  const kinds = kindsIn(schema, schema, 0) ?? new Set<Kind>(['object']);
  known.set(schema, kinds);
  return kinds;
}

export function kindOf(value: unknown): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value as Kind;
}

/** What an answer of these kinds is called: `object`, `array`, or `value`. */
export function nameOf(kinds: ReadonlySet<Kind>): string {
  const [first] = kinds;
  return kinds.size === 1 && (first === 'object' || first === 'array') ? first : 'value';
}

/** Null where the schema does not say. */
function kindsIn(schema: unknown, root: JsonObject, steps: number): Set<Kind> | null {
  if (!isObject(schema) || steps > MOST_STEPS) return null;
  const { type, enum: values, const: only, $ref, allOf, anyOf, oneOf } = schema;
  const below = (one: unknown): Set<Kind> | null => kindsIn(one, root, steps + 1);
  const said: (Set<Kind> | null)[] = [
    type === undefined
      ? null
      : new Set([type].flat().map(one => (one === 'integer' ? 'number' : one) as Kind)),
    Array.isArray(values) ? new Set(values.map(kindOf)) : null,
    only === undefined ? null : new Set([kindOf(only)]),
    typeof $ref === 'string' && $ref.startsWith('#') ? below(valueAt(root, $ref.slice(1))) : null,
    ...(Array.isArray(allOf) ? allOf.map(below) : []),
    ...[anyOf, oneOf].map(branches => (Array.isArray(branches) ? union(branches.map(below)) : null)),
  ];
  const found = said.filter(kinds => kinds !== null);
  if (found.length > 0) return new Set(ALL.filter(kind => found.every(kinds => kinds.has(kind))));
  const keywords = Object.keys(schema);
  if (keywords.some(keyword => OF_OBJECTS.test(keyword))) return new Set<Kind>(['object']);
  return keywords.some(keyword => OF_ARRAYS.test(keyword)) ? new Set<Kind>(['array']) : null;
}

function union(all: readonly (Set<Kind> | null)[]): Set<Kind> | null {
  return all.some(kinds => kinds === null) ? null : new Set(all.flatMap(kinds => [...(kinds as Set<Kind>)]));
}
