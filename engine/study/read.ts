/**
 * Finished lines, from files of any kind that fw writes or reads: items, legacy results (lines and documents), tables.
 * Each line is judged as `fw verify` judges it, so that there is one notion of what may be counted.
 */
import type { LinesJudge } from '../audit/verdict.ts';
import { type ByteInput, inputsOf } from '../files/input.ts';
import { readItems } from '../files/lines.ts';
import { forget, originOf } from '../files/origin.ts';
import { dataError } from '../item/failure.ts';
import { type Failure, failureOf, type Item, isItem, isLegacyLike } from '../item/item.ts';
import { isObject, type JsonObject } from '../json/pointer.ts';
import { readTable } from '../table/table.ts';

export interface Reading {
  /** the command that speaks */
  stage: string;
  maxLine: number;
  judge: LinesJudge;
  warn(message: string): void;
}

export type LineKind = 'item' | 'result' | 'row';

/** `where` is file and line; `failure` what the line came with, or what verification refuses it for. */
export type Take = (line: JsonObject, where: string, kind: LineKind, failure: Failure | undefined) => void;

/** Calls `take` with each line of `path`. */
export async function eachLine(path: string, reading: Reading, take: Take): Promise<void> {
  const [input] = inputsOf([path]) as [ByteInput];
  const { stage, maxLine, judge } = reading;
  if (isTable(path)) {
    return eachRow(path, reading, (row, number) =>
      take(row, `${input.name}:${number}`, 'row', failureOf(row)),
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
        const kind = kindOf(line);
        // rows that nobody was asked about are judged by nobody
        take(line, where, kind, failureOf(kind === 'row' ? line : judge.judge(line)));
        forget(line);
        return line;
      })
      .stopOnError(reject)
      .done(resolve);
  });
}

/** What could not be read is no row of a table. */
function kindOf(line: JsonObject): LineKind {
  if (isItem(line)) return 'item';
  return isLegacyLike(line) || line.failure !== undefined ? 'result' : 'row';
}

const isTable = (path: string): boolean => /\.[ct]sv$/i.test(path);

function tableOnStdin(block: Buffer): Error | null {
  const first = block.find(byte => byte > 32 && byte < 0x80);
  if (first === undefined || first === 0x7b) return null;
  return dataError(
    'stdin: expected items or results, a JSON object a line, found other text: give a table as a file, such as decisions.csv',
  );
}

/** The rows of a table, as objects of their columns; a row that is none is an object with its failure. */
export async function eachRow(
  path: string,
  { maxLine, warn }: Pick<Reading, 'maxLine' | 'warn'>,
  take: (row: JsonObject, number: number) => void,
): Promise<void> {
  const rows = readTable(inputsOf([path]), {
    maxLine,
    warn,
    takesItems: false,
    expect: () => {},
    lastRow: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    itemsOf({ row, columns, fields, trouble }) {
      if (trouble) take({ failure: { stage: 'ingest', code: trouble.code, message: trouble.message } }, row);
      else take(Object.fromEntries(columns.map((column, at) => [column, fields?.[at] ?? ''])), row);
      return [];
    },
  });
  await new Promise<void>((resolve, reject) => {
    rows.stopOnError(reject).done(resolve);
  });
}

/** The rows of the table that results were made of, by their number and by their id, without what was asked. */
export async function sourceColumns(
  path: string,
  reading: Pick<Reading, 'maxLine' | 'warn'>,
): Promise<(row: number | string) => JsonObject | undefined> {
  const rows: JsonObject[] = [];
  const ids = new Map<string, JsonObject>();
  await eachRow(path, reading, row => {
    const { prompt: _, ...columns } = row;
    rows.push(columns);
    const id = columns.id ?? columns.prompt_id;
    if (typeof id === 'string' && id !== '') ids.set(id, columns);
  });
  return row => {
    const found = typeof row === 'number' ? rows[row - 1] : (ids.get(row) ?? rows[Number(row) - 1]);
    return isObject(found) ? found : undefined;
  };
}
