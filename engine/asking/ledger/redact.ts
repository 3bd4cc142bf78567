/**
 * What of a request is not kept: texts of the item, wherever they are in a message, as they are or as they are
 * written in JSON. Whole messages are looked at and not the bytes, or a text such as `1` would break a number.
 */
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

export const REDACTED = '[redacted]';

/** A longer text, such as a file, is looked for as it is: a pattern of that length cannot be made. */
const LONGEST = 10_000;

/** A call's own part of its body (see `bodyOf` in ledger-format.ts), with `[redacted]` for each of the texts. */
export function redactOwn(own: string, texts: readonly string[]): string {
  const long = texts.filter(text => text.length > LONGEST);
  const pattern = patternOf(texts.filter(text => text.length <= LONGEST));
  if (pattern === null && long.length === 0) return own;
  const open = '{"messages":[';
  const whole = JSON.parse(`${open}${own}}`) as { messages: JsonObject[] };
  const redacted = (value: unknown): unknown => {
    if (typeof value === 'string') {
      const rest = long.reduce((left, text) => left.replaceAll(text, REDACTED), value);
      return pattern === null ? rest : rest.replace(pattern, REDACTED);
    }
    if (Array.isArray(value)) return value.map(redacted);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, below]) => [key, key === 'type' ? below : redacted(below)]),
    );
  };
  // of a message its content, which may be a list of parts
  for (const message of whole.messages) message.content = redacted(message.content);
  return JSON.stringify(whole).slice(open.length, -1);
}

/** One pass over all forms, the longest first: a name within a longer one must not leave the rest of that. */
function patternOf(texts: readonly string[]): RegExp | null {
  const forms = texts.flatMap(text => [text, JSON.stringify(text).slice(1, -1)]);
  const distinct = [...new Set(forms)].filter(form => form.trim() !== '');
  if (distinct.length === 0) return null;
  distinct.sort((a, b) => b.length - a.length);
  return new RegExp(distinct.map(form => form.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|'), 'g');
}
