/**
 * Files that people name: a file with its name is a whole one. While it is written it is
 * `<path>.<process>-<its start>-<PID namespace>-<random>@<host>.partial`. The random part keeps two runs to one path from
 * writing into each other, in whatever containers they are; by the rest others can tell whether its run is still
 * there. At the end it takes the place of the old file. An old one that held more is kept as `NAME.before`: a
 * pilot of three rows, or the few failures of a second pass, must not cost anybody the whole. Only this file knows the
 * names. What fw keeps for itself is written by durable.ts.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { ioError, usageError } from '../item/failure.ts';
import { counted, number } from '../item/wording.ts';
import { makeFolder } from './durable.ts';
import { begunAt, isRunning, pidNamespace } from './process.ts';

export interface Unfinished {
  /** where the name leads: a link's target, not the link */
  path: string;
  /** null for a device, a pipe or a file that the shell has opened, which is written as it is */
  partial: string | null;
}

/** The name under which to write the file `name`; `what` it is, for messages. Exit 64 where it is a folder. */
export function unfinished(name: string, what: string): Unfinished {
  const stat = statSync(name, { throwIfNoEntry: false });
  if (stat?.isDirectory()) throw usageError(`${what}: expected a file, found a folder: ${name}`);
  const path = whereTo(name, what);
  const isWrittenAsItIs = (stat && !stat.isFile()) || DESCRIPTOR.test(name);
  return { path: isWrittenAsItIs ? name : path, partial: isWrittenAsItIs ? null : partialOf(path) };
}

/** /dev/stderr may be a file, of a log: it is neither replaced nor emptied. */
const DESCRIPTOR = /^\/dev\/(?:std(?:in|out|err)$|fd\/)|^\/proc\//;

/** Links that lead on to links; Linux follows as many. */
const MOST_LINKS = 40;

/** Where a link leads in the end, be its file there or not yet; any other name as it is. */
function whereTo(name: string, what: string): string {
  const isLink = lstatSync(name, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink && existsSync(name)) return realpathSync(name);
  let at = name;
  for (let links = 0; links <= MOST_LINKS; links++) {
    if (lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return at;
    at = resolve(realpathSync(dirname(at)), readlinkSync(at));
  }
  throw usageError(`${what}: expected a file, found links that lead to no end: ${name}`);
}

const PARTIAL = '.partial';
const isPartial = (path: string): boolean => path.endsWith(PARTIAL);

/** Part of the name where the system does not say when a process started. */
const UNTOLD = '0';

const RANDOM = randomBytes(8).toString('hex');

/** The number in `pid:[4026531836]`. */
function namespaceId(): string {
  return /\d+/.exec(pidNamespace() ?? '')?.[0] ?? UNTOLD;
}

function partialOf(path: string): string {
  const owner = `${process.pid}-${begunAt(process.pid) ?? UNTOLD}`;
  return `${path}.${owner}-${namespaceId()}-${RANDOM}@${hostname()}${PARTIAL}`;
}

/** How to open a file for writing: what nobody else may have made, a link least of all, is made here or not at all. */
export function flagsFor(path: string): 'wx' | 'w' | 'a' {
  if (DESCRIPTOR.test(path)) return 'a';
  return path.includes(`-${RANDOM}@`) ? 'wx' : 'w';
}

const OWNER = /^([1-9]\d{0,9})-(\d{1,20})-(\d{1,20})-[0-9a-f]{16}@([^/@]{1,255})$/;

/** Of what ends in .partial: the part of the name behind that of the file. Version 0.1.0 wrote the process alone. */
const OLDER = /^[1-9]\d{0,9}$/;

/** The unfinished files of earlier runs to `path`; `isOver`: of a run on this machine that has ended. */
function leftoversOf(path: string): { file: string; isOver: boolean }[] {
  const folder = dirname(path);
  const prefix = `${basename(path)}.`;
  const ours = join(partialOf(path));
  return namesIn(folder).flatMap(name => {
    const file = join(folder, name);
    if (!name.startsWith(prefix) || !isPartial(name) || file === ours) return [];
    const owner = name.slice(prefix.length, -PARTIAL.length);
    const [, pid, begun, namespace, host = ''] = OWNER.exec(owner) ?? [];
    if (pid === undefined) return OLDER.test(owner) ? [{ file, isOver: false }] : [];
    const run = {
      host,
      namespace: pidNamespace(),
      pid: Number(pid),
      begun: begun === UNTOLD ? null : (begun ?? null),
    };
    // of another container nobody can tell from here
    return [{ file, isOver: namespace === namespaceId() && !isRunning(run) }];
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return []; // not there, or not to be read: then there is nothing to tell
  }
}

/**
 * Once `paths` have their names: removes what killed runs had left of them, and returns a line that says so, and lines
 * that name what may be another run's.
 */
export function clearLeftovers(paths: readonly string[]): string[] {
  const leftovers = paths.flatMap(leftoversOf);
  const [dead, others] = [true, false].map(isOver =>
    leftovers.filter(one => one.isOver === isOver).map(({ file }) => file),
  ) as [string[], string[]];
  for (const file of dead) rmSync(file, { force: true });
  return [
    ...(dead.length === 1 ? [`removed ${dead[0]}, which a run that was killed had left`] : []),
    ...(dead.length > 1
      ? [`removed ${number(dead.length)} unfinished files that killed runs had left, such as ${dead[0]}`]
      : []),
    ...others.map(file => `next to it is ${file}, of another run; if that is over, remove it`),
  ];
}

/** Whether a file is an old one that was kept. */
export function isKept(path: string): boolean {
  return /\.before(?:\.\d+)?$/.test(path);
}

/** Whether a file was kept, or is unfinished: it is no result. */
export function isAside(path: string): boolean {
  return isKept(path) || isPartial(path);
}

/** Gives the file `partial` its name, `path`; returns what there is to say of the old one. Exit 74. */
export function replace(partial: string, path: string): string[] {
  const before = extentOf(path, path);
  const now = before === 0 ? 0 : extentOf(partial, path);
  const notes: string[] = [];
  if (before > now) {
    const kept = placeFor(path, before);
    rename(path, kept);
    const amount = counted(before, isDocument(path) ? 'byte' : 'line');
    notes.push(`${path} had ${amount} and has ${number(now)} now; the old one is ${kept}`);
  }
  rename(partial, path);
  return notes;
}

/** Whether the file `path` holds more than `partial`, which would take its place. */
export function isLonger(path: string, partial: string): boolean {
  return extentOf(path, path) > extentOf(partial, path);
}

/** Writes a document beside the output. Returns what there is to say of an old file. Exit 74. */
export function writeDocument(name: string, text: string): string[] {
  const { path, partial } = unfinished(name, 'a file to write');
  const file = partial ?? path;
  try {
    makeFolder(dirname(path));
    writeFileSync(file, text, { flag: flagsFor(file) });
  } catch (error) {
    throw ioError(`expected to write ${name}, found ${(error as NodeJS.ErrnoException).code}`);
  }
  return partial === null ? [] : [...replace(partial, path), ...clearLeftovers([path])];
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
