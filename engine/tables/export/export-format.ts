/** What a format is in which results leave; each is a file of this room, and export-formats.ts lists them. */
import type { Frame } from '../../core/files/ndjson-out.ts';
import type { Item } from '../../core/item/item.ts';

export interface FormatOptions {
  /** the path of a file for failed items */
  errors: string | undefined;
  /** lines in the order of the rows */
  ordered: boolean;
}

export interface Format {
  /** Throws ItemFailure for an item that has no place in it; failed items are not asked about. */
  check(item: Item): void;
  frame(options: FormatOptions): Frame;
}
