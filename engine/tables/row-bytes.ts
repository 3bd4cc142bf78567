/**
 * The rows of one input as bytes: cut out of its blocks, with the number of the line on which each begins. A row that is
 * too long to keep, or is no text, or has broken quotes, is kept as its trouble.
 */
import { isUtf8 } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { whyNotUtf8 } from '../core/files/encoding.ts';
import type { Code } from '../core/item/codes.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import type { Cutter } from './row-ends.ts';

/** Why a row is no row; `more` is what was found, so that nothing is lost. */
export interface RowError {
  code: Code;
  message: string;
  more?: JsonObject;
}

/** Bytes from `from` to `to` of the block are a row; the next begins at `next`. */
export interface RowBytes {
  block: Buffer;
  from: number;
  to: number;
  next: number;
  /** 1-based */
  line: number;
  trouble?: RowError;
}

export interface RowSplitter {
  /** a new block, which begins with what `rest` gave of the last one; `final`: there will be no more */
  feed(block: Buffer, final: boolean): void;
  /** the next row, or null where the block has no more whole ones */
  next(): RowBytes | null;
  /** the beginning of a row at the end of the block */
  rest(): Buffer | null;
  /** the row that has begun is too long to keep */
  isTooLong(): boolean;
}

const LF = 10;
const CR = 13;
/** what is kept of a row that is too long to keep */
const HEAD = 1024;
/** of a row with broken quotes all is kept up to here */
const KEPT = 64 * 1024;

/** `maxLine` in bytes. */
export function rowSplitter(cutter: Cutter, maxLine: number): RowSplitter {
  let block: Buffer = Buffer.alloc(0);
  let final = false;
  let from = 0;
  let at = 0;
  let line = 1; // of the byte at `from`
  let done = false;
  let skipping: {
    hash: Hash;
    head: Buffer;
    bytes: number;
    line: number;
    lastByte?: number | undefined;
  } | null = null;

  return {
    feed(next, last) {
      block = next;
      final = last;
      at -= from; // as far as the cutter has looked into the rest
      from = 0;
    },
    next() {
      while (!done) {
        done = final && from === block.length && skipping === null; // one more cut, which may complain
        if (!cutter.cut(block, from, at, final)) {
          at = cutter.to;
          return null;
        }
        const ends = endsOf(cutter);
        const piece = skipping !== null || !cutter.void ? pieceTo(cutter.to, cutter.next) : null;
        line += ends;
        cutter.dropped = 0;
        from = at = cutter.next;
        if (piece !== null) return piece;
      }
      return null;
    },
    rest() {
      if (skipping !== null || at - from > maxLine) {
        skip(block.subarray(from, at));
        line += newlines(block, from, at);
        cutter.dropped += at - from;
        from = at;
      }
      return from === block.length ? null : block.subarray(from);
    },
    isTooLong: () => skipping !== null,
  };

  /** Line ends up to the next row; a lone \r counts where it ends one. */
  function endsOf({ to, next, isPlain }: Cutter): number {
    if (isPlain && skipping === null) return next > to ? 1 : 0;
    return newlines(block, from, next) + (next > from && block[next - 1] === CR ? 1 : 0);
  }

  function pieceTo(to: number, next: number): RowBytes {
    const first = skipping?.line ?? (cutter.isPlain ? line : firstLine(to));
    const piece: RowBytes = { block, from, to, next, line: first };
    const trouble = troubleOf(to, piece.line);
    return trouble ? { ...piece, trouble } : piece;
  }

  function troubleOf(to: number, first: number): RowError | null {
    if (skipping !== null || to - from > maxLine) return tooLong(first, to);
    if (cutter.isPlain && cutter.complaint === null) return null;
    const bytes = block.subarray(from, to);
    const span = spanFrom(first, to);
    if (cutter.complaint !== null && (span !== null || isUtf8(bytes))) {
      const message = `${cutter.complaint}${span ? `; ${span.said} are taken for this row` : ''}`;
      return { code: 'bad-quotes', message, more: { ...span?.more, ...kept(bytes) } };
    }
    if (isUtf8(bytes)) return null;
    return { code: 'not-utf8', message: whyNotUtf8(bytes), more: { base64: bytes.toString('base64') } };
  }

  /** The lines of a row that is more than one, up to `to`. */
  function spanFrom(
    first: number,
    to: number,
    lastByte = block[to - 1],
  ): { said: string; more: JsonObject } | null {
    const last = line + newlines(block, from, to) - (lastByte === LF ? 1 : 0);
    if (last === first) return null;
    return { said: `lines ${first} to ${last} (${last - first + 1} lines)`, more: { lastLine: last } };
  }

  /** The line of the first byte that is no space: elements of an array begin with the line end before them. */
  function firstLine(to: number): number {
    let first = line;
    for (let index = from; index < to && block[index]! <= 32; index++) if (block[index] === LF) first += 1;
    return first;
  }

  function skip(bytes: Buffer): void {
    skipping ??= {
      hash: createHash('sha256'),
      head: Buffer.alloc(0),
      bytes: 0,
      line: firstLine(from + bytes.length),
    };
    skipping.hash.update(bytes);
    skipping.bytes += bytes.length;
    skipping.lastByte = bytes.at(-1) ?? skipping.lastByte;
    const { head } = skipping;
    if (head.length < HEAD) skipping.head = Buffer.concat([head, bytes.subarray(0, HEAD - head.length)]);
  }

  function tooLong(first: number, to: number): RowError {
    skip(block.subarray(from, to));
    const { hash, bytes, head, lastByte } = skipping!;
    skipping = null;
    const span = spanFrom(first, to, lastByte);
    const lines = span ? ` in ${span.said}` : '';
    const open = cutter.complaint === null ? '' : `, and its quotes are broken: ${cutter.complaint}`;
    return {
      code: 'line-too-long',
      message: `expected a row of at most ${maxLine} bytes (--max-line), found ${bytes}${lines}${open}`,
      more: { ...span?.more, bytes, sha256: hash.digest('hex'), ...asText(wholeCharacters(head)) },
    };
  }
}

/** What a failure keeps of a row: all, or of a long one its beginning and what tells it apart. */
function kept(bytes: Buffer): JsonObject {
  if (bytes.length <= KEPT) return asText(bytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { bytes: bytes.length, sha256, ...asText(wholeCharacters(bytes.subarray(0, HEAD))) };
}

function asText(bytes: Buffer): JsonObject {
  return isUtf8(bytes) ? { text: bytes.toString() } : { base64: bytes.toString('base64') };
}

function newlines(block: Buffer, from: number, to: number): number {
  const bytes = block.subarray(from, to);
  let lines = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines += 1;
  return lines;
}

/** Without the character that the cut at HEAD may have gone through. */
function wholeCharacters(head: Buffer): Buffer {
  if (head.length < HEAD) return head;
  let start = HEAD - 1;
  while (start > HEAD - 4 && (head[start]! & 0xc0) === 0x80) start -= 1;
  const isCut = !isUtf8(head.subarray(start));
  return isCut ? head.subarray(0, start) : head;
}
