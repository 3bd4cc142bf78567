/**
 * The rows of a table that was asked before, by their number: for results that know no more than the row. The items are
 * made as ingest makes them, by the same code, so that an id is the same id. They are kept in memory, prompts and all.
 */
import { inputsOf } from '../core/files/input-files.ts';
import type { Item } from '../core/item/item.ts';
import { readTable, type TableOptions } from './read-table.ts';
import { itemMaker, type MakerOptions } from './row-items.ts';

export interface SourceRows {
  /** for messages */
  path: string;
  /** how many rows there are */
  size: number;
  /** the item of a row (from 1), failed where the row is none; undefined beyond the last */
  at(row: number): Item | undefined;
  /** the row of an id */
  rowOf(id: string): number | undefined;
}

export async function readRows(
  path: string,
  making: Omit<MakerOptions, 'orderings' | 'samples'>,
  reading: Pick<TableOptions, 'delimiter' | 'maxLine' | 'signal' | 'warn'>,
): Promise<SourceRows> {
  const { expect, itemsOf } = itemMaker({ ...making, orderings: null, samples: null });
  const table = readTable(inputsOf([path]), {
    ...reading,
    takesItems: false,
    expect,
    itemsOf: row => itemsOf(row, true),
    lastRow: Number.POSITIVE_INFINITY,
  });
  const items = await new Promise<Item[]>((resolve, reject) => table.stopOnError(reject).toArray(resolve));
  const rows = new Map(items.flatMap(({ id, row }) => (id === null ? [] : [[id, row as number] as const])));
  return { path, size: items.length, at: row => items[row - 1], rowOf: id => rows.get(id) };
}
