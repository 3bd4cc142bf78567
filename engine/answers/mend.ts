/**
 * A reader of JSON as models write it. From an opening brace it reads one object, and notes every place where the
 * text is not quite JSON as an edit that makes it so. One pass with its own stack: no recursion, no going back.
 *
 * What it does not mend, it does not guess: unescaped quotes inside a string, missing commas, ellipses.
 */

import { MAX_DEPTH } from '../core/json/pointer.ts';
import type { Edit } from './entries.ts';
import { escapedApostrophe, escapeLength, illegalEscape } from './escapes.ts';

/** Changes to syntax, each by its rule; a step that needed one is `repaired`. */
export const MENDS = {
  'think-block': 'Reasoning (<think>…</think> and its like) beside the answer is left out.',
  fence: 'A Markdown fence around the object is left out.',
  'text-around': 'Text before the answer is left out, and marks around it.',
  'text-after': 'Text after the answer is left out: an explanation, a note, a signature.',
  'array-around': 'The brackets of an array with one object are left out.',
  'other-object': 'An object before the last one is left out: a draft, or the same again.',
  'illegal-escape': 'A backslash that no JSON escape begins is doubled.',
  'escaped-apostrophe': "A backslash before an apostrophe is left out: it\\'s is it's.",
  'control-character': 'A raw line break or control character in a string is escaped.',
  'single-quotes': 'A string in single or typographic quotes is put in plain double quotes.',
  'unquoted-key': 'A bare key is put in double quotes.',
  'python-literal': 'True, False and None become true, false and null.',
  'number-form': 'A number in a form that JSON lacks is written as JSON has it: .5 is 0.5, 5. is 5, +5 is 5.',
  'unusual-space':
    'A space that JSON lacks, such as a no-break space, becomes a plain one between two tokens.',
  'trailing-comma': 'A comma before a closing bracket is left out.',
  comment: 'A comment is left out.',
  'missing-bracket': 'Closing brackets are added where a finished answer lacks them.',
} as const;
export type MendRule = keyof typeof MENDS;

export interface Mended {
  end: number;
  edits: Edit[];
  broke?: undefined;
}

/** Where reading broke off: `depth` brackets were open, and `real` says that a key with a colon had been read, or an element of a list. */
export interface Broken {
  end: number;
  broke: string;
  depth: number;
  real: boolean;
}

/** Text that never mattered to JSON: where the last comment ends, so that an open one costs one look, not a search. */
export interface Bounds {
  lastLineBreak: number;
  lastBlockEnd: number;
}

export function boundsOf(text: string): Bounds {
  return { lastLineBreak: text.lastIndexOf('\n'), lastBlockEnd: text.lastIndexOf('*/') };
}

const SPACE = /[ \t\n\r]*/y;
/** Spaces that JSON does not know between tokens: those of Unicode, and those of no width. */
const UNUSUAL = /[\s\u200b\u2060]+/y;
const WORD = /[A-Za-z_$][\w$]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y;
/** A plus, or no digit on one side of the point. */
const LOOSE_NUMBER = /([+-]?)(?:(0|[1-9]\d*)(?:\.(\d*))?|\.(\d+))([eE][+-]?\d+)?(?![\w.])/y;
const LITERALS: { [word: string]: string } = { True: 'true', False: 'false', None: 'null' };

type State = 'first-key' | 'key' | 'colon' | 'first-value' | 'value' | 'after';
const EXPECTED: { [state in State]: string } = {
  'first-key': 'a key or "}"',
  key: 'a key',
  colon: '":"',
  'first-value': 'a value or "]"',
  value: 'a value',
  after: '"," or a closing bracket',
};

/** Reads the object, or the list, that opens at `open`, to its closing bracket. Linear in what it reads; never throws. */
export function mendObject(text: string, open: number, bounds: Bounds): Mended | Broken {
  const edits: Edit[] = [];
  const isList = text[open] === '[';
  const closers: string[] = [isList ? ']' : '}'];
  let state: State = isList ? 'first-value' : 'first-key';
  let at = open + 1;
  let comma = -1;
  let real = false;
  const broken = (expected = EXPECTED[state]): Broken => {
    const found = at < text.length ? JSON.stringify(text.slice(at, at + 12)) : 'the end';
    const broke = `expected ${expected} at offset ${at}, got ${found}`;
    return { end: at, broke, depth: closers.length, real };
  };

  while (true) {
    at = gapEnd(text, at, bounds, edits);
    const char = text[at];
    if ((char === '/' || char === '#') && commentEnd(text, at, bounds) === -1)
      return broken('the end of the comment');
    if (char === undefined || text.startsWith('```', at)) {
      // Only brackets may be missing. After a comma or a colon more was to come, and nobody knows what.
      if (state !== 'after') return broken();
      edits.push({ rule: 'missing-bracket', offset: at, cut: '', put: closers.reverse().join('') });
      return { end: at, edits: sorted(edits) };
    }

    if (char === closers.at(-1) && (state === 'after' || state.startsWith('first') || comma !== -1)) {
      if (comma !== -1) edits.push({ rule: 'trailing-comma', offset: comma, cut: ',', put: '' });
      comma = -1;
      closers.pop();
      at++;
      state = 'after';
      if (closers.length === 0) return { end: at, edits: sorted(edits) };
      continue;
    }
    if (state === 'after') {
      if (char !== ',') return broken();
      real ||= isList; // an element, and another one behind it
      comma = at++;
      state = closers.at(-1) === '}' ? 'key' : 'value';
      continue;
    }
    if (state === 'colon') {
      if (char !== ':') return broken();
      real = true;
      at++;
      state = 'value';
      continue;
    }

    comma = -1;
    const isKey: boolean = state === 'first-key' || state === 'key';
    if (char === '"' || char === "'" || isCurly(char)) {
      const end = readString(text, at, edits, isKey);
      if (end === -1) {
        at = text.length;
        return broken('the end of the string');
      }
      at = end;
    } else if (isKey) {
      const name = match(WORD, text, at);
      if (name === '') return broken();
      edits.push({ rule: 'unquoted-key', offset: at, cut: name, put: `"${name}"` });
      at += name.length;
    } else if (char === '{' || char === '[') {
      if (closers.length === MAX_DEPTH) return broken(`at most ${MAX_DEPTH} levels`);
      closers.push(char === '{' ? '}' : ']');
      state = char === '{' ? 'first-key' : 'first-value';
      at++;
      continue;
    } else {
      const end = wordEnd(text, at, edits);
      if (end === at) return broken();
      at = end;
    }
    state = isKey ? 'colon' : 'after';
  }
}

