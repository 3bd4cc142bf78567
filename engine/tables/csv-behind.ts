/**
 * Behind a quote that is never closed: where the next rows of the table begin. The lines there are read as rows, once and in
 * one pass, and so many of them in a row must fit the header that no text in a field is taken for rows.
 */
import type { CsvReader } from './row-ends.ts';

/** How many delimiters in their places, and how many rows, it takes to count as rows; with one column, rows alone. */
const DELIMITERS = 8;
const ROWS = 2;
const ROWS_OF_ONE_COLUMN = 1024;
/** lines of a row behind a broken one: where it has more, it is taken for broken too, and the next line for the next row */
const LINES = 64;
const LF = 10;

export interface RowsBehind {
  /**
   * Reads on up to `end`. Where the first of the rows that fit begins, counted from `from`, the beginning of the broken
   * row; null where there are none yet. `final`: nothing comes behind `end`.
   */
  look(block: Buffer, from: number, end: number, final: boolean): number | null;
}

/** `begin`: the first line behind the quote, counted from the beginning of the broken row. */
export function rowsBehind(newReader: () => CsvReader, columns: number, begin: number): RowsBehind {
  const needed = columns === 1 ? ROWS_OF_ONE_COLUMN : Math.max(ROWS, Math.ceil(DELIMITERS / (columns - 1)));
  let reader = newReader();
  let row = begin;
  let at = begin;
  let lines = 0; // of the row so far
  let first = begin;
  let fitting = 0;
  return {
    look(block, from, end, final) {
      while (from + at < end) {
        const lineEnd = block.indexOf(LF, from + at);
        const isCut = lineEnd < 0 || lineEnd >= end;
        const to = isCut ? end : lineEnd + 1;
        while (from + row < to && reader.cut(block.subarray(0, to), from + row, from + at, isCut && final)) {
          const fits = reader.complaint === null && reader.fields.count === columns;
          if (!reader.void) fitting = fits ? fitting + 1 : 0;
          if (fitting === 1 && !reader.void) first = row;
          if (fitting === needed) return first;
          row = at = reader.next - from;
          lines = 0;
        }
        if (from + row >= to) continue;
        at = reader.to - from;
        if (isCut) return null;
        lines += 1;
        if (lines < LINES) continue;
        reader = newReader(); // its quotes are broken too
        row = at = to - from;
        lines = fitting = 0;
      }
      return null;
    },
  };
}
