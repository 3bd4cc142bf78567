/**
 * One line of bytes as an item or a record. A line that is no object becomes a failed item that holds it, so nothing
 * is dropped.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Code } from '../item/codes.ts';
import type { Item } from '../item/item.ts';
import type { JsonObject } from '../json/pointer.ts';
import { type InputLabels, type Lease, remember } from './origin.ts';

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
/** what is kept of a line that is too long to keep */
const HEAD = 1024;

/** Whose lines these are, for the failures of those that cannot be read. */
export interface LineSource extends InputLabels {
  /** the stage that speaks */
  stage: string;
  /** bytes */
  maxLine: number;
  /** what is counted, where it is not lines */
  unit?: string;
}

/** Cuts the blocks of one input into lines. */
export interface Splitter {
  /** A new block. Its first `searched` bytes are the rest of the last one, and hold no newline. */
  feed(block: Buffer, searched: number, lease?: Lease): void;
  next(): Item | null;
  /** The unfinished line at the end of the block. */
  rest(): Buffer | null;
  /** What is left at the end of the input, one a call: the last line, if it has no newline. */
  finish(rest: Buffer | null): Item | null;
}

export interface ParseOptions {
  /** the bytes are known to be UTF-8 */
  checked: boolean;
  /** the line's, from 1 */
  number: number;
  source: LineSource;
  lease?: Lease;
}

/**
 * The object in bytes `from` to `to` of `block`, which it remembers as its origin (with the newline after it, if there
 * is one).
 */
export function parseLine(
  block: Buffer,
  from: number,
  to: number,
  { checked, number, source, lease }: ParseOptions,
): Item {
  if (!checked && !isUtf8(block.subarray(from, to))) {
    const base64 = block.toString('base64', from, to);
    return unreadable(source, number, 'not-utf8', 'expected UTF-8, found other bytes', { base64 });
  }
  // in the middle of a stream a mark would be no space: it is the one thing that an untouched line leaves behind
  const start = number === 1 && hasMark(block, from) ? from + 3 : from;
  const text = block.toString('utf8', start, to);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return unreadable(source, number, 'not-json', `expected JSON, found: ${(error as Error).message}`, {
      text,
    });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const message = `expected a JSON object, found ${jsonKind(value)}`;
    return unreadable(source, number, 'not-an-object', message, { text });
  }
  remember(value, { block, from: start, to: block[to] === NEWLINE ? to + 1 : to, number, source, lease });
  return value as Item;
}

/** A line that holds nothing, but perhaps the end of a CRLF or, as the first, a byte order mark. */
export function isEmptyLine(block: Buffer, from: number, to: number, number: number): boolean {
  const end = to > from && block[to - 1] === CARRIAGE_RETURN ? to - 1 : to;
  return end === from || (number === 1 && end === from + 3 && hasMark(block, from));
}

/** A byte order mark. */
export function hasMark(block: Buffer, from: number): boolean {
  return block[from] === 0xef && block[from + 1] === 0xbb && block[from + 2] === 0xbf;
}

/** The failed item in the place of a line that holds none. */
export function unreadable(
  { stage, name, unit }: LineSource,
  number: number,
  code: Code,
  message: string,
  more: JsonObject = {},
): Item {
  const where = unit === undefined ? `${name}:${number}` : `${name}: ${unit} ${number}`;
  return { id: null, failure: { stage, code, message: `${where}: ${message}`, line: number, ...more } };
}

/** A line beyond --max-line, of which only a hash and the first KiB are kept. */
export interface LongLine {
  add(bytes: Buffer): void;
  end(number: number): Item;
}

export function longLine(source: LineSource): LongLine {
  const hash = createHash('sha256');
  let kept = Buffer.alloc(0);
  let length = 0;
  return {
    add(bytes) {
      if (kept.length < HEAD) kept = Buffer.concat([kept, bytes.subarray(0, HEAD - kept.length)]);
      hash.update(bytes);
      length += bytes.length;
    },
    end(number) {
      const message = `expected at most ${source.maxLine} bytes (--max-line), found ${length}`;
      return unreadable(source, number, 'line-too-long', message, {
        bytes: length,
        sha256: hash.digest('hex'),
        ...(isUtf8(kept) ? { text: kept.toString() } : { base64: kept.toString('base64') }),
      });
    },
  };
}

function jsonKind(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}

/** Splits an input of lines. */
export class LineSplitter implements Splitter {
  readonly #source: LineSource;
  #block: Buffer = Buffer.alloc(0);
  #lease: Lease | undefined;
  #lineFrom = 0;
  #searchFrom = 0;
  #number = 0;
  /** the whole block is UTF-8 */
  #checked = false;
  #skipping: LongLine | null = null;

  constructor(source: LineSource) {
    this.#source = source;
  }

  feed(block: Buffer, searched: number, lease?: Lease): void {
    this.#block = block;
    this.#lease = lease;
    this.#lineFrom = 0;
    this.#searchFrom = searched;
    // cut characters at the end belong to the rest, which is checked again with the next block
    this.#checked = isUtf8(block.subarray(0, block.lastIndexOf(NEWLINE) + 1));
  }

  next(): Item | null {
    for (;;) {
      const to = this.#block.indexOf(NEWLINE, this.#searchFrom);
      if (to < 0) return null;
      const from = this.#lineFrom;
      this.#lineFrom = this.#searchFrom = to + 1;
      const item = this.#take(from, to);
      if (item !== null) return item;
    }
  }

  rest(): Buffer | null {
    const left = this.#block.subarray(this.#lineFrom);
    if (this.#skipping === null && left.length <= this.#source.maxLine)
      return left.length === 0 ? null : left;
    this.#skip(left);
    return null;
  }

  finish(left: Buffer | null): Item | null {
    if (left === null && this.#skipping === null) return null;
    this.feed(left ?? Buffer.alloc(0), 0);
    this.#checked = isUtf8(this.#block);
    return this.#take(0, this.#block.length);
  }

  #take(from: number, to: number): Item | null {
    const block = this.#block;
    const number = ++this.#number;
    if (this.#skipping === null) {
      if (isEmptyLine(block, from, to, number)) return null;
      if (to - from <= this.#source.maxLine)
        return parseLine(block, from, to, {
          checked: this.#checked,
          number,
          source: this.#source,
          lease: this.#lease,
        });
    }
    const long = this.#skip(block.subarray(from, to));
    this.#skipping = null;
    return long.end(number);
  }

  #skip(bytes: Buffer): LongLine {
    this.#skipping ??= longLine(this.#source);
    this.#skipping.add(bytes);
    return this.#skipping;
  }
}
