/**
 * The one place where an ordering is understood. People write keys, short names, display names and names of files;
 * inside fw an ordering is an array of keys, and whatever is not understood is refused by name.
 */
import { Fatal, ItemFailure, usageError } from '../../core/item/failure.ts';
import type { Agents } from './load-agents.ts';

/** 7! = 5,040 orderings; one agent more makes 40,320, and nobody means that. */
const MOST_PERMUTED = 7;

/**
 * The orderings that `wanted` names, as arrays of keys: nothing (the list `default`, else all agents by file name),
 * `all`, a named list, one ordering (`risk,data`, `risk-data`, `risk -> data`, keys and display names alike) or a
 * legacy file (`sequential_risk_data_legacy.jsonl`); several as an array, or separated by `;`. Exit 64 otherwise.
 */
export function resolveOrderings(wanted: string | readonly string[] | undefined, agents: Agents): string[][] {
  if (wanted === undefined) {
    return agents.orderings.get('default') ?? [agents.agents.map(agent => agent.key)];
  }
  const texts = (typeof wanted === 'string' ? [wanted] : wanted).flatMap(text => text.split(/[;\n]/));
  const orderings = texts.flatMap(text => resolveOne(text.trim(), agents));
  const seen = new Set<string>();
  for (const ordering of orderings) {
    const label = ordering.join(',');
    if (seen.has(label)) throw usageError(`expected every ordering once, found ${label} twice`);
    seen.add(label);
  }
  return orderings;
}

function resolveOne(text: string, agents: Agents): string[][] {
  if (text === 'all') return everyOrdering(agents);
  const list = agents.orderings.get(text);
  return list ?? [resolveOrdering(text, agents)];
}

/** One ordering as an array of keys, from an array of names or from text. Exit 64 where a name is not known. */
export function resolveOrdering(wanted: string | readonly string[], agents: Agents): string[] {
  const text = typeof wanted === 'string' ? wanted : wanted.join(',');
  const names = typeof wanted === 'string' ? namesIn(wanted.trim(), agents) : wanted;
  const keys: string[] = [];
  for (const name of names) {
    const key = agents.names.get(name);
    if (key === undefined) throw usageError(unknownName(name, text, agents));
    if (agents.byKey.get(key)?.role === 'synthesis') {
      throw usageError(
        `ordering '${text}': expected agents, found '${name}', the synthesis, which always comes last`,
      );
    }
    if (keys.includes(key))
      throw usageError(`ordering '${text}': expected every agent once, found ${key} twice`);
    keys.push(key);
  }
  return keys;
}

/** The same of one item: an ordering that cannot be resolved is the item's trouble (`unknown-agent`), not the run's. */
export function orderingOfItem(wanted: string | readonly string[], agents: Agents): string[] {
  try {
    return resolveOrdering(wanted, agents);
  } catch (error) {
    if (error instanceof Fatal) throw new ItemFailure('unknown-agent', error.message);
    throw error;
  }
}

function namesIn(text: string, agents: Agents): string[] {
  const file = /^sequential_(.*)\.(?:json|jsonl|ndjson)$/.exec(text.split(/[/\\]/).at(-1)!);
  if (file) return namesInFile(file[1]!.replace(/_legacy$/, '').split('_'), agents);
  // a name may hold a dash itself ("Anti-Fraud"), so a dash separates only where nothing else does
  if (agents.names.has(text)) return [text];
  const separator = /,|→|->|>/.test(text) ? /,|→|->|>/ : '-';
  return text.split(separator).map(name => name.trim());
}

/** Names that are joined by `_`, which keys hold too: at each place the longest one that is known, else the word itself. */
function namesInFile(words: readonly string[], agents: Agents): string[] {
  const names: string[] = [];
  for (let at = 0; at < words.length; ) {
    let end = words.length;
    while (end > at + 1 && !agents.names.has(words.slice(at, end).join('_'))) end--;
    names.push(words.slice(at, end).join('_'));
    at = end;
  }
  return names;
}

function unknownName(name: string, text: string, agents: Agents): string {
  const known = agents.agents.map(({ key, short, display }) => `${key} (${short}, ${display})`).join(', ');
  const lists = ['all', ...agents.orderings.keys()].join(', ');
  const where = name === text ? '' : ` in '${shorten(text)}'`;
  return `expected an agent, found '${shorten(name)}'${where}. The agents are ${known}; the lists are ${lists}`;
}

const shorten = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text);

/** Every permutation of the agents, in the lexicographic order of their list. */
function everyOrdering(agents: Agents): string[][] {
  const keys = agents.agents.map(agent => agent.key);
  if (keys.length > MOST_PERMUTED) {
    throw usageError(
      `orderings 'all': expected at most ${MOST_PERMUTED} agents, found ${keys.length}; name a list instead`,
    );
  }
  return permutations(keys);
}

function permutations(keys: readonly string[]): string[][] {
  if (keys.length === 0) return [[]];
  return keys.flatMap(first =>
    permutations(keys.filter(key => key !== first)).map(following => [first, ...following]),
  );
}

/** `risk-data-regulatory-consumer` for ids; with `_` for file names. */
export function orderingLabel(keys: readonly string[], agents: Agents, joiner: '-' | '_' = '-'): string {
  return keys.map(key => agents.byKey.get(key)?.short ?? key).join(joiner);
}

/** The orderings that `wanted` names, each with the label that ends its ids. */
export function labelledOrderings(
  wanted: readonly string[],
  agents: Agents,
): { keys: string[]; label: string }[] {
  return resolveOrderings(wanted, agents).map(keys => ({ keys, label: orderingLabel(keys, agents) }));
}
