/**
 * What makes a text no answer, whatever it says: that nothing in it can be seen, or that it ends in a unit that comes again and
 * again, as a model writes that has got into a loop. Only exact repetition counts, and so much of it that hardly anybody means it.
 */
import { shorten } from '../core/json/show.ts';

/**
 * Text in which nothing can be seen: spaces, controls, characters that Unicode lets every font leave out (fillers of Hangul,
 * selectors of variants, tags), marks with nothing to stand on, and the blanks among the symbols.
 */
const BLANK = /^[\s\p{Z}\p{C}\p{M}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]*$/u;

/** Whether nothing in the text can be seen; an empty one has nothing. */
export function isBlank(text: string): boolean {
  return BLANK.test(text);
}

/** Keywords of what is found wrong with a text: no JSON Schema has them. */
export const EMPTY = 'x-fw-empty';
export const REPEATS = 'x-fw-repeats';

/** How often the unit must be repeated. */
const LEAST_TIMES = 8;
/** UTF-16 units that all of them must take. */
const LEAST_LENGTH = 400;
const LONGEST_UNIT = 1_000;
/** As much of the end as the longest unit needs. */
const LOOKED_AT = LEAST_TIMES * LONGEST_UNIT;

export interface Repetition {
  unit: string;
  times: number;
}

/** The shortest unit that the end of `text` repeats; null where it repeats none. Linear, in at most 8,000 characters. */
export function repetitionIn(text: string): Repetition | null {
  if (text.length < LEAST_LENGTH) return null;
  const tail = text.slice(-LOOKED_AT);
  const { length } = tail;
  const at = (index: number): number => tail.charCodeAt(length - 1 - index);
  // the Z function of the text from its end: for each `shift`, how much of the end is repeated that far before it
  const reach = new Int32Array(length);
  let from = 0;
  let to = 0;
  for (let shift = 1; shift <= LONGEST_UNIT && shift < length; shift++) {
    let same = shift < to ? Math.min(to - shift, reach[shift - from] as number) : 0;
    while (shift + same < length && at(same) === at(shift + same)) same++;
    reach[shift] = same;
    if (shift + same > to) {
      from = shift;
      to = shift + same;
    }
    const repeated = shift + same;
    if (repeated >= LEAST_LENGTH && repeated >= LEAST_TIMES * shift)
      return { unit: tail.slice(-shift), times: Math.floor(repeated / shift) };
  }
  return null;
}

export function loopIn({ unit, times }: Repetition): string {
  return `${JSON.stringify(shorten(unit))} ${times} times at its end`;
}
