/**
 * A file that is being written is `<path>.<process>-<its start>-<PID namespace>-<random>@<host>.partial`, and gets its
 * name when the run has ended: a file with its name is a whole one. The random part keeps two runs to one path from
 * writing into each other, in whatever containers they are; by the rest who finds the file can tell whether its run is
 * still there. Only this file knows the name.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { usageError } from '../item/failure.ts';
import { number } from '../item/wording.ts';
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

/** Part of the name where the system does not say when a process started. */
const UNTOLD = '0';

const RANDOM = randomBytes(8).toString('hex');

/** The number in `pid:[4026531836]`. */
function namespaceId(): string {
  return /\d+/.exec(pidNamespace() ?? '')?.[0] ?? UNTOLD;
}

function partialOf(path: string): string {
  const owner = `${process.pid}-${begunAt(process.pid) ?? UNTOLD}`;
  return `${path}.${owner}-${namespaceId()}-${RANDOM}@${hostname()}.partial`;
}

/** How to open a file for writing: what nobody else may have made, a link least of all, is made here or not at all. */
export function flagsFor(path: string): 'wx' | 'w' | 'a' {
  if (DESCRIPTOR.test(path)) return 'a';
  return path.includes(`-${RANDOM}@`) ? 'wx' : 'w';
}

const OWNER = /^([1-9]\d{0,9})-(\d{1,20})-(\d{1,20})-[0-9a-f]{16}@([^/@]{1,255})$/;

/** Of what ends in .partial: the part of the name behind that of the file. Version 0.1.0 wrote the process alone. */
const OLDER = /^[1-9]\d{0,9}$/;

export interface Leftovers {
  /** of runs on this machine that have ended, so that nobody writes them any more */
  dead: string[];
  /** of runs that are going on, or on machines that cannot be asked from here */
  others: string[];
}

/** The unfinished files of earlier runs to `path`, this run's own not among them. */
function leftoversOf(path: string): Leftovers {
  const found: Leftovers = { dead: [], others: [] };
  const folder = dirname(path);
  const prefix = `${basename(path)}.`;
  const own = partialOf(path);
  for (const name of namesIn(folder)) {
    if (!name.startsWith(prefix) || !name.endsWith('.partial')) continue;
    const file = join(folder, name);
    if (file === join(own)) continue;
    const owner = name.slice(prefix.length, -'.partial'.length);
    const [, pid, begun, namespace, host] = OWNER.exec(owner) ?? [];
    if (pid !== undefined && host !== undefined) {
      // of another container nobody can tell from here
      const isNear = namespace === namespaceId();
      const known = { host, namespace: pidNamespace(), pid: Number(pid) };
      const isOver = isNear && !isRunning({ ...known, begun: begun === UNTOLD ? null : (begun ?? null) });
      (isOver ? found.dead : found.others).push(file);
    } else if (OLDER.test(owner)) found.others.push(file);
  }
  return found;
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
  const found = paths.map(leftoversOf);
  const dead = found.flatMap(each => each.dead);
  const others = found.flatMap(each => each.others);
  for (const file of dead) rmSync(file, { force: true });
  return [
    ...(dead.length === 1 ? [`removed ${dead[0]}, which a run that was killed had left`] : []),
    ...(dead.length > 1
      ? [`removed ${number(dead.length)} unfinished files that killed runs had left, such as ${dead[0]}`]
      : []),
    ...others.map(file => `next to it is ${file}, of another run; if that is over, remove it`),
  ];
}
