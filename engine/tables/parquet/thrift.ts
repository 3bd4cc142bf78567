/**
 * Thrift's compact protocol, as the footer and the heads of pages of Parquet are written: only what is asked for becomes a
 * value. `https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md`
 */

/** The bytes end before what they say is over: with more of them it may go on. */
export class CutOff extends Error {}

const STOP = 0;
const TRUE = 1;
const FALSE = 2;
const BYTE = 3;
const DOUBLE = 7;
const BINARY = 8;
const LIST = 9;
const SET = 10;
const STRUCT = 12;
const DEEPEST = 32;

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads one thing after the other; each throws an Error where the bytes are none. */
export class Thrift {
  readonly #bytes: Uint8Array;
  at: number;
  #depth = 0;

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.at = at;
  }

  /** The fields of a struct: `take` reads the value of those that it knows and says true; the others are read over. */
  struct(take: (field: number, type: number) => boolean): void {
    if (++this.#depth > DEEPEST) throw new Error('a description that is nested too deeply');
    for (let field = 0; ; ) {
      const byte = this.#byte();
      const type = byte & 15;
      if (type === STOP) break;
      field = byte >> 4 === 0 ? this.int() : field + (byte >> 4);
      if (!take(field, type)) this.#skip(type);
    }
    this.#depth -= 1;
  }

  /** `one` reads each value of a list. */
  list<T>(one: () => T): T[] {
    const byte = this.#byte();
    const size = byte >> 4 === 15 ? this.#unsigned() : byte >> 4;
    // each takes a byte at least
    if (size > this.#bytes.length - this.at) throw new CutOff(`a list of ${size} values`);
    const values: T[] = [];
    for (let at = 0; at < size; at++) values.push(one());
    return values;
  }

  /** A whole number of up to 64 bits; beyond 2^53 it is not exact, and no length is. */
  int(): number {
    const raw = this.#unsigned();
    return raw % 2 === 0 ? raw / 2 : -(raw + 1) / 2;
  }

  text(): string {
    return utf8.decode(this.binary());
  }

  binary(): Uint8Array {
    const length = this.#unsigned();
    const from = this.at;
    if (length > this.#bytes.length - from) throw new CutOff(`a text of ${length} bytes`);
    this.at += length;
    return this.#bytes.subarray(from, this.at);
  }

  /** of a field of a struct, whose type is its value */
  flag(type: number): boolean {
    return type === TRUE;
  }

  #unsigned(): number {
    let value = 0;
    for (let scale = 1, count = 0; count < 10; count++, scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw new Error('a number of more than 64 bits');
  }

  #byte(): number {
    const byte = this.#bytes[this.at];
    if (byte === undefined) throw new CutOff('the end of the description too early');
    this.at += 1;
    return byte;
  }

  #skip(type: number, isElement = false): void {
    if (type === TRUE || type === FALSE) {
      if (isElement) this.at += 1;
    } else if (type === BYTE) this.at += 1;
    else if (type < DOUBLE) this.#unsigned();
    else if (type === DOUBLE) this.at += 8;
    else if (type === BINARY) this.binary();
    else if (type === LIST || type === SET) {
      const of = (this.#bytes[this.at] ?? 0) & 15;
      if (++this.#depth > DEEPEST) throw new Error('a description that is nested too deeply');
      this.#skipList(of);
      this.#depth -= 1;
    } else if (type === STRUCT) this.struct(() => false);
    else throw new Error('a description of an unknown kind');
  }

  #skipList(type: number): void {
    const byte = this.#byte();
    const size = byte >> 4 === 15 ? this.#unsigned() : byte >> 4;
    if (size > this.#bytes.length - this.at) throw new CutOff(`a list of ${size} values`);
    for (let at = 0; at < size; at++) this.#skip(type, true);
  }
}
