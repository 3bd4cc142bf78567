/**
 * Plans against plans, for workloads whose prompts begin alike: each row says what a plan of its endpoints alone says, and
 * what is simulated of a part is within the error that is said of what all items give.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { makePlan, type Planning } from '../../products/plan/plan.ts';
import { renderPlan } from '../../products/plan/plan-page.ts';
import { sampleOf } from '../../products/plan/sample.ts';
import { type Budget, tableOf } from '../../products/plan/table.ts';
import { presetFrom } from '../../products/simulator/presets.ts';
import { ALL, runs, slow } from '../all.ts';
import { folder } from '../fw.ts';
import { itemsOf, pipeline, SMALL, workloads, worldOf } from './workloads.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`plans against plans: SEED=${SEED}`);

const PIPELINE = pipeline();

const planOf = (input: string, endpoints: number, more: Partial<Planning> = {}) =>
  makePlan({
    path: PIPELINE,
    inputs: [input],
    preset: presetFrom(SMALL, 'small'),
    endpoints,
    items: undefined,
    ledger: undefined,
    outputTokens: 64,
    tokenizer: undefined,
    set: undefined,
    seed: 7,
    ...more,
  });

test('each row is what a plan of so many endpoints says', async () => {
  const input = join(folder(), 'items.ndjson');
  await fc.assert(
    fc.asyncProperty(workloads(ALL ? 40 : 12, ALL ? 12 : 6), async workload => {
      writeFileSync(
        input,
        itemsOf(workload)
          .map(item => `${JSON.stringify(item)}\n`)
          .join(''),
      );
      const { table } = await planOf(input, 4);
      expect(table.map(({ endpoints }) => endpoints)).toEqual([1, 2, 3, 4]);
      for (const endpoints of [1, 2, 3]) {
        const alone = await planOf(input, endpoints);
        expect(alone.table.at(-1)).toEqual(table[endpoints - 1]);
      }
    }),
    { seed: SEED, numRuns: runs(2, 6) },
  );
});

/** Small enough that some hundred items are many. */
const PARTS: Budget = { whole: 300, inDoubt: 0, parts: [800, 1_600], rounds: 8 };

slow('a part says what all items say, within the error that it states', async () => {
  const world = await worldOf(PIPELINE);
  let stretched = 0;
  await fc.assert(
    fc.asyncProperty(workloads(300, 24), fc.integer({ min: 1, max: 3 }), async (workload, endpoints) => {
      const items = itemsOf(workload);
      fc.pre(items.length > 1_700);
      const sample = sampleOf(items, items.length);
      const all = (await tableOf(world, endpoints, sample, () => {})).at(-1);
      const part = (await tableOf(world, endpoints, sample, () => {}, PARTS)).at(-1);
      if (all === undefined || part === undefined) throw new Error('expected rows');
      stretched += part.simulated === part.items ? 0 : 1;
      const off = part.makespan / all.makespan - 1;
      expect(Math.abs(off), `off by ${off}, said ${part.spread}`).toBeLessThan(
        part.spread + SMALL.error.mid_load,
      );
      expect(part.calls).toBe(all.calls);
    }),
    { seed: SEED, numRuns: runs(0, 3) },
  );
  console.log(`${stretched} of them were stretched`);
});

test('parts that do not agree are told of, by how much they do not', async () => {
  const world = await worldOf(PIPELINE);
  const workload = {
    groups: 80,
    each: 20,
    zipf: false,
    shared: 800,
    own: 40,
    order: 'by question',
    seed: 1,
  } as const;
  const items = itemsOf(workload);
  const sample = sampleOf(items, items.length);
  const [row] = await tableOf(world, 1, sample, () => {}, { ...PARTS, parts: [200, 400] });
  // all of the questions about a few documents, or a few questions about all of them: the order of asking decides
  expect(row?.spread).toBeGreaterThan(0.2);
  const input = join(folder(), 'items.ndjson');
  writeFileSync(
    input,
    items
      .slice(0, 10)
      .map(item => `${JSON.stringify(item)}\n`)
      .join(''),
  );
  const plan = await planOf(input, 1);
  const page = renderPlan({ ...plan, table: row ? [row] : [] });
  expect(page).toMatch(/1 endpoint: nobody can say it closer than ±\d+ % from \d+ of 1,600 items/);
  expect(renderPlan(plan)).not.toContain('nobody can say');
});
