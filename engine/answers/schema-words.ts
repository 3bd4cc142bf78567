/**
 * What a JSON Schema says, read without compiling it: its subschemas, the kinds of values that an answer may be, its keys and
 * their texts, by which an answer is told from other objects and from its opposite.
 */
import { isObject, type JsonObject, valueAt } from '../core/json/pointer.ts';
import { enumForm } from './written-forms.ts';

const ONE = new Set(
  'additionalItems additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems unevaluatedProperties'.split(
    ' ',
  ),
);
const LIST = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
const MAPS_OF_SCHEMAS = new Set(
  'properties patternProperties $defs definitions dependentSchemas dependencies'.split(' '),
);
/** Stand side by side as well, but are compiled apart, where they are referred to. */
const DEFINED = new Set(['$defs', 'definitions']);

/** A copy of the schema in which `visit` has rewritten every subschema, the inner ones first. */
export function mapSchemas(schema: unknown, visit: (schema: JsonObject) => JsonObject): unknown {
  if (!isObject(schema)) return schema;
  const inner = (below: unknown): unknown => mapSchemas(below, visit);
  const entries = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (ONE.has(keyword) && isObject(value)) return [keyword, inner(value)];
    if (LIST.has(keyword) && Array.isArray(value)) return [keyword, value.map(inner)];
    if (MAPS_OF_SCHEMAS.has(keyword) && isObject(value)) {
      return [
        keyword,
        Object.fromEntries(Object.entries(value).map(([name, below]) => [name, inner(below)])),
      ];
    }
    return [keyword, value];
  });
  return visit(Object.fromEntries(entries));
}

/** How many subschemas there are, and how many at most are side by side under one keyword. */
export function partsOf(schema: unknown): { total: number; widest: number } {
  let total = 0;
  let widest = 0;
  mapSchemas(schema, one => {
    total++;
    for (const [keyword, value] of Object.entries(one)) {
      if (DEFINED.has(keyword) || !(LIST.has(keyword) || MAPS_OF_SCHEMAS.has(keyword))) continue;
      if (typeof value === 'object' && value !== null) widest = Math.max(widest, Object.keys(value).length);
    }
    return one;
  });
  return { total, widest };
}

/** The schema without our own `x-fw-…` keywords, as a server should see it. */
export function stripAnnotations(schema: unknown): unknown {
  return mapSchemas(schema, one =>
    Object.fromEntries(Object.entries(one).filter(([keyword]) => !keyword.startsWith('x-fw-'))),
  );
}

const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];
const LEADS_ON = /"\$(?:ref|dynamicRef|recursiveRef)":/;

/**
 * The schema with `x-fw-step` beside every reference that leads to further references: only chains and circles of
 * them can take more steps than the value is large. A reference to a schema without any needs no counting. A long
 * `enum` counts too, since a value is compared with each member.
 */
