/**
 * Reads the YAML files that people write (agents, orderings, defaults, pipelines) against a schema of ours. Whatever is
 * wrong with one is said as `file:line:column: expected …, found …`.
 */
import { readFileSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import type { ErrorObject } from 'ajv';
import type { Document, LineCounter, Node } from 'yaml';
import { dataError, type Fatal } from '../item/failure.ts';
import { cut } from '../item/wording.ts';
import { parsePointer } from '../json/pointer.ts';
import { shorten } from '../json/show.ts';
import { library, ownValidator, packageRoot } from './package.ts';

const FILE_LIMIT = 1 << 20;

export interface YamlFile {
  path: string;
  value: unknown;
  /** Whether the file is a map with this key. */
  hasKey(key: string): boolean;
  /** `file:line:column` of the value at `segments`, or of what is nearest around it. */
  placeOf(segments: readonly (string | number)[]): string;
  /** The error to throw about the value at `segments`, or its key: exit 65, `file:line:column` in front. */
  complain(segments: readonly (string | number)[], message: string, about?: 'key' | 'value'): Fatal;
}

/** The text of a file of at most 1 MiB. Exit 65 where it is missing, no regular file, too large or not UTF-8. */
export function readSmallFile(path: string, what: string): string {
  let bytes: Buffer;
  try {
    const stat = statSync(path);
    if (!stat.isFile()) {
      // it would be waited for
      const kind = stat.isFIFO() ? ': a pipe' : '';
      throw dataError(`${path}: expected ${what}, found something else than a regular file${kind}`);
    }
    if (stat.size > FILE_LIMIT) {
      throw dataError(`${path}: expected ${what} of at most ${FILE_LIMIT} bytes, found ${stat.size}`);
    }
    bytes = readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw dataError(`${path}: expected ${what}, found ${code === 'ENOENT' ? 'no such file' : code}`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw dataError(`${path}: expected ${what} in UTF-8, found other bytes`);
  }
}

interface Reading {
  /** messages repeat nothing of what was written, because people put keys there */
  secretive?: boolean;
  /** no aliases, merge keys and tags: a value is written where it is used, and is one of JSON */
  plain?: boolean;
}

/** Reads `path` and checks it against schemas/`schemaName`.schema.json. Exit 65 with file:line:column if it does not fit. */
export function readYaml(path: string, schemaName: string, reading: Reading = {}): YamlFile {
  return yamlIn(readSmallFile(path, 'a YAML file'), path, schemaName, reading);
}

/** The same of the text of `path`. */
export function yamlIn(text: string, path: string, schemaName: string, reading: Reading = {}): YamlFile {
  const value = packagedValue(text, path, schemaName);
  if (value === undefined) return read(text, path, schemaName, reading);
  let file: YamlFile | undefined;
  const parsed = (): YamlFile => {
    file ??= read(text, path, schemaName, reading);
    return file;
  };
  return {
    path,
    value,
    hasKey: key => hasKey(value, key),
    placeOf: segments => parsed().placeOf(segments),
    complain: (...about) => parsed().complain(...about),
  };
}

/** Files of ours by their paths in pipelines/, as they were read when fw was built. */
type Packaged = Record<string, { schema: string; text: string; value: string }>;
let packaged: Packaged | undefined;

/** What a file of ours holds, where its text is still that of the build: to read YAML takes longer than all else of a start. */
function packagedValue(text: string, path: string, schemaName: string): unknown {
  const name = relative(join(packageRoot(), 'pipelines'), path);
  if (name.startsWith('..')) return undefined;
  packaged ??= JSON.parse(readFileSync(join(packageRoot(), 'dist', 'yaml.json'), 'utf8')) as Packaged;
  const known = packaged[name.replaceAll(sep, '/')];
  return known?.schema === schemaName && known.text === text ? JSON.parse(known.value) : undefined;
}

function read(
  text: string,
  path: string,
  schemaName: string,
  { secretive = false, plain = false }: Reading,
): YamlFile {
  const lines = new (library('yaml').LineCounter)();
  const placed = (offset: number, message: string): Fatal => {
    const { line, col } = lines.linePos(offset);
    return dataError(`${path}:${line}:${col}: ${message}`);
  };
  const refuse: Refuse = (offset, message, code) =>
    placed(offset, secretive ? `expected YAML, found: ${code}` : message);
  const document = parseYaml(text, refuse, lines);
  if (plain) refuseBorrowed(document, placed);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    // aliases of aliases multiply
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    throw dataError(
      `${path}: expected YAML, found: aliases of aliases without end, or nesting that is too deep`,
    );
  }
  const file: YamlFile = {
    path,
    value,
    hasKey: key => hasKey(value, key),
    placeOf(segments) {
      const { line, col } = lines.linePos(offsetOf(document, segments, 'value'));
      return `${path}:${line}:${col}`;
    },
    complain: (segments, message, about = 'value') => placed(offsetOf(document, segments, about), message),
  };
  checkPart(file, [], schemaName, secretive);
  return file;
}

function hasKey(value: unknown, key: string): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key);
}

