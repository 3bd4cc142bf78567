/**
 * Backslashes in JSON strings. Illegal ones are doubled, so that the text parses and says what the model wrote (before
 * an apostrophe they are left out, since that is what they say there). Legal ones are never touched, not even where
 * they lie (`\frac` is a form feed and "rac"): no parser can know which was meant.
 */
import type { Edit } from './entries.ts';

/** By the code of what follows a backslash: whether the two are an escape. */
const LEGAL = Uint8Array.from({ length: 128 }, (_none, code) =>
  '"\\/bfnrt'.includes(String.fromCharCode(code)) ? 1 : 0,
);
const LETTER_U = 0x75;
const HEX = /[0-9a-fA-F]{4}/y;

/** Length of the legal escape that begins at `at` (2 or 6), or 0 where the backslash is illegal. */
export function escapeLength(text: string, at: number): number {
  const next = text.charCodeAt(at + 1);
  if (LEGAL[next] === 1) return 2;
  if (next !== LETTER_U) return 0;
  HEX.lastIndex = at + 2;
  return HEX.test(text) ? 6 : 0;
}

/** Where strings can begin: prose before the first bracket is no JSON, and its quotation marks delimit nothing. */
function firstBracket(text: string): number {
  if (text.trimStart().startsWith('"')) return 0;
  const found = text.search(/[{[]/);
  return found === -1 ? text.length : found;
}

/**
 * Doubles every illegal backslash inside the JSON strings of `text`, and takes it away before an apostrophe: a model's
 * answer, a JSON document or a line of NDJSON. Text without one comes back as the same string. Never throws; one pass.
 */
export function fixEscapes(text: string): { text: string; repairs: Edit[] } {
  const repairs: Edit[] = [];
  if (!text.includes('\\')) return { text, repairs };
  const parts: string[] = [];
  let copied = 0;
  let inside = false;
  let at = firstBracket(text);
  let quote = text.indexOf('"', at);
  let backslash = text.indexOf('\\', at);
  while (backslash !== -1) {
    // The search jumps from quote to quote, and stops at the backslashes between an opening and a closing one.
    if (quote !== -1 && quote < at) quote = text.indexOf('"', at);
    if (backslash < at) {
      backslash = text.indexOf('\\', at);
      continue;
    }
    if (!inside || (quote !== -1 && quote < backslash)) {
      if (quote === -1) break;
      inside = !inside;
      at = quote + 1;
      continue;
    }
    at = backslash;
    const length = escapeLength(text, at);
    if (length === 0) {
      const edit = text[at + 1] === "'" ? escapedApostrophe(at) : illegalEscape(at);
      parts.push(text.slice(copied, at), edit.put);
      copied = at + edit.cut.length;
      repairs.push(edit);
      at = copied;
    }
    at += length;
  }
  if (repairs.length === 0) return { text, repairs };
  parts.push(text.slice(copied));
  return { text: parts.join(''), repairs };
}

export function illegalEscape(offset: number): Edit {
  return { rule: 'illegal-escape', offset, cut: '\\', put: '\\\\' };
}

/** `it\'s` is what Python and JavaScript write for `it's`; JSON needs no backslash there, and has none. */
export function escapedApostrophe(offset: number): Edit {
  return { rule: 'escaped-apostrophe', offset, cut: "\\'", put: "'" };
}
