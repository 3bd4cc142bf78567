/** What a schema says of an answer that is needed to tell one from other objects, and from its opposite. */
import { isObject, type JsonObject, valueAt } from '../core/json/pointer.ts';
import { enumForm } from './written-forms.ts';

/** References and branches that are followed. */
const MOST_STEPS = 64;

/** Texts of enums that are looked for. */
const MOST_TEXTS = 100;

const known = new WeakMap<object, ReadonlyMap<string, ReadonlySet<string>>>();

/** The keys at the root of a schema, each with the texts that it may be; empty where the schema names no key. */
export function keysOf(schema: JsonObject | boolean): ReadonlyMap<string, ReadonlySet<string>> {
  if (!isObject(schema)) return new Map();
  const before = known.get(schema);
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
  known.set(schema, keys);
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