/** Behind the space at `at`, and what else says nothing, which goes to `edits`; a comment that has no end is not passed. */
function gapEnd(text: string, at: number, bounds: Bounds, edits: Edit[]): number {
  for (let from = at; ; ) {
    from += match(SPACE, text, from).length;
    const comment = commentEnd(text, from, bounds);
    if (comment > from) {
      edits.push({ rule: 'comment', offset: from, cut: text.slice(from, comment), put: '' });
      from = comment;
      continue;
    }
    const char = text[from];
    if (char === undefined || (char > '\x20' && char < '\x7f')) return from;
    const space = match(UNUSUAL, text, from);
    if (space === '') return from;
    edits.push({ rule: 'unusual-space', offset: from, cut: space, put: ' ' });
    from += space.length;
  }
}

/** The end of the literal or number at `at`, which is `at` where there is none; what is not JSON in it goes to `edits`. */
function wordEnd(text: string, at: number, edits: Edit[]): number {
  const word = match(WORD, text, at);
  const put = Object.hasOwn(LITERALS, word) ? LITERALS[word] : undefined;
  if (put !== undefined) edits.push({ rule: 'python-literal', offset: at, cut: word, put });
  if (put !== undefined || word === 'true' || word === 'false' || word === 'null') return at + word.length;
  const number = match(NUMBER, text, at);
  if (number !== '') return at + number.length;
  const [cut, written] = looseNumber(text, at);
  if (cut !== '') edits.push({ rule: 'number-form', offset: at, cut, put: written });
  return at + cut.length;
}

/** A number in a form that JSON lacks, and as JSON has it; empty where there is none, or where it may have been cut off. */
function looseNumber(text: string, at: number): [cut: string, put: string] {
  LOOSE_NUMBER.lastIndex = at;
  const found = LOOSE_NUMBER.exec(text);
  if (found === null) return ['', ''];
  const [cut, sign, whole = '0', fraction, fractionAlone, power = ''] = found;
  if (cut.endsWith('.') && at + cut.length === text.length) return ['', ''];
  const digits = fractionAlone ?? fraction ?? '';
  return [cut, `${sign === '-' ? '-' : ''}${whole}${digits === '' ? '' : `.${digits}`}${power}`];
}

/** A comma is known to be trailing only after the comments behind it have been noted. */
function sorted(edits: Edit[]): Edit[] {
  return edits.sort((a, b) => a.offset - b.offset);
}

/** Where a comment that begins at `at` ends: `at` if none does, -1 if it never ends. */
function commentEnd(text: string, at: number, bounds: Bounds): number {
  if (text.startsWith('/*', at)) return at + 2 <= bounds.lastBlockEnd ? text.indexOf('*/', at + 2) + 2 : -1;
  if (text[at] !== '#' && !text.startsWith('//', at)) return at;
  // A line comment on the last line may have swallowed the rest of an object that was written on one line.
  return at <= bounds.lastLineBreak ? text.indexOf('\n', at) : -1;
}

/** What a string holds as it is: everything from the space on but quotes and backslashes. */
const PLAIN = /[ !#-[\]-\uffff]*/y;
/** Typographic double quotes; what opens a string may be any of them, as may what closes it. */
const CURLY = '“”„‟';
const ANY_SPACE = /[\s\u200b\u2060]*/y;
const LETTER = /[\p{L}\p{N}]/uy;

/** What a sticky pattern finds at `at`; empty where that is nothing. */
export function match(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? '';
}

/** The end of the string that opens at `open`, or -1; what is not JSON in it goes to `edits`. */
function readString(text: string, open: number, edits: Edit[], isKey: boolean): number {
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

function isCurly(char: string | undefined): boolean {
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
