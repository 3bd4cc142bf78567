/** A part of the rows of a table: --offset, --limit and --shard, which several machines may share out between them. */
import { usageError } from '../core/item/failure.ts';

export interface RowSelection {
  /** whether the row is in it, from 1 */
  has(row: number): boolean;
  /** no row behind this one is in it */
  lastRow: number;
  /** how many of so many rows are in it */
  of(rows: number): number;
}

/** `shard` is `i/n`: of the rows between `offset` and `limit`, every n-th from the i-th on. Exit 64 where it is not. */
export function selectRows({
  offset,
  limit = Number.POSITIVE_INFINITY,
  shard,
}: {
  offset: number;
  limit: number | undefined;
  shard: string | undefined;
}): RowSelection {
  const [index, step] = shard === undefined ? [1, 1] : shardOf(shard);
  const lastRow = offset + limit;
  return {
    has(row) {
      const at = row - 1 - offset;
      return at >= 0 && at % step === index - 1;
    },
    lastRow,
    of: rows => Math.max(0, Math.ceil((Math.min(rows, lastRow) - offset - (index - 1)) / step)),
  };
}

/** Exit 64 where `text` is not `i/n`, with i from 1 to n. */
export function shardOf(text: string): [index: number, of: number] {
  const match = /^(\d{1,9})\/(\d{1,9})$/.exec(text);
  const [index, step] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || index < 1 || index > step) {
    throw usageError(`--shard: expected i/n with i from 1 to n, such as 1/8, found '${text}'`);
  }
  return [index, step];
}
