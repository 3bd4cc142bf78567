/**
 * Rows of CSV, found in bytes in one pass: where a row ends, and where in it each field lies (RFC 4180; \n, \r\n and a
 * lone \r all end a row).
 *
 * Broken quotes leave open where their row ends; the rule is to lose as little as possible around it: in a quoted field
 * a quote that closes nothing is text, so that the row continues to a quote that does close; except that a field such as
 * `"a"b`, whose quotes on its first line pair up, ends with that line; and that the row ends before lines which are rows
 * of the table (see `rowsBehind`). These are looked for once it is certain that the quotes are broken: where a quote in
 * the field closes nothing, where the row gets longer than is kept, and at the end of the input.
 */
import type { Cutter, FieldBounds } from './row-ends.ts';

/** Marks of a field: it holds what JSON escapes, quotes that are written twice, bytes beyond ASCII. */
export const ESCAPED = 1;
export const DOUBLED = 2;
export const WIDE = 4;
const STOP = 8;

const LF = 10;
const CR = 13;
const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;

const FIELD_START = 0;
const PLAIN = 1;
const QUOTED = 2;
const CLOSED = 3; // behind the closing quote
const INNER_QUOTE =
  'expected a separator or the end of the row after a closing quote (a quote inside a field is written twice), found other text';
const BARE_QUOTE = 'expected quotes around a field that has a quote in it, found none';
const NEVER_CLOSED = 'expected every quoted field to be closed, found the end of the input (is it cut off?)';
const NOT_CLOSED =
  'expected every quoted field to be closed, found one that is not; rows that fit the header come behind it';

/** The text of every field. `from` is where the row begins. */
export function fieldTexts(block: Buffer, from: number, { count, bounds }: FieldBounds): string[] {
  const texts = new Array<string>(count);
  for (let at = 0; at < count; at++) texts[at] = fieldText(block, from, bounds, 3 * at);
  return texts;
}

/** The text of the field whose bounds are in `bounds` from `at` on. */
export function fieldText(block: Buffer, from: number, bounds: Int32Array, at: number): string {
  const marks = bounds[at + 2]!;
  const encoding = (marks & WIDE) === 0 ? 'latin1' : 'utf8';
  const text = block.toString(encoding, from + bounds[at]!, from + bounds[at + 1]!);
  return (marks & DOUBLED) === 0 ? text : text.replaceAll('""', '"');
}

/** What a byte means in a field; `stops` are those that a reader has to look at. */
function kindsOf(stops: readonly number[]): Uint8Array {
  const kinds = Uint8Array.from({ length: 256 }, (_none, byte) =>
    byte >= 0x80 ? WIDE : byte < SPACE || byte === BACKSLASH ? ESCAPED : 0,
  );
  for (const byte of stops) kinds[byte] = STOP;
  return kinds;
}

const IN_QUOTES = kindsOf([LF, QUOTE]);
/** By delimiter: every quoted field of several lines has a reader of its own for what may be rows behind it. */
const IN_PLAIN = new Map<number, Uint8Array>();

/** Reads the rows of a table. `longest`: bytes of a row that are kept. */
export class CsvReader implements Cutter {
  to = 0;
  next = 0;
  void = false;
  complaint: string | null = null;
  isPlain = true;
  dropped = 0;
  readonly fields: FieldBounds = { count: 0, bounds: new Int32Array(3 * 64), marks: 0 };
  /** how many fields a row has; rows behind a broken one are looked for once this is known */
  columns: number | null = null;
  readonly #delimiter: number;
  readonly #longest: number;
  readonly #inPlain: Uint8Array;
  #state = FIELD_START;
  #start = 0; // of the field, from the beginning of the row
  #marks = 0; // of the field
  #firstLine = true; // still on the line on which the quoted field was opened
  #pairedUp = false; // the quotes of that line so far come in pairs
  #isOpen = false; // a quote in the field closes nothing, so that perhaps it is none of its quotes
  #isLost = false; // the beginning of the row is no longer kept, so that nothing can begin behind it
  #behind: RowsBehind | null = null;
  #complaint: string | null = null;
  #isNew = true; // a row begins
  #severalLines = false;

