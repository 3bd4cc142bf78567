/** Lines that come early wait, in memory and on disk, and leave in their order. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { InOrder } from '../../engine/tables/export/in-order.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';

const textOf = (rank: number): string => `${rank}: ${'ü'.repeat(rank % 50)}`;

/** What leaves while texts of these ranks come one after the other, and what at the end. */
function through(ranks: readonly number[], near: number): { early: string[]; late: string[] } {
  const order = new InOrder(folder(), near);
  const taken = (): string[] => {
    const texts: string[] = [];
    for (let text = order.next(); text !== null; text = order.next()) texts.push(text);
    return texts;
  };
  const early = ranks.flatMap(rank => {
    order.add(rank, textOf(rank));
    return taken();
  });
  order.finish();
  const late = taken();
  order.close();
  return { early, late };
}

test('whatever the order in which they come, they leave in theirs, and each as soon as it may', () => {
  const shuffled = fc.integer({ min: 0, max: 300 }).chain(count =>
    fc.shuffledSubarray(
      Array.from({ length: count }, (_, n) => n + 1),
      { minLength: count },
    ),
  );
  fc.assert(
    fc.property(shuffled, fc.integer({ min: 0, max: 2_000 }), (ranks, near) => {
      const { early, late } = through(ranks, near);
      expect(late).toEqual([]);
      expect(early).toEqual(ranks.map((_, n) => textOf(n + 1)));
    }),
    { numRuns: runs(100, 1_000) },
  );
});

test('behind one that never comes they wait, and leave in their order at the end', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 60 })),
      fc.integer({ min: 0, max: 200 }),
      (ranks, near) => {
        const { early, late } = through(ranks, near);
        const sorted = ranks.toSorted((a, b) => a - b).map(textOf);
        expect([...early, ...late].toSorted()).toEqual(sorted.toSorted());
        expect(late).toEqual(late.toSorted((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10)));
        const present = new Set(ranks);
        let first = 1;
        while (present.has(first)) first += 1;
        expect(late.every(text => Number.parseInt(text, 10) > first)).toBe(true);
      },
    ),
    { numRuns: runs(100, 1_000) },
  );
});
