/**
 * Two JSON Schemas as one that asks for both: what `allOf`, a `$ref` with siblings, and an `anyOf` beside other
 * keywords mean to a generator. Keywords that are not merged here are left to the final check of the answer.
 */

import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';

type Join = (a: unknown, b: unknown) => unknown;

const larger: Join = (a, b) => Math.max(Number(a), Number(b));
const smaller: Join = (a, b) => Math.min(Number(a), Number(b));
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);
const both: Join = (a, b) => ({ allOf: [a, b] });

const JOINS: ReadonlyMap<string, Join> = new Map<string, Join>([
  ['minimum', larger],
  ['exclusiveMinimum', larger],
  ['minLength', larger],
  ['minItems', larger],
  ['minProperties', larger],
  ['maximum', smaller],
  ['exclusiveMaximum', smaller],
  ['maxLength', smaller],
  ['maxItems', smaller],
  ['maxProperties', smaller],
  ['required', (a, b) => [...new Set([...list(a), ...list(b)])]],
  [
    'enum',
    (a, b) => {
      const texts = new Set(list(b).map(value => JSON.stringify(value)));
      return list(a).filter(value => texts.has(JSON.stringify(value)));
    },
  ],
  [
    'type',
    (a, b) => {
      const allowed = list(b);
      const kept = list(a).flatMap(type => {
        if (allowed.includes(type)) return [type];
        if (type === 'number' && allowed.includes('integer')) return ['integer'];
        return type === 'integer' && allowed.includes('number') ? ['integer'] : [];
      });
      return kept;
    },
  ],
  ['items', both],
  ['additionalProperties', both],
  ['allOf', (a, b) => [...list(a), ...list(b)]],
  [
    'properties',
    (a, b) => {
      const merged = new Map(Object.entries(isObject(a) ? a : {}));
      for (const [name, schema] of Object.entries(isObject(b) ? b : {})) {
        merged.set(name, merged.has(name) ? both(merged.get(name), schema) : schema);
      }
      return Object.fromEntries(merged);
    },
  ],
]);

const CHOICES = ['anyOf', 'oneOf', '$ref'];

export function merge(a: Schema, b: Schema): Schema {
  const merged: Schema = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    if (!(keyword in a)) merged[keyword] = value;
    else if (CHOICES.includes(keyword)) merged.allOf = [...list(merged.allOf ?? []), { [keyword]: value }];
    else merged[keyword] = JOINS.get(keyword)?.(merged[keyword], value) ?? value;
  }
  return merged;
}

/** What a JSON Pointer fragment such as `#/$defs/weight` names; undefined where it names nothing here. */
export function resolve(root: unknown, reference: unknown): unknown {
  if (typeof reference !== 'string' || !reference.startsWith('#')) return undefined;
  let at: unknown = root;
  for (const part of reference.slice(1).split('/').slice(1)) {
    let name: string;
    try {
      name = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    } catch {
      return undefined;
    }
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Schema)[name];
  }
  return at;
}
