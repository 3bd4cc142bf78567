/** The YAML file of defaults as rules to fill by. */
import { readSmallFile, type YamlFile, yamlIn } from '../core/config/yaml.ts';
import { parsePointer } from '../core/json/pointer.ts';
import type { Defaults, Rule, UseRule } from './fill.ts';

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
