/**
 * What is put aside on disk, in files that lose their names at once, so that nothing of them stays whatever becomes of
 * the process: texts of outputs that are sorted and longer than memory, and inputs that are read twice.
 */
import { closeSync, openSync, readSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ioError } from '../item/failure.ts';
import type { ByteInput } from './input-files.ts';
import { writeWhole } from './ndjson-out.ts';

let made = 0;

/** A file in `folder`, to be written and read; `what` is put there, for the message of exit 74. */
export function openUnnamed(folder: string, what: string): number {
  made += 1;
  const path = join(folder, `.fw-${process.pid}-${made}.aside`);
  let fd: number;
  try {
    fd = openSync(path, 'wx+', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw ioError(
      `expected to copy ${what} to a temporary file in ${folder}, found ${code}; set TMPDIR to another folder`,
    );
  }
  unlinkSync(path);
  return fd;
}

/** The bytes that were written there. */
export function readBack(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; ) {
    const got = readSync(fd, bytes, at, length - at, offset + at);
    if (got === 0) throw ioError(`expected ${length} bytes that were put aside, found ${at}`);
    at += got;
  }
  return bytes;
}

export interface Aside {
  readonly count: number;
  /** Texts of the same rank stay in their order. Throws (74) where the disk is full. */
  add(rank: number, text: string): void;
  /** The texts by rank, as UTF-8. */
  sorted(): Generator<Buffer>;
  close(): void;
}

/** Bytes that leave in one write. */
const ROOM = 256 * 1024;

/** Texts that are put aside in `folder`. */
export function openAside(folder: string): Aside {
  const fd = openUnnamed(folder, 'results');

  const ranks: number[] = [];
  const offsets = [0]; // the next text begins where one ends
  let count = 0;
  let safe = 0; // texts that the system has taken
  let waiting: Buffer[] = [];
  let waitingBytes = 0;

  return {
    get count() {
      return count;
    },
    add(rank, text) {
      const bytes = Buffer.from(text);
      ranks[count] = rank;
      offsets[count + 1] = (offsets[count] as number) + bytes.length;
      count += 1;
      waiting.push(bytes);
      waitingBytes += bytes.length;
      if (waitingBytes >= ROOM) flush();
    },
    *sorted() {
      flush();
      const order = new Uint32Array(count).map((_, index) => index);
      // two that have no rank differ by NaN
      order.sort((a, b) => (ranks[a] as number) - (ranks[b] as number) || a - b);
      for (const index of order) {
        const offset = offsets[index] as number;
        const length = (offsets[index + 1] as number) - offset;
        yield readBack(fd, offset, length);
      }
    },
    close: () => closeSync(fd),
  };

  /** What could not be written is not there: what is counted can be read. */
  function flush(): void {
    const bytes = Buffer.concat(waiting);
    waiting = [];
    waitingBytes = 0;
    try {
      writeWhole(fd, bytes, `results put aside in ${folder}`);
      safe = count;
    } finally {
      count = safe;
    }
  }
}

const BLOCK = 1 << 20;

/**
 * An input that is read twice, to be judged as a whole before anything is done with it. A file is opened again; what
 * comes through a pipe is copied to disk on the way, below TMPDIR.
 */
export interface Twice {
  first: ByteInput;
  /** What `first` read, once more. */
  again(): ByteInput;
}

export function twice(input: ByteInput): Twice {
  const reopened = input.reopened?.();
  if (reopened) return { first: input, again: () => reopened };
  const what = `what came from ${input.name}`;
  const fd = openUnnamed(tmpdir(), what);
  return { first: copied(input, fd, what), again: () => copyOf(input.name, fd) };
}

function copied(input: ByteInput, fd: number, what: string): ByteInput {
  return {
    name: input.name,
    get regular() {
      return input.regular;
    },
    close: () => input.close(),
    async read(rest, spare) {
      const got = await input.read(rest, spare);
      if (got !== null) writeWhole(fd, got.subarray(rest?.length ?? 0), `${what}, put aside in ${tmpdir()}`);
      return got;
    },
  };
}

function copyOf(name: string, fd: number): ByteInput {
  let position = 0;
  return {
    name,
    regular: true,
    read(rest) {
      const kept = rest?.length ?? 0;
      const block = Buffer.allocUnsafeSlow(kept + BLOCK);
      rest?.copy(block);
      let got: number;
      try {
        got = readSync(fd, block, kept, BLOCK, position);
      } catch (error) {
        throw ioError(`${name}: expected to read on, found ${(error as NodeJS.ErrnoException).code}`);
      }
      position += got;
      return got === 0 ? null : block.subarray(0, kept + got);
    },
    close: () => closeSync(fd),
  };
}
