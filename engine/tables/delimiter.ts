/**
 * The delimiter of CSV, one byte: from an option, from a first line such as `sep=;`, as Excel reads it, or doubted where the
 * header holds another one than it is read with.
 */
import { dataError, usageError } from '../core/item/failure.ts';
import { CsvReader } from './csv-rows.ts';

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
    `--delimiter: expected one ASCII character, e.g. ';' or '\\t', but no quote or line end; found ${JSON.stringify(text)}`,
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

/** The line, perhaps in quotes; it may be the whole file. A character beyond ASCII is up to four bytes. */
const LINE = /^"?sep=([^"\r\n]{0,4})"?(?:[\r\n]|$)/i;
/** What may become one, where more bytes come. */
const BEGIN = /^"?(?:s|se|sep|sep=[^"\r\n]{0,4}"?)?$/i;
const LONGEST = 16;

/** Whether more bytes are needed to tell. */
export function mayBeSepLine(bytes: Buffer): boolean {
  return bytes.length < LONGEST && BEGIN.test(bytes.toString('latin1'));
}

/** The byte that the first line names; null where that line is another one. Exit 65 where it names none that can be. */
export function sepLine(bytes: Buffer, source: string): number | null {
  const named = LINE.exec(bytes.toString('latin1', 0, LONGEST))?.[1];
  if (named === undefined) return null;
  const byte = named === '\\t' ? TAB : named.length === 1 ? named.charCodeAt(0) : 0;
  if (byte > 0 && byte < 0x80) return byte;
  const found = named === '' ? 'none' : JSON.stringify(Buffer.from(named, 'latin1').toString());
  throw dataError(`${source}:1: expected one ASCII character after sep=, found ${found}`);
}

/** What a person should know of the header `names`, which was cut at `delimiter`. */
export interface Doubt {
  message: string;
  /** it is one column, and nobody said so: to go on would be to guess */
  stops: boolean;
}

/**
 * Whether another delimiter would make at least as many columns of `line`, the header, and more than one. `isSaid`: an option
 * or the table names the delimiter. What is in quotes may hold what it likes.
 */
export function doubtOf(
  line: Buffer,
  names: readonly string[],
  delimiter: number,
  isSaid: boolean,
): Doubt | null {
  if (isSaid && names.length > 1) return null;
  const is = written(delimiter);
  const [name = ''] = names;
  const first = JSON.stringify(name.slice(0, 60));
  for (const other of USUAL) {
    const count = other === delimiter ? 0 : columnsBy(line, other);
    if (count < Math.max(2, names.length)) continue;
    const may = written(other);
    const message =
      names.length === 1
        ? `expected columns with '${is}' between them, found ${first} alone (is it --delimiter '${may}'?); --delimiter '${is}' says that it is one column, and a first line sep= says what is between them`
        : `its header is ${names.length} columns by '${is}' and ${count} by '${may}' (is it --delimiter '${may}'?)`;
    return { message, stops: names.length === 1 && !isSaid };
  }
  if (names.length > 1 || !USUAL.some(byte => name.includes(String.fromCharCode(byte)))) return null;
  const message = `its header is one column, ${first}, in quotes: if each line is in quotes as a whole, take these away`;
  return { message, stops: false };
}

function columnsBy(line: Buffer, delimiter: number): number {
  const reader = new CsvReader(delimiter);
  reader.cut(line, 0, 0, true);
  return reader.complaint === null ? reader.fields.count : 0;
}
