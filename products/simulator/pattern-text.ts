/**
 * Texts that a regular expression matches, for schemas with a `pattern`. It makes one way to match and not all of them:
 * repetitions stay short, and what looks around or back is refused.
 */
import type { Set as Class, Group, Root, Token } from 'ret';
import { tokenizer } from 'ret/dist/tokenizer.js';
import { types } from 'ret/dist/types/types.js';
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
/** Of a wide range of characters that nobody prints this many are enough to choose from. */
const ENOUGH = 300;

const PRINTABLE = Array.from({ length: 95 }, (_, at) => ' '.charCodeAt(0) + at);
const CONTROLS: { [letter: string]: string } = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v', 0: '\0' };

/** @throws SchemaError on what is beyond this, at once or when a text becomes too long */
export function textOfPattern(pattern: string): Make {
  let parts = 0;
  let steps = 0;
  const refuse = (what: string) =>
    new SchemaError(
      `The simulator makes no text for the pattern ${JSON.stringify(pattern.slice(0, 200))}: ${what}.`,
    );

  function row(tokens: readonly Token[], depth: number): Make {
    if (depth > DEEPEST) throw refuse('it nests too deep');
    const makers = tokens.map(token => makerOf(token, depth));
    return random => {
      let text = '';
      for (const make of makers) {
        text += make(random);
        if (text.length > LONGEST_TEXT || ++steps > MOST_STEPS) throw refuse('its texts are too long');
      }
      return text;
    };
  }

  function choice(options: readonly Token[][], depth: number): Make {
    const rows = options.map(option => row(option, depth));
    return random => (rows.length === 1 ? rows[0]! : pick(random, rows))(random);
  }

  function makerOf(token: Token, depth: number): Make {
    if (++parts > MOST_PARTS) throw refuse('it is too long');
    if (token.type === types.POSITION) return () => '';
    if (token.type === types.REFERENCE) throw refuse('it looks back');
    if (token.type === types.CHAR) return () => String.fromCharCode(token.value);
    if (token.type === types.SET) {
      const codes = codesIn(token);
      if (codes.length === 0) throw refuse('nothing printable fits a class');
      return random => String.fromCharCode(pick(random, codes));
    }
    if (token.type === types.REPETITION) {
      const { min, max, value } = token;
      // ret takes the ? of a lazy one for a repetition of it
      if (value.type === types.REPETITION) {
        if (max === 1) return makerOf(value, depth);
        throw refuse('it repeats nothing');
      }
      const whole = row([value], depth + 1);
      if (min > LONGEST_TEXT) throw refuse('its texts are too long');
      return random => {
        const times = min + Math.floor(random() * (Math.min(max, min + BEYOND) - min + 1));
        let text = '';
        for (let time = 0; time < times && text.length <= LONGEST_TEXT; time++) text += whole(random);
        return text;
      };
    }
    if (token.followedBy || token.notFollowedBy) throw refuse('it looks around');
    return choice(optionsOf(token), depth + 1);
  }

  let whole: Make;
  try {
    whole = choice(optionsOf(tokenizer(plainly(pattern, refuse))), 0);
  } catch (error) {
    throw error instanceof SyntaxError ? refuse('it is no regular expression') : error;
  }
  return random => {
    steps = 0;
    return whole(random);
  };
}

const optionsOf = ({ options, stack = [] }: Group | Root) => options ?? [stack];

/** Without what ret reads otherwise than the engine does: characters stand for themselves, and what it does not know is refused. */
function plainly(pattern: string, refuse: (what: string) => SchemaError): string {
  if (pattern.length > LONGEST_TEXT) throw refuse('it is too long');
  if (/[\udc00-\udfff][*+?{]/.test(pattern)) throw refuse('it repeats a character beyond U+FFFF');
  const escapes = /\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\s\S]))/g;
  return pattern.replace(escapes, (whole, long?: string, short?: string, letter = '') => {
    if (/[dwsDWS]/.test(letter)) return whole;
    const code = long ?? short;
    const character = code ? String.fromCharCode(Number.parseInt(code, 16)) : CONTROLS[letter];
    if (character === undefined && /[A-Za-z1-9]/.test(letter)) throw refuse(`it has \\${letter}`);
    const plain = character ?? letter;
    return /\w/.test(plain) ? plain : `\\${plain}`;
  });
}

/** What a class is chosen from: what can be printed, and where it has nothing such, what it lists. */
function codesIn(set: Class): number[] {
  const printable = PRINTABLE.filter(code => holds(set, code));
  if (printable.length > 0 || set.not) return printable;
  return set.set.flatMap(part => {
    if (part.type === types.CHAR) return [part.value];
    if (part.type === types.SET) return codesIn(part);
    const length = Math.max(0, Math.min(ENOUGH, part.to - part.from + 1));
    return Array.from({ length }, (_, at) => part.from + at);
  });
}

function holds({ set, not }: Class, code: number): boolean {
  const isListed = set.some(part => {
    if (part.type === types.CHAR) return part.value === code;
    return part.type === types.SET ? holds(part, code) : part.from <= code && code <= part.to;
  });
  return isListed !== not;
}
