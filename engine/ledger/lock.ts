/**
 * One run at a time: two runs of the same thing would pay for the same answers. A lock names its process so that who
 * finds it can tell whether that one still lives: by host, boot and start time, since process ids are used again.
 */
import { createHash, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { usageError } from '../flow/failure.ts';

interface Holder {
  host: string;
  pid: number;
  /** of the machine's last start; null where the system does not say */
  boot: string | null;
  /** of the process, in clock ticks after boot; null where the system does not say */
  begun: string | null;
  since: string;
}

/** Takes the lock of `what` in `folder`; returns what gives it back. Exit 64 where a living run holds it. */
export function takeLock(folder: string, what: unknown): () => void {
  mkdirSync(folder, { recursive: true });
  const name = createHash('sha256').update(JSON.stringify(what)).digest('hex').slice(0, 16);
  const path = join(folder, `${name}.lock`);
  const own = `${path}.${randomBytes(4).toString('hex')}`;
  const holder = JSON.stringify(thisProcess());
  // written beside it and linked: a lock is there with all that it says, or not at all
  writeFileSync(own, holder, { flag: 'wx' });
  try {
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        linkSync(own, path);
        return () => rmSync(path, { force: true });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const found = textOf(path);
      if (found === null) continue;
      const other = holderIn(found);
      if (other === null || isAlive(other)) throw refusal(path, other);
      removeStale(path, found);
    }
    throw refusal(path, null);
  } finally {
    rmSync(own, { force: true });
  }
}

/** Two may find the same stale lock: who moves the other's fresh one away puts it back. */
function removeStale(path: string, stale: string): void {
  const aside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (textOf(aside) !== stale) {
    try {
      linkSync(aside, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  rmSync(aside, { force: true });
}

function refusal(path: string, holder: Holder | null): Error {
  const who = holder ? `process ${holder.pid} on ${holder.host}, since ${holder.since}` : 'somebody unknown';
  return usageError(
    `expected to be the only run of this kind on this ledger, found ${who}\n` +
      `wait for it or stop it; if it is gone, remove ${path}`,
  );
}

function thisProcess(): Holder {
  return {
    host: hostname(),
    pid: process.pid,
    boot: bootId(),
    begun: begunAt(process.pid),
    since: new Date().toISOString(),
  };
}

/** Another host's process cannot be looked at, so it counts as alive. */
function isAlive({ host, pid, boot, begun }: Holder): boolean {
  if (host !== hostname()) return true;
  if (boot !== bootId()) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  return begun === null || begun === begunAt(pid);
}

function holderIn(text: string): Holder | null {
  try {
    const holder = JSON.parse(text) as Holder;
    return typeof holder?.host === 'string' && Number.isInteger(holder.pid) ? holder : null;
  } catch {
    return null;
  }
}

const bootId = (): string | null => textOf('/proc/sys/kernel/random/boot_id')?.trim() ?? null;

/**
 * Field 22 of /proc/PID/stat (proc(5)); the name of the command, in brackets before it, may hold anything. Null too for
 * a process that has ended and whose parent has not asked.
 */
function begunAt(pid: number): string | null {
  const stat = textOf(`/proc/${pid}/stat`);
  const [state, ...rest] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return state === 'Z' ? null : (rest[18] ?? null);
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
