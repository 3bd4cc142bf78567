/**
 * What the index holds, some thousand rows at a time: where each row is, and a typed array for each column. Chunks are
 * made by the thread that reads (indexer.ts), and handed over whole.
 */

/** `values`: few different ones, counted; `numbers`; `texts`: too many different ones, of which only a hash is kept. */
export type ColumnKind = 'values' | 'numbers' | 'texts';

/** Numbers of values (0: none, else the place in the dictionary and 1), numbers (NaN: none), or hashes (NaN: none). */
export type Data = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** Room for so many rows: 8 bytes wide for numbers and hashes, less for the numbers of values. */
export function emptyData(width: number, rows: number): Data {
  if (width === 8) return new Float64Array(rows);
  return width === 1 ? new Uint8Array(rows) : width === 2 ? new Uint16Array(rows) : new Uint32Array(rows);
}

export interface ColumnData {
  column: number;
  kind: ColumnKind;
  data: Data;
}

export interface Chunk {
  /** place of the file */
  file: number;
  rows: number;
  /** where each row begins, and how long it is without its line end, in bytes */
  offsets: Float64Array;
  lengths: Uint32Array;
  /** the line on which each begins, from 1 */
  lines: Uint32Array;
  /** hash of each id; NaN: none */
  ids: Float64Array;
  /** with --beside: hashes of what was decided, and of all that was answered */
  decided: Float64Array | null;
  said: Float64Array | null;
  columns: ColumnData[];
}

/** What is new of a column since the last chunk. */
export interface ColumnNews {
  column: number;
  group: string;
  key: string;
  kind: ColumnKind;
  /** new entries of its dictionary */
  values: string[];
  /** of numbers: values that are none */
  odd: number;
}

/** Rows of a chunk. */
export const CHUNK = 32_768;

/** Different values of a column that are counted one by one; a longer one is a text. */
const MOST_VALUES = 10_000;
const LONGEST_VALUE = 200;

/** 53 bits of a text, as a number: two different ones of a million are the same once in 18,000 times. Cyrb53, by bryc. */
export function hashOf(text: string): number {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 2_654_435_761);
    b = Math.imul(b ^ code, 1_597_334_677);
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909);
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909);
  return 4_294_967_296 * (2_097_151 & b) + (a >>> 0);
}

const NUMBER = /^-?(0|[1-9]\d{0,20})(\.\d{1,20})?(e[+-]?\d{1,3})?$/i;

/** Whether a text is a number as people and programs write it; `007` is none. */
export const isNumeric = (text: string): boolean =>
  text.length <= 32 && NUMBER.test(text) && Number.isFinite(Number(text));

/** Whether nothing is lost where it is kept as one: long numbers are names of something. */
const isKeptAsNumber = (text: string): boolean => {
  const number = Number(text);
  return isNumeric(text) && (Number.isSafeInteger(number) || !Number.isInteger(number));
};

/** One column while rows come in. It begins as values; where there are too many it goes on as numbers or as texts. */
export class ColumnBuilder {
  readonly column: number;
  readonly group: string;
  readonly key: string;
  kind: ColumnKind = 'values';
  odd = 0;
  #codes = new Uint32Array(CHUNK);
  #numbers: Float64Array | null = null;
  readonly #dictionary = new Map<string, number>();
  #fresh: string[] = [];
  #allNumeric = true;
  #isTold = false;
  #last = -1;
  #highest = 0;

  /** `kept`: what an index that goes on knows of it. */
  constructor(column: number, group: string, key: string, kept?: ColumnNews) {
    this.column = column;
    this.group = group;
    this.key = key;
    if (kept === undefined) return;
    this.kind = kept.kind;
    this.odd = kept.odd;
    this.#isTold = true;
    if (kept.kind !== 'values') {
      this.#becomeNumbers();
      return;
    }
    for (const value of kept.values) this.#codeOf(value);
    this.#fresh = [];
  }

  /** The first value for a row stands. */
  add(row: number, value: string | number): void {
    if (this.#last === row) return;
    if (this.kind === 'values') {
      const text = typeof value === 'string' ? value : String(value);
      const code = this.#codeOf(text);
      if (code > 0) {
        this.#codes[row] = code;
        if (code > this.#highest) this.#highest = code;
        this.#last = row;
        return;
      }
      this.#becomeLarge(row, text);
    }
    this.#last = row;
    (this.#numbers as Float64Array)[row] = this.#numberOf(value);
  }

  /** 0 where the dictionary takes no more. */
  #codeOf(text: string): number {
    const known = this.#dictionary.get(text);
    if (known !== undefined) return known;
    if (this.#dictionary.size >= MOST_VALUES || text.length > LONGEST_VALUE) return 0;
    if (this.#allNumeric && text !== '' && !isKeptAsNumber(text)) this.#allNumeric = false;
    const code = this.#dictionary.size + 1;
    this.#dictionary.set(text, code);
    this.#fresh.push(text);
    return code;
  }

  #becomeLarge(row: number, text: string): void {
    this.kind =
      this.#allNumeric && this.#dictionary.size >= MOST_VALUES && isNumeric(text) ? 'numbers' : 'texts';
    const codes = this.#codes;
    const texts = [...this.#dictionary.keys()];
    const numbers = this.#becomeNumbers();
    for (let at = 0; at < row; at++) {
      const code = codes[at]!;
      if (code > 0) numbers[at] = this.#numberOf(texts[code - 1]!);
    }
  }

  #becomeNumbers(): Float64Array {
    this.#codes = new Uint32Array(0);
    this.#dictionary.clear(); // the reader of the index has it
    this.#numbers = new Float64Array(CHUNK).fill(Number.NaN);
    return this.#numbers;
  }

  #numberOf(value: string | number): number {
    if (this.kind === 'texts') return hashOf(String(value));
    if (typeof value === 'number') return value;
    if (isNumeric(value)) return Number(value);
    if (value !== '') this.odd += 1;
    return Number.NaN;
  }

  /** What came in since the last time, of `rows` rows; null for nothing. */
  take(rows: number): { data: ColumnData | null; news: ColumnNews | null } {
    const isNews = !this.#isTold || this.#fresh.length > 0 || (this.kind !== 'values' && this.#last >= 0);
    const { column, group, key, kind, odd } = this;
    const news = isNews ? { column, group, key, kind, odd, values: this.#fresh } : null;
    const data = this.#last < 0 ? null : { column, kind, data: this.#dataOf(rows) };
    this.#isTold = true;
    this.#fresh = [];
    this.#last = -1;
    return { data, news };
  }

  #dataOf(rows: number): Data {
    if (this.#numbers !== null) {
      const data = this.#numbers.slice(0, rows);
      this.#numbers.fill(Number.NaN);
      return data;
    }
    const Width = this.#highest < 256 ? Uint8Array : this.#highest < 65_536 ? Uint16Array : Uint32Array;
    const data = Width.from(this.#codes.subarray(0, rows));
    this.#codes.fill(0);
    this.#highest = 0;
    return data;
  }
}
