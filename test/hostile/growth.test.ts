/** What grows with how much there is: counted in reads, calls and comparisons, never in time. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { inputsOf } from '../../engine/core/files/input-files.ts';
import { BatchStore } from '../../products/serve/batches/batch-store.ts';
import { BATCH_ID, newBatchId } from '../../products/serve/ids.ts';
import { createOwned, pageOf } from '../../products/serve/owned.ts';
import { folder } from '../fw.ts';

/** A list that counts what is read of it. */
function counted<T>(list: readonly T[]): { list: readonly T[]; reads: () => number } {
  let reads = 0;
  const proxy = new Proxy(list, {
    get(target, name) {
      if (typeof name === 'string' && (/^\d+$/.test(name) || name === 'at')) reads += 1;
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { list: proxy, reads: () => reads };
}

test.each(['asc', 'desc'] as const)('a page of a list costs as much, however long the list is: %s', order => {
  const readsOf = (count: number): number => {
    const ids = Array.from({ length: count }, (_, n) => String(n).padStart(6, '0'));
    const { list, reads } = counted(ids);
    const rules = { id: /^\d{6}$/, most: 100, usual: 20 };
    const seen: string[] = [];
    let found = 0;
    let most = 0;
    for (let after: string | undefined; ; ) {
      const before = reads();
      const find = (id: string) => {
        found += 1;
        return { id };
      };
      const page = pageOf(list, find, { limit: '100', after, order }, rules);
      most = Math.max(most, reads() - before);
      seen.push(...page.data.map(({ id }) => id));
      if (!page.has_more) break;
      after = page.last_id as string;
    }
    expect(seen).toEqual(order === 'asc' ? ids : ids.reverse());
    expect(found).toBeLessThanOrEqual(count + count / 100);
    return most;
  };
  expect(readsOf(16_000)).toBeLessThanOrEqual(readsOf(1_000) + 8);
});

test('a cursor stays one though its object is gone, and each owner has a list', () => {
  const owned = createOwned<{ id: string; owner: string }>();
  for (const id of ['c', 'a', 'e', 'b', 'd']) owned.set({ id, owner: id < 'd' ? 'ann' : 'bob' });
  owned.delete('b');
  owned.delete('x');
  expect([owned.ids('ann'), owned.ids('bob'), owned.ids(null), owned.ids('cem')]).toEqual([
    ['a', 'c'],
    ['d', 'e'],
    ['a', 'c', 'd', 'e'],
    [],
  ]);
  const page = pageOf(
    owned.ids(null),
    owned.get as (id: string) => { id: string } | null,
    { after: 'b' },
    {
      id: /^[a-z]$/,
      most: 9,
      usual: 9,
    },
  );
  expect(page.data.map(({ id }) => id)).toEqual(['a']);
});

test('what is looked at all the time is what has not ended, not all that there is', () => {
  const data = folder();
  for (let n = 0; n < 40; n++) {
    const id = newBatchId(n);
    mkdirSync(join(data, 'batches', id), { recursive: true });
    const status = n % 10 === 0 ? 'in_progress' : 'completed';
    writeFileSync(join(data, 'batches', id, 'state.json'), JSON.stringify({ id, owner: 'ann', status }));
  }
  const store = new BatchStore(data, { say: expect.unreachable });
  expect(store.ids('ann')).toHaveLength(40);
  expect(store.ids(null).every(id => BATCH_ID.test(id))).toBe(true);
  const [first, ...others] = store.open();
  expect(others).toHaveLength(3);
  store.save({ ...(first as NonNullable<typeof first>), status: 'completed' });
  expect(store.open()).toEqual(others);
});

test('of many inputs that were read, none keeps the blocks that it was read by', () => {
  const at = folder();
  const paths = Array.from({ length: 100 }, (_, n) => join(at, `${n}.ndjson`));
  for (const path of paths) writeFileSync(path, '{"id":"a"}\n');
  const inputs = inputsOf(paths);
  for (const input of inputs) {
    while (input.read(null) !== null);
    input.close();
  }
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  // a block has more than a MiB, and each was read by two
  expect(process.memoryUsage().arrayBuffers).toBeLessThan(50 * 1024 * 1024);
  expect(inputs).toHaveLength(100);
});
