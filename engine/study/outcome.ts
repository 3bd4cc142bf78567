/** Values of answers and tables as text: what was decided, and what is no value. */
import { type JsonObject, valueAt } from '../json/pointer.ts';

/** What a table says where there is no value. Of an outcome and of numbers alone: `None` may be a group. */
const BLANK = new Set(['', 'NA', 'NaN', 'null', 'None']);

/** The outcome in an answer: a key of it, or a JSON Pointer into it. */
export function outcomeIn(output: JsonObject | undefined, name: string): unknown {
  if (output === undefined) return undefined;
  if (name.startsWith('/')) return valueAt(output, name);
  return Object.hasOwn(output, name) ? output[name] : undefined;
}

export function blankless(value: unknown): string | null {
  const text = textOf(value);
  return text === null || BLANK.has(text) ? null : text;
}

/** A scalar as text, without space around it; null for none, an empty one, and for what is no scalar. */
export function textOf(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = typeof value === 'string' ? value.trim() : '';
  return text === '' ? null : text;
}
