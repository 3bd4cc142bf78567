/**
 * Where a value comes from, by the entries of its record: followed backwards from the value to what the model said.
 * Only value entries lead from one value to another; syntax entries are about the text (see edits.ts).
 */
import type { Repair } from '../core/item/item.ts';
import { getAt, join, parsePointer, setAt } from '../core/json/pointer.ts';

export interface Trace {
  /** where the model said it, which is elsewhere where a rule moved it; null where the model said nothing for it */
  at: string[] | null;
  /** the entries that made the value what it is, in their order */
  changes: Repair[];
  /** entries on places inside the value */
  inside: Repair[];
}

/** The entries that change values. */
export function valueEntries(repairs: readonly Repair[]): Repair[] {
  return repairs.filter(({ offset, at }) => offset === undefined && typeof at === 'string');
}

/** Follows the value at `tokens` of the finished answer back through `entries`. */
export function trace(entries: readonly Repair[], tokens: readonly string[]): Trace {
  const changes: Repair[] = [];
  const inside: Repair[] = [];
  let at = [...tokens];
  for (let index = entries.length - 1; index >= 0; index--) {
    const entry = entries[index] as Repair;
    const target = parsePointer(entry.at as string);
    if (target.length > at.length) {
      if (startsWith(target, at)) inside.unshift(entry);
      continue;
    }
    if (!startsWith(at, target)) continue;
    changes.unshift(entry);
    const below = at.slice(target.length);
    if ('from' in entry) {
      if (getAt(entry.from, below) === undefined) return { at: null, changes, inside };
      continue;
    }
    // a key that the model did not write: an object of keys that stood beside it, or a default
    const moved = movedFrom(entries.slice(0, index), target, below);
    if (moved === -1) return { at: null, changes, inside };
    at = [...target.slice(0, -1), ...below];
    index = moved;
  }
  return { at, changes, inside };
}

/** The entry that took away the key which `flat-to-nested` put into the new object at `target`; -1 where there is none. */
function movedFrom(
  earlier: readonly Repair[],
  target: readonly string[],
  [key]: readonly (string | undefined)[],
): number {
  if (key === undefined) return -1;
  const from = join(pointerOf(target.slice(0, -1)), key);
  return earlier.findLastIndex(entry => entry.at === from && !('to' in entry));
}

export function pointerOf(tokens: readonly string[]): string {
  return tokens.reduce(join, '');
}

function startsWith(tokens: readonly string[], prefix: readonly string[]): boolean {
  return prefix.every((token, index) => token === tokens[index]);
}

/** What the entries make of a value; applied to what the model said it is the answer. */
export function replay(value: unknown, entries: readonly Repair[]): unknown {
  return entries.reduce((current, { at, to }) => setAt(current, parsePointer(at as string), to), value);
}
