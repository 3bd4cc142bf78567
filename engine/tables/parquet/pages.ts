/** The pages of a column of a group of rows, read and unpacked one at a time. */
import * as zlib from 'node:zlib';
import { Runs } from './bits.ts';
import { unpacked } from './codecs.ts';
import { Dictionary, type ValueKind, type Values, valuesOf } from './encoded.ts';
import type { Chunk, Codec } from './footer.ts';
import { CutOff, Thrift } from './thrift.ts';

/** Bytes `from` to `to` of the file. */
export type Part = (from: number, to: number) => Promise<Uint8Array> | Uint8Array;

/** How much of the pages of all columns is held at once. */
export class Room {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  take(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw new Error('pages that need more than 1 GiB of memory at once');
  }

  give(bytes: number): void {
    this.#left += bytes;
  }
}

export interface Levels {
  /** the highest definition level: the value is there */
  most: number;
  /** the highest repetition level: 0 where nothing comes several times */
  deepest: number;
}

export interface Page {
  /** values and nulls */
  count: number;
  repetitions: Runs | null;
  /** the same once more, to be counted */
  repetitionsAgain: Runs | null;
  definitions: Runs | null;
  values: Values;
  dictionary: Dictionary | null;
  /** of the room, to be given back */
  held: number;
}

interface Head {
  kind: number;
  within: number;
  size: number;
  crc: number | null;
  count: number;
  encoding: number;
  levelEncoding: number;
  /** of the second version: bytes of levels, which are not compressed */
  repetitionBytes: number;
  definitionBytes: number;
  isCompressed: boolean;
}

const DATA = 0;
const DICTIONARY = 2;
const DATA_2 = 3;
const RLE = 3;
const MOST_PAGE = 1 << 28;
const FIRST_HEAD = 1 << 12;
const MOST_HEAD = 1 << 24;

const crc32 = (zlib as { crc32?: (bytes: Uint8Array) => number }).crc32;

export class Pages {
  readonly #chunk: Chunk & { codec: Codec };
  readonly #kind: ValueKind;
  readonly #levels: Levels;
  readonly #part: Part;
  readonly #room: Room;
  readonly #window: number;
  #dictionary: Dictionary | null = null;
  #dictionaryHeld = 0;
  /** what was read and not used, and where it begins in the file */
  #bytes: Uint8Array = new Uint8Array(0);
  #at: number;
  #left: number;

  /** `window`: bytes that are read at once. */
  constructor(
    chunk: Chunk & { codec: Codec },
    kind: ValueKind,
    levels: Levels,
    reading: { part: Part; room: Room; window: number },
  ) {
    this.#chunk = chunk;
    this.#kind = kind;
    this.#levels = levels;
    this.#part = reading.part;
    this.#room = reading.room;
    this.#window = reading.window;
    this.#at = chunk.from;
    this.#left = chunk.values;
  }

