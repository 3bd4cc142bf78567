/** Rows of Parquet as items: every type that DuckDB writes, groups, parts, damage. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { runs } from '../all.ts';
import { folder, ROOT, shell } from '../fw.ts';
import { fw } from '../here.ts';

const at = folder();
const TYPES = join(ROOT, 'fixtures/ingest/parquet/types.parquet');

/** Groups of rows, each of `size` rows. */
function write(name: string, count: number, size: number, from = 0): void {
  const ids = Array.from({ length: count }, (_, n) => `r-${from + n}`);
  const bytes = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: ids, type: 'STRING' },
      { name: 'prompt', data: ids.map(id => `Ask ${id}: "ü",\n${'x'.repeat(50)}`), type: 'STRING' },
      { name: 'amount', data: ids.map((_, n) => (n % 3 === 0 ? null : n * 1.5)), type: 'DOUBLE' },
    ],
    rowGroupSize: size,
  });
  writeFileSync(join(at, name), Buffer.from(bytes));
}

const itemsOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));

test('groups and files one behind the other: each row once, in order; a null is no value', async () => {
  write('a.parquet', 1_000, 300);
  write('b.parquet', 10, 300, 1_000);
  const ran = await fw('fw ingest a.parquet b.parquet', { cwd: at });
  const items = itemsOf(ran.stdout);
  expect([ran.code, items.map(({ id }) => id)]).toEqual([
    0,
    Array.from({ length: 1_010 }, (_, n) => `r-${n}`),
  ]);
  expect(items[999].row).toBe(1_000);
  expect(items.slice(0, 2).map(({ input }) => input.amount)).toEqual([undefined, '1.5']);
  expect(items[7].prompt).toBe(`Ask r-7: "ü",\n${'x'.repeat(50)}`);
});

test('a part of it, by rows and by shards; through a redirection, and not through a pipe', async () => {
  write('a.parquet', 1_000, 300);
  const part = await fw('fw ingest --offset 299 --limit 2 a.parquet', { cwd: at });
  expect(itemsOf(part.stdout).map(({ id }) => id)).toEqual(['r-299', 'r-300']);
  const shard = await fw('fw ingest --shard 3/7 < a.parquet', { cwd: at });
  expect(itemsOf(shard.stdout)).toHaveLength(143);
  const piped = await shell('cat a.parquet | fw ingest', { cwd: at });
  expect([piped.code, piped.stderr]).toEqual([65, expect.stringContaining('a Parquet file')]);
});

test('a row that is longer than --max-line is a failed item, and those beside it are none', async () => {
  write('a.parquet', 3, 300);
  const ran = await fw('fw ingest --max-line 60 a.parquet', { cwd: at });
  expect([ran.code, itemsOf(ran.stdout)[0].failure.code]).toEqual([1, 'line-too-long']);
});

test('whatever byte of a file is changed or missing: rows, or 65 in words, and no more', async () => {
  const whole = readFileSync(TYPES);
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), fc.boolean(), async (place, byte, isCut) => {
      const bytes = Buffer.from(isCut ? whole.subarray(0, place) : whole);
      if (!isCut) bytes[place] = byte;
      writeFileSync(join(at, 'bad.parquet'), bytes);
      const ran = await fw('fw ingest --prompt s bad.parquet', { cwd: at });
      expect([0, 1, 65], ran.stderr).toContain(ran.code);
      expect(ran.stderr).not.toMatch(/a bug|TypeError|RangeError:/);
    }),
    { numRuns: runs(25, 300) },
  );
});

/** A file of one column of texts and one of lists, whose pages are not compressed, so that a byte says what it says. */
function writeOpen(name: string, rows: number): Buffer {
  const bytes = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: Array.from({ length: rows }, (_, n) => `r-${n}`), type: 'STRING' },
      { name: 'prompt', data: Array.from({ length: rows }, (_, n) => `ask ${n % 7}`), type: 'STRING' },
      { name: 'list', data: Array.from({ length: rows }, (_, n) => [n, null]), type: 'JSON' },
    ],
    codec: 'UNCOMPRESSED',
    rowGroupSize: 100,
  });
  writeFileSync(join(at, name), Buffer.from(bytes));
  return Buffer.from(bytes);
}

test('damage of bytes anywhere in pages: rows that are whole, or an error that says in which group and column', async () => {
  const whole = writeOpen('open.parquet', 250);
  const pages = whole.length - 8 - whole.readUInt32LE(whole.length - 8);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.integer({ min: 4, max: pages - 1 }), fc.nat(255)), { minLength: 1, maxLength: 8 }),
      async damage => {
        const bytes = Buffer.from(whole);
        for (const [place, byte] of damage) bytes[place] = byte;
        writeFileSync(join(at, 'bad.parquet'), bytes);
        const ran = await fw('fw ingest bad.parquet', { cwd: at });
        expect([0, 1, 65], ran.stderr).toContain(ran.code);
        if (ran.code === 65)
          expect(ran.stderr).toMatch(/row group [1-3] of 3, the column '(id|prompt|list)'/);
        else expect(itemsOf(ran.stdout)).toHaveLength(250);
      },
    ),
    { numRuns: runs(15, 300) },
  );
});

test('a part of a table without rows is one among others, and alone is an error', async () => {
  write('some.parquet', 2, 10);
  write('none.parquet', 0, 10);
  const both = await fw('fw ingest none.parquet some.parquet', { cwd: at });
  expect([both.code, itemsOf(both.stdout)]).toEqual([0, [expect.anything(), expect.anything()]]);
  const alone = await fw('fw ingest none.parquet', { cwd: at });
  expect([alone.code, alone.stderr]).toEqual([65, expect.stringContaining('without any')]);
});

test('lines of rows that are fine and items of those that are not keep their order', async () => {
  const ids = Array.from({ length: 20 }, (_, n) => (n % 5 === 3 ? 'r-0' : `r-${n}`));
  const bytes = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: ids, type: 'STRING' },
      { name: 'prompt', data: ids.map((_, n) => (n % 7 === 6 ? ' ' : `ask ${n} "ü"\n`)), type: 'STRING' },
    ],
  });
  writeFileSync(join(at, 'mixed.parquet'), Buffer.from(bytes));
  const ran = await fw('fw ingest mixed.parquet', { cwd: at });
  const items = itemsOf(ran.stdout);
  expect([ran.code, items.map(({ row }) => row)]).toEqual([0, ids.map((_, n) => n + 1)]);
  expect(items.filter(({ failure }) => failure).map(({ failure }) => failure.code)).toEqual(
    [3, 6, 8, 13, 18].map(n => (n === 6 ? 'empty-prompt' : 'duplicate-id')),
  );
});
