/**
 * Text in which nothing can be seen: spaces, controls, characters that Unicode lets every font leave out (fillers of Hangul,
 * selectors of variants, tags), marks with nothing to stand on, and the blanks among the symbols.
 */
const BLANK = /^[\s\p{Z}\p{C}\p{M}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]*$/u;

/** Whether nothing in the text can be seen; an empty one has nothing. */
export function isBlank(text: string): boolean {
  return BLANK.test(text);
}
