import { usageError } from '../../engine/core/item/failure.ts';

/** Values of a group column, orders, files: beyond that nobody reads a table, and a column of ids was named. */
const MOST_VALUES = 10_000;

/** Names as numbers, in the order in which they came. */
export interface Names {
  of(name: string): number;
  list: string[];
}

export function createNames(what = ''): Names {
  const numbers = new Map<string, number>();
  const list: string[] = [];
  return {
    list,
    of(name) {
      const known = numbers.get(name);
      if (known !== undefined) return known;
      if (what !== '' && list.length >= MOST_VALUES)
        throw usageError(`${what}: expected at most 10,000 values, found more: is it a column of ids?`);
      numbers.set(name, list.length);
      list.push(name);
      return list.length - 1;
    },
  };
}
