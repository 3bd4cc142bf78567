/**
 * The fields of a JSON object, as they are written there. What JSON does not hold as text keeps the text that it has:
 * 8.50 stays 8.50, a long number keeps its digits, an array its brackets.
 */
import { afterSpace, stringEnd, valueEnd } from '../core/json/span.ts';

export interface Fields {
  /** all keys, those of nulls too */
  keys: string[];
  columns: string[];
  fields: string[];
}

/**
 * The keys of the JSON object `value`, whose text is `text`. A null is no value: its column is left out, as if the key
 * were not there. A key that comes twice is returned as `twice`.
 */
export function objectFields(text: string, value: object): Fields | { twice: string } {
  const seen = new Set<string>();
  const columns: string[] = [];
  const fields: string[] = [];
  let at = afterSpace(text, text.indexOf('{') + 1);
  while (text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const key: string = JSON.parse(text.slice(at, keyEnd));
    const from = afterSpace(text, afterSpace(text, keyEnd) + 1); // past the colon
    const to = valueEnd(text, from);
    if (seen.has(key)) return { twice: key };
    seen.add(key);
    const found = (value as Record<string, unknown>)[key];
    if (found !== null) {
      columns.push(key);
      fields.push(typeof found === 'string' ? found : text.slice(from, to));
    }
    at = afterSpace(text, to);
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return { keys: [...seen], columns, fields };
}
