/**
 * What somebody gave to a stage that reads items, and that is none: a table, a JSON array, an archive. Line by line it would become
 * as many failed items as it has lines, and nobody would be told what to do.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { refuseForeign } from '../core/files/encoding.ts';
import { isUnpackable } from '../core/files/unpacked.ts';
import { dataError, type Fatal } from '../core/item/failure.ts';
import { cut } from '../core/item/wording.ts';
import { visible } from '../core/json/visible.ts';

/** Bytes and lines that are looked at. */
const HEAD = 64 * 1024;
const LINES = 10;
const DELIMITERS = { ',': 'a CSV table', '\t': 'a TSV table', ';': 'a table with semicolons' };

/**
 * The error to throw (65) about an input that begins with `block`; null where it may well be lines, some of them broken:
 * a failure is data, so this speaks only where no line begins as an object does. `documents`: a value over many lines
 * may be a whole legacy document, which the stage reads.
 */
export function notLines(
  block: Buffer,
  { name, stage }: { name: string; stage: string },
  documents: boolean,
): Fatal | null {
  const foreign = refuseForeign(block, name);
  if (foreign !== null) return foreign;
  const text = block
    .subarray(0, HEAD)
    .toString('utf8')
    .replace(/^\uFEFF/, '');
  const start = text.trimStart();
  const isValue = /^\{[ \t]*\r?\n/.test(start);
  const found = isValue ? !documents && 'one JSON value over many lines' : kindOf(text, block.length, name);
  if (!found) return null;
  const file = name === 'stdin' ? '' : ` ${visible(name)}`;
  const way = isValue
    ? `results of earlier runs: fw ingest --format legacy${file} | fw ${stage}; anything else: jq -c .${file} | fw ${stage}`
    : `make items of it first: fw ingest${file} | fw ${stage}`;
  const first = visible(cut(start.split('\n', 1)[0]?.trim() ?? '', 60));
  return dataError(
    `${visible(name)}: expected items, a JSON object a line, found what looks like ${found}: ${first}\n${way}`,
  );
}

function kindOf(text: string, bytes: number, name: string): string | null {
  if (/^\s*\[\s*\{/.test(text)) return 'a JSON array';
  const all = text.split('\n');
  // the last line may be cut at HEAD
  const lines = (bytes <= HEAD ? all : all.slice(0, -1)).filter(line => line.trim() !== '').slice(0, LINES);
  const [header, row] = lines;
  // a header with JSON in it is rather a line that was damaged
  if (header === undefined || /[{}[\]]/.test(header) || lines.some(line => /^\s*[[{]/.test(line)))
    return null;
  for (const [delimiter, kind] of Object.entries(DELIMITERS)) {
    if (header.includes(delimiter) && row?.includes(delimiter)) return kind;
  }
  return /\.[ct]sv$/i.test(name) ? 'a table' : null;
}

/** Columns by which a header is known where a list of ids is expected: those that ingest takes for ids and prompts. */
const ID_COLUMNS: ReadonlySet<string> = new Set(['id', 'prompt_id', 'prompt']);

/**
 * What a list of ids is instead, by its first line; null where that may be an id. Ids may have commas in them, those of
 * legacy results do, so it takes a column's name or the file's to know a table.
 */
export function noIds(first: string, name: string): string | null {
  const text = first.replace(/^\uFEFF/, '').trim();
  if (/^\[\s*(?:\{|"|$)/.test(text)) return 'a JSON array';
  const cells = text.split(/[,;\t]/).map(cell => cell.trim().replaceAll('"', '').toLowerCase());
  return /\.[ct]sv$/i.test(name) || cells.some(cell => ID_COLUMNS.has(cell)) ? 'a table' : null;
}

/**
 * Looks at the beginnings of files before any line of them is read, so that nothing is asked or written for a part of
 * them. What cannot be opened, or is no file, is left to who reads it; so is what is compressed, unless lines are to be read
 * `inPlace`, from where they stand in the file.
 */
export function refuseTables(
  paths: readonly string[],
  stage: string,
  { documents, inPlace = false }: { documents: boolean; inPlace?: boolean },
): void {
  const block = Buffer.allocUnsafe(HEAD + 1);
  for (const path of paths) {
    if (path === '-') continue;
    let file: number;
    try {
      file = openSync(path, 'r');
    } catch {
      continue;
    }
    try {
      if (!fstatSync(file).isFile()) continue;
      const head = block.subarray(0, readSync(file, block, 0, block.length, 0));
      // what is within is looked at by who reads it
      if (!inPlace && isUnpackable(head)) continue;
      const found = notLines(head, { name: path, stage }, documents);
      if (found) throw found;
    } finally {
      closeSync(file);
    }
  }
}
