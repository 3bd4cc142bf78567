/**
 * Texts that a regular expression matches, for schemas with a `pattern`. It makes one way to match and not all of them:
 * repetitions stay short, and what looks around or back is refused.
 */

import { LONGEST_TEXT } from './filler-words.ts';
import { SchemaError } from './node.ts';
import { pick, type Random } from './random.ts';

type Make = (random: Random) => string;

const MOST_PARTS = 2_000;
const DEEPEST = 50;
/** Repetitions of nothing multiply and make no text longer. */
const MOST_STEPS = 1_000_000;
/** A repetition without an upper end goes at most this far beyond its lower one. */
const BEYOND = 6;

const range = (from: string, to: string): string[] =>
  Array.from({ length: to.charCodeAt(0) - from.charCodeAt(0) + 1 }, (_, index) =>
    String.fromCharCode(from.charCodeAt(0) + index),
  );
const LOWER = range('a', 'z');
const UPPER = range('A', 'Z');
const DIGITS = range('0', '9');
const WORD = [...LOWER, ...UPPER, ...DIGITS, '_'];
const SPACE = [' '];
/** What stands for any character, and what a negated class chooses from. */
const PRINTABLE = range(' ', '~');
const CLASSES: { [letter: string]: readonly string[] } = {
  d: DIGITS,
  w: WORD,
  s: SPACE,
  D: PRINTABLE.filter(character => !DIGITS.includes(character)),
  W: PRINTABLE.filter(character => !WORD.includes(character)),
  S: PRINTABLE.filter(character => character !== ' '),
};
const CONTROLS: { [letter: string]: string } = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v', 0: '\0' };

/** @throws SchemaError on what is beyond this, at once or when a text becomes too long */
export function textOfPattern(pattern: string): Make {
  let at = 0;
  let parts = 0;
  let steps = 0;
  const peek = () => pattern[at];
  const refuse = (what: string) =>
    new SchemaError(
      `The simulator makes no text for the pattern ${JSON.stringify(pattern.slice(0, 200))}: ${what}.`,
    );
  const eat = (text: string) => {
    if (!pattern.startsWith(text, at)) return false;
    at += text.length;
    return true;
  };

  function choice(depth: number): Make {
    if (depth > DEEPEST) throw refuse('it nests too deep');
    const options = [row(depth)];
    while (eat('|')) options.push(row(depth));
    return options.length === 1 ? options[0]! : random => pick(random, options)(random);
  }

  function row(depth: number): Make {
    const makers: Make[] = [];
    while (at < pattern.length && peek() !== '|' && peek() !== ')') {
      if (++parts > MOST_PARTS) throw refuse('it is too long');
      if (eat('^') || eat('$')) continue;
      makers.push(repeated(atom(depth)));
    }
    return random => {
      let text = '';
      for (const make of makers) {
        text += make(random);
        if (text.length > LONGEST_TEXT || ++steps > MOST_STEPS) throw refuse('its texts are too long');
      }
      return text;
    };
  }

  function repeated(make: Make): Make {
    const [min, max] = bounds();
    if (min === 1 && max === 1) return make;
    if (min > LONGEST_TEXT) throw refuse('its texts are too long');
    return random => {
      const times = min + Math.floor(random() * (Math.min(max, min + BEYOND) - min + 1));
      let text = '';
      for (let time = 0; time < times && text.length <= LONGEST_TEXT; time++) {
        if (++steps > MOST_STEPS) throw refuse('its texts are too long');
        text += make(random);
      }
      return text;
    };
  }

  function bounds(): [min: number, max: number] {
    let found: [number, number] = [1, 1];
    if (eat('*')) found = [0, Number.POSITIVE_INFINITY];
    else if (eat('+')) found = [1, Number.POSITIVE_INFINITY];
    else if (eat('?')) found = [0, 1];
    else {
      const match = /^\{(\d{1,6})(?:(,)(\d{0,6}))?\}/.exec(pattern.slice(at, at + 20));
      if (!match) return found;
      at += match[0].length;
      const min = Number(match[1]);
      const max = match[3] ? Number(match[3]) : match[2] ? Number.POSITIVE_INFINITY : min;
      if (max < min) throw refuse('a repetition ends before it begins');
      found = [min, max];
    }
    // lazy or not is the same to whoever makes the text
    eat('?');
    return found;
  }

  function atom(depth: number): Make {
    if (eat('(')) {
      if (eat('?')) {
        const named = /^<[A-Za-z_]\w{0,60}>/.exec(pattern.slice(at, at + 64));
        if (named) at += named[0].length;
        else if (!eat(':')) throw refuse('it looks around');
      }
      const make = choice(depth + 1);
      if (!eat(')')) throw refuse('a group does not end');
      return make;
    }
    if (eat('[')) return oneOf(members());
    if (eat('.')) return oneOf(PRINTABLE);
    if (eat('\\')) return oneOf(escaped());
    const character = String.fromCodePoint(pattern.codePointAt(at)!);
    if ('*+?'.includes(character)) throw refuse('it repeats nothing');
    at += character.length;
    return () => character;
  }

  const oneOf = (characters: readonly string[]): Make => {
    if (characters.length === 0) throw refuse('nothing printable fits a class');
    return random => pick(random, characters);
  };

  /** After the backslash. */
  function escaped(): readonly string[] {
    const letter = pattern[at++];
    if (letter === undefined) throw refuse('it ends in a backslash');
    if (CLASSES[letter]) return CLASSES[letter];
    if (CONTROLS[letter] !== undefined) return [CONTROLS[letter]];
    const digits = letter === 'u' ? 4 : letter === 'x' ? 2 : 0;
    if (digits > 0) {
      const hex = pattern.slice(at, at + digits);
      if (!/^[0-9a-fA-F]+$/.test(hex) || hex.length < digits) throw refuse('an escape is not whole');
      at += digits;
      return [String.fromCharCode(Number.parseInt(hex, 16))];
    }
    if (/[A-Za-z1-9]/.test(letter)) throw refuse(`it has \\${letter}`);
    return [letter];
  }

  /** After the bracket. */
  function members(): string[] {
    const negated = eat('^');
    const found = new Set<string>();
    while (!eat(']')) {
      if (at >= pattern.length) throw refuse('a class does not end');
      const from = member();
      if (peek() !== '-' || pattern[at + 1] === ']' || from.length !== 1) {
        for (const character of from) found.add(character);
        continue;
      }
      at++;
      const to = member();
      if (to.length !== 1 || to[0]! < from[0]!) throw refuse('a range in a class is none');
      // of a wide range some hundred are enough to choose from
      const last = Math.min(to[0]!.charCodeAt(0), from[0]!.charCodeAt(0) + 300);
      for (const character of range(from[0]!, String.fromCharCode(last))) found.add(character);
    }
    return negated ? PRINTABLE.filter(character => !found.has(character)) : [...found];
  }

  function member(): readonly string[] {
    if (eat('\\')) return eat('b') ? ['\b'] : escaped();
    const character = pattern[at++];
    if (character === undefined) throw refuse('a class does not end');
    return [character];
  }

  const make = choice(0);
  if (at < pattern.length) throw refuse('a group ends that never began');
  return random => {
    steps = 0;
    return make(random);
  };
}
