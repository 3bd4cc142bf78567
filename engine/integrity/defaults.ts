/** The YAML file of defaults, checked by hand so that every complaint has a line and a column. */
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  visit,
  type YAMLMap,
} from 'yaml';
import { dataError } from '../flow/failure.ts';
import { parseYaml } from '../flow/parse-yaml.ts';
import type { Defaults, PutRule, Rule, UseRule } from './fill.ts';
import { parsePointer } from './pointer.ts';
import { shorten } from './problem.ts';

const MAX_FILE = 1 << 20;

type Complain = (node: unknown, expected: string, got: string) => never;

/** The rules of a defaults file. Throws Fatal (65) with `file:line:column` where they are none. */
export function parseDefaults(yamlText: string, file: string): Defaults {
  if (yamlText.length > MAX_FILE) {
    throw dataError(`${file}: expected at most ${MAX_FILE} characters, got ${yamlText.length}.`);
  }
  const lines = new LineCounter();
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${file}:${line || 1}:${col || 1}`;
  };
  const complain: Complain = (node, expected, got) => {
    const offset = (node as Node | null | undefined)?.range?.[0] ?? 0;
    throw dataError(`${place(offset)}: expected ${expected}, got ${got}.`);
  };
  const document = parseYaml(yamlText, lines, (offset, message) => dataError(`${place(offset)}: ${message}`));
  refuseBorrowed(document, complain);

  const lists = new Map<string, { rules: Rule[]; node: unknown }>();
  const uses: { by: string; rule: UseRule; name: string; node: unknown }[] = [];
  const root = document.contents;
  if (!isMap(root)) return complain(root, 'a list of rules for each schema, by its name', kindOf(root));
  for (const { key, value } of root.items) {
    const by = textOf(key, complain, 'the name of a schema');
    if (!isSeq(value)) return complain(value ?? key, `a list of rules for ${by}`, kindOf(value));
    const rules = value.items.map(item => {
      if (!isMap(item)) return complain(item, 'a rule: { at, when, put } or { at, use }', kindOf(item));
      const read = ruleFrom(item, complain);
      if ('rule' in read) uses.push({ by, ...read });
      return 'rule' in read ? read.rule : read;
    });
    lists.set(by, { rules, node: key });
  }
  link(lists, uses, complain);
  return new Map([...lists].map(([name, { rules }]) => [name, rules]));
}

/** The tags of JSON's values (YAML 1.2.2, 10.3); others, such as !!binary, make values that JSON does not have. */
const TAGS = new Set(
  ['map', 'seq', 'str', 'int', 'float', 'bool', 'null'].map(name => `tag:yaml.org,2002:${name}`),
);

/** A default is written where it is used: what an alias or a merge key brings in could be changed from afar. */
function refuseBorrowed(document: Document, complain: Complain): void {
  visit(document, {
    Alias: (_key, alias) => complain(alias, 'a value written out', `the alias *${shorten(alias.source)}`),
    Value(_key, node) {
      if (node.tag !== undefined && !TAGS.has(node.tag)) {
        complain(node, 'a value of JSON', `one with the tag ${shorten(node.tag)}`);
      }
    },
    Pair(_key, { key }) {
      if (isScalar(key) && key.value === '<<') complain(key, 'values written out', 'the merge key <<');
    },
  });
}

function ruleFrom(
  item: YAMLMap,
  complain: Complain,
): PutRule | { rule: UseRule; name: string; node: unknown } {
  const fields = new Map<string, unknown>();
  for (const { key, value } of item.items) {
    const name = textOf(key, complain, 'at, when, put or use');
    if (!['at', 'when', 'put', 'use'].includes(name)) complain(key, 'at, when, put or use', name);
    fields.set(name, value ?? key);
  }
  const node = fields.get('at') ?? complain(item, 'a rule with at', 'none');
  const at = pointerOf(node, complain);
  if (fields.has('put') === fields.has('use')) {
    return complain(item, 'a rule with either put or use', fields.has('put') ? 'both' : 'neither');
  }
  if (fields.has('use')) {
    if (fields.has('when')) complain(fields.get('when'), 'no when beside use', 'one');
    const name = textOf(fields.get('use'), complain, 'the name of a schema');
    return { rule: { at, rules: [] }, name, node: fields.get('use') };
  }
  const put = (fields.get('put') as Node).toJSON() as unknown;
  if (!isJson(put)) return complain(fields.get('put'), 'a default that is JSON and not null', String(put));
  const when = fields.get('when');
  if (when === undefined) return { at, when: [], put };
  if (!isMap(when)) return complain(when, 'when to be { pointer: value }', kindOf(when));
  return { at, when: when.items.map(pair => conditionFrom(pair, complain)), put };
}

function conditionFrom({ key, value }: Pair, complain: Complain): PutRule['when'][number] {
  const is = isScalar(value) ? value.value : undefined;
  if (!['string', 'number', 'boolean'].includes(typeof is)) {
    return complain(value ?? key, 'a text, a number, true or false', kindOf(value));
  }
  return { at: pointerOf(key, complain), is };
}

/** Puts the rules that `use` names in their place. Names that lead back to themselves would never end. */
function link(
  lists: Map<string, { rules: Rule[]; node: unknown }>,
  uses: { by: string; rule: UseRule; name: string; node: unknown }[],
  complain: Complain,
): void {
  const from = new Map<string, typeof uses>();
  for (const use of uses) {
    const used =
      lists.get(use.name) ?? complain(use.node, `one of ${[...lists.keys()].join(', ')}`, use.name);
    use.rule.rules = used.rules;
    const others = from.get(use.by);
    if (others === undefined) from.set(use.by, [use]);
    else others.push(use);
  }
  // depth first, with a stack of our own: chains may be long
  const done = new Set<string>();
  for (const start of from.keys()) {
    const way: { name: string; next: number }[] = [{ name: start, next: 0 }];
    const on = new Set([start]);
    while (way.length > 0) {
      const here = way.at(-1)!;
      const use = done.has(here.name) ? undefined : from.get(here.name)?.[here.next++];
      if (use === undefined) {
        done.add(here.name);
        on.delete(here.name);
        way.pop();
      } else if (on.has(use.name)) {
        complain(use.node, `rules that do not lead back to ${use.name}`, use.name);
      } else {
        on.add(use.name);
        way.push({ name: use.name, next: 0 });
      }
    }
  }
}

function pointerOf(node: unknown, complain: Complain): string[] {
  const text = textOf(node, complain, 'a JSON Pointer such as /reasoning/risk');
  if (!text.startsWith('/'))
    complain(node, 'a JSON Pointer such as /reasoning/risk', JSON.stringify(shorten(text)));
  return parsePointer(text);
}

function textOf(node: unknown, complain: Complain, expected: string): string {
  if (isScalar(node) && typeof node.value === 'string' && node.value !== '') return node.value;
  return complain(node, expected, kindOf(node));
}

function kindOf(node: unknown): string {
  if (isMap(node)) return 'a map';
  if (isSeq(node)) return 'a list';
  return isScalar(node) ? shorten(JSON.stringify(node.value) ?? 'nothing') : 'nothing';
}

/** JSON without null at its root; YAML also has .inf, .nan and dates. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' || typeof value === 'boolean';
  return Object.values(value).every(below => below === null || isJson(below));
}
