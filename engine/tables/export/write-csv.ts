/** Rows as CSV (RFC 4180, but lines end in a line feed): UTF-8 without a mark, a header, no value changed. */
import type { Column, Row } from './table-columns.ts';
import type { RowWriter } from './write-table.ts';

/** Characters that leave in one write. */
const ROOM = 256 * 1024;

export function csvRows(columns: readonly Column[], put: (bytes: Buffer) => Promise<void>): RowWriter {
  let waiting = `${columns.map(({ name }) => quoted(name)).join(',')}\n`;
  let formulas = 0;
  let firstFormula = '';

  const cellOf = (value: unknown, { name, type }: Column): string => {
    if (value === null) return '';
    if (type === 'json') return quoted(JSON.stringify(value));
    if (typeof value !== 'string') return String(value);
    if (FORMULA.test(value)) {
      formulas += 1;
      firstFormula ||= name;
    }
    return quoted(value);
  };
  const flush = async (): Promise<void> => {
    const bytes = Buffer.from(waiting);
    waiting = '';
    await put(bytes);
  };
  return {
    add(row) {
      waiting += `${row.map((value: Row[number], index) => cellOf(value, columns[index] as Column)).join(',')}\n`;
      return waiting.length >= ROOM ? flush() : undefined;
    },
    end: flush,
    notes: () => (formulas === 0 ? [] : [formulaNote(formulas, firstFormula)]),
  };
}

/** What a spreadsheet takes for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

const formulaNote = (count: number, column: string): string =>
  `${count === 1 ? '1 text begins' : `${count} texts begin`} as a formula does (=, +, -, @), the first in ` +
  `${column}; open the table as text in a spreadsheet. No value was changed`;

const SPECIAL = /[",\r\n]|^\s|\s$/;

/** An empty text is "", which is not the nothing of a value that is not there. */
function quoted(text: string): string {
  return text === '' || SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
