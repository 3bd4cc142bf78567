/**
 * How many files and sockets this process may have open at a time (`ulimit -n`), and how they are shared out. Node has
 * no call for the limit: Linux says it in /proc, other systems in Node's own report. Where nobody says, none is known,
 * and what fails for want of a descriptor is found when it fails.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { ioError } from '../item/failure.ts';

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
let known: number | undefined;

function limit(): number {
  known ??= limitOf(readText('/proc/self/limits')) ?? reported() ?? Number.POSITIVE_INFINITY;
  return known;
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
    `expected to be allowed ${taken + LEAST_SOCKETS} open files at least, found a limit of ${limit}: ` +
      'raise it before the run, by ulimit -n 1024',
  );
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
