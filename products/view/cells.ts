/** The columns of single rows, read from their lines: what a page shows of them. */
import { ledgerFields } from './ledger-columns.ts';
import type { LedgerFacts } from './ledger-facts.ts';
import { fieldsOf } from './rows/line-fields.ts';
import type { RowText, Run } from './rows/run.ts';

/** A row with its columns, as texts. */
export interface RowFields {
  row: number;
  fields: ReadonlyMap<string, string>;
  trouble: string | null;
}

/** Bytes of lines that are read for one answer, beyond the first line: a page of long lines has fewer of them. */
const MOST_BYTES = 32 * 1024 * 1024;
/** Columns of one line: those of another one are not shown beside it. */
const MOST_FIELDS = 20_000;

export function fieldsIn(
  { row, file, line, value, isRow, joined, trouble }: RowText,
  facts: LedgerFacts | null = null,
): RowFields {
  const fields = new Map<string, string>([['file', file]]);
  fieldsOf(
    value,
    (group, key, field) => {
      const name = `${group}${key}`;
      if (!fields.has(name) && fields.size < MOST_FIELDS) fields.set(name, String(field));
    },
    isRow,
    joined,
  );
  if (facts !== null && !isRow) for (const [name, text] of ledgerFields(facts, value)) fields.set(name, text);
  return { row, fields, trouble: trouble === null ? null : `${file}:${line}: ${trouble}` };
}

/** The fields of some rows, in their order: all of them, or fewer where they are long, but one at least. */
export async function fieldsOfRows(
  run: Run,
  rows: readonly number[],
  facts: LedgerFacts | null = null,
): Promise<RowFields[]> {
  const read: RowFields[] = [];
  let bytes = 0;
  for (const row of rows) {
    const one = await run.read(row);
    read.push(fieldsIn(one, facts));
    bytes += one.bytes;
    if (bytes > MOST_BYTES) break;
  }
  return read;
}