  constructor(delimiter: number, longest = Number.POSITIVE_INFINITY) {
    this.#delimiter = delimiter;
    this.#longest = longest;
    this.#inPlain = IN_PLAIN.get(delimiter) ?? kindsOf([delimiter, LF, CR, QUOTE]);
    IN_PLAIN.set(delimiter, this.#inPlain);
  }

  cut(block: Buffer, from: number, at: number, final: boolean): boolean {
    if (this.#isNew) this.#begin();
    this.to = at;
    for (;;) {
      const inQuotes = this.#state === QUOTED;
      const ends = inQuotes ? this.#quoted(block, from, final) : this.#unquoted(block, from, final);
      if (ends !== null) return ends;
    }
  }

  /** Reads on in quotes, from `to` on. Null where they end; else as `cut`. */
  #quoted(block: Buffer, from: number, final: boolean): boolean | null {
    const end = block.length;
    for (let at = this.to; ; ) {
      const stop = this.#isLost ? end : Math.min(end, from + this.#longest);
      let seen = 0; // in a variable of the loop, which costs a third of one that outlives it
      while (at < stop) {
        const kind = IN_QUOTES[block[at]!]!;
        if (kind === STOP) break;
        seen |= kind;
        at += 1;
      }
      this.#marks |= seen;
      if (!this.#isLost && at - from >= this.#longest) {
        if (this.#goesOnBehind(block, from, from + this.#longest, false)) return true;
        this.#isLost = true;
        continue;
      }
      if (at === end) return this.#blockEnds(block, from, final);
      if (block[at] === LF) {
        if (this.#firstLine && this.#pairedUp) return this.#rowEnds(from, at, at + 1);
        at += 1;
        if (this.#firstLine && this.columns !== null)
          this.#behind = rowsBehind(this.#delimiter, this.columns, at - from);
        this.#firstLine = false;
        this.#severalLines = true;
        this.#marks |= ESCAPED;
        if (this.#isOpen && this.#goesOnBehind(block, from, at, false)) return true;
        continue;
      }
      if (at + 1 === end && !final) return this.#more(at);
      const after = block[at + 1];
      if (after === QUOTE) {
        this.#marks |= DOUBLED | ESCAPED;
        at += 2;
      } else if (after === this.#delimiter || after === LF || after === CR || after === undefined) {
        this.#fieldEnds(at - from);
        this.#state = CLOSED;
        this.to = at + 1;
        return null;
      } else {
        this.#complaint ??= INNER_QUOTE;
        this.#isOpen = true;
        this.#pairedUp = !this.#pairedUp;
        at += 1;
      }
    }
  }

  /** Reads on outside of quotes, from `to` on. Null where they begin; else as `cut`. */
  #unquoted(block: Buffer, from: number, final: boolean): boolean | null {
    const kinds = this.#inPlain;
    const end = block.length;
    for (let at = this.to; ; at += 1) {
      const before = at;
      let seen = 0;
      while (at < end) {
        const kind = kinds[block[at]!]!;
        if (kind === STOP) break;
        seen |= kind;
        at += 1;
      }
      this.#marks |= seen;
      if (at > before) this.#state = PLAIN;
      if (at === end) return this.#blockEnds(block, from, final);
      const byte = block[at]!;
      if (byte === this.#delimiter) {
        if (this.#state !== CLOSED) this.#fieldEnds(at - from);
        this.#start = at + 1 - from;
        this.#marks = 0;
        this.#state = FIELD_START;
      } else if (byte === LF) {
        return this.#rowEnds(from, at, at + 1);
      } else if (byte === CR) {
        if (at + 1 === end && !final) return this.#more(at);
        return this.#rowEnds(from, at, block[at + 1] === LF ? at + 2 : at + 1);
      } else if (this.#state === FIELD_START) {
        this.#opens(at - from);
        this.to = at + 1;
        return null;
      } else {
        this.#complaint ??= BARE_QUOTE;
        this.#state = PLAIN;
      }
    }
  }

  #begin(): void {
    this.#isNew = false;
    this.#state = FIELD_START;
    this.#start = 0;
    this.#marks = 0;
    this.#complaint = null;
    this.#severalLines = false;
    this.fields.count = 0;
    this.fields.marks = 0;
  }

  /** A quote opens a field, `at` bytes into the row. */
  #opens(at: number): void {
    this.#state = QUOTED;
    this.#start += 1;
    this.#firstLine = true;
    this.#pairedUp = false;
    this.#isOpen = false;
    this.#isLost = at + this.dropped >= this.#longest;
    this.#behind = null;
  }

  /** The field from its start to `to`, from the beginning of the row. */
  #fieldEnds(to: number): void {
    const { fields } = this;
    const at = 3 * fields.count;
    if (at === fields.bounds.length) {
      const larger = new Int32Array(2 * at);
      larger.set(fields.bounds);
      fields.bounds = larger;
    }
    const { bounds } = fields;
    bounds[at] = this.#start;
    bounds[at + 1] = to;
    bounds[at + 2] = this.#marks;
    fields.count += 1;
    fields.marks |= this.#marks;
  }

  #more(at: number): boolean {
    this.to = at;
    return false;
  }

  #blockEnds(block: Buffer, from: number, final: boolean): boolean {
    const at = block.length;
    if (!final) return this.#more(at);
    if (this.#state === QUOTED) {
      if (this.#goesOnBehind(block, from, at, true)) return true;
      this.#complaint ??= NEVER_CLOSED;
    }
    return this.#rowEnds(from, at, at);
  }

  #rowEnds(from: number, to: number, next: number): boolean {
    if (this.#state !== CLOSED) this.#fieldEnds(to - from);
    this.to = to;
    this.next = next;
    this.void = to === from;
    this.complaint = this.#complaint;
    this.isPlain = !this.#severalLines && (this.fields.marks & WIDE) === 0;
    this.#isNew = true;
    return true;
  }

  /** Ends the row before the rows behind it, where there are some up to `end`. */
  #goesOnBehind(block: Buffer, from: number, end: number, final: boolean): boolean {
    const next = this.#isLost ? null : (this.#behind?.(block, from, end, final) ?? null);
    if (next === null) return false;
    this.#complaint = NOT_CLOSED;
    return this.#rowEnds(from, from + next - 1, from + next);
  }
}

