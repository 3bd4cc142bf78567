/** The delimiter of CSV: one byte, from an option or from the header. */
import { usageError } from '../core/item/failure.ts';

export const COMMA = 44;
export const TAB = 9;
const LF = 10;
const CR = 13;
const QUOTE = 34;

/** The byte that `--delimiter` names: a character of ASCII, or `\t`. Exit 64 for another, and for those that end fields. */
export function delimiterOf(text: string): number {
  const byte = text === '\\t' ? TAB : text.length === 1 ? text.charCodeAt(0) : Number.NaN;
  if (byte > 0 && byte < 0x80 && byte !== LF && byte !== CR && byte !== QUOTE) return byte;
  throw usageError(
    `--delimiter: expected one character of ASCII, such as ';' or '\\t', and no quote or line end; found ${JSON.stringify(text)}`,
  );
}

/** A delimiter as it is written in a message or an option. */
export const written = (byte: number): string => (byte === TAB ? '\\t' : String.fromCharCode(byte));

/** The usual ones, as bytes. */
export const USUAL: readonly number[] = [...';\t|,'].map(text => text.charCodeAt(0));

/** A hint for a table of one column: that its name holds what may be the right delimiter. */
export function delimiterIn(name: string): string {
  const found = USUAL.find(delimiter => name.includes(String.fromCharCode(delimiter)));
  return found === undefined ? ' (is the --format right?)' : ` (is it --delimiter '${written(found)}'?)`;
}
