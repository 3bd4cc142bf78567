/**
 * Backslashes in JSON strings. Illegal ones are doubled, so that the text parses and says what the model wrote (before
 * an apostrophe they are left out, since that is what they say there). Legal ones are never touched, not even where
 * they lie (`\frac` is a form feed and "rac"): no parser can know which was meant.
 */
import type { Edit } from './entries.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** Length of the legal escape that begins at `at` (2 or 6), or 0 where the backslash is illegal. */
export function escapeLength(text: string, at: number): number {
  switch (text.charCodeAt(at + 1)) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return 2;
    case LETTER_U:
      return hexDigits(text, at + 2) === 4 ? 6 : 0;
    default:
      return 0;
  }
}

function hexDigits(text: string, from: number): number {
  let count = 0;
  while (count < 4) {
    const unit = text.charCodeAt(from + count) | 0x20;
    const digit = (unit >= 0x30 && unit <= 0x39) || (unit >= 0x61 && unit <= 0x66);
    // `| 0x20` folds the case of letters, and would take control characters for digits
    if (!digit || text.charCodeAt(from + count) < 0x30) return count;
    count++;
  }
  return count;
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
