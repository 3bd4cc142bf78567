/** What the schema of an agent lets an outcome be: the values of its enum, the texts of its choice, true and false. */
import {
  type Agent,
  type Agents,
  folderOfAgents,
  loadAgentFiles,
  packagedAgents,
} from '../../engine/asking/agents/load-agents.ts';
import { isObject, type JsonObject, parsePointer, valueAt } from '../../engine/core/json/pointer.ts';
import { pathIn, textOf } from './outcome-texts.ts';
import { canonical } from './values.ts';

/** The values that the outcome may have in an answer of `agent`, canonical; null where nothing says it. */
export type AllowedValues = (agent: string, of: 'item' | 'legacy') => ReadonlySet<string> | null;

/**
 * `outcome` is the name of the outcome, `agents` the folder that was named for this run. As in verification, legacy
 * results are those of the packaged agents where none was named.
 */
export function allowedValues(
  { outcome, agents: named }: { outcome: string; agents?: string | undefined },
  base: string,
): AllowedValues {
  const known = new Map<string, ReadonlySet<string> | null>();
  const folders = new Map<'item' | 'legacy', Agents | null>();
  const agentsOf = (of: 'item' | 'legacy'): Agents | null => {
    const before = folders.get(of);
    if (before !== undefined) return before;
    let loaded: Agents | null = null;
    try {
      loaded = loadAgentFiles(
        of === 'legacy' && named === undefined ? packagedAgents() : folderOfAgents(named, base),
      );
    } catch {
      // who judges the lines says what is wrong with it; a table needs no agents
    }
    folders.set(of, loaded);
    return loaded;
  };
  return (name, of) => {
    const key = `${of} ${name}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const agent = agentNamed(name, agentsOf(of));
    const values = agent === undefined ? null : valuesIn(agent, name, outcome);
    known.set(key, values);
    return values;
  };
}

/** The decision of a legacy result may be without a name. */
function agentNamed(name: string, agents: Agents | null): Agent | undefined {
  return name === 'decision' && !agents?.byKey.has(name)
    ? agents?.synthesis
    : agents?.byKey.get(agents.names.get(name) ?? name);
}

function valuesIn({ choice, schema }: Agent, name: string, outcome: string): ReadonlySet<string> | null {
  if (choice) return new Set(choice.map(canonical));
  if (schema === undefined) return null;
  const path = pathIn(name, outcome);
  const whole = ['answer', name, `${name}.output`];
  const tokens = outcome.startsWith('/')
    ? parsePointer(outcome)
    : Object.hasOwn(propertiesOf(resolved(schema, schema)), outcome)
      ? [outcome]
      : path !== null
        ? path.split('.')
        : whole.includes(outcome)
          ? []
          : [outcome];
  let node: unknown = schema;
  for (const token of tokens) node = below(resolved(node, schema), token);
  const values = enumOf(node, schema, 8);
  return values === null ? null : new Set(values.map(canonical));
}

const propertiesOf = (node: unknown): JsonObject =>
  isObject(node) && isObject(node.properties) ? node.properties : {};

function below(node: unknown, token: string): unknown {
  const properties = propertiesOf(node);
  if (Object.hasOwn(properties, token)) return properties[token];
  if (!isObject(node) || !/^\d+$/.test(token)) return undefined;
  const { prefixItems, items } = node;
  return (Array.isArray(prefixItems) ? prefixItems[Number(token)] : undefined) ?? items;
}

/** Behind its references, of which a schema may make a ring. */
function resolved(node: unknown, root: JsonObject): unknown {
  let found = node;
  for (let hops = 0; hops < 8; hops++) {
    if (!isObject(found) || typeof found.$ref !== 'string' || !found.$ref.startsWith('#/')) return found;
    found = valueAt(root, found.$ref.slice(1));
  }
  return undefined;
}

/** Null: any value of a type may stand there. A null of an enum is a blank, and no outcome. */
function enumOf(node: unknown, root: JsonObject, levels: number): string[] | null {
  const own = resolved(node, root);
  if (!isObject(own) || levels === 0) return null;
  if (Array.isArray(own.enum)) return own.enum.flatMap(value => textOf(value) ?? []);
  if ('const' in own) return [textOf(own.const)].filter(text => text !== null);
  if (own.type === 'boolean') return ['true', 'false'];
  if (own.type === 'null') return [];
  const parts = own.anyOf ?? own.oneOf;
  if (!Array.isArray(parts) || parts.length > 100) return null;
  const all = parts.map(part => enumOf(part, root, levels - 1));
  return all.every(values => values !== null) ? all.flat() : null;
}
