/**
 * What of a request is not kept: texts of the item, wherever they stand in a message, as they are or as they are
 * written in JSON. Whole messages are looked at and not the bytes, or a text such as `1` would break a number.
 */
export const REDACTED = '[redacted]';

/** A call's own part of its body (see `bodyOf` in format.ts), with `[redacted]` for each of the texts. */
export function redactOwn(own: string, texts: readonly string[]): string {
  const pattern = patternOf(texts);
  if (pattern === null) return own;
  const open = '{"messages":[';
  const whole = JSON.parse(`${open}${own}}`) as { messages: { content: string }[] };
  for (const message of whole.messages) message.content = message.content.replace(pattern, REDACTED);
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
