/**
 * Changes to a text as entries that can be undone. Offsets count UTF-16 units of the text before any change; entries
 * are sorted and do not overlap, so applying and undoing are one pass each and exact.
 */
import type { Repair } from '../core/item/item.ts';
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
