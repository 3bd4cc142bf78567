/** What the pages of a column may be compressed by: each gives exactly as many bytes as the page says, or throws an Error. */
import * as zlib from 'node:zlib';
import { Decompress, decompress as unpackZstd } from 'fzstd';
import { snappyUncompressor } from 'hysnappy';
import type { Codec } from './footer.ts';

type Unpack = (bytes: Uint8Array, length: number) => Uint8Array;

/** Node has it from 22.15 on. */
const nativeZstd = (zlib as { zstdDecompressSync?: typeof zlib.gunzipSync }).zstdDecompressSync;

let snappy: Unpack | undefined;

const UNPACK: { readonly [codec in Codec]?: Unpack } = {
  UNCOMPRESSED: bytes => bytes,
  SNAPPY(bytes, length) {
    if (snappyLength(bytes) !== length) throw new Error('another length within than the page says');
    snappy ??= snappyUncompressor();
    return snappy(bytes, length);
  },
  GZIP: (bytes, length) => zlib.gunzipSync(bytes, { maxOutputLength: Math.max(1, length) }),
  BROTLI: (bytes, length) => zlib.brotliDecompressSync(bytes, { maxOutputLength: Math.max(1, length) }),
  ZSTD: (bytes, length) =>
    nativeZstd === undefined
      ? slowZstd(bytes, length)
      : nativeZstd(bytes, { maxOutputLength: Math.max(1, length) }),
  LZ4: (bytes, length) => hadoopLz4(bytes, length) ?? lz4(bytes, length),
  LZ4_RAW: lz4,
};

export function unpacked(bytes: Uint8Array, length: number, codec: Codec): Uint8Array {
  const unpack = UNPACK[codec];
  if (unpack === undefined) throw new Error(`compression by ${codec}, which nobody writes any more`);
  if (length === 0) return bytes.subarray(0, 0); // some writers leave out what would say so
  const made = unpack(bytes, length);
  if (made.length !== length) throw new Error(`${made.length} bytes within, where the page says ${length}`);
  return made;
}

/** fzstd moves a window for each block of a frame that does not say its size: a large one would take hours of a hostile page. */
const MOST_WINDOW = 1 << 24;

/** It trusts what a frame says of itself, so that is held to what the page says. */
function slowZstd(bytes: Uint8Array, length: number): Uint8Array {
  const head = bytes[4] ?? 0;
  const isWhole = (head & 32) !== 0;
  const sizeBytes = head >> 6 === 0 ? (isWhole ? 1 : 0) : 1 << (head >> 6);
  const window = isWhole ? 0 : 2 ** (11 + ((bytes[5] ?? 0) >> 3));
  if (sizeBytes === 0) {
    if (!(window <= MOST_WINDOW))
      throw new Error('Zstandard with a window of more than 8 MiB, which Node unpacks from 22.15 on');
    return inPieces(bytes, length);
  }
  const at = 5 + (isWhole ? 0 : 1) + [0, 1, 2, 4][head & 3]!;
  let size = sizeBytes === 2 ? 256 : 0;
  for (let byte = 0; byte < sizeBytes; byte++) size += (bytes[at + byte] ?? 0) * 2 ** (8 * byte);
  if (size !== length) throw new Error('another length within than the page says');
  return unpackZstd(bytes, new Uint8Array(length));
}

/** Of a frame that does not say its size: as it comes, and no more than `length`. */
function inPieces(bytes: Uint8Array, length: number): Uint8Array {
  const pieces: Uint8Array[] = [];
  let made = 0;
  const stream = new Decompress(piece => {
    made += piece.length;
    if (made > length) throw new Error('another length within than the page says');
    pieces.push(piece);
  });
  for (let at = 0; at < bytes.length; at += PIECE)
    stream.push(bytes.subarray(at, at + PIECE), at + PIECE >= bytes.length);
  return Buffer.concat(pieces);
}

/** bytes that are unpacked at once: 4 of them may become 128 KiB */
const PIECE = 256;

function snappyLength(bytes: Uint8Array): number {
  let length = 0;
  for (let at = 0, scale = 1; at < 5 && at < bytes.length; at++, scale *= 128) {
    length += (bytes[at]! & 127) * scale;
    if (bytes[at]! < 128) return length;
  }
  return -1;
}

/** Blocks as Hadoop writes them, each behind its lengths; null where these are none. */
function hadoopLz4(bytes: Uint8Array, length: number): Uint8Array | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const made: Uint8Array[] = [];
  let left = length;
  for (let at = 0; at < bytes.length; ) {
    if (at + 8 > bytes.length) return null;
    const within = view.getUint32(at);
    const size = view.getUint32(at + 4);
    at += 8;
    if (size > bytes.length - at || within > left) return null;
    try {
      made.push(lz4(bytes.subarray(at, at + size), within));
    } catch {
      return null;
    }
    at += size;
    left -= within;
  }
  return left === 0 ? Buffer.concat(made) : null;
}

const CUT = 'the end of compressed bytes too early';

function lz4(bytes: Uint8Array, length: number): Uint8Array {
  const made = new Uint8Array(length);
  let to = 0;
  let at = 0;
  const more = (first: number): number => {
    let count = first;
    for (let byte = 255; first === 15 && byte === 255; count += byte) {
      if (at >= bytes.length) throw new Error(CUT);
      byte = bytes[at++]!;
    }
    return count;
  };
  while (at < bytes.length) {
    const token = bytes[at++]!;
    const literals = more(token >> 4);
    if (literals > bytes.length - at || literals > length - to) throw new Error(CUT);
    if (literals > 32) made.set(bytes.subarray(at, at + literals), to);
    else for (let one = 0; one < literals; one++) made[to + one] = bytes[at + one]!;
    at += literals;
    to += literals;
    if (at === bytes.length) break; // the last has nothing to repeat
    if (at + 2 > bytes.length) throw new Error(CUT);
    const back = bytes[at]! | (bytes[at + 1]! << 8);
    at += 2;
    const count = more(token & 15) + 4;
    if (back === 0 || back > to || count > length - to) throw new Error('compressed bytes that are none');
    if (back >= count && count > 32) made.copyWithin(to, to - back, to - back + count);
    else for (let one = 0; one < count; one++) made[to + one] = made[to + one - back]!;
    to += count;
  }
  if (to !== length) throw new Error(CUT);
  return made;
}
