/** Parts of a table make up the whole; a row of many orderings is many items. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../../engine/core/config/package.ts';
import { createIdSet } from '../../engine/core/files/idset.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { ingested } from './ingesting.ts';
import { holds } from './property.ts';

const sample = readFileSync(join(packageRoot(), 'fixtures', 'applications-60.csv'));
const agents = join(packageRoot(), 'pipelines', 'fairwatch', 'agents');
const byRow = (a: Item, b: Item): number => a.row! - b.row!;

/** Rows of few ids, so that some come twice; some are ragged. */
const rough = fc
  .array(fc.constantFrom('a,1', 'b,2', 'c,3', 'd,4', 'e', 'f,', ',5'), { minLength: 1, maxLength: 40 })
  .map(rows => `id,prompt\n${rows.join('\n')}\n`);

describe('shards and slices', () => {
  test('the shards of any table are disjoint and complete', () =>
    holds(fc.tuple(rough, fc.integer({ min: 1, max: 7 })), async ([table, parts]) => {
      const shards = await Promise.all(
        Array.from({ length: parts }, (_u, at) => ingested(table, { shard: `${at + 1}/${parts}` })),
      );
      expect(shards.flat().sort(byRow)).toEqual(await ingested(table));
    }));

  test('slices of any table make up the whole, and shards make up a slice', () =>
    holds(fc.tuple(rough, fc.nat(12), fc.integer({ min: 1, max: 12 })), async ([table, offset, limit]) => {
      const whole = await ingested(table);
      const slice = await ingested(table, { offset, limit });
      expect(slice).toEqual(whole.slice(offset, offset + limit));
      const halves = await Promise.all(
        ['1/2', '2/2'].map(shard => ingested(table, { offset, limit, shard })),
      );
      expect(halves.flat().sort(byRow)).toEqual(slice);
    }));

  test.each(['0/3', '4/3', '1', '1/0', 'a/b', '-1/3', '1/2/3'])('--shard %s is refused', async shard => {
    await expect(ingested('id,prompt\n1,a\n', { shard })).rejects.toMatchObject({ exit: 64 });
  });
});

describe('orderings', () => {
  test('a named list: one item a row for each, with the short names in its id', async () => {
    const items = await ingested(sample, { orderings: 'batch4', agents });
    expect(items).toHaveLength(60 * 12);
    expect(new Set(items.map(item => item.id)).size).toBe(60 * 12);
    expect(items[0]).toMatchObject({
      id: `${items[0]?.input?.prompt_id}/risk-data-consumer-regulatory`,
      row: 1,
      ordering: ['risk_manager', 'data_science', 'consumer_advocate', 'regulatory'],
    });
    expect(Object.keys(items[0]!)).toEqual(['id', 'row', 'input', 'prompt', 'ordering']);
  });

  test('all, one by its names, several; none without the option', async () => {
    const count = async (orderings?: string[]) =>
      (await ingested(sample, { orderings, agents, limit: 1 })).length;
    expect(await count(['all'])).toBe(24);
    expect(await count(['risk,data,regulatory,consumer'])).toBe(1);
    expect(await count(['risk-data', 'data-risk'])).toBe(2);
    const [plain] = await ingested(sample, { limit: 1 });
    expect(plain).not.toHaveProperty('ordering');
    expect(plain?.id).toMatch(/^[0-9a-f]{12}$/);
  });

  test('an agent that is not known is refused by name', async () => {
    await expect(ingested(sample, { orderings: 'risk,dta', agents })).rejects.toMatchObject({
      exit: 64,
      message: expect.stringContaining("'dta'"),
    });
  });

  test('all orderings of a row stay in its shard, and a failed row is one item', async () => {
    const table = 'id,prompt\n1,a\n2\n3,c\n4,d\n';
    const items = await ingested(table, { orderings: 'all', agents, shard: '1/2' });
    expect(items.map(item => item.row)).toEqual([...Array(24).fill(1), ...Array(24).fill(3)]);
    const others = await ingested(table, { orderings: 'all', agents, shard: '2/2' });
    expect(others.filter(item => item.failure).map(item => item.row)).toEqual([2]);
  });

  test('an item keeps the ordering that it has', async () => {
    const lines =
      '{"id":"a","prompt":"?","ordering":["risk_manager"]}\n{"id":"b","row":7,"prompt":"?","input":{}}\n';
    const items = await ingested(lines, { orderings: ['risk-data', 'data-risk'], agents });
    expect(items.map(item => [item.id, item.row])).toEqual([
      ['a', 1],
      ['b/risk-data', 7],
      ['b/data-risk', 7],
    ]);
  });
});

test('the packaged sample: sixty rows, each prompt of several lines', async () => {
  const items = await ingested(sample);
  expect(items).toHaveLength(60);
  for (const item of items) {
    expect(item.failure).toBeUndefined();
    expect(item.id).toBe(item.input?.prompt_id);
    expect(item.prompt?.split('\n').length).toBeGreaterThanOrEqual(10);
  }
});

describe('a set of ids', () => {
  test('is what a Set is, through every growth', () =>
    holds(fc.array(fc.string({ maxLength: 2 }), { maxLength: 400 }), async ids => {
      const set = createIdSet();
      const known = new Set<string>();
      for (const id of ids) {
        expect(set.has(id)).toBe(known.has(id));
        expect(set.add(id)).toBe(!known.has(id));
        known.add(id);
        expect(set.size).toBe(known.size);
      }
    }));

  test('holds a hundred thousand', () => {
    const set = createIdSet();
    for (let at = 0; at < 100_000; at++) set.add(`id ${at}`);
    expect(set.size).toBe(100_000);
    expect(set.add('id 77')).toBe(false);
    expect(set.has('id 100000')).toBe(false);
  });
});
