/** Lines that begin alike, in any order, on simulated servers in virtual time: the stage, the look-ahead and the pool as they are. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ask, askBoth } from '../../bench/prefix/run.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { runs } from '../all.ts';

const random = lcg(11);
const words = 'the applicant has income and debt of some years while rates rise'.split(' ');
const textOf = (characters: number): string => {
  let text = '';
  while (text.length < characters) text += `${words[Math.floor(random() * words.length)]} `;
  return text;
};
const documents = Array.from({ length: 160 }, (_document, at) => `Document ${at}. ${textOf(6_000)}`);
const questions = Array.from({ length: 8 }, (_question, at) => `\nQuestion ${at}: ${textOf(60)}?`);
const byDocument = documents.flatMap(document => questions.map(question => document + question));
const byQuestion = questions.flatMap(question => documents.map(document => document + question));

function shuffled(texts: readonly string[], seed: number): string[] {
  const next = lcg(seed);
  const keyed = texts.map(text => [next(), text] as const);
  return keyed.sort((a, b) => a[0] - b[0]).map(([, text]) => text);
}

const large = presetNamed('8b-a100-80g');
/** The documents are four times what its KV cache holds. */
const preset = { ...large, limits: { ...large.limits, kvTokens: 60_000 } };

test('one server is as fast in any order as in the best one, several nearly share the time', async () => {
  const best = await ask({ texts: byDocument, servers: 1, lookAhead: 1, limit: 32, preset });
  const asTheyCome = await ask({ texts: byQuestion, servers: 1, lookAhead: 1, limit: 32, preset });
  // what there is to be gained
  expect(asTheyCome.makespan / best.makespan).toBeGreaterThan(2.5);
  for (const texts of [byQuestion, shuffled(byDocument, 3)]) {
    const one = await ask({ texts, servers: 1, limit: 32, preset });
    expect(one.makespan / best.makespan).toBeLessThan(1.05);
    const two = await ask({ texts, servers: 2, limit: 32, preset });
    expect((2 * two.makespan) / best.makespan).toBeLessThan(1.1);
    expect(two.cached).toBeGreaterThan(best.cached - 0.02);
  }
});

test('what shares nothing is asked as it came, and no slower', async () => {
  const texts = Array.from({ length: 600 }, (_line, at) => `${at} ${textOf(2_000)}`);
  const before = await ask({ texts, servers: 2, lookAhead: 1 });
  const now = await ask({ texts, servers: 2 });
  expect(now.makespan / before.makespan).toBeLessThan(1.01);
});

test('whatever comes and goes: each line is answered, once', async () => {
  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 1_000 }),
    servers: fc.integer({ min: 2, max: 4 }),
    groups: fc.integer({ min: 1, max: 40 }),
    dies: fc.integer({ min: 100, max: 4_000 }),
    back: fc.boolean(),
    pipe: fc.boolean(),
    lookAhead: fc.constantFrom(undefined, 7, 50),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ seed, servers, groups, dies, back, pipe, lookAhead }) => {
      const texts = shuffled(
        documents.slice(0, groups).flatMap(document => questions.map(question => document + question)),
        seed,
      );
      const came = await ask({
        ...{ texts, servers, pipe },
        ...(lookAhead && { lookAhead }),
        onOpen([first], after) {
          after(dies, () => first?.kill());
          if (back) after(dies + 3_000, () => first?.start());
        },
      });
      expect(came.failed).toBe(0);
      expect(came.ids.toSorted()).toEqual(texts.map((_text, at) => `r${at}`).toSorted());
    }),
    { numRuns: runs(12, 200) },
  );
});

test('a batch of which nothing begins alike has its part beside one that is all of a piece', async () => {
  const alike = byDocument.slice(0, 800);
  const alone = Array.from({ length: 800 }, (_line, at) => `${at} ${textOf(6_000)}`);
  for (const [first, second] of [
    [alike, alone],
    [alone, alike],
  ] as const) {
    const { firstHalf } = await askBoth([first, second], { servers: 2, preset: large, limit: 16 });
    // of what was answered while both had more
    expect(firstHalf).toBeGreaterThan(0.35);
    expect(firstHalf).toBeLessThan(0.65);
  }
});

test('whatever comes and goes, no server has more calls than its limit, and each owner has its part', async () => {
  const alike = byDocument.slice(0, 400);
  const alone = Array.from({ length: 400 }, (_line, at) => `${at} ${textOf(6_000)}`);
  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 1_000 }),
    servers: fc.integer({ min: 2, max: 3 }),
    limit: fc.integer({ min: 4, max: 16 }),
    dies: fc.integer({ min: 100, max: 4_000 }),
    away: fc.integer({ min: 100, max: 5_000 }),
  });
  let met = 0;
  await fc.assert(
    fc.asyncProperty(cases, async ({ seed, servers, limit, dies, away }) => {
      let most = 0;
      const both = [shuffled(alike, seed), alone] as const;
      const { firstHalf } = await askBoth(both, {
        ...{ servers, limit, preset },
        onOpen(all, after) {
          after(dies, () => all[0]?.kill());
          after(dies + away, () => all[0]?.start());
          const look = (): void => {
            const { running, waiting } = all.at(-1)?.state() ?? { running: 0, waiting: 0 };
            most = Math.max(most, running + waiting);
            after(20, look);
          };
          look();
        },
      });
      expect(most).toBeLessThanOrEqual(limit);
      met = Math.max(met, most / limit);
      expect(firstHalf).toBeGreaterThan(0.3);
      expect(firstHalf).toBeLessThan(0.7);
    }),
    { numRuns: runs(4, 40) },
  );
  expect(met).toBe(1);
});
