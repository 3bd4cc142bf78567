/**
 * Who holds a lock, and whether that process still lives. It can be looked at by its id on this host, since this boot
 * and within this PID namespace; ids are used again, so its start counts too. Of any other process only the lock itself
 * tells: its holder renews it.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readKept } from '../../core/files/durable.ts';
import { begunAt, isRunning, pidNamespace } from '../../core/files/process.ts';

export interface Holder {
  host: string;
  pid: number;
  /** of the machine's last start; null where the system does not say */
  boot: string | null;
  /** the PID namespace, such as `pid:[4026531836]`: containers have their own; null where the system has none */
  namespace?: string | null;
  /** of the process, in clock ticks after boot; null where the system does not say */
  begun: string | null;
  since: string;
  /** ms between two renewals of the lock; absent in locks of version 0.1.0, which were not renewed */
  beat?: number;
  /** tells two locks of one process apart */
  token: string;
}

export function thisProcess(beat: number): Holder {
  return {
    host: hostname(),
    pid: process.pid,
    boot: bootId(),
    namespace: pidNamespace(),
    begun: begunAt(process.pid),
    since: new Date().toISOString(),
    beat,
    token: randomBytes(8).toString('hex'),
  };
}

/** `unseen` cannot be looked at from here. */
export function stateOf({ host, pid, boot, namespace, begun, beat }: Holder): 'lives' | 'gone' | 'unseen' {
  if (host !== hostname()) return 'unseen';
  // another start of this machine, or another machine that has the same name
  if (boot !== bootId()) return beat === undefined ? 'gone' : 'unseen';
  const own = pidNamespace();
  if (namespace !== undefined && namespace !== own) return 'unseen';
  return isRunning({ host, namespace: own, pid, begun }) ? 'lives' : 'gone';
}

/** null where the text is no lock that fw wrote. */
export function holderIn(text: string): Holder | null {
  try {
    const holder = JSON.parse(text) as Holder;
    return typeof holder?.host === 'string' && Number.isInteger(holder.pid) ? holder : null;
  } catch {
    return null;
  }
}

export function wordsOf(holder: Holder | null): string {
  return holder ? `process ${holder.pid} on ${holder.host}, since ${holder.since}` : 'somebody unknown';
}

/** Who holds the locks in a folder; none where there is none. */
export function holdersIn(folder: string): Holder[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  const texts = names.filter(name => name.endsWith('.lock')).map(name => readText(join(folder, name)));
  return texts.flatMap(text => (text === null ? null : holderIn(text)) ?? []);
}

const bootId = (): string | null => readText('/proc/sys/kernel/random/boot_id')?.trim() ?? null;

export function readText(path: string): string | null {
  try {
    return readKept(path).toString();
  } catch {
    return null;
  }
}
