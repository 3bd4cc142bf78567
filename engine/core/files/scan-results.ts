/**
 * The lines of a regular file, or the results of a whole legacy document, by where they are: what openLines is for
 * lines alone. What is wrong with a document has no place in it, and is kept.
 */

import { dataError } from '../item/failure.ts';
import type { Item } from '../item/item.ts';
import { DocumentSplitter, putOnOneLine } from './document.ts';
import { type LineSource, parseLine } from './line.ts';
import { type LineFile, linesOf, type Place, type ScannedLine } from './line-places.ts';
import { originOf } from './origin.ts';
import { BLOCK, openAgain, shorter } from './reread.ts';

/** Characters of failed results that are kept of one document: each has its text in it. */
const MOST_KEPT = 64 * 1024 * 1024;
const KEPT = -1;

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
        `${path}: expected results, found more than ${MOST_KEPT} characters that are none; fw fix-escapes may mend them, line by line`,
      );
    }
    kept.push(item);
    return { offset: kept.length - 1, length: KEPT, number: 0 };
  }
}
