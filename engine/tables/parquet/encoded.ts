/** The values of a page, one after the other, as they are encoded: nothing is made of those that nobody asks for. */
import { Deltas, Runs } from './bits.ts';
import type { Kind } from './footer.ts';

/** What a value is before its meaning is known: bytes are valid until the next value. */
export type Raw = number | bigint | boolean | Uint8Array;

const WIDTHS: { readonly [kind in Kind]?: number } = { INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8 };

const PLAIN = 0;
const PLAIN_DICTIONARY = 2;
const RLE = 3;
const DELTA_BINARY_PACKED = 5;
const DELTA_LENGTH_BYTE_ARRAY = 6;
const DELTA_BYTE_ARRAY = 7;
const RLE_DICTIONARY = 8;
const BYTE_STREAM_SPLIT = 9;

export interface ValueKind {
  kind: Kind;
  /** of FIXED_LEN_BYTE_ARRAY */
  length: number;
}

const asBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

const widthOf = ({ kind, length }: ValueKind): number => WIDTHS[kind] ?? length;

/** One value at a time, from `start` to `end` of `bytes`. */
export abstract class Values {
  readonly #kind: Kind;
  bytes: Buffer;
  start = 0;
  end = 0;
  /** its place in the dictionary; -1 without */
  index = -1;
  #view: DataView | null = null;

  constructor({ kind }: ValueKind, bytes: Uint8Array) {
    this.#kind = kind;
    this.bytes = asBuffer(bytes);
  }

  /** Goes to the next; throws an Error where there is none. */
  abstract next(): void;

  raw(): Raw {
    const kind = this.#kind;
    const { bytes, start } = this;
    if (kind === 'BYTE_ARRAY' || kind === 'FIXED_LEN_BYTE_ARRAY' || kind === 'INT96')
      return bytes.subarray(start, this.end);
    this.#view ??= new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const view = this.#view;
    if (kind === 'INT32') return view.getInt32(start, true);
    if (kind === 'DOUBLE') return view.getFloat64(start, true);
    if (kind === 'FLOAT') return view.getFloat32(start, true);
    const high = view.getInt32(start + 4, true);
    if (high >= -0x200000 && high < 0x200000) {
      const value = high * 0x100000000 + view.getUint32(start, true);
      if (value !== -0x20000000000000) return value;
    }
    return view.getBigInt64(start, true);
  }
}

export function valuesOf(
  encoding: number,
  kind: ValueKind,
  bytes: Uint8Array,
  at: number,
  dictionary: Dictionary | null,
): Values {
  const isBytes = kind.kind === 'BYTE_ARRAY';
  const isLong = kind.kind === 'INT64';
  if (encoding === PLAIN) {
    if (kind.kind === 'BOOLEAN') {
      const run = packed(bytes, at);
      return new Flags(kind, bytes, new Runs(run, 0, run.length, 1));
    }
    return isBytes ? new PlainBytes(kind, bytes, at) : new PlainFixed(kind, bytes, at);
  }
  if (encoding === PLAIN_DICTIONARY || encoding === RLE_DICTIONARY) {
    if (dictionary === null) throw new Error('places in a dictionary, and no dictionary');
    if (kind.kind === 'BOOLEAN') throw new Error('true and false in a dictionary');
    return new Looked(kind, dictionary, bytes, at);
  }
  if (encoding === RLE && kind.kind === 'BOOLEAN') {
    if (at + 4 > bytes.length) throw new Error('the end of the page too early');
    return new Flags(kind, bytes, new Runs(bytes, at + 4, bytes.length, 1));
  }
  if (encoding === DELTA_BINARY_PACKED && (isLong || kind.kind === 'INT32'))
    return new Differences(kind, bytes, new Deltas(bytes, at, bytes.length, isLong));
  if (encoding === DELTA_LENGTH_BYTE_ARRAY && isBytes) return new Lengths(kind, bytes, at);
  if (encoding === DELTA_BYTE_ARRAY && (isBytes || kind.kind === 'FIXED_LEN_BYTE_ARRAY'))
    return new Beginnings(kind, bytes, at);
  if (encoding === BYTE_STREAM_SPLIT && kind.kind !== 'BOOLEAN' && !isBytes)
    return new Split(kind, bytes, at);
  throw new Error(`values of ${kind.kind} in the encoding ${encoding}, which is none for them`);
}

/** The bits of true and false as one run of packed ones: behind a head that says how many follow. */
function packed(bytes: Uint8Array, at: number): Uint8Array {
  const head: number[] = [];
  for (let left = (bytes.length - at) * 2 + 1; ; left = Math.floor(left / 128)) {
    head.push(left < 128 ? left : (left % 128) + 128);
    if (left < 128) break;
  }
  return Buffer.concat([Buffer.from(head), bytes.subarray(at)]);
}

class Flags extends Values {
  readonly #runs: Runs;
  #is = false;

  constructor(kind: ValueKind, bytes: Uint8Array, runs: Runs) {
    super(kind, bytes);
    this.#runs = runs;
  }

  next(): void {
    this.#is = this.#runs.next() === 1;
  }

  override raw(): Raw {
    return this.#is;
  }
}

class PlainFixed extends Values {
  readonly #width: number;

  constructor(kind: ValueKind, bytes: Uint8Array, at: number) {
    super(kind, bytes);
    this.#width = widthOf(kind);
    this.end = at;
  }

  next(): void {
    this.start = this.end;
    this.end += this.#width;
    if (this.end > this.bytes.length) throw new Error('fewer values in a page than it says');
  }
}

