/** What bytes are that are no text in UTF-8, and the command that makes them one: by their first bytes, and in a row. */
import { isUtf8 } from 'node:buffer';
import { dataError, type Fatal } from '../item/failure.ts';
import { visible } from '../json/visible.ts';

/** What neither a table nor a line begins with. `remedy` is a command or what to do instead; FILE stands for the name. */
const SIGNATURES: readonly { bytes: readonly number[]; found: string; remedy: string }[] = [
  utf('UTF-32', [0xff, 0xfe, 0, 0]),
  utf('UTF-32', [0, 0, 0xfe, 0xff]),
  utf('UTF-16', [0xff, 0xfe], 'utf-16le'),
  utf('UTF-16', [0xfe, 0xff], 'utf-16be'),
  packed('gzip', 'gunzip', [0x1f, 0x8b]),
  packed('Zstandard', 'zstd -d', [0x28, 0xb5, 0x2f, 0xfd]),
  packed('xz', 'xz -d', [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]),
  packed('bzip2', 'bzip2 -d', [0x42, 0x5a, 0x68]),
  {
    bytes: [0x50, 0x4b, 3, 4],
    found: 'a ZIP archive or a workbook of Excel',
    remedy: 'unpack it, or save it as CSV UTF-8',
  },
  {
    bytes: [0x50, 0x41, 0x52, 0x31],
    found: 'a Parquet file',
    remedy: 'fw ingest reads it where it is named as a file',
  },
];

/** As many bytes as tell all of them apart. */
export const SIGNATURE_BYTES = 6;

/** `label`: its name in the Encoding Standard, which has no UTF-32. */
function utf(name: string, bytes: readonly number[], label?: string) {
  return { bytes, found: name, remedy: remedyOf(name, label) };
}

function remedyOf(name: string, label?: string): string {
  const converts = `iconv -f ${name} -t UTF-8 FILE converts it`;
  return label === undefined ? converts : `fw ingest --encoding ${label} reads a table in it; ${converts}`;
}

function packed(name: string, command: string, bytes: readonly number[]) {
  return {
    bytes,
    found: `${name}, which is compressed`,
    remedy: `decompress it first: ${command} -c FILE | fw …`,
  };
}

/** What a source is that begins with these bytes and is no text in UTF-8, and what to do; null where they may be text. */
export function foreignKind(bytes: Buffer, source: string): string | null {
  const name = source === 'stdin' ? 'FILE' : source;
  const signature = SIGNATURES.find(({ bytes: first }) => first.every((byte, at) => bytes[at] === byte));
  if (signature)
    return `expected text in UTF-8, found ${signature.found}; ${signature.remedy.replace('FILE', () => name)}`;
  const [first, second, third, fourth] = bytes;
  const order =
    first && second === 0 && third && fourth === 0
      ? 'UTF-16LE'
      : first === 0 && second && third === 0 && fourth
        ? 'UTF-16BE'
        : null;
  if (order === null) return null;
  const label = order === 'UTF-16LE' ? 'utf-16le' : 'utf-16be';
  return `expected text in UTF-8, found ${order}; ${remedyOf(order, label).replace('FILE', () => name)}`;
}

/** For readers of lines: the error to throw (65) where the first block of a file is an archive, or text in another encoding. */
export function refuseForeign(block: Buffer, name: string): Fatal | null {
  const foreign = foreignKind(block, name);
  return foreign === null ? null : dataError(`${visible(name)}: ${foreign}`);
}

/** Bytes to which Windows-1252 gives no character. */
const UNDEFINED = new Set([0x81, 0x8d, 0x8f, 0x90, 0x9d]);

/** What is wrong with a row that is not UTF-8: its first wrong byte, and the conversion where the row reads as Latin-1. */
export function whyNotUtf8(bytes: Buffer): string {
  let wrong: number | undefined;
  let characters = 0; // beyond ASCII, in UTF-8
  let hasUndefined = false;
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at]!;
    const length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (length > 1 && !isUtf8(bytes.subarray(at, at + length))) {
      wrong ??= at;
      hasUndefined ||= UNDEFINED.has(byte);
      at += 1;
      continue;
    }
    if (length > 1) characters += 1;
    at += length;
  }
  const from = wrong ?? 0;
  const before = bytes.toString('latin1', Math.max(0, from - 10), from).replace(/[^ -~]/g, '?');
  const problem = `expected UTF-8, found the byte 0x${bytes[from]!.toString(16)}${before && ` behind '${before}'`}`;
  if (hasUndefined) return `${problem}, which is not Latin-1 either`;
  if (characters > 0) return `${problem}, in a row that has characters in UTF-8 too (were two files joined?)`;
  return `${problem}; if the file is Latin-1, fw ingest --encoding windows-1252 reads it, and iconv -f WINDOWS-1252 -t UTF-8 converts it`;
}
