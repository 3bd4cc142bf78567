/** Runs in virtual time: what makes them fast must not change them. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { readPipeline } from '../../engine/running/pipeline.ts';
import { silent } from '../../engine/running/stage-options.ts';
import { itemsBefore } from '../../engine/running/without-asking.ts';
import { GUESSED } from '../../products/plan/lengths.ts';
import { stretched } from '../../products/plan/plan-figures.ts';
import { type Sample, sampleOf } from '../../products/plan/sample.ts';
import { simulate } from '../../products/plan/virtual-run.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { stages } from '../../stages/index.ts';
import { every, runs, slow } from '../all.ts';
import { ROOT } from '../fw.ts';

const ITEMS = runs(80, 1_000, 'ITEMS');

async function worldOf(orderings: string) {
  const sets = [`ingest.orderings=${orderings}`];
  const { row, base } = await readPipeline(join(ROOT, 'pipelines', 'fairwatch', 'chain.yaml'), stages, sets);
  const items: Item[] = [];
  const files = [join(ROOT, 'fixtures', 'applications-60.csv')];
  await itemsBefore({ row, files, base, label: 'test', take: item => items.push(item) > 0, warn: () => {} });
  const asking = row.filter(({ stage }) => stage.asks).map(silent);
  const preset = presetNamed('3b-a6000');
  const world = {
    row: asking,
    base,
    pool: undefined,
    model: 'simulated-3b',
    models: [],
    preset,
    lengths: GUESSED,
    seed: 7,
  };
  return { world, items };
}

const { world, items } = await worldOf('batch4');

test('what is not hashed of a prompt would be in no cache', async () => {
  const { world, items } = await worldOf('default');
  const sample = sampleOf(items, Math.min(ITEMS, 300));
  expect(sample.shared).toBeLessThan(400);
  const whole: Sample = { ...sample, shared: Number.POSITIVE_INFINITY };
  expect(await simulate(world, 2, sample)).toEqual(await simulate(world, 2, whole));
});

test('a run is the same each time, and every item of it is done', async () => {
  const sample = sampleOf(items, ITEMS);
  const figures = await simulate(world, 3, sample);
  expect(await simulate(world, 3, sample)).toEqual(figures);
  expect(figures).toMatchObject({
    items: ITEMS,
    failed: 0,
    calls: 5 * ITEMS,
    retries: 0,
    endpoints: 3,
  });
  const { cpu, weights, computing, kv } = figures.step;
  expect(cpu + weights + computing + kv).toBeCloseTo(1, 9);
});

slow('a part of a run tells how long the whole takes', async () => {
  const sample = sampleOf(items, 4_000);
  const whole = await simulate(world, 1, sample);
  for (const some of [sample.part(2_000), sample.stretches(2_000)]) {
    const part = stretched(await simulate(world, 1, some), sample.size);
    expect(part.items).toBe(whole.items);
    expect(Math.abs(part.makespan / whole.makespan - 1)).toBeLessThan(0.1);
    expect(Math.abs(part.calls / whole.calls - 1)).toBeLessThan(0.001);
  }
});

test('the orderings of an application are no slower in the order of what begins alike', async () => {
  const all = sampleOf(items, runs(240, items.length, 'ITEMS'));
  const asTheyCome = {
    ...world,
    row: world.row.map(each => ({ ...each, options: { ...each.options, 'look-ahead': 1 } })),
  };
  for (const endpoints of every(4, [1, 4, 2, 8])) {
    const before = await simulate(asTheyCome, endpoints, all);
    const now = await simulate(world, endpoints, all);
    expect(now.calls).toBe(before.calls);
    expect(now.makespan / before.makespan).toBeLessThan(1.01);
  }
});
