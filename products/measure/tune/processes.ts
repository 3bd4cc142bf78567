/**
 * Processes of a server that was started here: all of its process group, and those that left the group and were left
 * behind. The latter are known by a variable of their environment, which children inherit: nothing that does not carry the
 * mark of this folder is ever ended. Systems without /proc have the group alone.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { begunAt } from '../../../engine/core/files/process.ts';
import { visible } from '../../../engine/core/json/visible.ts';

export const MARK = 'FW_TUNE_SERVER';

export interface Marked {
  pid: number;
  /** its start, so that another process that got the same id is not taken for it */
  begun: string;
  name: string;
}

/** Processes that carry the mark, in the order of their ids. */
export function markedBy(mark: string): Marked[] {
  const wanted = `\0${MARK}=${mark}\0`;
  return pids().flatMap(pid => {
    const begun = begunAt(pid);
    if (begun === null || !textOf(`/proc/${pid}/environ`).includes(wanted)) return [];
    return [{ pid, begun, name: visible(textOf(`/proc/${pid}/comm`).slice(1, -2)) || 'unknown' }];
  });
}

/** Whether any process of the group runs; one that has ended and was not asked for does not. */
export function isGroupAlive(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch (error) {
    // EPERM: one of them has another owner, and runs
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
  const all = pids();
  return all.length === 0 || all.some(pid => groupOf(pid) === group);
}

/** Field 5 of /proc/PID/stat (proc(5)), of a process that runs. */
function groupOf(pid: number): number | null {
  const stat = textOf(`/proc/${pid}/stat`);
  const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' || state === 'X' || group === undefined ? null : Number(group);
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has ended meanwhile
  }
}

export function signalMarked({ pid, begun }: Marked, name: NodeJS.Signals): void {
  if (begunAt(pid) === begun) signal(pid, name);
}

export const isMarkedAlive = ({ pid, begun }: Marked): boolean => begunAt(pid) === begun;

function pids(): number[] {
  try {
    return readdirSync('/proc')
      .filter(name => /^\d{1,10}$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** With a zero byte at both ends, so that an entry of an environment is found whole; empty where it cannot be read. */
function textOf(path: string): string {
  try {
    return `\0${readFileSync(path, 'latin1')}\0`;
  } catch {
    return '';
  }
}
