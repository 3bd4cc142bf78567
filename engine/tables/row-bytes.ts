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
  /** of a request: the key that is wrong */
  key?: string;
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

const LF = 10;
const CR = 13;
/** what is kept of a row that is too long to keep */
const HEAD = 1024;
/** of a row with broken quotes all is kept up to here */
const KEPT = 64 * 1024;

/** A value of a column as a row of any table has it. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** characters of the texts of a row */
export const lengthOf = (fields: readonly string[]): number =>
  fields.reduce((sum, { length }) => sum + length, 0);

/** What is kept of the texts of a row that is too long. */
export const beginningOf = (fields: readonly string[]): string =>
  fields
    .map(field => field.slice(0, HEAD))
    .join(' ')
    .slice(0, HEAD);

/** `maxLine` in bytes. */
export class RowSplitter {
  /** where the block begins in its input */
  base = 0;
  readonly #cutter: Cutter;
  readonly #maxLine: number;
  #block: Buffer = Buffer.alloc(0);
  #final = false;
  #from = 0;
  #at = 0;
  #line = 1; // of the byte at `from`
  #done = false;
  #skipping: {
    hash: Hash;
    head: Buffer;
    bytes: number;
    line: number;
    lastByte?: number | undefined;
  } | null = null;

  constructor(cutter: Cutter, maxLine: number) {
    this.#cutter = cutter;
    this.#maxLine = maxLine;
  }

  /** A new block, which begins with what `rest` gave of the last one; `final`: there will be no more. */
  feed(block: Buffer, final: boolean, base = 0): void {
    this.base = base;
    this.#block = block;
    this.#final = final;
    this.#at -= this.#from; // as far as the cutter has looked into the rest
    this.#from = 0;
  }

  /** The next row, or null where the block has no more whole ones. */
  next(): RowBytes | null {
    while (!this.#done) {
      this.#done = this.#final && this.#from === this.#block.length && this.#skipping === null; // one more cut, which may complain
      if (!this.#cutter.cut(this.#block, this.#from, this.#at, this.#final)) {
        this.#at = this.#cutter.to;
        return null;
      }
      const ends = this.#endsOf(this.#cutter);
      const piece =
        this.#skipping !== null || !this.#cutter.void
          ? this.#pieceTo(this.#cutter.to, this.#cutter.next)
          : null;
      this.#line += ends;
      this.#cutter.dropped = 0;
      this.#from = this.#at = this.#cutter.next;
      if (piece !== null) return piece;
    }
    return null;
  }

  /** The beginning of a row at the end of the block. */
  rest(): Buffer | null {
    if (this.#skipping !== null || this.#at - this.#from > this.#maxLine) {
      this.#skip(this.#block.subarray(this.#from, this.#at));
      this.#line += newlines(this.#block, this.#from, this.#at);
      this.#cutter.dropped += this.#at - this.#from;
      this.#from = this.#at;
    }
    return this.#from === this.#block.length ? null : this.#block.subarray(this.#from);
  }

  /** The row that has begun is too long to keep. */
  isTooLong(): boolean {
    return this.#skipping !== null;
  }

  /** Line ends up to the next row; a lone \r counts where it ends one. */
  #endsOf({ to, next, isPlain }: Cutter): number {
    if (isPlain && this.#skipping === null) return next > to ? 1 : 0;
    return (
      newlines(this.#block, this.#from, next) + (next > this.#from && this.#block[next - 1] === CR ? 1 : 0)
    );
  }

  #pieceTo(to: number, next: number): RowBytes {
    const first = this.#skipping?.line ?? (this.#cutter.isPlain ? this.#line : this.#firstLine(to));
    const piece: RowBytes = { block: this.#block, from: this.#from, to, next, line: first };
    const trouble = this.#troubleOf(to, piece.line);
    return trouble ? { ...piece, trouble } : piece;
  }

  #troubleOf(to: number, first: number): RowError | null {
    if (this.#skipping !== null || to - this.#from > this.#maxLine) return this.#tooLong(first, to);
    if (this.#cutter.isPlain && this.#cutter.complaint === null) return null;
    const bytes = this.#block.subarray(this.#from, to);
    const span = this.#spanFrom(first, to);
    if (this.#cutter.complaint !== null && (span !== null || isUtf8(bytes))) {
      const message = `${this.#cutter.complaint}${span ? `; ${span.said} are taken for this row` : ''}`;
      return { code: 'bad-quotes', message, more: { ...span?.more, ...kept(bytes) } };
    }
    if (isUtf8(bytes)) return null;
    return { code: 'not-utf8', message: whyNotUtf8(bytes), more: { base64: bytes.toString('base64') } };
  }

  /** The lines of a row that is more than one, up to `to`. */
  #spanFrom(
    first: number,
    to: number,
    lastByte = this.#block[to - 1],
  ): { said: string; more: JsonObject } | null {
    const last = this.#line + newlines(this.#block, this.#from, to) - (lastByte === LF ? 1 : 0);
    if (last === first) return null;
    return { said: `lines ${first} to ${last} (${last - first + 1} lines)`, more: { lastLine: last } };
  }

  /** The line of the first byte that is no space: elements of an array begin with the line end before them. */
  #firstLine(to: number): number {
    let first = this.#line;
    for (let index = this.#from; index < to && this.#block[index]! <= 32; index++)
      if (this.#block[index] === LF) first += 1;
    return first;
  }

  #skip(bytes: Buffer): void {
    this.#skipping ??= {
      hash: createHash('sha256'),
      head: Buffer.alloc(0),
      bytes: 0,
      line: this.#firstLine(this.#from + bytes.length),
    };
    this.#skipping.hash.update(bytes);
    this.#skipping.bytes += bytes.length;
    this.#skipping.lastByte = bytes.at(-1) ?? this.#skipping.lastByte;
    const { head } = this.#skipping;
    if (head.length < HEAD)
      this.#skipping.head = Buffer.concat([head, bytes.subarray(0, HEAD - head.length)]);
  }

  #tooLong(first: number, to: number): RowError {
    this.#skip(this.#block.subarray(this.#from, to));
    const { hash, bytes, head, lastByte } = this.#skipping!;
    this.#skipping = null;
    const span = this.#spanFrom(first, to, lastByte);
    const lines = span ? ` in ${span.said}` : '';
    const open =
      this.#cutter.complaint === null ? '' : `, and its quotes are broken: ${this.#cutter.complaint}`;
    return {
      code: 'line-too-long',
      message: `expected a row of at most ${this.#maxLine} bytes (--max-line), found ${bytes}${lines}${open}`,
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
