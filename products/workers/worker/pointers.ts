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

export function createPointers({ hands, say, onBroken }: PointersOptions) {
  const settling = new Set<Promise<void>>();
  /** parts in hand that are looked at again once they are not: one pointer is enough for that */
  const again = new Set<string>();
  let coming = 0;
  let astray = 0;

  /** Resolves when the part is in hand, or is not to be had. */
  async function begin(taken: Taken): Promise<void> {
    let over = Promise.resolve();
    coming += 1;
    try {
      const name = readPartName(taken.pointer);
      const key = keyOf(name);
      const before = hands.over(name);
      if (before === null) over = (await hands.take(name))?.over ?? over;
      // it is there twice; or the part was just handed back, and is offered already before we hear that it was taken
      else if (!again.has(key)) {
        again.add(key);
        over = before.then(() => {
          again.delete(key);
          return begin(taken);
        });
      }
    } catch (error) {
      if (!(error instanceof BadOrder)) throw error;
      astray += 1;
      const more = astray === MOST_ASTRAY ? '; further ones are not said' : '';
      if (astray <= MOST_ASTRAY) say(`a pointer in the queue leads nowhere: ${error.message}${more}`);
    } finally {
      coming -= 1;
    }
    const settled = over
      .then(() => taken.done())
      .catch(onBroken)
      .finally(() => settling.delete(settled));
    settling.add(settled);
  }

  return {
    begin,
    /** one is on its way */
    get isComing() {
      return coming > 0;
    },
    /** Resolves when the queue has heard of all. */
    async settled(): Promise<void> {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}
