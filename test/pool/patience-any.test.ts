/** Any mix of lengths, loads and speeds that a healthy server may have: no call is given up. In virtual time. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EndpointSetting } from '../../engine/asking/endpoints/settings.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { runs } from '../all.ts';
import { answersLong, type Long, longCall } from './long.ts';
import { virtual } from './virtual.ts';

const SEED = Number(process.env.SEED) || Date.now() % 2 ** 31;
console.log(`pool patience: SEED=${SEED}`);

const SECOND = 1_000;
const CONTEXT = 32_768;

/** Tokens, each length as often as twice that length. */
const length = (most: number) =>
  fc.double({ min: 0, max: 1, noNaN: true }).map(share => Math.max(1, Math.round(most ** share)));

/** What an agent, or a URL of a file, asks: some write what they may, some end long before. */
const kind = fc.record({
  most: length(runs(3_000, 16_000, 'MOST')),
  share: fc.constantFrom(1, 1, 0.2, 0.01),
  says: fc.boolean(),
  prompt: length(60_000),
  weight: fc.constantFrom(1, 4, 40),
  n: fc.constantFrom(1, 1, 1, 4),
});

const run = fc.record({
  kinds: fc.array(kind, { minLength: 1, maxLength: 4 }),
  /** a file of lines has one limit for all of a URL, whatever they write */
  agents: fc.constantFrom(false, false, true),
  count: fc.integer({ min: 60, max: 400 }),
  order: fc.constantFrom('mixed', 'by kind'),
  servers: fc.integer({ min: 1, max: 3 }),
  preset: fc.constantFrom('3b-a6000', '8b-h100', '8b-a100-40g'),
  seats: fc.constantFrom(2, 8, 32, 256),
  /** of one endpoint; null where it is learned */
  limit: fc.constantFrom(null, 1, 64, 200),
  metrics: fc.boolean(),
  /** changes of speed: s after the last one, and how fast from then on */
  speeds: fc.array(fc.tuple(fc.integer({ min: 1, max: 700 }), fc.double({ min: 0, max: 1, noNaN: true })), {
    maxLength: 6,
  }),
});

/** Tokens of one that may write the whole context, without counters: its first answer has to come within ten minutes. */
const UNSAID = 3_000;
/** Without counters nobody sees that a server has become slow but by its answers: then up to twice as slow. */
const slowest = (metrics: boolean): number => (metrics ? 0.005 : 0.5);

test('no healthy call is given up', async () => {
  await fc.assert(
    fc.asyncProperty(
      run,
      async ({ kinds, agents, count, order, servers, preset, seats, limit, metrics, speeds }) => {
        const lines = kinds.flatMap((one, agent) =>
          Array.from({ length: one.weight }, () => ({ ...one, agent })),
        );
        const calls = Array.from({ length: count }, (_, n): Long => {
          const at = order === 'mixed' ? (n * 7) % lines.length : Math.floor((n * lines.length) / count);
          const { most, share, says, prompt, agent, n: choices } = lines[at]!;
          const longest = metrics || says ? most : Math.min(most, UNSAID);
          const writes = Math.max(1, Math.round(longest * share ** ((n % 5) / 4)));
          const more = choices > 1 ? { n: choices } : {};
          return { writes, prompt, agent: agents ? `agent ${agent}` : 'a', more, ...(says && { max: most }) };
        });
        const {
          clock,
          servers: there,
          pool,
          ask,
        } = await virtual(
          {
            count: servers,
            answer: answersLong,
            preset: presetNamed(preset),
            limits: { maxNumSeqs: seats },
            context: CONTEXT,
            metrics,
          },
          ({ servers: made }) => ({
            timing: { tick: SECOND },
            ...(limit !== null && {
              endpoints: made.map(({ url }): EndpointSetting => ({ url, limit, pinned: true })),
            }),
          }),
        );
        let at = 0;
        for (const [after, speed] of speeds) {
          at += after * SECOND;
          clock.after(at, () => there[at % servers]!.setSpeed(slowest(metrics) ** speed));
        }
        const outcomes = await ask(count, { atOnce: 400, call: n => longCall(n, calls[n]!) });
        const { endpoints, failed } = pool.stats();
        expect({ failed, tries: endpoints.map(endpoint => endpoint.failed) }).toEqual({
          failed: {},
          tries: endpoints.map(() => ({})),
        });
        expect(outcomes.size).toBe(count);
      },
    ),
    { seed: SEED, numRuns: runs(3, 60) },
  );
});

test('a server that hangs is noticed within its silence, whatever was asked', async () => {
  const hang = fc.record({
    most: fc.integer({ min: 100, max: 2_000 }),
    seats: fc.constantFrom(4, 16),
    at: fc.integer({ min: 5, max: 60 }),
  });
  await fc.assert(
    fc.asyncProperty(hang, async ({ most, seats, at }) => {
      const { clock, servers, pool, ask } = await virtual(
        {
          ...{ count: 2, answer: answersLong, context: CONTEXT },
          ...{ preset: presetNamed('3b-a6000'), limits: { maxNumSeqs: seats } },
        },
        { timing: { tick: SECOND }, wait: 3_600 * SECOND, retryBudget: 5 },
      );
      const [hung] = servers;
      const seen = new Promise<[held: number, noticed: number]>(resolve => {
        clock.after(at * SECOND, function look() {
          const { inFlight, answered, medianLatency } = pool.stats().endpoints[0]!;
          // so many answers are what its silence is measured by
          if (answered < 20) return void clock.after(SECOND, look);
          hung!.setSpeed(1e-9);
          // the median of its agent's answers, and of all of the endpoint's, are not quite the same; then come the last
          // sign, the look at it and the sweep
          const bound = Math.max(30 * SECOND, 12 * (medianLatency ?? 0)) + 10 * SECOND;
          clock.after(bound, () => resolve([inFlight, pool.stats().endpoints[0]!.failed.timeout ?? 0]));
        });
      });
      const calls = Array.from(
        { length: 4_000 },
        (_, n): Long => ({ writes: 1 + ((n * 7_919) % most), max: most }),
      );
      void ask(calls.length, { atOnce: 200, call: n => longCall(n, calls[n]!) });
      const [held, noticed] = await clock.until(seen);
      pool.abort();
      expect(held).toBeGreaterThan(0);
      expect(noticed).toBeGreaterThanOrEqual(held);
    }),
    { seed: SEED, numRuns: runs(2, 20) },
  );
});
