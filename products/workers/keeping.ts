/**
 * What the disk of a coordinator refuses. A full disk ends no work: it is said, once in a while, and workers keep what they
 * have and ask again, until there is room.
 */
import { EXIT, fatalOf } from '../../engine/core/item/failure.ts';

/** The disk does not take or give what is asked (503): ask again. */
export class NotKept extends Error {}

export interface Keeping {
  /** Does what needs the disk. Throws NotKept where that refuses, and whatever else is wrong as it is. */
  kept<T>(act: () => T): T;
  /** The same of what nobody waits for: it is done another time. */
  tried(act: () => void): void;
}

/** ms between two lines about the same trouble */
const AGAIN = 60_000;

export function createKeeping(say: (message: string) => void, now: () => number): Keeping {
  let toldAt: number | null = null;

  function tell(message: string): void {
    if (toldAt !== null && Math.abs(now() - toldAt) < AGAIN) return;
    toldAt = now();
    say(`cannot write to disk, and workers wait for it: ${message}`);
  }
  function kept<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const { exit, message } = fatalOf(error);
      if (exit === EXIT.bug) throw error;
      tell(message);
      throw new NotKept('The disk of the coordinator does not take this now.');
    }
  }
  return {
    kept,
    tried(act) {
      try {
        kept(act);
      } catch (error) {
        if (!(error instanceof NotKept)) throw error;
      }
    },
  };
}
