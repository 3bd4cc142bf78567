/** The counts of a column over a few rows, which are held: as the index gives them for all rows. */
import type { ColumnKind } from './rows/chunk.ts';
import type { Counts } from './rows/selection.ts';

export function countsOfFew(values: readonly (string | undefined)[], kind: ColumnKind, most: number): Counts {
  const counts = new Map<string, number>();
  let none = 0;
  for (const value of values) {
    if (value === undefined || value === '') none += 1;
    else counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([a, many], [b, others]) => others - many || (a < b ? -1 : 1));
  const numbers = [...counts.keys()].map(Number);
  const isNumeric = numbers.length > 0 && numbers.every(Number.isFinite);
  return {
    kind,
    values: sorted.slice(0, most).map(([value, count]) => ({ value, count })),
    others: sorted.slice(most).reduce((sum, [, count]) => sum + count, 0),
    none,
    low: isNumeric ? numbers.reduce((a, b) => Math.min(a, b)) : null,
    high: isNumeric ? numbers.reduce((a, b) => Math.max(a, b)) : null,
  };
}
