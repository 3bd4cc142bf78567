/** The rule for what is read: each leaf stands in what the model said, to the letter, or has an entry. */
import type { Repair } from '../../engine/core/item/item.ts';

export interface Leaf {
  at: string;
  value: unknown;
}

/** The scalars and empty values of a value, by JSON Pointer. */
export function leavesOf(value: unknown, at = ''): Leaf[] {
  if (typeof value !== 'object' || value === null) return [{ at, value }];
  return Object.entries(value).flatMap(([key, below]) =>
    leavesOf(below, `${at}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}

/** Whether the leaf stands in the text to the letter, or an entry says how it came to be. */
export function isSaid({ at, value }: Leaf, text: string, repairs: readonly Repair[]): boolean {
  if (repairs.some(entry => entry.at !== undefined && `${at}/`.startsWith(`${entry.at}/`))) return true;
  const written = JSON.stringify(value);
  if (text.includes(written)) return true;
  // what was mended is the same but for the marks that the entry put or cut
  const mended = repairs.some(
    entry => entry.offset !== undefined && !/-around|fence|object|block/.test(entry.rule),
  );
  const bare = (some: string): string =>
    some
      .replace(/[\\"'+.]|\b0(?=\.)/g, '')
      .replace(/true|false|null|none/gi, one => (/n/i.test(one[0]!) ? 'null' : one.toLowerCase()));
  return mended && bare(text).includes(bare(written));
}
