/** What a source is, by its name and its first bytes, and what reads it. */

import { foreignKind, SIGNATURE_BYTES } from '../core/files/encoding.ts';
import type { ByteInput } from '../core/files/input-files.ts';
import { nameWithin } from '../core/files/unpacked.ts';
import { dataError } from '../core/item/failure.ts';
import { COMMA, doubtOf, mayBeSepLine, sepLine, TAB, written } from './delimiter.ts';
import { requestDecoder } from './requests.ts';
import {
  csvDecoder,
  type Decoder,
  type DecoderOptions,
  type Header,
  jsonDecoder,
  sameHeader,
} from './rows.ts';

export type { Decoder } from './rows.ts';

export const FORMATS = ['csv', 'tsv', 'json', 'ndjson', 'openai-batch'] as const;
export type Format = (typeof FORMATS)[number];

export interface Opening extends DecoderOptions {
  /** default: by the ending of the name, else by the first bytes */
  format?: Format | undefined;
  /** the delimiter of CSV, as a byte; default: that of the format */
  delimiter?: number | undefined;
  /** of the text; default: UTF-8 */
  encoding?: string | undefined;
  /** told what a person should know and what stops nothing */
  warn(message: string): void;
}

/** a source that is nothing but space for so long is no table */
const LONGEST_SPACE = 1 << 16;

/** The first bytes, as many as it takes to say what they are, without a byte order mark, and where they begin. `mayBeEmpty`: or none. */
export async function firstBytes(
  input: ByteInput,
  mayBeEmpty: boolean,
): Promise<{ bytes: Buffer; at: number }> {
  let bytes: Buffer | null = null;
  for (;;) {
    const more: Buffer | null = await input.read(bytes);
    if (more === null) break;
    bytes = more;
    if (bytes.length < SIGNATURE_BYTES || mayBeSepLine(afterMark(bytes))) continue;
    if (bytes.length > LONGEST_SPACE || firstByte(bytes) !== undefined) break;
  }
  if (bytes === null && mayBeEmpty) return { bytes: Buffer.alloc(0), at: 0 };
  if (bytes === null) throw dataError(`${input.name}: expected a table, found nothing: it is empty`);
  const foreign = foreignKind(bytes, input.name);
  if (foreign !== null) throw dataError(`${input.name}: ${foreign}`);
  if (!mayBeEmpty && firstByte(bytes) === undefined) {
    throw dataError(`${input.name}: expected a table, found nothing but space`);
  }
  const text = afterMark(bytes);
  return { bytes: text, at: bytes.length - text.length };
}

function afterMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

/** The first byte that is no space. */
function firstByte(bytes: Buffer): number | undefined {
  return afterMark(bytes).find(byte => byte > 32);
}

/** What reads a source that begins with `bytes`. `first`: the header of the sources before it, kept here. */
export function decoderFor(
  bytes: Buffer,
  source: string,
  { format: given, delimiter, warn, ...options }: Opening,
  first: { header: Header | null },
): Decoder {
  if (given === 'openai-batch') return requestDecoder(options);
  const begin = String.fromCharCode(firstByte(bytes)!);
  const format = given ?? (delimiter === undefined ? formatBy(source, begin) : 'csv');
  if (format === 'csv' || format === 'tsv') {
    const named = sepLine(bytes, source);
    const said = delimiter ?? (given === 'tsv' ? TAB : undefined);
    const byte = said ?? named ?? (format === 'csv' ? COMMA : TAB);
    if (named !== null && named !== byte)
      throw dataError(
        `${source}:1: expected the delimiter '${written(byte)}' of the options, found sep=${written(named)}; leave the option out`,
      );
    if (named !== null)
      warn(`${source}: the first line, sep=${written(named)}, sets the delimiter and is not a row`);
    const expect: Opening['expect'] = (columns, _source, line = Buffer.alloc(0)) => {
      const doubt = doubtOf(line, columns, byte, delimiter !== undefined || named !== null);
      if (doubt?.stops) throw dataError(`${source}: ${doubt.message}`);
      if (doubt && first.header === null) warn(`${source}: ${doubt.message}`);
      if (first.header === null) warnOfUnnamed(columns, source, warn);
      first.header = sameHeader({ source, columns }, first.header);
      options.expect(columns, source);
    };
    return csvDecoder(byte, source, { ...options, expect }, named !== null);
  }
  if (format === 'json' && begin !== '[' && begin !== '{') {
    throw dataError(`${source}: expected an array of objects, or objects one a line, found other text`);
  }
  return jsonDecoder(format === 'json' && begin === '[', source, options);
}

/** The format that the ending of the name says, else that of the first byte that is no space. */
function formatBy(name: string, begin: string): Format {
  const ending = /\.([a-z]{1,8})$/i.exec(nameWithin(name))?.[1]?.toLowerCase();
  const named = ending === 'jsonl' ? 'ndjson' : FORMATS.find(format => format === ending);
  return named ?? (begin === '[' ? 'json' : begin === '{' ? 'ndjson' : 'csv');
}

function warnOfUnnamed(columns: readonly string[], source: string, warn: (message: string) => void): void {
  const at = columns.findIndex(name => name.trim() === '');
  if (at < 0) return;
  const name = JSON.stringify(columns[at]);
  warn(
    `${source}: column ${at + 1} of ${columns.length} has no name; it is ${name} in the input of the items`,
  );
}
