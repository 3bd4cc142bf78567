/**
 * Defaults for values that a schema does not let be null or missing. The rules come from a YAML file, by the name of
 * a schema; `*` in a pointer is any one key or index. Each fill is an entry, and nothing else is touched.
 *
 *   assessment:
 *     - { at: /interest_rate, when: { /approval_decision: deny }, put: 25 }
 *     - { at: /confidence_level, put: low }
 *   legacy:
 *     - { at: /final_output, use: assessment }
 */

import { readSmallFile, type YamlFile, yamlIn } from '../core/config/yaml.ts';
import type { Repair } from '../core/item/item.ts';
import { getAt, type JsonObject, parsePointer, setAt } from '../core/json/pointer.ts';
import type { Check } from './schema-check.ts';

/** Puts `put` at the places that `at` matches, where every condition holds in the object that the rules are for. */
export interface PutRule {
  at: readonly string[];
  when: readonly { at: readonly string[]; is: unknown }[];
  put: unknown;
}

/** Applies `rules` to every object that `at` matches. */
export interface UseRule {
  at: readonly string[];
  rules: readonly Rule[];
}

export type Rule = PutRule | UseRule;

/** The rules for each schema, by its name. */
export type Defaults = ReadonlyMap<string, readonly Rule[]>;

/** A default may make room for others (an object for its keys), so filling is repeated while anything changes. */
const ROUNDS = 64;

/**
 * Fills what `check` finds null or missing, by the first rule that matches each place, but for the places `asked` (`*`
 * is any one token), whose value is asked for again and is nobody's to fill, whatever a rule says. Returns the same
 * value where nothing was filled; whether the result fits is for the caller to check. Never changes its input.
 */
export function fill(
  value: JsonObject,
  rules: readonly Rule[],
  check: Check,
  asked: readonly (readonly string[])[] = [],
): { value: JsonObject; repairs: Repair[] } {
  const repairs: Repair[] = [];
  let current: unknown = value;
  for (let round = 0; round < ROUNDS; round++) {
    const before = repairs.length;
    for (const at of gapsOf(current, check)) {
      const tokens = parsePointer(at);
      if (asked.some(place => place.length === tokens.length && matches(place, tokens))) continue;
      const put = defaultFor(current, [], tokens, rules);
      if (put === undefined) continue;
      const from = getAt(current, tokens);
      // rules may share a value; each place gets its own
      current = setAt(current, tokens, structuredClone(put));
      repairs.push({ rule: 'null-default', at, ...(from === null && { from }), to: put });
    }
    if (repairs.length === before) break;
  }
  return { value: current as JsonObject, repairs };
}

/** Where a null is forbidden or a required value is missing. */
function gapsOf(value: unknown, check: Check): Set<string> {
  const gaps = new Set<string>();
  for (const { at, instance, data, keyword } of check.findings(value, true)) {
    if (keyword === 'required' || (data === null && at === instance && at !== '')) gaps.add(at);
  }
  return gaps;
}

function defaultFor(
  value: unknown,
  base: readonly string[],
  gap: readonly string[],
  rules: readonly Rule[],
): unknown {
  const below = gap.slice(base.length);
  for (const rule of rules) {
    if ('rules' in rule) {
      if (below.length <= rule.at.length || !matches(rule.at, below)) continue;
      const put = defaultFor(value, gap.slice(0, base.length + rule.at.length), gap, rule.rules);
      if (put !== undefined) return put;
    } else if (below.length === rule.at.length && matches(rule.at, below)) {
      const object = getAt(value, base);
      if (rule.when.every(({ at, is }) => getAt(object, at) === is)) return rule.put;
    }
  }
  return undefined;
}

/** Whether the tokens begin with the pattern; `*` is any one token. */
function matches(pattern: readonly string[], tokens: readonly string[]): boolean {
  return pattern.every((token, index) => token === '*' || token === tokens[index]);
}

/** As schemas/defaults.schema.json has it. */
interface Written {
  [schema: string]: { at: string; when?: Record<string, unknown>; put?: unknown; use?: string }[];
}

/** Where a rule names another list: `rules` of it are those of the list `use`. */
interface Use {
  rule: UseRule & { rules: readonly Rule[] };
  use: string;
  place: readonly (string | number)[];
}

/** The rules of a defaults file. Exit 65, with file:line:column where there is one, for anything that does not fit. */
export function readDefaults(path: string): Defaults {
  return parseDefaults(readSmallFile(path, 'a file of defaults'), path);
}

/** The same of the text of a file. */
export function parseDefaults(text: string, path: string): Defaults {
  const { value, complain } = yamlIn(text, path, 'defaults', { plain: true });
  const lists = new Map<string, Rule[]>();
  const uses = new Map<string, Use[]>();
  for (const [name, written] of Object.entries(value as Written)) {
    const own: Use[] = [];
    const rules = written.map(({ at, when = {}, put, use }, index): Rule => {
      const tokens = parsePointer(at);
      if (use !== undefined) {
        const rule = { at: tokens, rules: [] };
        own.push({ rule, use, place: [name, index, 'use'] });
        return rule;
      }
      if (!isJson(put))
        throw complain([name, index, 'put'], 'expected a value of JSON, found a number that is none');
      const conditions = Object.entries(when).map(([pointer, is]) => ({ at: parsePointer(pointer), is }));
      return { at: tokens, when: conditions, put };
    });
    lists.set(name, rules);
    if (own.length > 0) uses.set(name, own);
  }
  link(lists, uses, complain);
  return lists;
}

/** Puts the rules that `use` names in their place. Names that lead back to themselves would never end. */
function link(
  lists: ReadonlyMap<string, Rule[]>,
  uses: ReadonlyMap<string, readonly Use[]>,
  complain: YamlFile['complain'],
): void {
  for (const { rule, use, place } of [...uses.values()].flat()) {
    const used = lists.get(use);
    if (used === undefined)
      throw complain(place, `expected one of ${[...lists.keys()].join(', ')}, found ${use}`);
    rule.rules = used;
  }
  // depth first, with a stack of our own: chains may be long
  const done = new Set<string>();
  for (const start of uses.keys()) {
    const way = [{ name: start, next: 0 }];
    const on = new Set([start]);
    for (let here = way[0]; here !== undefined; here = way.at(-1)) {
      const found = done.has(here.name) ? undefined : uses.get(here.name)?.[here.next++];
      if (found === undefined) {
        done.add(here.name);
        on.delete(here.name);
        way.pop();
      } else if (on.has(found.use)) {
        throw complain(
          found.place,
          `expected rules that do not lead back to ${found.use}, found ${found.use}`,
        );
      } else {
        on.add(found.use);
        way.push({ name: found.use, next: 0 });
      }
    }
  }
}

/** YAML also has .inf and .nan. */
function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value !== 'object' || value === null || Object.values(value).every(isJson);
}
