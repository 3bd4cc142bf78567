/**
 * Inputs that are read twice, to be judged as a whole before anything is done with them. A file is opened again; what
 * comes through a pipe is copied to disk on the way, below TMPDIR.
 */
import { closeSync, readSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { ioError } from '../item/failure.ts';
import type { ByteInput } from './input-files.ts';
import { writeWhole } from './ndjson-out.ts';
import { openUnnamed } from './unnamed-file.ts';

const BLOCK = 1 << 20;

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
    async read(rest, again) {
      const got = await input.read(rest, again);
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
