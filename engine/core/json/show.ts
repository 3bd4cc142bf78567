/** What is wrong with a value, in words that a person and a model can act on: `pointer: expected X, got Y`. */

export interface Problem {
  /** JSON Pointer of the value, or of the place where one is missing; empty for the whole */
  at: string;
  /** the schema's keyword that was not met */
  keyword: string;
  expected: string;
  got: string;
  message: string;
}

/** Problems that a message names; the rest is a number. */
const MAX_NAMED_PROBLEMS = 5;
const LONGEST_VALUE = 60;

export function problem(at: string, keyword: string, expected: string, got: string): Problem {
  return {
    at,
    keyword,
    expected,
    got,
    message: `${shorten(at || '(root)')}: expected ${expected}, got ${got}`,
  };
}

export function shorten(text: string): string {
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`;
}

/** A value as a message shows it: short, and never a whole object. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'string') return JSON.stringify(shorten(value));
  return String(value);
}

export function summarise(problems: readonly Problem[]): string {
  const named = problems.slice(0, MAX_NAMED_PROBLEMS).map(({ message }) => message);
  if (problems.length > MAX_NAMED_PROBLEMS) named.push(`and ${problems.length - MAX_NAMED_PROBLEMS} more`);
  return named.join('; ');
}
