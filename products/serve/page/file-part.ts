/** A part of a file of lines, found by the place of its first byte: so that a file of any size is looked through with bounded reading. */
import { type FileHandle, open } from 'node:fs/promises';

export interface LineAt {
  /** place of its first byte, and its length without the newline */
  at: number;
  length: number;
  /** null where it is longer than what is shown of a line */
  text: string | null;
}

export interface Slice {
  lines: LineAt[];
  /** bytes of the file */
  size: number;
  /** where the lines before these begin, and those behind; null where there are none */
  before: number | null;
  next: number | null;
}

const BLOCK = 64 * 1024;
/** bytes of a line that is read, and of all lines that are read at once */
const MOST_LINE = 1024 * 1024;
const MOST_LINES = 4 * MOST_LINE;
/** bytes that are searched for ends of lines */
const MOST_SEARCHED = 64 * MOST_LINE;
const NEWLINE = 0x0a;

/**
 * Up to `count` whole lines from `from` on; null where no line begins there, or no file is. A last line without a newline is not whole.
 * Of those that are `wanted` there may be none in what is read at once: then there is a next part, and none before is known.
 */
export async function linesAt(
  path: string,
  from: number,
  count: number,
  wanted?: (line: LineAt) => boolean,
): Promise<Slice | null> {
  const file = await open(path).catch(error => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null; // deleted meanwhile
    throw error;
  });
  if (file === null) return null;
  try {
    const { size } = await file.stat();
    if (!Number.isSafeInteger(from) || from < 0 || from > size) return null;
    if (from > 0 && (await read(file, from - 1, 1))[0] !== NEWLINE) return null;
    const { lines, end } = await forward(file, from, size, { count, wanted });
    const before = from === 0 || wanted !== undefined ? null : await backward(file, from, count);
    return { lines, size, before, next: end < size && end > from ? end : null };
  } finally {
    await file.close();
  }
}

async function read(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, at);
  return buffer.subarray(0, bytesRead);
}

async function forward(
  file: FileHandle,
  from: number,
  size: number,
  { count, wanted }: { count: number; wanted: ((line: LineAt) => boolean) | undefined },
) {
  const lines: LineAt[] = [];
  let end = from; // behind the last whole line
  let kept: Buffer[] = [];
  let sum = 0;
  for (let at = from; at < size && at - from < MOST_SEARCHED; at += BLOCK) {
    const block = await read(file, at, BLOCK);
    for (let start = 0; start < block.length; ) {
      const found = block.indexOf(NEWLINE, start);
      const stop = found < 0 ? block.length : found;
      if (at + stop - end <= MOST_LINE) kept.push(block.subarray(start, stop));
      start = stop + 1;
      if (found < 0) break;
      const length = at + stop - end;
      const line = { at: end, length, text: length <= MOST_LINE ? Buffer.concat(kept).toString() : null };
      if (wanted === undefined || wanted(line)) {
        lines.push(line);
        sum += Math.min(length, MOST_LINE);
      }
      end = at + start;
      kept = [];
      if (lines.length === count || sum >= MOST_LINES) return { lines, end };
    }
  }
  return { lines, end };
}

/** Where the `count` lines before `from` begin; fewer, where they are very long. */
async function backward(file: FileHandle, from: number, count: number): Promise<number> {
  let left = count;
  let first = from;
  for (let end = from - 1; end > 0 && from - end < MOST_SEARCHED; ) {
    const start = Math.max(0, end - BLOCK);
    const block = await read(file, start, end - start);
    for (
      let at = block.lastIndexOf(NEWLINE);
      at >= 0;
      at = at === 0 ? -1 : block.lastIndexOf(NEWLINE, at - 1)
    ) {
      first = start + at + 1;
      left -= 1;
      if (left === 0) return first;
    }
    end = start;
    if (start === 0) return 0;
  }
  return first === from ? 0 : first;
}
