/**
 * The outputs of a pipeline file: one path, or one for each value of `{ordering}` in it. Lines go to `<path>.partial`
 * and the file gets its name when the run has ended, so a file with its name is a whole one.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { ioError } from './failure.ts';
import type { Item } from './item.ts';
import { type Frame, type OnBroken, type Output, toFile } from './output.ts';

/** Files that a run may have open; 24 orderings are the most that anyone has asked for. */
const MOST = 256;

export interface FilesOutput extends Output {
  /** Gives every file its name; returns the paths. */
  finish(): string[];
  /** The paths of what was written so far. */
  partial(): string[];
}

/** `pathOf` gives the path for a line. */
export function toFiles(pathOf: (line: Item) => string, onBroken: OnBroken, frame?: Frame): FilesOutput {
  const open = new Map<string, { fd: number; output: Output }>();
  const outputFor = (path: string): Output => {
    const known = open.get(path);
    if (known) return known.output;
    if (open.size === MOST) {
      throw ioError(
        `expected at most ${MOST} output files, found one more: ${path}; look at {ordering} in output`,
      );
    }
    mkdirSync(dirname(path), { recursive: true });
    const partial = `${path}.partial`;
    const fd = openSync(partial, 'w');
    const output = toFile(fd, partial, onBroken, frame);
    open.set(path, { fd, output });
    return output;
  };
  return {
    write: line => outputFor(pathOf(line)).write(line),
    ready: act => act(),
    async end(complete) {
      for (const { output } of open.values()) await output.end(complete);
    },
    finish() {
      for (const [path, { fd }] of open) {
        fsyncSync(fd);
        closeSync(fd);
        renameSync(`${path}.partial`, path);
      }
      return [...open.keys()];
    },
    partial: () => [...open.keys()].map(path => `${path}.partial`),
  };
}
