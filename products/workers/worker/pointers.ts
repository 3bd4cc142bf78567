/** From a pointer of the queue to a part in hand. Anyone who may write to Redis can put anything there, and any number of it. */
import type { Taken } from '../taker.ts';
import { type Hands, keyOf } from './hands.ts';
import { BadOrder, readPartName } from './task.ts';

/** pointers that lead nowhere are said so often */
const MOST_ASTRAY = 20;

interface PointersOptions {
  hands: Pick<Hands, 'over' | 'take'>;
  say(message: string): void;
  onBroken(error: unknown): void;
}

export class Pointers {
  readonly #is: PointersOptions;
  readonly #settling = new Set<Promise<void>>();
  /** parts in hand that are looked at again once they are not: one pointer is enough for that */
  readonly #again = new Set<string>();
  #coming = 0;
  #astray = 0;

  constructor(options: PointersOptions) {
    this.#is = options;
  }

  /** Resolves when the part is in hand, or is not to be had. */
  async begin(taken: Taken): Promise<void> {
    const { hands, onBroken } = this.#is;
    let over = Promise.resolve();
    this.#coming += 1;
    try {
      const name = readPartName(taken.pointer);
      const key = keyOf(name);
      const before = hands.over(name);
      if (before === null) over = (await hands.take(name))?.over ?? over;
      // it is there twice; or the part was just handed back, and is offered already before we hear that it was taken
      else if (!this.#again.has(key)) {
        this.#again.add(key);
        over = before.then(() => {
          this.#again.delete(key);
          return this.begin(taken);
        });
      }
    } catch (error) {
      if (!(error instanceof BadOrder)) throw error;
      this.#sayAstray(error);
    } finally {
      this.#coming -= 1;
    }
    const settled = over
      .then(() => taken.done())
      .catch(onBroken)
      .finally(() => this.#settling.delete(settled));
    this.#settling.add(settled);
  }

  /** one is on its way */
  get isComing(): boolean {
    return this.#coming > 0;
  }

  /** Resolves when the queue has heard of all. */
  async settled(): Promise<void> {
    while (this.#settling.size > 0) await Promise.all(this.#settling);
  }

  #sayAstray({ message }: BadOrder): void {
    this.#astray += 1;
    const more = this.#astray === MOST_ASTRAY ? '; further ones are not said' : '';
    if (this.#astray <= MOST_ASTRAY) this.#is.say(`a pointer in the queue leads nowhere: ${message}${more}`);
  }
}
