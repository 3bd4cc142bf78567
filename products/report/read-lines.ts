/**
 * Finished lines, from files of any kind that fw writes or reads: items, legacy results (lines and documents), tables.
 * Each line is judged as `fw verify` judges it, so that there is one notion of what may be counted.
 */

import type { LinesJudge } from '../../engine/audit/verdict.ts';
import { type ByteInput, inputsOf } from '../../engine/core/files/input-files.ts';
import { readItems } from '../../engine/core/files/ndjson-in.ts';
import { forget, originOf } from '../../engine/core/files/origin.ts';
import { dataError } from '../../engine/core/item/failure.ts';
import { type Failure, failureOf, type Item, isItem, isLegacyLike } from '../../engine/core/item/item.ts';
import { type JsonObject, valueAt } from '../../engine/core/json/pointer.ts';
import { openParquet, tooLong } from '../../engine/tables/parquet-rows.ts';
import { readTable } from '../../engine/tables/read-table.ts';

export interface Reading {
  /** the command that speaks */
  stage: string;
  maxLine: number;
  judge: LinesJudge;
  /** the name of the outcome: a line that has it as a key of its own, and no answers, is a row of a table */
  outcome: string;
  warn(message: string): void;
}

export type LineKind = 'item' | 'result' | 'row';

/** `where` is file and line; `failure` what the line came with, or what verification refuses it for. */
export type Take = (line: JsonObject, where: string, kind: LineKind, failure: Failure | undefined) => void;

/** Calls `take` with each line of `path`. */
export async function eachLine(path: string, reading: Reading, take: Take): Promise<void> {
  const [input] = inputsOf([path]) as [ByteInput];
  const { stage, maxLine, judge, outcome } = reading;
  if (isTable(path)) {
    return eachRow(path, reading, (row, number, trouble) =>
      take(row, `${input.name}:${number}`, 'row', trouble),
    );
  }
  let nth = 0;
  const refuses = (block: Buffer): Error | null => (path === '-' ? tableOnStdin(block) : null);
  const items = readItems([input], { stage, maxLine, documents: true, stopped: () => false, refuses });
  await new Promise<void>((resolve, reject) => {
    items
      .map((line: Item) => {
        // what could not be read has no bytes of its own any more; its failure has the number
        nth += 1;
        const where = `${input.name}:${originOf(line)?.number ?? line.failure?.line ?? `?${nth}`}`;
        const kind = kindOf(line, outcome);
        // rows that nobody was asked about are judged by nobody
        take(line, where, kind, failureOf(kind === 'row' ? line : judge.judge(line)));
        forget(line);
        return line;
      })
      .stopOnError(reject)
      .done(resolve);
  });
}

/** What could not be read is no row of a table. A table may have columns `id` and `prompt`, as an item has. */
function kindOf(line: JsonObject, outcome: string): LineKind {
  const isAsked = ['steps', 'decision', 'ordering', 'request', 'failure'].some(key =>
    Object.hasOwn(line, key),
  );
  const isTold = outcome.startsWith('/')
    ? valueAt(line, outcome) !== undefined
    : Object.hasOwn(line, outcome);
  if (isItem(line)) return !isAsked && isTold ? 'row' : 'item';
  return isLegacyLike(line) || line.failure !== undefined ? 'result' : 'row';
}

const isParquet = (path: string): boolean => /\.parquet$/i.test(path);
const isTable = (path: string): boolean => /\.[ct]sv$/i.test(path) || isParquet(path);

function tableOnStdin(block: Buffer): Error | null {
  const first = block.find(byte => byte > 32 && byte < 0x80);
  if (first === undefined || first === 0x7b) return null;
  return dataError(
    'stdin: expected items or results, a JSON object a line, found other text: give a table as a file, such as decisions.csv',
  );
}

/**
 * The rows of a table, as objects of their columns; `trouble`: it is no row, and has none. A column may have any name, that
 * of a failure too.
 */
export async function eachRow(
  path: string,
  { maxLine, warn }: Pick<Reading, 'maxLine' | 'warn'>,
  take: (row: JsonObject, number: number, trouble?: Failure) => void,
): Promise<void> {
  if (isParquet(path)) {
    const file = await openParquet(path);
    return file.each(0, maxLine, (row, at) => {
      if (row !== null) take(row, at + 1);
      else take({}, at + 1, { stage: 'ingest', code: 'line-too-long', message: tooLong(maxLine) });
      return true;
    });
  }
  const items = readTable(inputsOf([path]), {
    maxLine,
    warn,
    takesItems: false,
    expect: () => {},
    lastRow: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    itemsOf({ row, columns, fields, trouble }) {
      if (trouble) take({}, row, { stage: 'ingest', code: trouble.code, message: trouble.message });
      else take(Object.fromEntries(columns.map((column, at) => [column, fields?.[at] ?? ''])), row);
      return [];
    },
  });
  await new Promise<void>((resolve, reject) => {
    items.stopOnError(reject).done(resolve);
  });
}
