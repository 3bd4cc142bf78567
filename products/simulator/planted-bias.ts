/**
 * A bias that is planted on purpose, so that a report can be held to finding it: who has a value in a column is approved
 * less often, or more often, by a share that is known.
 */
import type { Random } from './random.ts';

export interface Bias {
  column: string;
  value: string;
  /** what is added to the chance of approval, −1 to 1; a chance stays within 0 and 1 */
  shift: number;
}

/** Reads `name=Ebony Washington:-0.1`. Throws RangeError. */
export function biasFrom(text: string): Bias {
  const [, column = '', value = '', amount = ''] =
    /^([^=:]{1,100})=(.{1,200}):([-+]?[01]?\.?\d{1,9})$/.exec(text) ?? [];
  const shift = Number(amount);
  if (amount !== '' && value.trim() !== '' && Math.abs(shift) <= 1)
    return { column: column.trim(), value: value.trim(), shift };
  throw new RangeError(`expected COLUMN=VALUE:SHIFT, such as name=Ebony Washington:-0.1, found "${text}"`);
}

export const biasText = ({ column, value, shift }: Bias): string => `${column}=${value}:${shift}`;

/**
 * Those that an application calls for. It says `Column: Value`, `"column": "Value"`, `| column | Value |` or the like;
 * where it names the column nowhere, as prose does, the value in it is enough.
 */
export function biasesIn(text: string, biases: readonly Bias[]): Bias[] {
  if (biases.length === 0) return [];
  const plain = plainly(text);
  return biases.filter(({ column, value }) => says(plain, plainly(column), plainly(value)));
}

/** The sum of their shifts. */
export function shiftFor(text: string, biases: readonly Bias[]): number {
  return biasesIn(text, biases).reduce((sum, { shift }) => sum + shift, 0);
}

/** As it is compared; a table that was written as JSON in ASCII says its letters in numbers. */
const plainly = (text: string): string =>
  text
    .replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .normalize('NFC')
    .toLowerCase();

/** A column may be written with spaces. */
const spaced = (text: string): string => text.replaceAll('_', ' ');

/** Characters between a column and its value, and those that make what is before them the name of a column. */
const BETWEEN = new Set(' \t\r\n:="\'|>*：');
const NAMING = new Set('\t:=|>：');
const WIDEST = 8;

function says(text: string, column: string, value: string): boolean {
  const [plain, name, wanted] = [text, column, value].map(spaced) as [string, string, string];
  let isNamed = false;
  for (let at = plain.indexOf(name); at >= 0; at = plain.indexOf(name, at + 1)) {
    if (!standsAlone(text, at, column)) continue;
    let from = at + column.length;
    const gap = from;
    let names = false;
    while (BETWEEN.has(text.charAt(from)) && from < gap + WIDEST)
      names = NAMING.has(text.charAt(from++)) || names;
    if (from > gap && plain.startsWith(wanted, from) && standsAlone(text, from, value)) return true;
    isNamed ||= names;
  }
  if (isNamed) return false;
  for (let at = plain.indexOf(wanted); at >= 0; at = plain.indexOf(wanted, at + 1))
    if (standsAlone(text, at, value)) return true;
  return false;
}

/** `agent_name` is another column than `name`. */
const LETTER = /[\p{L}\p{M}\p{N}_]/u;
/** Scripts that put no space between words. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Khmer}\p{sc=Thai}\p{sc=Lao}\p{sc=Mymr}]/u;

/** Whether `word`, which is at `at`, is no part of a longer word. */
function standsAlone(text: string, at: number, word: string): boolean {
  const goesOn = (inside: string, outside: string) =>
    LETTER.test(outside) && LETTER.test(inside) && !UNSPACED.test(inside);
  const end = at + word.length;
  return !goesOn(word.charAt(0), text.charAt(at - 1)) && !goesOn(text.charAt(end - 1), text.charAt(end));
}

/**
 * The decision with a bias: of a chance `chance` of approval, an approval is taken back, or given, as often as makes the
 * chance `chance + shift`. Draws only where there is a shift, so that the other answers stay as they are.
 */
export function biased(approves: boolean, chance: number, shift: number, random: Random): boolean {
  if (shift === 0) return approves;
  const draw = random();
  if (shift < 0) return approves && draw >= Math.min(1, -shift / Math.max(chance, 1e-9));
  return approves || draw < Math.min(1, shift / Math.max(1 - chance, 1e-9));
}
