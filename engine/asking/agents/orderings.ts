/**
 * The one place where an ordering is understood. People write keys, short names, display names and names of files;
 * inside fw an ordering is an array of keys, and whatever is not understood is refused by name.
 */

import type { Call } from '../../core/item/call.ts';
import { Fatal, ItemFailure, usageError } from '../../core/item/failure.ts';
import type { Item } from '../../core/item/item.ts';
import { arrangementOf, askedBy, wrongArrangement } from './arrangement.ts';
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

/**
 * What the orderings of one row have in common. Two orderings that begin alike ask the same questions up to where they
 * part: the same agent, the same context, the same sampling. With --share such a question has one name, and so one
 * seed, one key, one call and one line of the ledger. The id of an item in two parts: what all orderings of its row
 * have in common, and what tells them apart. `ingest` ends ids with `/` and the ordering, and after that `#` and the
 * number of a sample. Samples are never shared.
 */
export interface RowId {
  row: string;
  /** `/risk-data`; '' where the id does not say the ordering */
  label: string;
  /** `#2`; '' for none */
  sample: string;
}

export function rowIdOf(
  item: Item,
  agents: Agents,
  ordering: readonly string[] | undefined = item.ordering,
): RowId {
  const { sample } = item;
  const whole = item.id as string;
  const ending = Number.isSafeInteger(sample) ? `#${sample}` : '';
  const isSample = ending !== '' && whole.endsWith(ending);
  const text = isSample ? whole.slice(0, -ending.length) : whole;
  const rest = isSample ? ending : '';
  const isFrom = (label: string): boolean => text.endsWith(label) && text.length > label.length;
  // as ingest writes it, and as a legacy result without its table is known
  const labels = ordering?.length ? [`/${orderingLabel(ordering, agents)}`, `/${ordering.join()}`] : [];
  const label = labels.find(isFrom) ?? '';
  return { row: text.slice(0, text.length - label.length), label, sample: rest };
}

/**
 * The name of the question that `asked` decide (keys of agents; the last is the one who is asked), for all items of a row
 * whose ordering begins so: `50acc2a3e4e6/risk-data-*`; where nobody is shown anybody, for all items of the row. Null where nobody shares it: fewer than two agents are left,
 * so that the rest of the ordering is settled.
 */
export function sharedName({ row, sample }: RowId, asked: readonly string[], agents: Agents): string | null {
  if (agents.agents.length - asked.length < 2) return null;
  return `${row}/${orderingLabel(asked, agents)}-*${sample}`;
}

/** Whether other items may ask the same. */
export const isSharedCall = ({ item, row }: Call): boolean => row !== undefined && item.includes('-*');

/** Whether `name` is one that an item of this ordering may have for its step number `at` (from 0). */
export function isSharedName(name: unknown, item: Item, at: number, agents: Agents): boolean {
  if (!Array.isArray(item.ordering) || typeof item.id !== 'string' || wrongArrangement(item)) return false;
  const asked = askedBy(item.ordering, arrangementOf(item), at);
  return asked !== null && sharedName(rowIdOf(item, agents), asked, agents) === name;
}

/**
 * Who is asked, in which order, in words: said before the first call, since a critic who answers first judges nothing.
 * `a, b, then final`: those of `ordering`, and who decides.
 */
export function orderWords(ordering: readonly string[], agents: Agents, decides: boolean): string {
  const last = decides && agents.synthesis ? [agents.synthesis.key] : [];
  return [...ordering, ...last].join(', ');
}

/** Agents of the folder that this ordering leaves out; nothing where it leaves out none. */
export function leftOutWords(ordering: readonly string[], { agents }: Agents): string {
  const others = agents.map(({ key }) => key).filter(key => !ordering.includes(key));
  return others.length === 0 ? '' : `; not asked: ${others.join(', ')}`;
}

/** Told of each item before it is asked; says once what nobody has said before: an order of its own, or that nobody set one. */
export function orderTeller(
  standard: readonly string[],
  agents: Agents,
  warn: (message: string) => void,
): (item: Item, ordering: readonly string[]) => void {
  let isTold = false;
  return (item, ordering) => {
    if (isTold) return;
    if (item.ordering !== undefined) {
      if (ordering.join() === standard.join()) return;
      isTold = true;
      return warn(`agents answer in the order that the items give; the first: ${ordering.join(', ')}`);
    }
    const isSet = agents.orderings.has('default') || standard.length < 2;
    if (isSet || arrangementOf(item).topology !== 'sequential') return;
    isTold = true;
    const other = standard.map((_, at) => standard[(at + 1) % standard.length]).join(', ');
    warn(
      `the agents answer in the order of their file names: ${standard.join(', ')}; ` +
        `to change it, write another order into ${agents.folder}/orderings.yaml, e.g. default: [[${other}]]`,
    );
  };
}
