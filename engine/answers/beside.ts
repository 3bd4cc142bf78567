/**
 * Text beside an object that belongs to it: a brace closed early, or the one that opens it was lost, so that what looks
 * like the object is only a part of it. `{"decision":"approve"},"rate":29}` has a rate.
 */

const QUOTES = '"\'“”‘’';
const CLOSERS = /[\s}\]]*/y;
const SPACE = /\s*/y;
/** A bare key and its colon. */
const KEY = /[A-Za-z_$][\w$]*\s*:/y;

/** The end of the closing brackets directly behind an object: one too many is a slip that nothing is lost by. */
export function closersEnd(text: string, from: number): number {
  return skip(CLOSERS, text, from);
}

/** Where the text from `from` to `to`, directly behind an object, continues the object; -1 where it does not. */
export function goesOnAt(text: string, from: number, to: number): number {
  const start = closersEnd(text, from);
  if (start >= to) return -1;
  if (text[start] === ',' || text[start] === ';') {
    const next = skip(SPACE, text, start + 1);
    KEY.lastIndex = next;
    if (next < to && (isQuote(text[next]) || KEY.test(text))) return start;
    if (text[next] !== ']' && closesList(text, start, to)) return start;
  } else if (isQuote(text[start])) {
    const end = keyEnd(text, start, to);
    if (end !== -1 && text[skip(SPACE, text, end)] === ':') return start;
  }
  return -1;
}

/**
 * Whether the text of `from` to `to`, directly before an object that ends at `end`, makes it a part of something that was not
 * read: of a value whose beginning was lost.
 */
export function isPart(text: string, from: number, to: number, end: number): boolean {
  const before = trimmedOf(text.slice(from, to), ' \t\r\n[');
  if (before.endsWith(',')) {
    const value = before.slice(0, -1).trimEnd();
    return isQuote(value.at(-1)) || value.lastIndexOf('[') > value.lastIndexOf(']');
  }
  if (!before.endsWith(':')) return false;
  const key = before.slice(0, -1).trimEnd();
  const open = isQuote(key.at(-1)) ? openOf(key) : -1;
  if (open === -1) return false;
  const opener = trimmedOf(key.slice(0, open), ' \t\r').at(-1) ?? '\n';
  // `"answer": {…}` on a line is all there; with a brace behind it something was opened that is not
  if (opener === '\n') return text.slice(end, closersEnd(text, end)).includes('}');
  return ',{[}]'.includes(opener);
}

/** Whether a comment that opens in the text is not closed in it. Only behind an object `#` begins one, and no heading. */
export function isComment(text: string, isBehind: boolean): boolean {
  if (text.lastIndexOf('/*') > text.lastIndexOf('*/') || text.lastIndexOf('<!--') > text.lastIndexOf('-->'))
    return true;
  const line = text.slice(text.lastIndexOf('\n') + 1);
  return /(?:^|[^:])\/\//.test(line) || (isBehind && /(?:^|\s)#(?![#\d])/.test(line));
}

function isQuote(char: string | undefined): boolean {
  return char !== undefined && QUOTES.includes(char);
}

/** Behind the quote that ends the key which opens at `open`, on the same line; -1 where none does. */
function keyEnd(text: string, open: number, to: number): number {
  const isStraight = text[open] === '"' || text[open] === "'";
  for (let at = open + 1; at < to && text[at] !== '\n'; at++) {
    if (isStraight ? text[at] === text[open] : isQuote(text[at])) return at + 1;
  }
  return -1;
}

function openOf(key: string): number {
  for (let at = key.length - 2; at >= 0 && key[at] !== '\n'; at--) if (isQuote(key[at])) return at;
  return -1;
}

/** Whether a bracket closes that was not opened in `from` to `to`. */
function closesList(text: string, from: number, to: number): boolean {
  let depth = 0;
  for (let at = from; at < to; at++) {
    if (text[at] === '[') depth++;
    else if (text[at] === ']' && --depth < 0) return true;
  }
  return false;
}

function skip(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  pattern.test(text);
  return pattern.lastIndex;
}

/** The text without any of these characters at its end. A pattern would begin again at each of them. */
function trimmedOf(text: string, characters: string): string {
  let to = text.length;
  while (to > 0 && characters.includes(text[to - 1] as string)) to--;
  return text.slice(0, to);
}
