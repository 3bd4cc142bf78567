/** Whether a file is NDJSON that may be cut behind any newline, told by its beginning. */
import { documentSplitter } from './document.ts';
import type { FileInput } from './input.ts';
import { hasMark } from './line.ts';
import type { LineSplitter } from './lines.ts';
import { isSpace } from './skim.ts';

/** bytes read at once */
const HEAD = 1 << 16;

/**
 * True for lines and for nothing at all, false for a document; and false for a file that begins with space, which is
 * passed over as long as a document may come. Reads as far as that takes, at most `maxLine` and a block.
 */
export function holdsLines(file: FileInput, maxLine: number): boolean {
  let areLines = false;
  const lines: LineSplitter = {
    feed() {
      areLines = true;
    },
    next: () => null,
    rest: () => null,
    lease: () => null,
    finish: () => null,
  };
  const document = documentSplitter({ stage: '', name: file.name, maxLine }, () => lines);
  let rest: Buffer | null = null;
  for (let isFirst = true; ; isFirst = false) {
    const kept: number = rest?.length ?? 0;
    const block = Buffer.alloc(kept + HEAD);
    rest?.copy(block);
    const got = file.fill(block, kept);
    if (got === 0) {
      document.finish(rest);
      return areLines || isFirst;
    }
    if (isFirst && isSpace(block[hasMark(block, 0) ? 3 : 0])) return false;
    document.feed(block.subarray(0, kept + got), kept);
    const item = document.next();
    if (areLines || item !== null) return areLines;
    rest = document.rest();
  }
}
