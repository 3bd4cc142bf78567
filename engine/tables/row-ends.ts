/**
 * Where one row of a source ends and the next begins, decided on bytes, block by block:
 *
 *   csv, tsv   a line end outside of quotes (see csv-rows.ts)
 *   ndjson     a line end
 *   json       a comma, or the closing bracket, of the outermost array
 *
 * A cutter remembers where in a row it is, so that a row over many blocks is scanned once.
 */
import { dataError } from '../core/item/failure.ts';

export interface Cutter {
  /**
   * Scans the row that begins at `from`, from `at` on. True where it ends in this block: at `to`, and the next one
   * begins at `next`. False where it does not: continue at `to` once there is more. `final`: there will be no more.
   */
  cut(block: Buffer, from: number, at: number, final: boolean): boolean;
  to: number;
  next: number;
  /** what was cut is no row: an empty line, the opening bracket */
  void: boolean;
  /** what is wrong with the quotes of the row */
  complaint: string | null;
  /** what was cut off the beginning of the row because it is too long to keep, in bytes; the caller's */
  dropped: number;
  /** the row is known to be ASCII and one line */
  isPlain: boolean;
}

/** The fields of the row that was cut; valid until the next one is. */
export interface FieldBounds {
  count: number;
  /** three numbers a field: where it begins and ends, from the beginning of the row and without its quotes, and its marks */
  bounds: Int32Array;
  /** the marks of all fields */
  marks: number;
}

const LF = 10;
const CR = 13;
const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const SPACE = 32;
const TAB = 9;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

const NOTHING = { to: 0, next: 0, void: false, complaint: null, dropped: 0, isPlain: false };

export function lineCutter(): Cutter {
  return {
    ...NOTHING,
    cut(block, from, at, final) {
      const end = block.indexOf(LF, at);
      this.to = end < 0 ? block.length : end;
      if (end < 0 && !final) return false;
      this.next = end < 0 ? block.length : end + 1;
      this.void = this.to === from || (this.to === from + 1 && block[from] === CR);
      return true;
    },
  };
}

const BEFORE = 0;
const INSIDE = 1;
const AFTER = 2;

/** The elements of one JSON array. Exit 65 where the text around them is no array, named by `source`. */
export function arrayCutter(source: string): Cutter {
  let place = BEFORE;
  let depth = 0;
  let inString = false;
  let escaped = false;
  let blank = true; // nothing but space since the last bracket or comma
  let first = true;

  return {
    ...NOTHING,
    cut(block, _from, at, final) {
      for (; at < block.length; at++) {
        const byte = block[at];
        if (inString) {
          if (escaped) escaped = false;
          else if (byte === BACKSLASH) escaped = true;
          else if (byte === QUOTE) inString = false;
          continue;
        }
        if (byte === SPACE || byte === LF || byte === CR || byte === TAB) continue;
        if (place === AFTER) {
          throw dataError(
            `${source}: expected nothing after the closing bracket of the array, found more text`,
          );
        }
        if (place === BEFORE) {
          if (byte !== OPEN_BRACKET)
            throw dataError(`${source}: expected an array of objects, found other text`);
          place = INSIDE;
          return end(this, at, at + 1, true);
        }
        if (depth === 0 && (byte === COMMA || byte === CLOSE_BRACKET)) {
          const none = byte === CLOSE_BRACKET && blank && first;
          if (byte === CLOSE_BRACKET) place = AFTER;
          first = false;
          blank = true;
          return end(this, at, at + 1, none);
        }
        blank = false;
        if (byte === QUOTE) inString = true;
        else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
        else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && depth > 0) depth -= 1;
      }
      this.to = at;
      if (!final) return false;
      if (place === INSIDE) {
        throw dataError(
          `${source}: expected the array to be closed, found the end of the input (is it cut off?)`,
        );
      }
      return end(this, at, at, true);
    },
  };

  function end(cutter: Cutter, to: number, next: number, none: boolean): boolean {
    cutter.to = to;
    cutter.next = next;
    cutter.void = none;
    return true;
  }
}
