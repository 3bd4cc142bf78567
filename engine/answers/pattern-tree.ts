/** A `pattern` (ECMA 262, Unicode mode) as a tree, or the reason why it cannot run in linear time. */

const MAX_PATTERN = 4_096;
const MAX_GROUPS = 100;

export class PatternError extends Error {
  override name = 'PatternError';
}

/** Whether one code point fits. */
export type Test = (point: number) => boolean;

export type Tree =
  | { kind: 'char'; test: Test }
  | { kind: 'start' | 'end' | 'word' | 'not-word' }
  | { kind: 'all' | 'any'; parts: Tree[] }
  | { kind: 'repeat'; part: Tree; min: number; max: number };

/** Throws PatternError where the source is no pattern, is too long, or needs backtracking. */
export function parsePattern(source: string): Tree {
  if (source.length > MAX_PATTERN) {
    throw new PatternError(`expected a pattern of at most ${MAX_PATTERN} characters, got ${source.length}`);
  }
  try {
    // compiled, not run: what follows may rely on the syntax
    new RegExp(source, 'u');
  } catch {
    throw new PatternError(`expected an ECMA 262 pattern, got ${JSON.stringify(source)}`);
  }
  return parse(source);
}

/** A recursive descent over a source that the built-in engine has already accepted. */
function parse(source: string): Tree {
  let at = 0;
  const refuse = (what: string): never => {
    throw new PatternError(
      `expected a pattern without ${what} (they need backtracking, which can hang), got ${JSON.stringify(source)}`,
    );
  };

  const alternatives = (depth: number): Tree => {
    if (depth > MAX_GROUPS) {
      throw new PatternError(`expected a pattern with at most ${MAX_GROUPS} nested groups`);
    }
    const parts = [sequence(depth)];
    while (source[at] === '|') {
      at++;
      parts.push(sequence(depth));
    }
    return parts.length === 1 ? parts[0]! : { kind: 'any', parts };
  };
  const sequence = (depth: number): Tree => {
    const parts: Tree[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') parts.push(quantified(depth));
    return { kind: 'all', parts };
  };
  const quantified = (depth: number): Tree => {
    const part = atom(depth);
    const [text, min, max] = quantifier(source, at);
    if (text === 0) return part;
    at += text;
    // Greedy or lazy: whether there is a match is the same question.
    if (source[at] === '?') at++;
    return { kind: 'repeat', part, min, max };
  };
  const atom = (depth: number): Tree => {
    const char = String.fromCodePoint(source.codePointAt(at)!);
    if (char === '^' || char === '$') {
      at++;
      return { kind: char === '^' ? 'start' : 'end' };
    }
    if (char === '(') {
      if (/^\(\?<?[=!]/.test(source.slice(at, at + 4))) refuse('lookahead or lookbehind');
      const name = /^\(\?(?::|<[^>]*>)/.exec(source.slice(at, at + 200));
      if (name === null && source[at + 1] === '?') refuse('modifiers');
      at += name?.[0].length ?? 1;
      const inner = alternatives(depth + 1);
      at++;
      return inner;
    }
    if (char === '[') return { kind: 'char', test: single(take(classLength(source, at))) };
    if (char !== '\\') return { kind: 'char', test: single(take(char.length)) };
    const escaped = source[at + 1]!;
    if (escaped === 'b' || escaped === 'B') {
      at += 2;
      return { kind: escaped === 'b' ? 'word' : 'not-word' };
    }
    if (escaped === 'k' || (escaped >= '1' && escaped <= '9')) refuse('back references');
    return { kind: 'char', test: single(take(escapeUnits(source, at))) };
  };
  const take = (length: number): string => {
    at += length;
    return source.slice(at - length, at);
  };

  return alternatives(0);
}

/** Length, least and most of the quantifier at `at`; length 0 where there is none. */
function quantifier(source: string, at: number): [length: number, min: number, max: number] {
  switch (source[at]) {
    case '*':
      return [1, 0, Infinity];
    case '+':
      return [1, 1, Infinity];
    case '?':
      return [1, 0, 1];
    case '{': {
      const close = source.indexOf('}', at);
      const [min = '', max = min] = source.slice(at + 1, close).split(',');
      return [close + 1 - at, Number(min), max === '' ? Infinity : Number(max)];
    }
    default:
      return [0, 1, 1];
  }
}

function classLength(source: string, open: number): number {
  let at = open + 1;
  while (source[at] !== ']') at += source[at] === '\\' ? 2 : 1;
  return at + 1 - open;
}

/** Length of the escape at `at`, such as `\d`, `\cJ`, `\x41`, `\u{1F600}`, a pair of surrogates, `\p{Letter}`. */
function escapeUnits(source: string, at: number): number {
  const form = /^\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|u\{[^}]*\}|u\w{4}|x\w\w|c\w|[pP]\{[^}]*\})/;
  return form.exec(source.slice(at, at + 100))?.[0].length ?? 2;
}

/** A test for one code point by the built-in engine, remembered for ASCII. */
function single(atom: string): Test {
  const expression = new RegExp(`^${atom}$`, 'u');
  const known = new Int8Array(128);
  return point => {
    if (point >= 128) return expression.test(String.fromCodePoint(point));
    known[point] ||= expression.test(String.fromCodePoint(point)) ? 1 : -1;
    return known[point] === 1;
  };
}
