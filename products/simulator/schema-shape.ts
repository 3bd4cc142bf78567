/**
 * A JSON Schema, compiled once into something that makes instances of it. Nothing here knows a domain: a caller may
 * hand in wishes by property name, and a wish is taken where the schema of that property allows it.
 *
 *   schema ── build ──> nodes ── measure ──> heights ── make(random, wishes) ──> instance ── ajv ──> answer
 */

import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { nameBeside } from './filler-words.ts';
import { merge, resolve } from './merge-schemas.ts';
import {
  choiceNode,
  isDeep,
  makeOf,
  measureAll,
  type Node,
  SchemaError,
  type Spread,
  spreadOf,
} from './node.ts';
import type { Random } from './random.ts';
import { numberNode, stringNode, valueNode } from './scalars.ts';

const MOST_NODES = 5_000;
const DEEPEST_SCHEMA = 100;
const OPTIONAL_SHARE = 0.8;

export interface Compiled {
  make: (random: Random, wishes: ReadonlyMap<string, unknown>) => unknown;
  /** every property name that the schema mentions */
  names: ReadonlySet<string>;
  /** what is known of the values: of a property, wherever the schema has one of that name, or of the whole */
  spreads: (name?: string) => readonly Spread[];
}

/** @throws SchemaError where no finite instance exists, or the schema is beyond the bounds above */
export function compileShape(root: unknown): Compiled {
  return new Builder(root).compiled();
}

/** Builds the node of a schema, and those of its parts. */
class Builder {
  readonly #root: unknown;
  readonly #nodes: Node[] = [];
  readonly #known = new Map<unknown, Node>();
  readonly #names = new Set<string>();
  /** of the properties of each name */
  readonly #named = new Map<string, Node[]>();

  constructor(root: unknown) {
    this.#root = root;
  }