export function countSteps(schema: unknown): unknown {
  const leadsOn = new Map<unknown, boolean>();
  // an $id further down changes what a pointer means; then every reference counts
  const hasOwnBase = isObject(schema) && /"(?:\$id|id)":/.test(JSON.stringify({ ...schema, $id: undefined }));
  const counts = (reference: unknown): boolean => {
    if (typeof reference !== 'string' || hasOwnBase || !/^#(?:\/[^%]*)?$/.test(reference)) return true;
    const target = valueAt(schema, reference.slice(1));
    if (!isObject(target)) return true;
    const known = leadsOn.get(target) ?? LEADS_ON.test(JSON.stringify(target));
    leadsOn.set(target, known);
    return known;
  };
  return mapSchemas(schema, one => {
    const isReference = REFERENCES.some(keyword => Object.hasOwn(one, keyword) && counts(one[keyword]));
    const cost = (isReference ? 1 : 0) + lookupCost(one.enum);
    return cost > 0 ? { ...one, 'x-fw-step': cost } : one;
  });
}

/** Steps that a look through an `enum` is worth: 256 comparisons of plain values, or 16 of objects and lists. */
function lookupCost(members: unknown): number {
  if (!Array.isArray(members)) return 0;
  const isPlain = members.every(member => typeof member !== 'object' || member === null);
  return members.length >> (isPlain ? 8 : 4);
}

export type Kind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

const ALL: readonly Kind[] = ['object', 'array', 'string', 'number', 'boolean', 'null'];
/** References that are followed, one after the other. */
const MOST_REFERENCES = 16;
const OF_OBJECTS =
  /^(?:properties|required|additionalProperties|patternProperties|minProperties|maxProperties)$/;
const OF_ARRAYS = /^(?:items|prefixItems|minItems|maxItems|uniqueItems|contains)$/;

const knownKinds = new WeakMap<object, ReadonlySet<Kind>>();

/** The kinds at the root. A schema that says nothing of it means an object: nearly all answers are. */
export function kindsOf(schema: JsonObject | boolean): ReadonlySet<Kind> {
  if (!isObject(schema)) return new Set<Kind>(['object']);
  const before = knownKinds.get(schema);
  if (before) return before;
  const kinds = kindsIn(schema, schema, 0) ?? new Set<Kind>(['object']);
  knownKinds.set(schema, kinds);
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
  if (!isObject(schema) || steps > MOST_REFERENCES) return null;
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

/** References and branches that are followed. */
const MOST_STEPS = 64;

/** Texts of enums that are looked for. */
const MOST_TEXTS = 100;

const knownKeys = new WeakMap<object, ReadonlyMap<string, ReadonlySet<string>>>();

/** The keys at the root of a schema, each with the texts that it may be; empty where the schema names no key. */
export function keysOf(schema: JsonObject | boolean): ReadonlyMap<string, ReadonlySet<string>> {
  if (!isObject(schema)) return new Map();
  const before = knownKeys.get(schema);
  if (before) return before;
  const keys = new Map<string, Set<string>>();
  let steps = 0;
  const add = (part: unknown): void => {
    if (!isObject(part) || ++steps > MOST_STEPS) return;
    const { properties, $ref, allOf, anyOf, oneOf } = part;
    if (isObject(properties)) {
      for (const [key, own] of Object.entries(properties)) {
        const texts = isObject(own) ? [own.enum, [own.const]].flat(2) : [];
        const all = keys.get(key) ?? new Set<string>();
        for (const text of texts) if (typeof text === 'string') all.add(text);
        keys.set(key, all);
      }
    }
    if (typeof $ref === 'string' && $ref.startsWith('#')) add(valueAt(schema, $ref.slice(1)));
    for (const branches of [allOf, anyOf, oneOf]) if (Array.isArray(branches)) branches.forEach(add);
  };
  add(schema);
  knownKeys.set(schema, keys);
  return keys;
}

/** Whether a value may have been meant as an answer: it has a key of the schema, or the schema names none. */
export function mayBeAnswer(value: unknown, schema: JsonObject | boolean): boolean {
  const keys = keysOf(schema);
  if (!isObject(value) || keys.size === 0) return true;
  return Object.keys(value).some(key => keys.has(key));
}

/** The texts of its enums that an answer says, and those that it might have said instead, in lower case. */
export function textsOf(value: unknown, schema: JsonObject | boolean): { said: string[]; others: string[] } {
  const said = new Set<string>();
  const all = new Set<string>();
  for (const [key, texts] of keysOf(schema)) {
    const own = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
    if (typeof own !== 'string' || texts.size === 0) continue;
    said.add(String(enumForm(own, [...texts])?.to ?? own).toLowerCase());
    for (const text of texts) all.add(text.toLowerCase());
  }
  const others = [...all].filter(text => !said.has(text) && text.length > 1);
  return { said: [...said], others: others.slice(0, MOST_TEXTS) };
}
