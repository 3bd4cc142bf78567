/**
 * What the disk of a coordinator refuses. A full disk ends no work: it is said, once in a while, and workers keep what they
 * have and ask again, until there is room.
 */
import { EXIT, fatalOf } from '../../engine/core/item/failure.ts';
import { NotKept } from './protocol.ts';

/** ms between two lines about the same trouble */
const AGAIN = 60_000;

export class Keeping {
  readonly #say: (message: string) => void;
  readonly #now: () => number;
  #toldAt: number | null = null;

  constructor(say: (message: string) => void, now: () => number) {
    this.#say = say;
    this.#now = now;
  }

  /** Does what needs the disk. Throws NotKept where that refuses, and whatever else is wrong as it is. */
  kept<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const { exit, message } = fatalOf(error);
      if (exit === EXIT.bug) throw error;
      this.#tell(message);
      throw new NotKept('The disk of the coordinator does not take this now.');
    }
  }

  /** The same of what nobody waits for: it is done another time. */
  tried(act: () => void): void {
    try {
      this.kept(act);
    } catch (error) {
      if (!(error instanceof NotKept)) throw error;
    }
  }

  #tell(message: string): void {
    if (this.#toldAt !== null && Math.abs(this.#now() - this.#toldAt) < AGAIN) return;
    this.#toldAt = this.#now();
    this.#say(`the disk does not do its part, and workers wait for it: ${message}`);
  }
}