/** How many delimiters in their places, and how many rows, it takes to count as rows; with one column, rows alone. */
const DELIMITERS = 8;
const ROWS = 2;
const ROWS_OF_ONE_COLUMN = 1024;
/** lines of a row behind a broken one: where it has more, it is taken for broken too, and the next line for the next row */
const LINES = 64;

/**
 * Reads on up to `end`. Where the first of the rows that fit begins, counted from `from`, the beginning of the broken row;
 * null where there are none yet. `final`: nothing comes behind `end`.
 */
type RowsBehind = (block: Buffer, from: number, end: number, final: boolean) => number | null;

/**
 * Behind a quote that is never closed: where the next rows of the table begin. The lines there are read as rows, once and in
 * one pass, and so many of them in a row must fit the header that no text in a field is taken for rows. `begin`: the first
 * line behind the quote, counted from the beginning of the broken row.
 */
function rowsBehind(delimiter: number, columns: number, begin: number): RowsBehind {
  const needed = columns === 1 ? ROWS_OF_ONE_COLUMN : Math.max(ROWS, Math.ceil(DELIMITERS / (columns - 1)));
  let reader = new CsvReader(delimiter);
  let row = begin;
  let at = begin;
  let lines = 0; // of the row so far
  let first = begin;
  let fitting = 0;
  return (block, from, end, final) => {
    while (from + at < end) {
      const lineEnd = block.indexOf(LF, from + at);
      const isCut = lineEnd < 0 || lineEnd >= end;
      const to = isCut ? end : lineEnd + 1;
      while (from + row < to && reader.cut(block.subarray(0, to), from + row, from + at, isCut && final)) {
        const fits = reader.complaint === null && reader.fields.count === columns;
        if (!reader.void) fitting = fits ? fitting + 1 : 0;
        if (fitting === 1 && !reader.void) first = row;
        if (fitting === needed) return first;
        row = at = reader.next - from;
        lines = 0;
      }
      if (from + row >= to) continue;
      at = reader.to - from;
      if (isCut) return null;
      lines += 1;
      if (lines < LINES) continue;
      reader = new CsvReader(delimiter); // its quotes are broken too
      row = at = to - from;
      lines = fitting = 0;
    }
    return null;
  };
}
