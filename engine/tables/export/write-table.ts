/**
 * Items as a table, a row for each. Its columns are known when the last item has come: so each is put aside on disk as it
 * comes, its columns are counted, and the table is written when all are there. What is in memory is some 20 bytes an item,
 * and the columns. A run that is killed before the end has written nothing.
 */
import { openSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../core/files/durable.ts';
import { type Drain, type Frame, fileDrain } from '../../core/files/ndjson-out.ts';
import { letGo, originOf, textOf } from '../../core/files/origin.ts';
import { openAside } from '../../core/files/put-aside.ts';
import { flagsFor } from '../../core/files/saving.ts';
import { ItemFailure, ioError } from '../../core/item/failure.ts';
import { failureOf, type Item, idOf, isFailed } from '../../core/item/item.ts';
import { lossless } from '../../core/json/lossless.ts';
import { withFailure } from '../../flow/stage.ts';
import type { Format, FormatOptions } from './export-format.ts';
import { type Column, Columns, type Row } from './table-columns.ts';

/** Writes the rows of one table, as they are in it. */
export interface RowWriter {
  /** A promise where the reader is behind. */
  add(row: Row): Promise<void> | undefined;
  end(): Promise<void>;
  /** what a person should know of the values */
  notes(): string[];
}

export type OpenRows = (
  columns: readonly Column[],
  put: (bytes: Buffer) => Promise<void>,
) => RowWriter | Promise<RowWriter>;

export function tableFormat(openRows: OpenRows, isBinary: boolean): Format {
  return { check, frame: options => frameOf(openRows, isBinary, options) };
}

function frameOf(openRows: OpenRows, isBinary: boolean, { errors: path, ordered }: FormatOptions): Frame {
  const notes: string[] = [];
  let errors: { table: Table; drain: Drain } | undefined; // one, for any number of outputs
  let open = 0;
  return {
    isDocument: false,
    isBinary,
    notes,
    open(drain, folder) {
      open += 1;
      const table = newTable(folder, ordered);
      if (path !== undefined) errors ??= { table: newTable(folder, ordered), drain: created(path) };
      return {
        write(item) {
          const failed = errors !== undefined && isFailed(item);
          (failed ? (errors as { table: Table }).table : table).add(item);
          letGo(item);
          return true;
        },
        ready: act => act(),
        async end() {
          await table.writeTo(drain, openRows, notes);
          open -= 1;
          if (open === 0 && errors) await errors.table.writeTo(errors.drain, openRows, notes);
        },
      };
    },
  };
}

interface Table {
  add(item: Item): void;
  writeTo(drain: Drain, openRows: OpenRows, notes: string[]): Promise<void>;
}

/** Rows that are written before signals and timers have their turn. */
const AT_ONCE = 256;

function newTable(folder: string, ordered: boolean): Table {
  const aside = openAside(folder);
  const columns = new Columns();
  return {
    add(item) {
      const kept = keepable(item);
      const origin = originOf(kept);
      const { row } = kept;
      const isRow = typeof row === 'number' && !Number.isNaN(row);
      const rank = ordered ? (isRow ? row : Number.POSITIVE_INFINITY) : aside.count;
      columns.see(kept, rank);
      aside.add(rank, origin === undefined ? JSON.stringify(kept) : textOf(origin));
    },
    async writeTo(drain, openRows, notes) {
      const put = async (bytes: Buffer): Promise<void> => {
        if (!drain.put(bytes)) await new Promise<void>(resolve => drain.ready(resolve));
      };
      try {
        const rows = await openRows(columns.settle(), put);
        let written = 0;
        for (const bytes of aside.sorted()) {
          const waits = rows.add(columns.rowOf(JSON.parse(bytes.toString()) as Item));
          if (waits) await waits;
          written += 1;
          if (written % AT_ONCE === 0) await new Promise(setImmediate);
        }
        await rows.end();
        await drain.end();
        notes.push(...columns.notes(), ...rows.notes());
      } finally {
        aside.close();
      }
    },
  };
}

function created(path: string): Drain {
  try {
    makeFolder(dirname(path));
    return fileDrain(openSync(path, flagsFor(path)), path);
  } catch (error) {
    throw ioError(`expected to create ${path}, found ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** A number beyond a double is changed by reading it; half of a surrogate pair cannot be written as UTF-8. */
function check(item: Item): void {
  const origin = originOf(item);
  const problem = origin && lossless(textOf(origin));
  if (problem) throw new ItemFailure(problem.code, problem.message);
  if (mayHaveHalves(origin ? textOf(origin) : JSON.stringify(item)) && hasHalves(item)) {
    throw new ItemFailure('value-not-kept', HALVES);
  }
}

const HALVES = 'expected texts that UTF-8 can write, found half of a surrogate pair in one';

/** An item that failed, as it can be kept: where a value of it cannot be, its id, its failure and its line as a text. */
function keepable(item: Item): Item {
  const failure = failureOf(item);
  if (failure === undefined) return item;
  const origin = originOf(item);
  const isChanged = origin !== undefined && lossless(textOf(origin)) !== null;
  const kept = isChanged ? withFailure(item, failure) : item;
  if (!hasHalves(kept)) return kept;
  const { stage, code, message } = failure;
  const id = idOf(item);
  return {
    id: id === null || HALF.test(id) ? null : id,
    failure: { stage, code, message: message.replace(EACH_HALF, escaped), text: JSON.stringify(kept) },
  };
}

/** JSON.stringify writes a half as an escape; so may whoever wrote a line, but of whole pairs too. */
const mayHaveHalves = (text: string): boolean => /\\u[dD][89a-fA-F]/.test(text);
const HALF = /\p{Cs}/u;
const EACH_HALF = /\p{Cs}/gu;
const escaped = (half: string): string => `\\u${half.charCodeAt(0).toString(16)}`;

function hasHalves(value: unknown): boolean {
  if (typeof value === 'string') return HALF.test(value);
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([key, below]) => HALF.test(key) || hasHalves(below));
}