class PlainBytes extends Values {
  constructor(kind: ValueKind, bytes: Uint8Array, at: number) {
    super(kind, bytes);
    this.end = at;
  }

  next(): void {
    this.start = this.end + 4;
    this.end = this.start + lengthAt(this.bytes, this.end);
    if (!(this.end <= this.bytes.length)) throw new Error('fewer values in a page than it says');
  }
}

/** NaN beyond the end. */
const lengthAt = (bytes: Uint8Array, at: number): number =>
  at + 4 > bytes.length
    ? Number.NaN
    : bytes[at]! + bytes[at + 1]! * 0x100 + bytes[at + 2]! * 0x10000 + bytes[at + 3]! * 0x1000000;

/** The values that a column has often, each once. */
export class Dictionary {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** of texts: where each begins and ends */
  readonly places: Uint32Array | null;
  readonly width: number;
  /** what was made of each, where it pays to keep it */
  readonly made: unknown[] | null;

  constructor(kind: ValueKind, bytes: Uint8Array, count: number) {
    this.bytes = bytes;
    this.count = count;
    this.width = widthOf(kind);
    const isBytes = kind.kind === 'BYTE_ARRAY';
    if (!(count * (isBytes ? 4 : this.width) <= bytes.length))
      throw new Error('a dictionary that is cut off');
    this.places = isBytes ? new Uint32Array(2 * count) : null;
    let end = 0;
    for (let at = 0; isBytes && at < count; at++) {
      const start = end + 4;
      end = start + lengthAt(bytes, end);
      if (!(end <= bytes.length)) throw new Error('a dictionary that is cut off');
      this.places![2 * at] = start;
      this.places![2 * at + 1] = end;
    }
    this.made = count <= MOST_MADE ? new Array(count) : null;
  }
}

const MOST_MADE = 1 << 16;

class Looked extends Values {
  readonly #of: Dictionary;
  readonly #runs: Runs;
  readonly #isEmpty: boolean;

  constructor(kind: ValueKind, dictionary: Dictionary, bytes: Uint8Array, at: number) {
    super(kind, dictionary.bytes);
    // a page of nothing but nulls may have no bytes at all
    this.#isEmpty = at >= bytes.length;
    const width = bytes[at] ?? 0;
    if (width > 32) throw new Error('places in a dictionary of more than 32 bits');
    this.#of = dictionary;
    this.#runs = new Runs(bytes, at + 1, bytes.length, width);
  }

  next(): void {
    if (this.#isEmpty) throw new Error('places in a dictionary that are not there');
    const index = this.#runs.next();
    const { count, places, width } = this.#of;
    if (index >= count) throw new Error(`the place ${index} of a dictionary of ${count}`);
    this.index = index;
    if (places === null) {
      this.start = index * width;
      this.end = this.start + width;
    } else {
      this.start = places[2 * index]!;
      this.end = places[2 * index + 1]!;
    }
  }
}

class Differences extends Values {
  readonly #deltas: Deltas;
  #value: number | bigint = 0;

  constructor(kind: ValueKind, bytes: Uint8Array, deltas: Deltas) {
    super(kind, bytes);
    this.#deltas = deltas;
  }

  next(): void {
    this.#value = this.#deltas.next();
  }

  override raw(): Raw {
    return this.#value;
  }
}

class Lengths extends Values {
  readonly #lengths: Deltas;

  constructor(kind: ValueKind, bytes: Uint8Array, at: number) {
    super(kind, bytes);
    this.#lengths = new Deltas(bytes, at, bytes.length, false);
    this.end = this.#lengths.endOf();
  }

  next(): void {
    const length = this.#lengths.next() as number;
    this.start = this.end;
    this.end += length;
    if (!(length >= 0 && this.end <= this.bytes.length))
      throw new Error('fewer values in a page than it says');
  }
}

/** Each begins with a part of the one before ("DELTA_BYTE_ARRAY"). */
class Beginnings extends Values {
  readonly #kept: Deltas;
  readonly #rest: Lengths;

  constructor(kind: ValueKind, bytes: Uint8Array, at: number) {
    super(kind, new Uint8Array(256));
    this.#kept = new Deltas(bytes, at, bytes.length, false);
    this.#rest = new Lengths(kind, bytes, this.#kept.endOf());
  }

  next(): void {
    const kept = this.#kept.next() as number;
    if (!(kept >= 0 && kept <= this.end)) throw new Error('a text that begins with more than the one before');
    this.#rest.next();
    const { bytes, start, end } = this.#rest;
    const length = kept + end - start;
    if (length > this.bytes.length) {
      const longer = new Uint8Array(2 * length);
      longer.set(this.bytes.subarray(0, kept));
      this.bytes = asBuffer(longer);
    }
    this.bytes.set(bytes.subarray(start, end), kept);
    this.end = length;
  }
}

/** The first bytes of all, then the second ones, … */
class Split extends Values {
  readonly #from: Uint8Array;
  readonly #count: number;
  #next = 0;

  constructor(kind: ValueKind, bytes: Uint8Array, at: number) {
    super(kind, new Uint8Array(widthOf(kind)));
    this.#from = bytes.subarray(at);
    this.end = this.bytes.length;
    this.#count = Math.floor(this.#from.length / this.end);
  }

  next(): void {
    if (this.#next >= this.#count) throw new Error('fewer values in a page than it says');
    for (let byte = 0; byte < this.end; byte++)
      this.bytes[byte] = this.#from[byte * this.#count + this.#next]!;
    this.#next += 1;
  }
}
