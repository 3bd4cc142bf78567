/** Walking a JSON Schema as a schema: into subschemas, never into constants, examples or names of properties. */
import { isObject, type JsonObject, valueAt } from '../core/json/pointer.ts';

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
