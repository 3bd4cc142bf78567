/**
 * Waiting for a lock whose holder cannot be looked at. Its time of change is compared with itself and never with a clock
 * of this machine; who does not renew it for twelve beats is gone. One that was only suspended finds its lock
 * taken over when it continues, and stops.
 */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readText, wordsOf } from './holder.ts';
import { Held, type Lock, type LockOptions, takeLock } from './lock.ts';

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
      if (!(error instanceof Held) || error.watch === null || gone.has(error.watch.text)) throw error;
      const { path, text, holder } = error.watch;
      const { name } = error.what;
      const beat = Math.min(LONGEST_BEAT, Math.max(1, Number(holder.beat) || 0));
      warn(
        `${name} is locked by ${wordsOf(holder)}, which cannot be checked from this machine; ` +
          `waiting ${(SILENT * beat) / 1000} s to see whether it is alive`,
      );
      if (await isRenewed(path, text, beat, signal)) throw error;
      gone.add(text);
    }
  }
}

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
