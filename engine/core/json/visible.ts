/**
 * Text from outside as a terminal may show it. What a model, a file or a server wrote can hold escape sequences that
 * clear a screen, set a title, or turn the direction of a line; here they are shown instead of obeyed.
 */

/**
 * Control characters, lone surrogates, line separators, and the invisible format characters (direction, tags, zero
 * width). The two joiners U+200C and U+200D stay: Persian, Khmer and emoji need them.
 */
const HIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;

/** One line: every such character as `<U+001B>`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, character => {
    const code = (character.codePointAt(0) as number).toString(16).toUpperCase();
    return `<U+${code.padStart(4, '0')}>`;
  });
}

/** Several lines: line breaks and tabs do what they always do, the rest is shown. */
export function visibleLines(text: string): string[] {
  return text.split('\n').map(line => line.split('\t').map(visible).join('\t'));
}

/** Clears the rest of this line and all below it, such as the bars of another stage, which are then drawn again. */
export const CLEAR_BELOW = '\r\u001b[J';
