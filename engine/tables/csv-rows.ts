/**
 * Rows of CSV, found in bytes in one pass: where a row ends, and where in it each field lies (RFC 4180; \n, \r\n and a
 * lone \r all end a row).
 *
 * Broken quotes leave open where their row ends; the rule is to lose as little as possible around it: in a quoted field
 * a quote that closes nothing is text, so that the row continues to a quote that does close; except that a field such as
 * `"a"b`, whose quotes on its first line pair up, ends with that line; and that the row ends before lines which are rows
 * of the table (see csv-behind.ts). These are looked for once it is certain that the quotes are broken: where a quote in
 * the field closes nothing, where the row gets longer than is kept, and at the end of the input.
 */
import { type RowsBehind, rowsBehind } from './csv-behind.ts';
import type { CsvReader, Cutter, FieldBounds } from './row-ends.ts';

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

/** `longest`: bytes of a row that are kept. */
export function csvReader(delimiter: number, longest = Number.POSITIVE_INFINITY): CsvReader {
  const inPlain = IN_PLAIN.get(delimiter) ?? kindsOf([delimiter, LF, CR, QUOTE]);
  IN_PLAIN.set(delimiter, inPlain);
  const fields: FieldBounds = { count: 0, bounds: new Int32Array(3 * 64), marks: 0 };
  let state = FIELD_START;
  let start = 0; // of the field, from the beginning of the row
  let marks = 0; // of the field
  let firstLine = true; // still on the line on which the quoted field was opened
  let pairedUp = false; // the quotes of that line so far come in pairs
  let isOpen = false; // a quote in the field closes nothing, so that perhaps it is none of its quotes
  let isLost = false; // the beginning of the row is no longer kept, so that nothing can begin behind it
  let behind: RowsBehind | null = null;
  let complaint: string | null = null;
  let isNew = true; // a row begins
  let severalLines = false;

  return {
    to: 0,
    next: 0,
    void: false,
    complaint: null,
    isPlain: true,
    dropped: 0,
    fields,
    columns: null,
    cut(block, from, at, final) {
      if (isNew) begin();
      const end = block.length;
      for (;;) {
        if (state === QUOTED) {
          const stop = isLost ? end : Math.min(end, from + longest);
          let seen = 0; // in a variable of the loop, which costs a third of one that outlives it
          while (at < stop) {
            const kind = IN_QUOTES[block[at]!]!;
            if (kind === STOP) break;
            seen |= kind;
            at += 1;
          }
          marks |= seen;
          if (!isLost && at - from >= longest) {
            if (goesOnBehind(this, block, from, from + longest, false)) return true;
            isLost = true;
            continue;
          }
          if (at === end) break;
          if (block[at] === LF) {
            if (firstLine && pairedUp) return rowEnds(this, from, at, at + 1);
            at += 1;
            if (firstLine && this.columns !== null)
              behind = rowsBehind(() => csvReader(delimiter), this.columns, at - from);
            firstLine = false;
            severalLines = true;
            marks |= ESCAPED;
            if (isOpen && goesOnBehind(this, block, from, at, false)) return true;
            continue;
          }
          if (at + 1 === end && !final) return more(this, at);
          const after = block[at + 1];
          if (after === QUOTE) {
            marks |= DOUBLED | ESCAPED;
            at += 2;
          } else if (after === delimiter || after === LF || after === CR || after === undefined) {
            fieldEnds(at - from);
            state = CLOSED;
            at += 1;
          } else {
            complaint ??= INNER_QUOTE;
            isOpen = true;
            pairedUp = !pairedUp;
            at += 1;
          }
          continue;
        }
        const before = at;
        let seen = 0;
        while (at < end) {
          const kind = inPlain[block[at]!]!;
          if (kind === STOP) break;
          seen |= kind;
          at += 1;
        }
        marks |= seen;
        if (at > before) state = PLAIN;
        if (at === end) break;
        const byte = block[at]!;
        if (byte === delimiter) {
          if (state !== CLOSED) fieldEnds(at - from);
          at += 1;
          start = at - from;
          marks = 0;
          state = FIELD_START;
        } else if (byte === LF) {
          return rowEnds(this, from, at, at + 1);
        } else if (byte === CR) {
          if (at + 1 === end && !final) return more(this, at);
          return rowEnds(this, from, at, block[at + 1] === LF ? at + 2 : at + 1);
        } else if (state === FIELD_START) {
          state = QUOTED;
          start += 1;
          firstLine = true;
          pairedUp = false;
          isOpen = false;
          isLost = at - from + this.dropped >= longest;
          behind = null;
          at += 1;
        } else {
          complaint ??= BARE_QUOTE;
          state = PLAIN;
          at += 1;
        }
      }
      if (!final) return more(this, at);
      if (state === QUOTED) {
        if (goesOnBehind(this, block, from, end, true)) return true;
        complaint ??= NEVER_CLOSED;
      }
      return rowEnds(this, from, at, at);
    },
  };

  /** Ends the row before the rows behind it, where there are some up to `end`. */
  function goesOnBehind(cutter: Cutter, block: Buffer, from: number, end: number, final: boolean): boolean {
    const next = isLost || behind === null ? null : behind.look(block, from, end, final);
    if (next === null) return false;
    complaint = NOT_CLOSED;
    return rowEnds(cutter, from, from + next - 1, from + next);
  }

  function begin(): void {
    isNew = false;
    state = FIELD_START;
    start = 0;
    marks = 0;
    complaint = null;
    severalLines = false;
    fields.count = 0;
    fields.marks = 0;
  }

  /** The field from `start` to `to`, from the beginning of the row. */
  function fieldEnds(to: number): void {
    let { bounds } = fields;
    const at = 3 * fields.count;
    if (at === bounds.length) {
      fields.bounds = new Int32Array(2 * at);
      fields.bounds.set(bounds);
      bounds = fields.bounds;
    }
    bounds[at] = start;
    bounds[at + 1] = to;
    bounds[at + 2] = marks;
    fields.count += 1;
    fields.marks |= marks;
  }

  function more(cutter: Cutter, at: number): boolean {
    cutter.to = at;
    return false;
  }

  function rowEnds(cutter: Cutter, from: number, to: number, next: number): boolean {
    if (state !== CLOSED) fieldEnds(to - from);
    cutter.to = to;
    cutter.next = next;
    cutter.void = to === from;
    cutter.complaint = complaint;
    cutter.isPlain = !severalLines && (fields.marks & WIDE) === 0;
    isNew = true;
    return true;
  }
}
