/**
 * Where values are in a JSON text, so that the very characters that a model wrote can be shown. For texts that
 * JSON.parse has taken; on others the places mean nothing.
 */

/** UTF-16 units `from` to `to` of a text. */
export interface Span {
  from: number;
  to: number;
}

/** The value at a pointer, without the space around it; null where nothing is there. */
export function spanOf(text: string, tokens: readonly string[]): Span | null {
  let at = afterSpace(text, 0);
  for (const token of tokens) {
    const found =
      text[at] === '{' ? memberOf(text, at, token) : text[at] === '[' ? elementOf(text, at, token) : -1;
    if (found === -1) return null;
    at = found;
  }
  return { from: at, to: valueEnd(text, at) };
}

function memberOf(text: string, open: number, name: string): number {
  let at = afterSpace(text, open + 1);
  while (text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const value = afterSpace(text, afterSpace(text, keyEnd) + 1); // past the colon
    if (JSON.parse(text.slice(at, keyEnd)) === name) return value;
    at = afterSpace(text, valueEnd(text, value));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return -1;
}

function elementOf(text: string, open: number, index: string): number {
  let at = afterSpace(text, open + 1);
  for (let left = Number(index); text[at] !== ']' && at < text.length; left--) {
    if (left === 0) return at;
    at = afterSpace(text, valueEnd(text, at));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return -1;
}

export function afterSpace(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) <= 32) at += 1;
  return at;
}

export function stringEnd(text: string, open: number): number {
  let at = open + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

export function valueEnd(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const unit = text[at];
    if (unit === '"') {
      at = stringEnd(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (unit === '{' || unit === '[') depth += 1;
    else if (unit === '}' || unit === ']') {
      if (depth === 0) return at; // of the object around a number
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (unit === ',' || text.charCodeAt(at) <= 32)) return at;
    at += 1;
  }
  return at;
}
