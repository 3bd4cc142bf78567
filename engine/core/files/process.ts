/**
 * What the system says of processes and of open files.
 *
 * A process is known by host, PID namespace, id and start: containers have ids of their own, and ids are used again. How
 * many files and sockets this one may have open at a time (`ulimit -n`) Linux says in /proc, other systems in Node's own
 * report. Where nobody says, none is known, and what fails for want of a descriptor is found when it fails.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { ioError } from '../item/failure.ts';

/**
 * The start of a process in clock ticks after boot, field 22 of /proc/PID/stat (proc(5)); the name of the command, in
 * brackets before it, may hold anything. Null where the system does not say, and for a process that has ended and whose
 * parent has not asked.
 */
export function begunAt(pid: number): string | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null;
  }
  const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' ? null : (rest[18] ?? null);
}

/** The PID namespace of this process, such as `pid:[4026531836]`; null where the system has none. */
export function pidNamespace(): string | null {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return null;
  }
}

export interface ProcessName {
  host: string;
  namespace: string | null;
  pid: number;
  begun: string | null;
}

/** A process of another host or another PID namespace cannot be looked at, so it counts as alive. */
export function isRunning({ host, namespace, pid, begun }: ProcessName): boolean {
  if (host !== hostname() || namespace !== pidNamespace()) return true;
  const start = begunAt(pid);
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    // another user's, of which /proc may be hidden
    if (start === null) return true;
  }
  return begun === null || begun === start;
}

export interface Descriptors {
  /** the soft limit; infinite where it is not known */
  limit: number;
  /** open by now */
  open: number;
}

export function descriptors(): Descriptors {
  return { limit: limit(), open: open() };
}

/** Node raises the soft limit to the hard one as it starts, and then nothing moves it. */
let softLimit: number | undefined;

function limit(): number {
  softLimit ??= limitOf(readText('/proc/self/limits')) ?? reported() ?? Number.POSITIVE_INFINITY;
  return softLimit;
}

/** The soft limit in the text of /proc/PID/limits (proc(5)). */
export function limitOf(limits: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)\s/m.exec(limits)?.[1];
  return soft === undefined ? undefined : soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

function reported(): number | undefined {
  const { userLimits } = process.report.getReport() as unknown as {
    userLimits?: { open_files?: { soft?: unknown } };
  };
  const soft = Number(userLimits?.open_files?.soft);
  return soft > 0 ? soft : undefined;
}

/** What Node has open before anything else is. */
const AT_START = 24;

function open(): number {
  for (const folder of ['/proc/self/fd', '/dev/fd']) {
    try {
      return readdirSync(folder).length;
    } catch {
      // the next one
    }
  }
  return AT_START;
}

/** Files of a ledger that are kept open for reading, of those that a run may have open at a time. */
export function readersOf({ limit }: Descriptors): number {
  return Math.min(64, Math.max(2, Math.floor(limit / 16)));
}

/** Outputs, inputs, side files, the ledger's own, a name that is looked up: what comes and goes beside the sockets. */
const LEAST_SPARE = 12;
const MOST_SPARE = 40;
/** Sockets without which a run is not worth beginning. */
const LEAST_SOCKETS = 4;

/** Connections that a run may have open; what it needs beside them is left over. Exit 74 where next to none are left. */
export function socketsOf({ limit, open }: Descriptors): number {
  const spare = Math.min(MOST_SPARE, Math.max(LEAST_SPARE, Math.floor(limit / 8)));
  const taken = open + readersOf({ limit, open }) + spare;
  if (limit - taken >= LEAST_SOCKETS) return limit - taken;
  throw ioError(
    `expected a limit of at least ${taken + LEAST_SOCKETS} open files, found ${limit}: ` +
      'raise it before the run with ulimit -n 1024',
  );
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
