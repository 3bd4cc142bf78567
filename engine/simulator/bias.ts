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

/** The sum of the shifts that an application calls for: it says `Column: Value`, or `"column": "Value"`. */
export function shiftFor(text: string, biases: readonly Bias[]): number {
  const plain = plainly(text);
  return biases.reduce((sum, { column, value, shift }) => sum + (says(plain, column, value) ? shift : 0), 0);
}

const plainly = (text: string): string => text.toLowerCase().replaceAll('_', ' ');

/** Characters between a column and its value. */
const BETWEEN = new Set(' \t:="\'');

function says(text: string, column: string, value: string): boolean {
  const [name, wanted] = [plainly(column), plainly(value)];
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
    let from = at + name.length;
    const gap = from;
    while (BETWEEN.has(text.charAt(from)) && from < gap + 6) from += 1;
    if (from === gap || !text.startsWith(wanted, from)) continue;
    if (!/[\p{L}\p{N}]/u.test(text.charAt(from + wanted.length))) return true;
  }
  return false;
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
