/**
 * The lines of a regular file, or the results of a whole legacy document, by where they are: for those who read a file
 * twice (merge, verify --ids) and must not keep its lines in between.
 */

import { dataError } from '../item/failure.ts';
import type { Item } from '../item/item.ts';
import { DocumentSplitter, putOnOneLine } from './document.ts';
import { isEmptyLine, type LineSource, longLine, parseLine } from './line.ts';
import { originOf } from './origin.ts';
import { BLOCK, openAgain, type ReadableAgain, shorter } from './reread.ts';

const NEWLINE = 10;

export { changed, openAgain } from './reread.ts';

/** Where a line is: bytes `offset` to `offset + length` of the file, its newline not counted. */
export interface Place {
  offset: number;
  length: number;
  /** from 1 */
  number: number;
}

export interface ScannedLine extends Place {
  /** bytes `from` to `from + length` of `block` are the line, unless it is longer than --max-line */
  block: Buffer;
  from: number;
}

export interface LineFile {
  /** Every line that is not empty, in order. The object is the same each time: copy what you keep. */
  scan(): Generator<ScannedLine | null>;
  /** The line at a place, as an item or a record; a failed item where it holds none. */
  read(place: Place): Item;
  /** The line under the scan. */
  item(line: ScannedLine): Item;
  close(): void;
}

/** Opens a file to read more than once. Exit 65 where there is none, 64 where it is no regular file. */
export function openLines(path: string, { stage, maxLine }: Omit<LineSource, 'name'>): LineFile {
  const file = openAgain(path);
  return { ...linesOf(file, { stage, maxLine, name: path }), close: file.close };
}

/** The lines of an open file. */
export function linesOf(file: ReadableAgain, source: LineSource): Omit<LineFile, 'close'> {
  const { path, size, readAt, windowOn } = file;
  const { maxLine } = source;
  return { scan, read, item };

  /** Between two blocks it yields null, where the reader may let the event loop have its turn. */
  function* scan(): Generator<ScannedLine | null> {
    const line: ScannedLine = { block: Buffer.alloc(0), from: 0, offset: 0, length: 0, number: 0 };
    let rest = Buffer.alloc(0);
    let restAt = 0; // offset of the rest in the file
    let skipped = false; // the rest is the end of a line that was too long to keep
    let lineAt = 0;
    for (let end = 0; end < size; ) {
      const block = Buffer.allocUnsafeSlow(rest.length + BLOCK);
      rest.copy(block);
      const got = readAt(block, rest.length, BLOCK, end);
      if (got === 0) throw shorter(path);
      end += got;
      const bytes = block.subarray(0, rest.length + got);
      let from = 0;
      for (let to = bytes.indexOf(NEWLINE, rest.length); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
        line.number += 1;
        const length = restAt + to - lineAt;
        if (!isEmptyLine(bytes, from, to, line.number) || skipped)
          yield Object.assign(line, { block: bytes, from, offset: lineAt, length });
        skipped = false;
        from = to + 1;
        lineAt = restAt + from;
      }
      rest = bytes.subarray(from);
      if (rest.length > maxLine) {
        skipped = true;
        rest = Buffer.alloc(0);
      }
      restAt = end - rest.length;
      yield null;
    }
    if (rest.length === 0 && !skipped) return;
    line.number += 1;
    const length = restAt + rest.length - lineAt;
    if (!isEmptyLine(rest, 0, rest.length, line.number) || skipped)
      yield Object.assign(line, { block: rest, from: 0, offset: lineAt, length });
  }

  function item(line: ScannedLine): Item {
    if (line.length > maxLine) return read(line);
    return parseLine(line.block, line.from, line.from + line.length, {
      checked: false,
      number: line.number,
      source,
    });
  }

  function read({ offset, length, number }: Place): Item {
    if (length > maxLine) return readLong(offset, length, number);
    const { block, from } = windowOn(offset, length);
    return parseLine(block, from, from + length, { checked: false, number, source });
  }

  function readLong(offset: number, length: number, number: number): Item {
    const long = longLine(source);
    for (let done = 0; done < length; ) {
      const block = Buffer.allocUnsafeSlow(Math.min(BLOCK, length - done));
      const got = readAt(block, 0, block.length, offset + done);
      if (got === 0) throw shorter(path);
      long.add(block.subarray(0, got));
      done += got;
    }
    return long.end(number);
  }
}

/** Characters of failed results that are kept of one document: each has its text in it. */
const MOST_KEPT = 64 * 1024 * 1024;
const KEPT = -1;

/**
 * The lines of a file, or the results of a whole document: what openLines is for lines alone. What is wrong with a
 * document has no place in it, and is kept.
 */
export function openResults(path: string, { stage, maxLine }: Omit<LineSource, 'name'>): LineFile {
  const source = { stage, maxLine, name: path };
  const file = openAgain(path);
  const lines = linesOf(file, source);
  const kept: Item[] = [];
  let keptLength = 0;
  let current: Item | null = null; // under the scan of a document

  return {
    *scan() {
      const isLines = yield* scanDocument();
      if (isLines) yield* lines.scan();
    },
    item: line => current ?? lines.item(line),
    read(place) {
      if (place.length === KEPT) return kept[place.offset] as Item;
      if (current === null) return lines.read(place);
      const { offset, length, number } = place;
      const { block, from } = file.windowOn(offset, length);
      putOnOneLine(block.subarray(from, from + length));
      return parseLine(block, from, from + length, { checked: false, number, source });
    },
    close: file.close,
  };

  /** Returns whether the file begins as lines, and then has given none of them. */
  function* scanDocument(): Generator<ScannedLine | null, boolean> {
    const splitting = new DocumentSplitter(source);
    let rest: Buffer | null = null;
    for (let end = 0; end < file.size; ) {
      const before: number = rest?.length ?? 0;
      const block = Buffer.allocUnsafeSlow(before + BLOCK);
      rest?.copy(block);
      const got = file.readAt(block, before, BLOCK, end);
      if (got === 0) throw shorter(path);
      end += got;
      const bytes = block.subarray(0, before + got);
      splitting.feed(bytes, before);
      for (let item = splitting.next(); item !== null; item = splitting.next()) {
        if (current === null && splitting.isLines) return true;
        yield placed(item, bytes, end);
      }
      rest = splitting.rest();
      yield null;
    }
    for (let item = splitting.finish(rest); item !== null; item = splitting.finish(null)) {
      if (current === null && splitting.isLines) return true;
      yield placed(item, rest, file.size);
    }
    return current === null;
  }

  /** `bytes` end at `end` of the file. */
  function placed(item: Item, bytes: Buffer | null, end: number): ScannedLine {
    current = item;
    const origin = originOf(item);
    const block = bytes ?? Buffer.alloc(0);
    if (origin === undefined) return { ...keep(item), block, from: 0 };
    const from = origin.block.byteOffset + origin.from - block.byteOffset;
    const isEnded = origin.block[origin.to - 1] === 10;
    const length = origin.to - origin.from - (isEnded ? 1 : 0);
    return { offset: end - block.length + from, length, number: origin.number, block, from };
  }

  function keep(item: Item): Place {
    keptLength += JSON.stringify(item).length;
    if (keptLength > MOST_KEPT) {
      throw dataError(
        `${path}: expected results, found more than ${MOST_KEPT} characters that are not results; fw fix-escapes may repair them, line by line`,
      );
    }
    kept.push(item);
    return { offset: kept.length - 1, length: KEPT, number: 0 };
  }
}