/** The value at `at`, checked against a schema as `readYaml` does. */
export function checkPart(
  file: YamlFile,
  at: readonly string[],
  schemaName: string,
  secretive: boolean,
): unknown {
  const value = at.reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], file.value);
  const fits = ownValidator(schemaName, 'all');
  if (!fits(value)) {
    // a misspelt key is also a missing one: what was written is the better thing to point at
    const unknown = fits.errors!.find(({ keyword }) => keyword === 'additionalProperties');
    throw complainOf(file, at, unknown ?? withMissing(fits.errors!), secretive);
  }
  return value;
}

/** The first error; where a key is missing there, with all that are. */
function withMissing(errors: readonly ErrorObject[]): ErrorObject {
  const first = errors[0] as ErrorObject;
  if (first.keyword !== 'required') return first;
  // of what may stand for each other, nobody needs all
  const there = errors.filter(
    ({ keyword, instancePath, schemaPath }) =>
      keyword === 'required' &&
      instancePath === first.instancePath &&
      (schemaPath === first.schemaPath || !/\/(?:any|one)Of\//.test(schemaPath)),
  );
  const missing = new Set(there.map(({ params }) => `'${params.missingProperty}'`));
  return { ...first, params: { missing: [...missing] } };
}

/** The tags of JSON's values (YAML 1.2.2, 10.3); others, such as !!binary, make values that JSON does not have. */
const TAGS = new Set(
  ['map', 'seq', 'str', 'int', 'float', 'bool', 'null'].map(name => `tag:yaml.org,2002:${name}`),
);

/** What an alias or a merge key brings in could be changed from afar. */
function refuseBorrowed(document: Document, placed: (offset: number, message: string) => Fatal): void {
  const { isScalar, visit } = library('yaml');
  const refuse = (node: Node, message: string) => placed(node.range?.[0] ?? 0, message);
  visit(document, {
    Alias(_key, alias) {
      throw refuse(alias, `expected a value written out, found the alias *${shorten(alias.source)}`);
    },
    Value(_key, node) {
      if (node.tag !== undefined && !TAGS.has(node.tag))
        throw refuse(node, `expected a value of JSON, found one with the tag ${shorten(node.tag)}`);
    },
    Pair(_key, { key }) {
      if (isScalar(key) && key.value === '<<')
        throw refuse(key, 'expected values written out, found the merge key <<');
    },
  });
}

/** Where the value, or its key, begins in the text; where there is none, the nearest thing around it. */
function offsetOf(
  document: Document.Parsed,
  segments: readonly (string | number)[],
  about: 'key' | 'value',
): number {
  const { isMap, isNode } = library('yaml');
  for (let length = segments.length; length > 0; length--) {
    const parent = length === 1 ? document.contents : document.getIn(segments.slice(0, length - 1), true);
    const node = document.getIn(segments.slice(0, length), true);
    const pair = isMap(parent)
      ? parent.items.find(({ key }) => String(key) === String(segments[length - 1]))
      : undefined;
    const wanted = about === 'key' && pair !== undefined ? pair.key : node;
    if (isNode(wanted) && wanted.range) return wanted.range[0];
    if (pair !== undefined && isNode(pair.key) && pair.key.range) return pair.key.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function complainOf(
  file: YamlFile,
  within: readonly string[],
  error: ErrorObject,
  secretive: boolean,
): Fatal {
  const shown = (value: unknown): string =>
    secretive && typeof value === 'string' ? 'another text' : show(value);
  const segments = [...within, ...parsePointer(error.instancePath)];
  const at = segments.length > 0 ? `${segments.join('.')}: ` : '';
  /** `key`: what is wrong with the key of that name, and not with the value. */
  const complain = (message: string, key?: string): Fatal =>
    key === undefined
      ? file.complain(segments, at + message)
      : file.complain([...segments, key], at + message, 'key');
  const { keyword, params, data, propertyName } = error;
  if (propertyName !== undefined) return complain(`key '${propertyName}' ${error.message}`, propertyName);
  switch (keyword) {
    case 'additionalProperties': {
      const key: string = params.additionalProperty;
      const keys = Object.keys((error.parentSchema?.properties as object | undefined) ?? {}).join(', ');
      const shownKey = secretive && !/^[a-z_]{1,40}$/.test(key) ? 'another one' : `'${key}'`;
      return complain(`expected the keys ${keys}, found ${shownKey}`, key);
    }
    case 'required': {
      const missing: string[] = params.missing;
      return complain(`expected the key${missing.length > 1 ? 's' : ''} ${missing.join(', ')}, found none`);
    }
    case 'type':
      return complain(`expected ${[params.type].flat().join(' or ')}, found ${shown(data)}`);
    case 'enum':
      return complain(`expected ${params.allowedValues.join(' or ')}, found ${shown(data)}`);
    case 'oneOf': {
      const names = (error.schema as { required?: string[] }[]).map(({ required }) => required).join(' or ');
      return complain(`expected either ${names}, found both`);
    }
    default:
      return complain(`expected a value that ${error.message}, found ${shown(data)}`);
  }
}

function show(value: unknown): string {
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  return cut(JSON.stringify(value), 80);
}

/** An error of an offset in the text and a message; `code` says the same without a word of the text. */
type Refuse = (offset: number, message: string, code: string) => Error;

/** An alias refers to an anchor anywhere before it. */
const MAX_ALIASES = 100;

/**
 * YAML text to a document, in time linear in its length: the parser's own test for keys that come twice compares every
 * pair, keys that are collections are turned into text again at each level, and each alias searches the whole text.
 * `lines` is filled for messages. Throws what `fail` makes.
 */
export function parseYaml(text: string, fail: Refuse, lines?: LineCounter): Document.Parsed {
  try {
    const options = { prettyErrors: false, lineCounter: lines, uniqueKeys: false };
    const document = library('yaml').parseDocument(text, options);
    const [error] = document.errors;
    if (error !== undefined) throw fail(error.pos[0], `expected YAML, found: ${error.message}`, error.code);
    check(document, fail);
    return document;
  } catch (error) {
    // the parser recurses: so does whoever walks what it returns
    if (!(error instanceof RangeError)) throw error;
    throw fail(0, 'expected YAML, found nesting that is too deep', 'TOO_DEEP');
  }
}

function check(document: Document.Parsed, fail: Refuse): void {
  const { isScalar, visit } = library('yaml');
  const anchors = new Set<string>();
  let aliases = 0;
  visit(document, {
    Node(_key, { anchor }) {
      if (anchor !== undefined) anchors.add(anchor);
    },
    Alias(_key, { source, range }) {
      const at = range?.[0] ?? 0;
      if (!anchors.has(source)) {
        throw fail(at, `expected an alias of an anchor above it, found *${source}`, 'UNKNOWN_ALIAS');
      }
      if (++aliases > MAX_ALIASES) {
        throw fail(at, `expected at most ${MAX_ALIASES} aliases, found more`, 'TOO_MANY_ALIASES');
      }
    },
    Map(_key, map) {
      if (map.anchor !== undefined) anchors.add(map.anchor);
      const keys = new Set<string>();
      for (const { key } of map.items) {
        const at = (key as { range?: [number] } | null)?.range?.[0] ?? map.range?.[0] ?? 0;
        if (key !== null && !isScalar(key)) {
          throw fail(at, 'expected a text as the key, found a list, a map or an alias', 'BAD_KEY');
        }
        // as objects have them: 1 and "1" are one key
        const name = String(key?.value ?? '');
        if (keys.has(name)) throw fail(at, 'expected YAML, found: Map keys must be unique', 'DUPLICATE_KEY');
        keys.add(name);
      }
    },
  });
}
