/**
 * Rows against a JSON Schema of the user's (`ingest --schema`), so that a row whose values are in the wrong columns
 * fails by name. The values of a row are text, and are passed on as they were found. To judge it, a text is read as a
 * value of JSON where the schema names such a type for its column and the text reads as one: 8.50 as a number, true as
 * a boolean, an empty text as null. A text that does not read as one is judged as text.
 */
import { resolve } from 'node:path';
import { linearPattern } from '../answers/linear-pattern.ts';
import { compileSchema } from '../answers/schema.ts';
import { readSmallFile } from '../core/config/yaml.ts';
import { dataError } from '../core/item/failure.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { summarise } from '../core/json/show.ts';

/** What is wrong with a row; null where it fits. */
export type RowCheck = (columns: readonly string[], texts: readonly string[]) => string | null;

/** Reads the schema at `path`, found from `base`. Exit 65 where there is none, or it is none. */
export function readRowCheck(path: string, base: string): RowCheck {
  let schema: unknown;
  try {
    schema = JSON.parse(readSmallFile(resolve(base, path), 'a JSON Schema'));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw dataError(`${path}: expected a JSON Schema, found: ${error.message}`);
  }
  const check = compileSchema(schema, path);
  const known = new Map<string, ReadonlySet<string>>();
  const typesFor = (column: string): ReadonlySet<string> => {
    let types = known.get(column);
    if (types === undefined) {
      types = typesOf(schema, column);
      known.set(column, types);
    }
    return types;
  };
  return (columns, texts) => {
    const row = Object.fromEntries(
      columns.map((column, at) => [column, readAs(texts[at] as string, typesFor(column))]),
    );
    const problems = check(row);
    return problems.length === 0 ? null : summarise(problems);
  };
}

/** Characters of a text that is read as a number. */
const LONGEST_NUMBER = 400;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/** The text as it is judged, where `types` are those that the schema names for it. */
function readAs(text: string, types: ReadonlySet<string>): unknown {
  if (types.has('number') && text.length <= LONGEST_NUMBER) {
    const trimmed = text.trim();
    if (NUMBER.test(trimmed)) return Number(trimmed);
  }
  if (types.has('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  if (types.has('null') && text === '') return null;
  if ((types.has('array') && text[0] === '[') || (types.has('object') && text[0] === '{')) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

const SAME_VALUE = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'not'];
const OF_NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];

/** The types that a schema of rows names for a column, wherever it speaks of it; an integer is a number. */
function typesOf(schema: unknown, column: string): Set<string> {
  const types = new Set<string>();
  const ofRow = new Set<unknown>();
  const ofValue = new Set<unknown>();

  function followed(node: JsonObject, visit: (below: unknown) => void): void {
    for (const key of SAME_VALUE) for (const below of [node[key]].flat()) visit(below);
    if (typeof node.$ref === 'string') visit(within(schema, node.$ref));
  }

  function visitRow(node: unknown): void {
    if (!isObject(node) || ofRow.has(node)) return;
    ofRow.add(node);
    followed(node, visitRow);
    if (isObject(node.dependentSchemas)) Object.values(node.dependentSchemas).forEach(visitRow);
    let isNamed = false;
    const { properties, patternProperties } = node;
    if (isObject(properties) && Object.hasOwn(properties, column)) {
      isNamed = true;
      visitValue(properties[column]);
    }
    for (const [pattern, below] of Object.entries(isObject(patternProperties) ? patternProperties : {})) {
      if (!linearPattern(pattern).test(column)) continue;
      isNamed = true;
      visitValue(below);
    }
    if (!isNamed) visitValue(node.additionalProperties);
    visitValue(node.unevaluatedProperties);
  }

  function visitValue(node: unknown): void {
    if (!isObject(node) || ofValue.has(node)) return;
    ofValue.add(node);
    followed(node, visitValue);
    for (const type of [node.type].flat()) if (typeof type === 'string') types.add(type);
    const values = [...(Array.isArray(node.enum) ? node.enum : []), ...('const' in node ? [node.const] : [])];
    for (const value of values)
      types.add(value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
    if (OF_NUMBERS.some(key => key in node)) types.add('number');
  }

  visitRow(schema);
  if (types.has('integer')) types.add('number');
  return types;
}

/** What a reference inside the schema names; undefined where it names nothing that is found by its place. */
function within(schema: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined;
  let node = schema;
  for (const segment of reference.slice(1).split('/').slice(1)) {
    const key = decodeURIComponent(segment).replaceAll('~1', '/').replaceAll('~0', '~');
    node =
      typeof node === 'object' && node !== null && Object.hasOwn(node, key)
        ? (node as JsonObject)[key]
        : undefined;
  }
  return node;
}
