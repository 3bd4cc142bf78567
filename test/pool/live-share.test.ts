/** What batches have of an endpoint beside live calls: by how their first tokens come, in virtual time. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Phase, percentile, runExperiment } from '../../bench/live/run.ts';
import { LiveShare } from '../../engine/asking/pool/live-share.ts';
import type { Ticket } from '../../engine/asking/pool/pool-state.ts';
import { virtualClock } from '../../products/simulator/virtual-clock.ts';
import { runs } from '../all.ts';

const CHAT = { prompt: 512, output: 128 };
const LIVE = { place: 1, firstByte: 1, answer: 1, stream: 1, tries: 1 };

test.each(runs(1, 2) === 1 ? [false] : [false, true])(
  'first tokens come nearly as they come alone, and the batch goes on (by priority: %s)',
  async byPriority => {
    const phases = ['alone', 'beside'].map((name): Phase => ({ name, rate: 12, seconds: 8, sizes: [CHAT] }));
    const batches = [1, 2].map(() => ({ lines: 60, size: CHAT, at: 8 }));
    const {
      ttfts,
      batches: ended,
      lines,
    } = await runExperiment({ preset: '8b-h100', phases, batches, byPriority });
    const within = (name: string): number => percentile(ttfts.get(name) ?? [], 0.95);
    // without it: more than ten times as late
    expect(within('beside')).toBeLessThan(1.5 * within('alone'));
    expect(lines[1]).toBeGreaterThan(30);
    expect(ended.map(({ failed }) => failed)).toEqual([0, 0]);
  },
);

const ticket = (live: boolean, bytes: number, sentAt: number): Ticket =>
  ({
    ...{ sentAt, causes: null, lateAtSent: 0 },
    call: { body: { length: bytes }, ...(live && { live: LIVE, sink: {} }) },
  }) as unknown as Ticket;

/** An endpoint with so many places, whose first tokens come after a time. */
function endpoint(limit: number, objective: number | null) {
  const clock = virtualClock();
  let rooms = 0;
  const share = new LiveShare({
    ...{ clock, objective },
    limit: () => limit,
    onRoom: () => rooms++,
    isOurs: () => false,
  });
  const pass = (ms: number): Promise<void> => clock.until(new Promise<void>(over => clock.after(ms, over)));
  return {
    ...{ clock, share, pass },
    /** Streams, one after the other, each with its first token after so many ms. */
    async streams(count: number, ms: number, gap = 50): Promise<void> {
      for (let n = 0; n < count; n++) {
        const one = ticket(true, 2_000, clock.now());
        share.sent(one, clock.now());
        await pass(ms);
        share.firstToken(one, clock.now());
        share.left(one, true, clock.now());
        await pass(gap);
        share.sweep(clock.now());
      }
    },
    batches(count: number): Ticket[] {
      const all = Array.from({ length: count }, () => ticket(false, 2_000, clock.now()));
      for (const one of all) share.sent(one, clock.now());
      return all;
    },
  };
}

test('alone it learns what they have; a batch begins with few places, gets more while all is well, and all when nobody asks', async () => {
  const { share, streams, batches, pass, clock } = endpoint(64, null);
  await streams(20, 20);
  expect(share.state()).toEqual({ places: 4, aim: 26 });
  batches(64);
  await streams(60, 15);
  const many = share.state().places as number;
  expect(many).toBeGreaterThan(8);
  await streams(20, 80);
  const few = share.state().places as number;
  expect(few).toBeLessThan(many / 2);
  for (let tick = 0; tick < 90; tick++) {
    await pass(100);
    share.sweep(clock.now());
  }
  expect(share.state()).toEqual({ places: null, aim: null });
  expect(share.most).toBe(Number.POSITIVE_INFINITY);
  await streams(1, 15);
  expect(share.state().places).toBeLessThanOrEqual(few + 1);
});

test('a server that is slow for its own reasons does not starve the batch in vain', async () => {
  const { share, streams, batches } = endpoint(64, null);
  await streams(40, 20);
  batches(4);
  await streams(120, 200);
  expect(share.state().aim).toBeGreaterThan(200);
});

test('an objective holds, unless live calls have more than that alone', async () => {
  const slow = endpoint(64, 100);
  await slow.streams(20, 30);
  expect(slow.share.state().aim).toBe(100);
  const own = endpoint(64, 100);
  await own.streams(20, 200);
  expect(own.share.state().aim).toBe(260);
});

test('whatever comes, a batch has its fewest places, its turn comes, and all places come back', async () => {
  const act = fc.record({
    live: fc.boolean(),
    ms: fc.integer({ min: 0, max: 400 }),
    answered: fc.boolean(),
    bytes: fc.integer({ min: 0, max: 100_000 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(act, { maxLength: 60 }),
      fc.integer({ min: 1, max: 300 }),
      fc.option(fc.integer({ min: 1, max: 300 })),
      async (acts, limit, objective) => {
        const { clock, share, pass } = endpoint(limit, objective);
        for (const { live, ms, answered, bytes } of acts) {
          const one = ticket(live, bytes, clock.now());
          share.sent(one, clock.now());
          await pass(ms);
          if (live && answered) share.firstToken(one, clock.now());
          share.left(one, answered, clock.now());
          share.sweep(clock.now());
          expect(share.state().places ?? limit).toBeGreaterThanOrEqual(
            Math.min(limit, Math.max(1, limit / 16)),
          );
        }
        // the longest wait for a turn, and then nobody asks
        for (let tick = 0; tick < 130; tick++) {
          await pass(100);
          share.sweep(clock.now());
        }
        expect(share.most).toBe(Number.POSITIVE_INFINITY);
      },
    ),
    { numRuns: runs(30, 300) },
  );
});
