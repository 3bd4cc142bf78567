/**
 * A finished file takes the place of the old one of its name. An old one that held more is kept as `NAME.before`: a pilot
 * of three rows, or the few failures of a second pass, must not cost anybody the whole.
 */
import { closeSync, openSync, readSync, renameSync, statSync } from 'node:fs';
import { ioError } from '../item/failure.ts';
import { counted, number } from '../item/wording.ts';

const BEFORE = /\.before(?:\.\d+)?$/;
const PARTIAL = /\.partial$/;

/** Whether a file is an old one that was kept. */
export function isKept(path: string): boolean {
  return BEFORE.test(path);
}

/** Whether a file was kept, or is unfinished: who means the results does not mean it. */
export function isAside(path: string): boolean {
  return isKept(path) || PARTIAL.test(path);
}

/** Gives the file `partial` its name, `path`; returns what there is to say of the old one. Exit 74. */
export function replace(partial: string, path: string): string[] {
  const was = extentOf(path, path);
  const is = was === 0 ? 0 : extentOf(partial, path);
  const said: string[] = [];
  if (was > is) {
    const kept = placeFor(path, was);
    rename(path, kept);
    said.push(`${path} had ${amount(was, path)} and has ${number(is)} now; the old one is ${kept}`);
  }
  rename(partial, path);
  return said;
}

/** Whether the file `path` holds more than `partial`, which would take its place. */
export function isLonger(path: string, partial: string): boolean {
  return extentOf(path, path) > extentOf(partial, path);
}

/** The first of `.before`, `.before.2`, … that is free, or holds no more than what is to be kept. */
function placeFor(path: string, extent: number): string {
  for (let count = 1; ; count++) {
    const kept = `${path}.before${count === 1 ? '' : `.${count}`}`;
    if (extentOf(kept, path) <= extent) return kept;
  }
}

function rename(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    throw ioError(`expected to name ${from} ${to}, found ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** Documents have a line, or as many as they like, and Parquet has none. */
const isDocument = (name: string): boolean => /\.(?:json|parquet)$/.test(name);

function amount(extent: number, name: string): string {
  return counted(extent, isDocument(name) ? 'byte' : 'line');
}

/** Lines, or the bytes of a document, as the file that is to be called `name` is one; 0 where there is no file. */
function extentOf(path: string, name: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile()) return 0;
  return isDocument(name) || stat.size === 0 ? stat.size : linesIn(path);
}

const BLOCK = 1 << 20;
const LF = 10;

function linesIn(path: string): number {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    throw ioError(`expected to count the lines of ${path}, found ${(error as NodeJS.ErrnoException).code}`);
  }
  const block = Buffer.allocUnsafe(BLOCK);
  let lines = 0;
  let last = LF;
  try {
    for (let got = 0; ; ) {
      got = readSync(fd, block, 0, BLOCK, null);
      if (got === 0) return lines + (last === LF ? 0 : 1);
      const bytes = block.subarray(0, got);
      for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++;
      last = bytes[got - 1] as number;
    }
  } finally {
    closeSync(fd);
  }
}
