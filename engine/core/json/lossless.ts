/**
 * What JSON.parse and JSON.stringify would change without a word: numbers beyond a double, a second value for a key.
 * One pass over the text of a line that is about to be rewritten, or of an answer that is about to be believed.
 */
import { join, MAX_DEPTH } from './pointer.ts';
import { type Problem, problem, shorten } from './show.ts';

export interface Loss extends Problem {
  code: 'value-not-kept' | 'too-deep';
}

interface Level {
  /** the keys seen so far; undefined in an array */
  keys: Set<string> | undefined;
  /** where we are: the current key or index */
  at: string | number;
}

const NUMBER = /[-+.0-9eE]*/y;

/** Whether a JSON text is sure to nest at most MAX_DEPTH levels, without a look at what is in its strings. */
export function isShallow(text: string): boolean {
  let opened = 0;
  for (const bracket of ['{', '[']) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      if (++opened > MAX_DEPTH) return false;
    }
  }
  return true;
}

/** The first value of a JSON text that would not survive, or null. On text that is no JSON: never throws. */
export function lossless(text: string): Loss | null {
  const levels: Level[] = [];
  const pointer = (): string => levels.reduce((path, level) => join(path, level.at), '');
  let awaitsKey = false;
  let at = 0;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      const end = stringEnd(text, at);
      const level = levels.at(-1);
      if (awaitsKey && level?.keys) {
        const key = keyOf(text.slice(at, end));
        level.at = key;
        if (level.keys.has(key)) {
          return loss('value-not-kept', 'duplicate-key', pointer(), 'one value for the key', 'a second one');
        }
        level.keys.add(key);
        awaitsKey = false;
      }
      at = end;
    } else if (unit === 0x7b || unit === 0x5b) {
      if (levels.length === MAX_DEPTH) {
        return loss('too-deep', 'depth', '', `at most ${MAX_DEPTH} levels`, 'more');
      }
      awaitsKey = unit === 0x7b;
      levels.push(awaitsKey ? { keys: new Set(), at: '' } : { keys: undefined, at: 0 });
      at++;
    } else if (unit === 0x7d || unit === 0x5d) {
      levels.pop();
      awaitsKey = false;
      at++;
    } else if (unit === 0x2c) {
      const level = levels.at(-1);
      if (typeof level?.at === 'number') level.at++;
      awaitsKey = level?.keys !== undefined;
      at++;
    } else if (unit === 0x2d || (unit >= 0x30 && unit <= 0x39)) {
      NUMBER.lastIndex = at;
      const token = NUMBER.exec(text)![0];
      if (!isKept(token)) {
        return loss('value-not-kept', 'number', pointer(), 'a number that a double keeps', shorten(token));
      }
      at += token.length;
    } else at++;
  }
  return null;
}

function loss(code: Loss['code'], keyword: string, at: string, expected: string, got: string): Loss {
  return { code, ...problem(at, keyword, expected, got) };
}

function stringEnd(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote;
    while (before - 1 > open && text.charCodeAt(before - 1) === 0x5c) before--;
    if ((quote - before) % 2 === 0) return quote + 1;
  }
  return text.length;
}

function keyOf(quoted: string): string {
  if (!quoted.includes('\\')) return quoted.slice(1, -1);
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return quoted;
  }
}

/** Whether JSON.stringify(Number(token)) is the same number, exactly and with its sign. */
export function isKept(token: string): boolean {
  // up to 15 digits without an exponent always come back (DBL_DIG)
  if (token.length <= 15 && !/^-0|[eE]/.test(token)) return true;
  const number = Number(token);
  if (Number.isNaN(number)) return true;
  if (!Number.isFinite(number)) return false;
  const given = decimal(token);
  if (given.digits === '') return !token.startsWith('-');
  const kept = decimal(String(number));
  return given.digits === kept.digits && given.exponent === kept.exponent;
}

/** A number as significant digits and the power of ten of the last one; no digits for zero. */
function decimal(token: string): { digits: string; exponent: number } {
  const [mantissa, power = '0'] = token.replace(/^-/, '').toLowerCase().split('e');
  const [whole, fraction = ''] = mantissa!.split('.');
  const all = whole + fraction;
  let from = 0;
  let to = all.length;
  while (from < to && all[from] === '0') from++;
  while (to > from && all[to - 1] === '0') to--;
  return { digits: all.slice(from, to), exponent: Number(power) - fraction.length + (all.length - to) };
}
