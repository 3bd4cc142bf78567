/** Every plan ends, with figures that are numbers: for any pool file, any number of endpoints, any number of items. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { makePlan } from '../../products/plan/plan.ts';
import { jsonOf, renderPlan } from '../../products/plan/plan-page.ts';
import { sampleOf } from '../../products/plan/sample.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const RUNS = runs(2, 15, 'FW_PLANS');
console.log(`plans end: SEED=${SEED}`);

test('a part of a sample is a whole number of its items, from one to all, each at most once', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom('a', 'b') }), {
        minLength: 1,
        maxLength: 40,
      }),
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 1_200, noNaN: true }),
      (prompts, size, most) => {
        const input = prompts.map((prompt, at) => ({ id: String(at), prompt }));
        const sample = sampleOf(input, size);
        const stretches = sample.stretches(most);
        expect(stretches.size).toBe(Math.max(1, Math.min(size, Math.ceil(most))));
        const all = Array.from({ length: size }, (_, index) => sample.at(index).id);
        for (const part of [stretches, sample.part(most), sample.single(most)]) {
          expect(part.size).toBeGreaterThan(0);
          const ids = Array.from({ length: part.size }, (_, index) => part.at(index).id);
          const places = ids.map(id => all.indexOf(id));
          expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
          expect(places[0]).toBeGreaterThanOrEqual(0);
        }
      },
    ),
    { seed: SEED, numRuns: 300 },
  );
});

const pools = fc.record({
  in_flight: fc.option(fc.integer({ min: 1, max: 150 }), { nil: undefined }),
  limit: fc.option(fc.integer({ min: 1, max: 64 }), { nil: undefined }),
});

test('plans of random pools end', async () => {
  const at = folder();
  const input = join(ROOT, 'fixtures', 'applications-60.csv');
  const agents = join(ROOT, 'pipelines', 'fairwatch', 'agents');
  await fc.assert(
    fc.asyncProperty(
      pools,
      fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.integer({ min: 5, max: 64 })),
      fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 6, max: 400 })),
      async (pool, endpoints, items) => {
        const path = join(at, 'plan.yaml');
        const file = { endpoints: ['http://127.0.0.1:1/v1'], ...pool };
        writeFileSync(
          path,
          `stages: [{ ingest: {} }, { agent-step: { agent: risk, agents: ${JSON.stringify(agents)} } }]\npool: ${JSON.stringify(file)}\n`,
        );
        const plan = await makePlan({
          path,
          inputs: [input],
          preset: presetNamed('3b-a6000'),
          endpoints,
          items,
          ledger: undefined,
          outputTokens: undefined,
          tokenizer: undefined,
          set: undefined,
          seed: 7,
        });
        expect(plan.table.map(figures => figures.items)).toEqual(plan.table.map(() => items));
        expect(plan.table.map(figures => figures.calls)).toEqual(plan.table.map(() => items));
        const page = renderPlan(plan);
        expect(page).not.toMatch(/NaN|Infinity|undefined/);
        expect(JSON.stringify(jsonOf(plan))).not.toContain('null');
      },
    ),
    { seed: SEED, numRuns: RUNS },
  );
});
