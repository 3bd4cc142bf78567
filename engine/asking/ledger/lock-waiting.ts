/**
 * Waiting for a lock that is held. Its time of change is compared with itself and never with a clock of this machine; who
 * does not renew it for twelve beats is gone. One that was only suspended finds its lock taken over when it continues, and
 * stops.
 */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Found,
  Held,
  type Holder,
  type Lock,
  type LockOptions,
  readText,
  stateOf,
  takeLock,
  wordsOf,
} from './lock.ts';

/** beats without a renewal after which a holder is gone */
const SILENT = 12;
/** ms; what somebody else wrote into a lock is no reason to wait for days */
const LONGEST_BEAT = 60_000;

export interface Watching {
  warn: (message: string) => void;
  signal: AbortSignal;
}

/** `open` is handed the texts of locks whose holders are gone, and called again where it found one that may be. */
export async function whenFree<T>(
  open: (gone: ReadonlySet<string>) => T,
  { warn, signal }: Watching,
): Promise<T> {
  const gone = new Set<string>();
  for (;;) {
    try {
      return open(gone);
    } catch (error) {
      const found = error instanceof Held ? error.found : null;
      if (found === null || !isToWatch(found) || gone.has(found.text)) throw error;
      const { path, text, holder } = found;
      const { name } = (error as Held).what;
      const beat = beatOf(holder);
      warn(
        `${name} is locked by ${wordsOf(holder)}, which cannot be checked from this machine; ` +
          `waiting ${(SILENT * beat) / 1000} s to see whether it is alive`,
      );
      if (await isRenewed(path, text, beat, signal)) throw error;
      gone.add(text);
    }
  }
}

/** Whether its holder cannot be looked at, and renews it while it lives. */
const isToWatch = ({ holder }: Found): boolean =>
  holder !== null && stateOf(holder) === 'unseen' && holder.beat !== undefined;

/** ms between two renewals, as its holder says it. */
const beatOf = (holder: Holder | null): number =>
  Math.min(LONGEST_BEAT, Math.max(1, Number(holder?.beat) || 0));

/** ms in which a lock that is held for a moment is asked for again, and between two times at most */
const MOMENT = 10_000;
const AGAIN = 100;

/** For what holds a lock no longer than it takes to write a file: the others are waited for, each in its turn. */
export async function inTurn<T>(open: () => T): Promise<T> {
  const until = performance.now() + MOMENT;
  for (;;) {
    try {
      return open();
    } catch (error) {
      if (!(error instanceof Held) || performance.now() >= until) throw error;
      await pause(AGAIN * Math.random());
    }
  }
}

/** Holds a folder of this process alone, waiting as `whenFree` does; `hint` is for who finds it held. */
export function lockFolder(
  folder: string,
  as: string,
  { hint, onLost, ...watching }: Watching & Pick<LockOptions, 'onLost'> & { hint: string },
): Promise<Lock> {
  const what = { name: folder, hint };
  return whenFree(gone => takeLock(join(folder, 'locks'), as, { gone, what, onLost }), watching);
}

async function isRenewed(path: string, text: string, beat: number, signal: AbortSignal): Promise<boolean> {
  const before = changedAt(path);
  for (let beats = 0; beats < SILENT; beats++) {
    await pause(beat, undefined, { signal }).catch(() => {});
    if (signal.aborted) return true;
    // another text: it is another's by now, or was given back, and who opens finds out
    if (readText(path) !== text) return false;
    if (changedAt(path) !== before) return true;
  }
  return false;
}

/** In ns; by way of opening it, since network file systems ask the server only then. Null where it is not there. */
function changedAt(path: string): bigint | null {
  try {
    const file = openSync(path, 'r');
    try {
      return fstatSync(file, { bigint: true }).mtimeNs;
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
}

/** ms between two looks of one that stands by */
const GLANCE = 200;

export interface StandingBy extends Pick<Watching, 'signal'>, Pick<LockOptions, 'onLost' | 'beat'> {
  /** told who has the lock, each time that it is another one; and that this one has not renewed it for so many ms */
  waitsFor(holder: string): void;
  isSilent(holder: string, ms: number): void;
}

/**
 * Takes the lock of a folder once nobody has it any more: it was given back, its holder has died, or has not renewed it for
 * twelve beats, whether it is a process that can be looked at or not. Null where `signal` has ended the waiting. Looks are counted and not
 * time: one that was frozen itself has not seen the others silent meanwhile.
 */
export async function standBy(
  folder: string,
  as: string,
  { waitsFor, isSilent, signal, ...options }: StandingBy,
): Promise<Lock | null> {
  const gone = new Set<string>();
  let last = '';
  while (!signal.aborted) {
    try {
      return takeLock(join(folder, 'locks'), as, { ...options, gone, what: { name: folder, hint: '' } });
    } catch (error) {
      if (!(error instanceof Held)) throw error;
      const { found } = error;
      if (found !== null && found.text !== last) waitsFor(wordsOf(found.holder));
      last = found?.text ?? last;
      if (found === null) await pause(GLANCE, undefined, { signal }).catch(() => {});
      else if (await fallsSilent(found, signal)) {
        gone.add(found.text);
        isSilent(wordsOf(found.holder), SILENT * beatOf(found.holder));
      }
    }
  }
  return null;
}

/** False once the lock is another one, or its holder has died; true where it was not renewed. */
async function fallsSilent({ path, text, holder }: Found, signal: AbortSignal): Promise<boolean> {
  const most = holder?.beat === undefined ? Number.POSITIVE_INFINITY : (SILENT * beatOf(holder)) / GLANCE;
  let before = changedAt(path);
  for (let looks = 0; looks < most; looks++) {
    await pause(GLANCE, undefined, { signal }).catch(() => {});
    if (signal.aborted || readText(path) !== text) return false;
    if (holder !== null && stateOf(holder) === 'gone') return false;
    const changed = changedAt(path);
    if (changed !== before) looks = -1;
    before = changed;
  }
  return true;
}
