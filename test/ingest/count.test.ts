/** The number of items is that which is read afterwards, whatever the lines and rows look like. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inputsOf } from '../../engine/core/files/input-files.ts';
import { readItems } from '../../engine/core/files/ndjson-in.ts';
import { countRows, selectRows } from '../../engine/tables/selection.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`count properties: SEED=${SEED}`);
const { signal } = new AbortController();
const counting = { maxLine: 1 << 20, signal };
const at = folder();
const file = (name: string, text: string): string => {
  writeFileSync(join(at, name), text);
  return join(at, name);
};

test('lines are counted as they are read: empty ones, carriage returns, a last line without an end', async () => {
  const parts = fc.array(
    fc.constantFrom('{"id":"a"}', '', '\r', 'no JSON', '\n', '\r\n', ' ', 'x'.repeat(70_000)),
    {
      maxLength: 60,
    },
  );
  await fc.assert(
    fc.asyncProperty(parts, async texts => {
      const path = file('lines.ndjson', texts.join(''));
      const items = readItems(inputsOf([path]), {
        ...counting,
        stage: 's',
        documents: false,
        stopped: () => false,
      });
      const read = await new Promise<unknown[]>(resolve => items.toArray(resolve));
      expect(await countRows([path], { ...counting, format: 'lines' })).toBe(read.length);
    }),
    { seed: SEED, numRuns: runs(60, 200) },
  );
});

test.each([
  ['a.csv', 'id,prompt\n1,a\n2,"b\nc ""d"""\n\n3,e', 3],
  ['a.tsv', 'id\tprompt\n1\ta\n', 1],
  ['a.ndjson', '{"id":"1","prompt":"a"}\n\n{"id":"2","prompt":"b"}\n', 2],
  ['a.json', '[{"id":"1","prompt":"a"},{"id":"2","prompt":"b"}]', 2],
])('%s: as many rows as items come of it', async (name, text, rows) => {
  const path = file(name, text);
  expect(await countRows([path], counting)).toBe(rows);
  expect(await countRows([path, path], counting)).toBe(2 * rows);
  const { stdout } = await fw(`fw ingest ${path} | wc -l`);
  expect(Number(stdout)).toBe(rows);
});

test('what cannot be counted is not known: a pipe, no table, nothing', async () => {
  expect(await countRows(['/dev/null'], counting)).toBeNull();
  expect(await countRows([file('empty.csv', '')], counting)).toBeNull();
  expect(await countRows([join(at, 'none')], counting)).toBeNull();
});

test('a part has as many rows as it lets through', () => {
  const whole = fc.record({
    offset: fc.nat(20),
    limit: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined }),
    shards: fc.integer({ min: 1, max: 5 }),
    rows: fc.nat(60),
  });
  fc.assert(
    fc.property(whole, ({ offset, limit, shards, rows }) => {
      for (let shard = 1; shard <= shards; shard++) {
        const part = selectRows({ offset, limit, shard: `${shard}/${shards}` });
        const taken = Array.from({ length: Math.min(rows, part.lastRow) }, (_, row) => part.has(row + 1));
        expect(part.of(rows)).toBe(taken.filter(Boolean).length);
      }
    }),
    { seed: SEED, numRuns: 500 },
  );
});
