/**
 * What a table is, before anybody says how to read it: its columns, its first rows, its delimiter. It is read as ingest
 * does, with each usual delimiter.
 */
import { inputsOf } from '../core/files/input-files.ts';
import { dataError } from '../core/item/failure.ts';
import { delimiterOf } from './delimiter.ts';
import { type TableRow, tableBatches } from './read-table.ts';

export { quotedNames } from './rows.ts';

export interface Look {
  columns: readonly string[];
  /** what `--delimiter` has to say; undefined where ingest reads it so by itself */
  delimiter: string | undefined;
  /** the first rows, those that are none among them */
  rows: readonly TableRow[];
}

const ROWS = 50;
/** The usual ones, beside the one that the name of the file tells. */
const DELIMITERS = [undefined, ';', '\\t', '|', ','];

/** Exit 65, with the reason, where the file is no table, or none of its first rows fits its header. */
export async function lookAtTable(
  path: string,
  { maxLine, encoding }: { maxLine: number; encoding?: string | undefined },
): Promise<Look> {
  let best: Look | undefined;
  let why: unknown; // of the first way to read it
  for (const delimiter of DELIMITERS) {
    try {
      const look = await read(path, { delimiter, maxLine, encoding });
      if (best === undefined || worth(look) > worth(best)) best = look;
      if (delimiter === undefined && isSure(look)) break;
    } catch (error) {
      why ??= error;
    }
  }
  if (best === undefined) throw why;
  const item = best.rows.find(each => each.item);
  if (item) {
    const found = 'found items of fw, which fw chain reads as they are';
    throw dataError(`${path}:${item.line}: expected a table, ${found}`);
  }
  const [row] = best.rows;
  if (row !== undefined && best.rows.every(({ trouble }) => trouble)) {
    const { message } = row.trouble!;
    throw dataError(`${path}:${row.line}: expected a table, found no row that fits its header: ${message}`);
  }
  return best;
}

/** Rows that fit, times the columns beside the first: a header that was not cut has one. */
function worth({ rows, columns }: Look): number {
  return rows.filter(({ trouble }) => !trouble).length * (columns.length - 1);
}

/** JSON has no delimiter; and where several fields fit the header in every row, this is it. */
function isSure({ rows, columns }: Look): boolean {
  return columns.length !== 1 && rows.every(({ trouble }) => !trouble);
}

async function read(
  path: string,
  {
    delimiter,
    maxLine,
    encoding,
  }: Record<'delimiter' | 'encoding', string | undefined> & { maxLine: number },
): Promise<Look> {
  let columns: readonly string[] = [];
  const rows: TableRow[] = [];
  const batches = tableBatches(inputsOf([path]), {
    delimiter: delimiter === undefined ? undefined : delimiterOf(delimiter),
    ...{ maxLine, encoding, takesItems: true },
    expect(found) {
      columns = found;
    },
    itemsOf(row) {
      rows.push(row);
      return [];
    },
    lastRow: ROWS,
    warn: () => {},
    signal: new AbortController().signal,
  });
  for await (const _ of batches);
  return { columns, delimiter, rows };
}
