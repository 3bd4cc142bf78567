/** Several objects in one text: whether they say the same, and which of them may be drafts of the last. */
import { differenceIn, type JsonObject } from '../core/json/pointer.ts';
import { applyEdits, type Edit } from './entries.ts';
import { leadOf, saysFinal } from './lead.ts';
import { mayBeAnswer } from './schema-words.ts';

export interface Candidate {
  start: number;
  end: number;
  /** where the text before it begins that was not read as anything */
  from: number;
  /** the same, where braces that are no object count as text */
  lead: number;
  /** absent where the object broke */
  edits?: Edit[];
  broke: string;
}

/** Of several side by side, how many and where the last differs from another; null where all are equal. */
export function differenceOf(
  text: string,
  group: readonly Candidate[],
): { count: number; at: string } | null {
  const last = group.at(-1);
  if (last === undefined || group.length === 1) return null;
  const own = objectOf(text, last);
  const count = group.length;
  for (const other of group.slice(0, -1)) {
    const value = objectOf(text, other);
    const at = value === undefined ? '' : differenceIn(value, own);
    if (at !== null) return { count, at };
  }
  return null;
}

export function objectOf(text: string, { start, end, edits }: Candidate): unknown {
  if (edits === undefined) return undefined;
  const own = edits.map(edit => ({ ...edit, offset: edit.offset - start }));
  try {
    return JSON.parse(applyEdits(text.slice(start, end), own));
  } catch {
    return undefined; // the reader says so, should the mender and the parser ever not agree
  }
}

/**
 * Of objects with words between them, how many may be meant and where the last differs from another. Null where none
 * does, or where the words before the last say that it is the final one, which those before the other do not.
 */
export function differenceBefore(
  text: string,
  {
    earlier,
    first,
    last,
    schema,
  }: { earlier: readonly Candidate[]; first: Candidate; last: Candidate; schema: JsonObject | boolean },
): { count: number; at: string } | null {
  if (earlier.length === 0) return null;
  const final = saysFinal(leadOf(text.slice(first.lead, first.start)));
  if (final === 'corrected') return null;
  const own = objectOf(text, last);
  const seen = new Set<string>();
  for (const other of earlier) {
    const said = text.slice(other.start, other.end);
    if (seen.has(said)) continue;
    seen.add(said);
    const value = objectOf(text, other);
    if (!mayBeAnswer(value, schema)) continue;
    const at = value === undefined ? '' : differenceIn(value, own);
    if (at === null) continue;
    if (final === null || saysFinal(leadOf(text.slice(other.lead, other.start))) !== null)
      return { count: earlier.length + 1, at };
  }
  return null;
}
