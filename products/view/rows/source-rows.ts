/** The table that was asked, for lines that lack its columns: joined as `fw report --source` does, row by row. */
import { isFailed } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { readSource } from '../../report/source.ts';

export interface SourceRows {
  /** The columns of the row of a line; null where it names none, or another one than it holds itself. */
  of(line: JsonObject, where: string): JsonObject | null;
  /** lines so far that say themselves that their row is another one, and the first reason */
  strangers: number;
  why: string;
}

/** Exit 65 where the table cannot be read. */
export async function openSource(path: string, maxLine: number): Promise<SourceRows> {
  const source = await readSource(path, { maxLine, warn: () => {} });
  const rows: SourceRows = {
    strangers: 0,
    why: '',
    of(line, where) {
      const own = isObject(line.input) ? line.input : undefined;
      try {
        return source.rowOf(line, { own, where, isRow: false, isFailed: isFailed(line), used: [] }) ?? null;
      } catch (error) {
        rows.strangers += 1;
        if (rows.strangers === 1) rows.why = (error as Error).message;
        return null;
      }
    },
  };
  return rows;
}
