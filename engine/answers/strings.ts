/** The strings of an answer as models write them: in quotes of any kind, with escapes that JSON lacks. */
import type { Edit } from './edits.ts';
import { escapedApostrophe, escapeLength, illegalEscape } from './escapes.ts';

/** What a string holds as it is: everything from the space on but quotes and backslashes. */
const PLAIN = /[ !#-[\]-\uffff]*/y;
/** Typographic double quotes; what opens a string may be any of them, as may what closes it. */
const CURLY = '“”„‟';
const SPACE = /[ \t\n\r]*/y;
const ANY_SPACE = /[\s\u200b\u2060]*/y;
const LETTER = /[\p{L}\p{N}]/uy;

/** What a sticky pattern finds at `at`; empty where that is nothing. */
export function match(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? '';
}

/** The end of the string that opens at `open`, or -1; what is not JSON in it goes to `edits`. */
export function readString(text: string, open: number, edits: Edit[], isKey: boolean): number {
  const quote = text[open]!;
  const single = quote === "'";
  const curly = isCurly(quote);
  const odd = single || curly;
  if (odd) edits.push({ rule: 'single-quotes', offset: open, cut: quote, put: '"' });
  let at = open + 1;
  while (at < text.length) {
    const char = text[at]!;
    if ((curly ? isCurly(char) : char === quote) && (!odd || closes(text, at + 1, isKey))) {
      if (odd) edits.push({ rule: 'single-quotes', offset: at, cut: char, put: '"' });
      return at + 1;
    }
    if (char === '\\') {
      const length = escapeLength(text, at);
      if (length > 0) at += length;
      else if (text[at + 1] === "'") {
        if (single) edits.push({ rule: 'single-quotes', offset: at, cut: "\\'", put: "'" });
        else edits.push(escapedApostrophe(at));
        at += 2;
      } else edits.push(illegalEscape(at++));
    } else if (char < ' ') {
      const put = JSON.stringify(char).slice(1, -1);
      edits.push({ rule: 'control-character', offset: at++, cut: char, put });
    } else if (char === '"') {
      edits.push({ rule: 'single-quotes', offset: at++, cut: '"', put: '\\"' });
    } else if (single) {
      if (char === quote && !isApostrophe(text, at)) return -1;
      at++;
    } else if (curly) at++;
    else at += match(PLAIN, text, at).length;
  }
  return -1;
}

export function isCurly(char: string | undefined): boolean {
  return char !== undefined && CURLY.includes(char);
}

/** Whether a quote is the end of its string, and no apostrophe or quotation: what follows must continue the structure. */
function closes(text: string, after: number, isKey: boolean): boolean {
  const next = text[after + match(ANY_SPACE, text, after).length];
  return isKey ? next === ':' : next === undefined || next === ',' || next === '}' || next === ']';
}

/**
 * Whether a single quote inside its string is an apostrophe: it is inside a word, or ends one before the next. Anything
 * else (`'low ' + 'income'`) is an expression, or a string whose end nobody knows.
 */
function isApostrophe(text: string, at: number): boolean {
  if (match(LETTER, text, at - 1) === '') return false;
  return match(LETTER, text, at + 1 + match(SPACE, text, at + 1).length) !== '';
}