  compiled(): Compiled {
    const top = this.#build(this.#root, 0);
    measureAll(this.#nodes);
    if (top.height === Number.POSITIVE_INFINITY)
      throw new SchemaError('No finite JSON value fits the schema.');
    return {
      names: this.#names,
      make: (random, wishes) => makeOf(top, { random, wishes, made: 0 }, 0),
      spreads: name => (name === undefined ? [top] : (this.#named.get(name) ?? [])).map(spreadOf),
    };
  }

  #build(schema: unknown, depth: number): Node {
    if (schema === true || schema === undefined) return stringNode({});
    if (schema === false) return valueNode([]);
    if (!isObject(schema)) {
      throw new SchemaError(
        `Expected every schema to be an object or a boolean, found ${JSON.stringify(schema)}.`,
      );
    }
    const before = this.#known.get(schema);
    if (before) return before;
    if (this.#nodes.length >= MOST_NODES || depth > DEEPEST_SCHEMA) {
      throw new SchemaError(
        `The schema has more than ${MOST_NODES} parts or nests deeper than ${DEEPEST_SCHEMA}.`,
      );
    }
    // registered before it is filled, so that a schema may refer to itself
    const node: Node = {
      height: Number.POSITIVE_INFINITY,
      measure: () => 0,
      make: () => null,
      fit: () => undefined,
    };
    this.#known.set(schema, node);
    this.#nodes.push(node);
    Object.assign(node, this.#fill(schema, depth + 1), { height: Number.POSITIVE_INFINITY });
    return node;
  }

  #fill(schema: Schema, depth: number): Node {
    const { $ref, allOf, ...rest } = schema;
    if ($ref !== undefined) {
      const target = resolve(this.#root, $ref);
      if (target === undefined)
        throw new SchemaError(`The schema refers to ${JSON.stringify($ref)}, which is not in it.`);
      const alone = Object.keys(schema).every(keyword => keyword === '$ref' || ANNOTATIONS.has(keyword));
      const siblings = allOf === undefined ? rest : { ...rest, allOf };
      return choiceNode([this.#build(alone || !isObject(target) ? target : merge(target, siblings), depth)]);
    }
    if (Array.isArray(allOf)) {
      if (allOf.includes(false)) return valueNode([]);
      return choiceNode([this.#build(allOf.filter(isObject).reduce(merge, rest), depth)]);
    }
    for (const keyword of ['anyOf', 'oneOf']) {
      const options = schema[keyword];
      if (!Array.isArray(options)) continue;
      const { [keyword]: _, ...base } = schema;
      const bare = Object.keys(base).every(name => ANNOTATIONS.has(name));
      return choiceNode(
        options.map(option => this.#build(bare || !isObject(option) ? option : merge(base, option), depth)),
      );
    }
    if ('const' in schema) return valueNode([schema.const]);
    if (Array.isArray(schema.enum)) return valueNode(schema.enum);
    const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? typeFrom(schema)];
    if (types.length !== 1) return choiceNode(types.map(type => this.#build({ ...schema, type }, depth)));
    return this.#ofType(types[0], schema, depth);
  }

  #ofType(type: unknown, schema: Schema, depth: number): Node {
    if (type === 'object') return this.#objectNode(schema, depth);
    if (type === 'array') return this.#arrayNode(schema, depth);
    if (type === 'number' || type === 'integer') return numberNode(schema, type === 'integer');
    if (type === 'boolean') return valueNode([true, false]);
    if (type === 'null') return valueNode([null]);
    if (type === 'string') return stringNode(schema);
    throw new SchemaError(`Expected a JSON Schema type, found ${JSON.stringify(type)}.`);
  }

  #objectNode(schema: Schema, depth: number): Node {
    const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
    const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
    for (const [name] of properties) this.#names.add(name);
    const listed = new Set(properties.map(([name]) => name));
    for (const name of required)
      if (!listed.has(name)) properties.push([name, schema.additionalProperties ?? true]);
    if (properties.length > MOST_NODES)
      throw new SchemaError(`The schema has more than ${MOST_NODES} parts.`);
    const parts = properties.map(([name, part]) => ({
      name,
      node: this.#build(part, depth),
      needed: required.has(name),
    }));
    for (const { name, node } of parts) {
      const same = this.#named.get(name);
      if (same) same.push(node);
      else this.#named.set(name, [node]);
    }
    const least = bound(schema.minProperties, 0);
    // an object as a map: properties with names of our own
    const isMap = isObject(schema.additionalProperties);
    const isOpen = schema.additionalProperties !== false && least > parts.length;
    const more = isMap || isOpen ? this.#build(schema.additionalProperties ?? true, depth) : undefined;
    return {
      height: 0,
      measure: () => 1 + Math.max(0, ...parts.filter(part => part.needed).map(part => part.node.height)),
      make(draw, level) {
        let spare = least - required.size;
        const entries: [string, unknown][] = [];
        for (const { name, node, needed } of parts) {
          if (!needed && node.height === Number.POSITIVE_INFINITY) continue;
          const wish = draw.wishes.get(name);
          const wished = wish === undefined ? undefined : node.fit(wish);
          const taken =
            needed ||
            spare-- > 0 ||
            wished !== undefined ||
            (!isDeep(draw, level) && draw.random() < OPTIONAL_SHARE);
          if (taken) entries.push([name, wished ?? makeOf(node, draw, level + 1)]);
        }
        if (more && more.height < Number.POSITIVE_INFINITY) {
          const taken = new Set(properties.map(([name]) => name));
          const wanted = isDeep(draw, level) || !isMap ? 0 : Math.floor(draw.random() * 4);
          for (let count = 0; entries.length < least || count < wanted; count++) {
            const name = nameBeside(taken, draw.random);
            entries.push([name, makeOf(more, draw, level + 1)]);
          }
        }
        // fromEntries defines what an assignment to `__proto__` would not
        return Object.fromEntries(entries);
      },
      fit: () => undefined,
    };
  }

  #arrayNode(schema: Schema, depth: number): Node {
    const first = (Array.isArray(schema.prefixItems) ? schema.prefixItems : []).map(item =>
      this.#build(item, depth),
    );
    const item = this.#build(schema.items, depth);
    const min = bound(schema.minItems, 0);
    const max = bound(schema.maxItems, Math.max(min, first.length, 3));
    const nodeAt = (index: number) => first[index] ?? item;
    return {
      height: 0,
      measure: () => {
        let needed = min > first.length ? item.height : 0;
        for (const node of first.slice(0, min)) needed = Math.max(needed, node.height);
        return 1 + needed;
      },
      make(draw, level) {
        const most = isDeep(draw, level) ? min : Math.max(min, Math.min(max, min + 3));
        const length = min + Math.floor(draw.random() * (most - min + 1));
        const items: unknown[] = [];
        const seen = new Set<string>();
        for (let tries = 0; items.length < length && tries < length * 20; tries++) {
          const node = nodeAt(items.length);
          if (node.height === Number.POSITIVE_INFINITY) break;
          const value = makeOf(node, draw, level + 1);
          if (schema.uniqueItems === true) {
            const text = JSON.stringify(value);
            if (seen.has(text)) continue;
            seen.add(text);
          }
          items.push(value);
        }
        return items;
      },
      fit: () => undefined,
    };
  }
}

/** Keywords that say nothing about values. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  '$comment',
]);

/** The type of a schema that does not say it, from the keywords that only one type has. */
function typeFrom(schema: Schema): string {
  if ('properties' in schema || 'required' in schema || 'minProperties' in schema) return 'object';
  if ('items' in schema || 'prefixItems' in schema || 'minItems' in schema) return 'array';
  const numeric = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
  return numeric.some(keyword => keyword in schema) ? 'number' : 'string';
}

function bound(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 0 ? value : otherwise;
}
