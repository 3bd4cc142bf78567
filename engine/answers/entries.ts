/**
 * The entries of an answer's record. Syntax entries are changes to its text, which can be undone: offsets count UTF-16 units of
 * the text before any change; entries are sorted and do not overlap, so applying and undoing are one pass each and exact. Value
 * entries lead from one value to another: a value is followed backwards through them to what the model said.
 */
import type { Repair } from '../core/item/item.ts';
import { getAt, join, parsePointer, setAt } from '../core/json/pointer.ts';
import type { Span } from '../core/json/span.ts';

export type Edit = Required<Pick<Repair, 'rule' | 'offset' | 'cut' | 'put'>>;

export function applyEdits(raw: string, edits: readonly Edit[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { offset, cut, put } of edits) {
    parts.push(raw.slice(from, offset), put);
    from = offset + cut.length;
  }
  parts.push(raw.slice(from));
  return parts.join('');
}

/** `undoEdits(applyEdits(raw, edits), edits)` is `raw`. */
export function undoEdits(text: string, edits: readonly Edit[]): string {
  const parts: string[] = [];
  let from = 0;
  let shift = 0;
  for (const { offset, cut, put } of edits) {
    parts.push(text.slice(from, offset + shift), cut);
    from = offset + shift + put.length;
    shift += put.length - cut.length;
  }
  parts.push(text.slice(from));
  return parts.join('');
}

/** The syntax entries among a step's repairs: those that apply to the raw text. */
export function editsOf(repairs: readonly Repair[]): Edit[] {
  return repairs.filter((repair): repair is Edit => repair.offset !== undefined);
}

/** The stretch of the text before any change that a stretch of the changed text came from, and the changes inside it. */
export function spanBefore(edits: readonly Edit[], { from, to }: Span): Span & { edits: Edit[] } {
  const inside: Edit[] = [];
  let moved = 0; // by how much the edits so far moved what follows them
  let before = 0; // the same, of those before the stretch
  for (const edit of edits) {
    const put = edit.offset + moved;
    if (put >= to) break;
    moved += edit.put.length - edit.cut.length;
    if (put + edit.put.length <= from) before = moved;
    else inside.push(edit);
  }
  const last = inside.at(-1);
  // closing brackets that were added for several objects are one edit, and a stretch may end in the middle of it
  const end = Math.max(to - moved, last ? last.offset + last.cut.length : 0);
  return { from: from - before, to: end, edits: inside };
}

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