  /** The next; null behind the last. Rejects with an Error where it cannot be read. */
  async next(): Promise<Page | null> {
    while (this.#left > 0) {
      const head = await this.#head();
      const bytes = await this.#take(head.size);
      if (head.crc !== null && crc32 !== undefined && crc32(bytes) !== head.crc)
        throw new Error('damage: the checksum of a page is another one');
      if (head.kind === DICTIONARY) {
        if (this.#dictionary !== null) throw new Error('two dictionaries');
        this.#dictionaryHeld = this.#hold(head, bytes);
        const within = unpacked(bytes, head.within, this.#chunk.codec);
        this.#dictionary = new Dictionary(this.#kind, within, head.count);
      } else if (head.kind === DATA || head.kind === DATA_2) {
        if (head.count > this.#left) throw new Error('more values than it says');
        this.#left -= head.count;
        if (head.count === 0) continue;
        const held = this.#hold(head, bytes);
        return { ...(head.kind === DATA ? this.#first(head, bytes) : this.#second(head, bytes)), held };
      }
    }
    this.#room.give(this.#dictionaryHeld);
    this.#dictionaryHeld = 0;
    return null;
  }

  #hold({ within }: Head, bytes: Uint8Array): number {
    const held = within + bytes.length;
    this.#room.take(held);
    return held;
  }

  #first(head: Head, bytes: Uint8Array): Omit<Page, 'held'> {
    const { most, deepest } = this.#levels;
    const page = unpacked(bytes, head.within, this.#chunk.codec);
    if ((most > 0 || deepest > 0) && head.levelEncoding !== RLE)
      throw new Error('levels in an encoding that nobody writes any more');
    const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
    let at = 0;
    const levels = (highest: number): [from: number, to: number] => {
      if (highest === 0) return [at, at];
      if (at + 4 > page.length) throw new Error('the end of the page too early');
      const from = at + 4;
      at = from + view.getUint32(at, true);
      if (at > page.length) throw new Error('the end of the page too early');
      return [from, at];
    };
    const repetitions = levels(deepest);
    const definitions = levels(most);
    return this.#page(head, page, repetitions, page, definitions, page, at);
  }

  #second(head: Head, bytes: Uint8Array): Omit<Page, 'held'> {
    const { repetitionBytes: between, definitionBytes } = head;
    const behind = between + definitionBytes;
    if (!(between >= 0 && definitionBytes >= 0 && behind <= bytes.length && behind <= head.within))
      throw new Error('levels that are longer than the page');
    const codec = head.isCompressed ? this.#chunk.codec : 'UNCOMPRESSED';
    const values = unpacked(bytes.subarray(behind), head.within - behind, codec);
    return this.#page(head, bytes, [0, between], bytes, [between, behind], values, 0);
  }

  #page(
    { count, encoding }: Head,
    repeated: Uint8Array,
    [repeatedFrom, repeatedTo]: [number, number],
    defined: Uint8Array,
    [definedFrom, definedTo]: [number, number],
    values: Uint8Array,
    at: number,
  ): Omit<Page, 'held'> {
    const { most, deepest } = this.#levels;
    const repetitions = () =>
      deepest === 0 ? null : new Runs(repeated, repeatedFrom, repeatedTo, bitsOf(deepest));
    return {
      count,
      repetitions: repetitions(),
      repetitionsAgain: repetitions(),
      definitions: most === 0 ? null : new Runs(defined, definedFrom, definedTo, bitsOf(most)),
      values: valuesOf(encoding, this.#kind, values, at, this.#dictionary),
      dictionary: this.#dictionary,
    };
  }

  async #head(): Promise<Head> {
    for (let wanted = FIRST_HEAD; ; wanted *= 8) {
      const bytes = await this.#see(wanted);
      const thrift = new Thrift(bytes);
      try {
        const head = headOf(thrift);
        this.#use(thrift.at);
        if (!(head.size >= 0 && head.size <= MOST_PAGE && head.within >= 0 && head.within <= MOST_PAGE))
          throw new Error('a page of an impossible length');
        if (!(head.count >= 0)) throw new Error('a page of an impossible number of values');
        return head;
      } catch (error) {
        const isAll = bytes.length < wanted || wanted >= MOST_HEAD;
        if (!(error instanceof CutOff)) throw error;
        if (isAll) throw new Error(`the end of its pages too early (${error.message})`);
      }
    }
  }

  /** The next `count` bytes, or as many as there are. */
  async #see(count: number): Promise<Uint8Array> {
    const { to } = this.#chunk;
    const wanted = Math.min(count, to - this.#at);
    if (this.#bytes.length < wanted) {
      const from = this.#at + this.#bytes.length;
      const more = await this.#part(from, Math.min(to, Math.max(from + this.#window, this.#at + wanted)));
      this.#bytes = this.#bytes.length === 0 ? more : Buffer.concat([this.#bytes, more]);
    }
    return this.#bytes.subarray(0, Math.max(0, wanted));
  }

  #use(count: number): void {
    this.#at += count;
    this.#bytes = this.#bytes.subarray(count);
  }

  async #take(count: number): Promise<Uint8Array> {
    const bytes = await this.#see(count);
    if (bytes.length < count) throw new Error('the end of its pages too early');
    this.#use(count);
    return bytes;
  }
}

const bitsOf = (most: number): number => 32 - Math.clz32(most);

function headOf(thrift: Thrift): Head {
  const head: Head = {
    ...{ kind: -1, within: -1, size: -1, crc: null, count: 0, encoding: -1, levelEncoding: RLE },
    ...{ repetitionBytes: 0, definitionBytes: 0, isCompressed: true },
  };
  thrift.struct(field => {
    if (field === 1) head.kind = thrift.int();
    else if (field === 2) head.within = thrift.int();
    else if (field === 3) head.size = thrift.int();
    else if (field === 4) head.crc = thrift.int() >>> 0;
    else if (field === 5) thrift.struct(part => firstInto(head, part, thrift));
    else if (field === 7)
      thrift.struct(part => {
        if (part !== 1) return false;
        head.count = thrift.int();
        return true;
      });
    else if (field === 8) thrift.struct((part, type) => secondInto(head, part, thrift, type));
    else return false;
    return true;
  });
  return head;
}

function firstInto(head: Head, part: number, thrift: Thrift): boolean {
  if (part === 1) head.count = thrift.int();
  else if (part === 2) head.encoding = thrift.int();
  else if (part === 3) {
    const encoding = thrift.int();
    if (encoding !== RLE) head.levelEncoding = encoding;
  } else return false;
  return true;
}

function secondInto(head: Head, part: number, thrift: Thrift, type: number): boolean {
  if (part === 1) head.count = thrift.int();
  else if (part === 4) head.encoding = thrift.int();
  else if (part === 5) head.definitionBytes = thrift.int();
  else if (part === 6) head.repetitionBytes = thrift.int();
  else if (part === 7) head.isCompressed = thrift.flag(type);
  else return false;
  return true;
}
