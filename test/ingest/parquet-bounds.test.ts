/** What a Parquet file may say of itself, and what is believed of it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { Deltas } from '../../engine/tables/parquet/bits.ts';
import { unpacked } from '../../engine/tables/parquet/codecs.ts';
import type { Element } from '../../engine/tables/parquet/footer.ts';
import { treeOf } from '../../engine/tables/parquet/schema.ts';
import { eachRow } from '../../products/report/read-lines.ts';
import { Run } from '../../products/view/rows/run.ts';
import { slow } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const at = folder();

async function ingested(prompts: string[], options = '') {
  const columnData = [{ name: 'prompt', data: prompts, type: 'STRING' as const }];
  writeFileSync(join(at, 'x.parquet'), Buffer.from(parquetWriteBuffer({ columnData })));
  const { code, stdout } = await fw(`fw ingest ${options} x.parquet`, { cwd: at });
  const lines = stdout.trimEnd().split('\n');
  return { code, items: lines.map(line => JSON.parse(line)) };
}

test('a prompt of nothing but space is empty, whatever the space', async () => {
  const prompts = ['\n', '\t \r\n', '\f', '\v', ' \u2028', '\n\u00a0', '\\n', '"', '\u0001', '\n"', 'x'];
  const { items } = await ingested(prompts);
  expect(items.map(({ failure }) => failure?.code ?? null)).toEqual(
    prompts.map(prompt => (prompt.trim() === '' ? 'empty-prompt' : null)),
  );
});

test('a short row as very many samples: each line is whole', async () => {
  const { code, items } = await ingested(['hello', 'there'], '--samples 7000');
  expect([code, items.length, new Set(items.map(({ id }) => id)).size]).toEqual([0, 14_000, 14_000]);
});

test('differences beyond what a double holds', () => {
  const least = 2n ** 53n - 1n;
  const zigzag: number[] = [];
  for (let left = least * 2n; ; left >>= 7n) {
    zigzag.push(Number(left & 127n) + (left < 128n ? 0 : 128));
    if (left < 128n) break;
  }
  // blocks of 128 in four parts, two values, the first 0; then 2 more than the least difference
  const bytes = Uint8Array.from([128, 1, 4, 2, 0, ...zigzag, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
  const deltas = new Deltas(bytes, 0, bytes.length, true);
  expect([deltas.next(), deltas.next()]).toEqual([0, least + 2n]);
});

test('decimals with a point that is out of reach', () => {
  const leaf = (scale: number): Element => ({
    ...{ name: 'd', kind: 'INT32', length: 0, repetition: 'OPTIONAL', children: 0 },
    meaning: { name: 'DECIMAL', digits: 3, isUtc: true, scale, isSigned: true },
  });
  const root: Element = {
    ...{ name: '', kind: undefined, length: 0, repetition: 'REQUIRED', children: 1, meaning: null },
  };
  expect(treeOf([root, leaf(76)]).leaves).toHaveLength(1);
  for (const scale of [400_000_000, -300_000_000])
    expect(() => treeOf([root, leaf(scale)])).toThrow('decimals');
});

test('Zstandard that does not say its size', () => {
  const frame = (window: number, ...blocks: number[]) =>
    Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0, window, ...blocks]);
  // blocks of one byte that comes again: 1,000 times, the last; 131,072 times, with more behind
  const last = [0x43, 0x1f, 0, 65];
  const large = [2, 0, 16, 65];
  expect(Buffer.from(unpacked(frame(0x38, ...last), 1_000, 'ZSTD')).toString()).toBe('A'.repeat(1_000));
  const bomb = frame(0x38, ...Array.from({ length: 1_000 }, () => large).flat(), ...last);
  expect(() => unpacked(bomb, 1_000, 'ZSTD')).toThrow();
  expect(() => unpacked(frame(0xf8, ...last), 1_000, 'ZSTD')).toThrow();
});

/** A row for each list. */
function writeLists(name: string, lists: readonly (string | null)[][]): void {
  const schema = [
    { name: 'root', num_children: 3 },
    {
      name: 'id',
      type: 'BYTE_ARRAY' as const,
      converted_type: 'UTF8' as const,
      repetition_type: 'REQUIRED' as const,
    },
    {
      name: 'prompt',
      type: 'BYTE_ARRAY' as const,
      converted_type: 'UTF8' as const,
      repetition_type: 'REQUIRED' as const,
    },
    { name: 'list', converted_type: 'LIST' as const, repetition_type: 'OPTIONAL' as const, num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED' as const, num_children: 1 },
    {
      name: 'element',
      type: 'BYTE_ARRAY' as const,
      converted_type: 'UTF8' as const,
      repetition_type: 'OPTIONAL' as const,
    },
  ];
  const ids = lists.map((_, n) => `r-${n}`);
  const columnData = [
    { name: 'id', data: ids },
    { name: 'prompt', data: ids.map(id => `ask ${id}`) },
    { name: 'list', data: [...lists] },
  ];
  writeFileSync(join(at, name), Buffer.from(parquetWriteBuffer({ columnData, schema })));
}

test('a list longer than any text: the row fails, in ingest, a report and a view, and those around it do not', async () => {
  const text = 'x'.repeat(3_000);
  const many = new Array<string>(200_000).fill(text); // of which JSON would be longer than a text can be
  writeLists(
    'lists.parquet',
    Array.from({ length: 12 }, (_, n) => (n === 5 ? many : [text])),
  );
  const { code, stdout, stderr } = await fw('fw ingest lists.parquet', { cwd: at });
  const items = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(code, stderr).toBe(0);
  expect(items.map(({ failure }) => failure?.code ?? null)).toEqual(
    Array.from({ length: 12 }, (_, n) => (n === 5 ? 'line-too-long' : null)),
  );
  const message =
    'lists.parquet:6: expected a row of at most 8388608 characters (--max-line), found more in lists.parquet';
  expect(items[5].failure).toMatchObject({ line: 6, message });
  const rows: (number | string)[] = [];
  const reading = { maxLine: 2 ** 23, warn: () => {} };
  await eachRow(join(at, 'lists.parquet'), reading, (row, number, trouble) =>
    rows.push(trouble?.code ?? `${number} ${row.id}`),
  );
  expect(rows).toEqual(items.map((_, n) => (n === 5 ? 'line-too-long' : `${n + 1} r-${n}`)));
  const run = await Run.open([join(at, 'lists.parquet')], { maxLine: 2 ** 23, keptIn: join(at, 'kept') });
  try {
    while (!run.state().done) await run.grown(run.state().rows, 10_000);
    const query = { filters: [], sort: null, text: 'R-11' };
    const found = await run.select(query, 60_000);
    expect([found.count, found.at(0)]).toEqual([1, 11]);
    expect((await run.read(5)).trouble).toMatch('at most 8388608 characters (--max-line)');
    expect((await run.read(11)).value.id).toBe('r-11');
  } finally {
    await run.close();
  }
});

test('lists beyond a small --max-line: none is cut short, and ingest and a report fail the same rows', async () => {
  const texts = ['x'.repeat(600), 'x'.repeat(600)];
  const nulls = new Array<null>(300).fill(null);
  writeLists('small.parquet', [texts, ['fits'], ['\n'.repeat(400)], [...texts.slice(1), 'y'], nulls]);
  const { stdout } = await fw('fw ingest --max-line 700 small.parquet', { cwd: at });
  const items = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  const wanted = ['line-too-long', null, 'line-too-long', null, 'line-too-long'];
  expect(items.map(({ failure }) => failure?.code ?? null)).toEqual(wanted);
  expect(JSON.parse(items[3].input.list)).toEqual([...texts.slice(1), 'y']);
  const codes: (string | null)[] = [];
  await eachRow(join(at, 'small.parquet'), { maxLine: 700, warn: () => {} }, (_row, _number, trouble) =>
    codes.push(trouble?.code ?? null),
  );
  expect(codes).toEqual(wanted);
});

slow('a row of CSV whose line would be longer than any text, as --max-line is: it fails alone', async () => {
  const field = Buffer.alloc(45 << 20, 1); // JSON has six characters for each, in the input and in the prompt
  writeFileSync(
    join(at, 'x.csv'),
    Buffer.concat([
      ...[Buffer.from('id,prompt,more\na,'), field, Buffer.from(',x\nb,hello,x\nc,,'), field, field],
      Buffer.from('\n'),
    ]),
  );
  const { code, stdout, stderr } = await fw('fw ingest --max-line 200000000 x.csv', { cwd: at });
  const items = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  expect([code, items.map(({ id, row }) => [id, row])], stderr).toEqual([
    0,
    [
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ],
  ]);
  expect(items[0].failure).toMatchObject({
    code: 'line-too-long',
    line: 2,
    message: expect.stringContaining('512 MiB'),
  });
  // whose prompt is empty, and whose input no line could have
  expect([items[2].failure.code, items[2].input]).toEqual(['empty-prompt', undefined]);
});

test('no line may be longer than a text can be', async () => {
  writeFileSync(join(at, 'x.csv'), 'id,prompt\na,hello\n');
  const { code, stderr } = await fw('fw ingest --max-line 536870889 x.csv', { cwd: at });
  expect([code, stderr]).toEqual([64, expect.stringContaining('from 1 to 536870888')]);
  expect((await fw('fw ingest --max-line 536870888 x.csv', { cwd: at })).code).toBe(0);
});
