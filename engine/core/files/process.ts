/** Processes by host, PID namespace, id and start: containers have ids of their own, and ids are used again. */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

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

/** A process of another host or another PID namespace cannot be looked at, so it counts as alive. */
export function isRunning({
  host,
  namespace,
  pid,
  begun,
}: {
  host: string;
  namespace: string | null;
  pid: number;
  begun: string | null;
}): boolean {
  if (host !== hostname() || namespace !== pidNamespace()) return true;
  const found = begunAt(pid);
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    // another user's, of which /proc may be hidden
    if (found === null) return true;
  }
  return begun === null || begun === found;
}
