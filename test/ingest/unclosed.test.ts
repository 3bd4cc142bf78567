/** A quote that is never closed costs few rows, says which lines it took, and every line is accounted for. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { runs } from '../all.ts';
import { blocks, ingested, open, run } from './ingesting.ts';
import { holds, sizes } from './property.ts';

const table = (columns: number, rows: readonly string[]): string =>
  `${['id', 'prompt', ...'abcdefgh'].slice(0, columns).join()}\n${rows.map(row => `${row}\n`).join('')}`;
const row = (columns: number, at: number): string =>
  [at, `row ${at}`, ...'12345678'].slice(0, columns).join();
const linesOf = (item: Item): number =>
  item.failure ? ((item.failure.lastLine as number) ?? item.failure.line) - item.failure.line! + 1 : 1;
const lost = (items: readonly Item[]): number =>
  items.reduce((sum, item) => sum + (item.failure ? linesOf(item) : 0), 0);

describe('one quote that is not closed', () => {
  test.each([2, 3, 6, 9])(
    'among 5,000 rows of %i columns: its own row is lost, wherever it is',
    async columns => {
      for (const at of [0, 1, 2500, 4990 - 8]) {
        const rows = Array.from({ length: 5_000 }, (_none, index) => row(columns, index));
        rows[at] = rows[at]!.replace('row', '"row');
        const items = await ingested(table(columns, rows));
        expect(
          items.filter(item => item.failure).map(({ failure }) => [failure?.code, failure?.line]),
        ).toEqual([['bad-quotes', at + 2]]);
        expect(items).toHaveLength(5_000);
      }
    },
  );

  test('in a field of several lines: they are lost with it, and said', async () => {
    const rows = Array.from({ length: 40 }, (_none, index) => row(3, index));
    rows[9] = '9,"a text\nof three, or more,\nlines, of which no three are rows in a row\nand an end';
    const items = await ingested(table(3, rows));
    expect(items.filter(item => item.failure)).toHaveLength(1);
    expect(items[9]?.failure).toMatchObject({ code: 'bad-quotes', line: 11, lastLine: 14, text: rows[9] });
    expect(items[9]?.failure?.message).toContain('lines 11 to 14 (4 lines)');
    expect(items[10]).toMatchObject({ id: '10', row: 11 });
  });

  test('what is lost of a long stretch is known by its lines, its size and its hash', async () => {
    const rows = [
      '1,a,b',
      '2,"c',
      ...Array.from({ length: 50_000 }, (_none, at) => `text ${at}`),
      ...['3,d,e', '4,f,g', '5,h,i', '6,j,k'],
    ];
    const items = await ingested(table(3, rows));
    expect(items.map(item => item.id)).toEqual(['1', null, '3', '4', '5', '6']);
    expect(items[1]?.failure).toMatchObject({ line: 3, lastLine: 50_003, sha256: expect.any(String) });
    expect(items[1]?.failure?.text).toHaveLength(1024);
  });

  test('beyond --max-line too, and a field that is closed beyond it takes its own row alone', async () => {
    const given = { 'max-line': 2_000 };
    const behind = Array.from({ length: 3_000 }, (_none, at) => row(6, at));
    const open = await ingested(table(6, ['a,"b', ...behind]), given);
    expect([open.length, lost(open)]).toEqual([3_001, 1]);
    const closed = `a,"${'some text\n'.repeat(3_000)}",1,2,3,4`;
    const long = await run([blocks(table(6, [closed, ...behind]), [700])], given);
    expect([long.length, long[0]?.failure?.code, lost(long)]).toEqual([3_001, 'line-too-long', 3_001]);
  });

  test('a row that is fine keeps its lines, were all of them rows', async () => {
    const text = Array.from({ length: 200 }, (_none, at) => row(6, at)).join('\n');
    const items = await ingested(table(6, [`a,"${text}",1,2,3,4`, row(6, 7)]));
    expect(items.map(item => item.prompt)).toEqual([text, 'row 7']);
  });
});

describe('the numbers of the rows behind', () => {
  test.each([
    ['id,prompt\n1,one\n2,"two\n3,three\n4,"four"\n5,five\n', ['5', 5], 'count as 3 rows'],
    ['id,prompt\n1,one\n2,"two\n3,"three"\n4,four\n', ['4', 4], 'count as 2 rows'],
    ['id,prompt,c\n1,"one\n2,two,b\n\n3,"three",c\n4,four,d\n', ['4', 4], 'count as 3 rows'],
    ['id,prompt,c\n1,"one\nand more\n2,"three",c\n4,four,d\n', ['4', 2], 'nothing tells'],
  ])('of %j', async (text, [id, number], says) => {
    const said: string[] = [];
    const { items } = await open([blocks(text)], {}, '.', message => said.push(message));
    const all = await new Promise<Item[]>((resolve, reject) => items.stopOnError(reject).toArray(resolve));
    expect(all.find(item => item.id === id)).toMatchObject({ row: number });
    expect(said.filter(message => message.includes('a quote is not closed'))).toEqual([
      expect.stringContaining(says),
    ]);
    expect(said.join()).toContain('may change when the file is mended');
  });

  test('those of a table that was cut in its middle are those of the mended one', async () => {
    for (const width of [2, 3, 6]) {
      const rows = Array.from({ length: 12 }, (_none, at) => row(width, at));
      const mended = await ingested(table(width, rows));
      rows[3] = rows[3]!.replace('row', '"row');
      rows[5] = rows[5]!.replace(/row 5/, '"row 5"');
      const open = await ingested(table(width, rows));
      for (const item of open.filter(({ failure }) => !failure))
        expect(item.row).toBe(mended.find(({ id }) => id === item.id)?.row);
    }
  });
});

test('any number of them, anywhere: every line is in an item or a failure, whatever the blocks, and most rows are there', () =>
  holds(
    fc.record({
      columns: fc.integer({ min: 2, max: 9 }),
      breaks: fc.array(fc.nat(399), { maxLength: 5 }),
      quoted: fc.nat(9),
      sizes,
      maxLine: fc.constantFrom(undefined, 3_000, 9_000),
    }),
    async ({ columns, breaks, quoted, sizes, maxLine }) => {
      const rows = Array.from({ length: 400 }, (_none, at) => {
        const whole = row(columns, at);
        if (breaks.includes(at)) return whole.replace('row', '"row');
        return quoted > 0 && at % (10 * quoted) === 0 ? whole.replace(/row \d+/, '"$& of ""all"""') : whole;
      });
      const given = maxLine === undefined ? {} : { 'max-line': maxLine };
      const text = table(columns, rows);
      const items = await ingested(text, given);
      expect(
        await run(
          [
            blocks(
              text,
              sizes.map(size => size * 20),
            ),
          ],
          given,
        ),
      ).toEqual(items);
      expect(items.reduce((sum, item) => sum + linesOf(item), 0)).toBe(400);
      expect(lost(items)).toBeLessThanOrEqual(100 * new Set(breaks).size);
    },
  ));

/** characters */
const LENGTH = runs(100_000, 300_000, 'LENGTH');
test('hostile quotes cost time that is linear in the bytes', async () => {
  for (const line of [
    'x,"a\n',
    'x,"a""\n',
    '1,2\n3,"a\n',
    `${'1,2\n'.repeat(15)}3,"a\n`,
    `${'1,2\n'.repeat(7)}3,"a\n`,
    '""\n"a\n',
    'x,"a\n\n',
  ]) {
    const items = await ingested(`id,prompt\n${line.repeat(LENGTH / line.length)}`);
    expect(items.length).toBeGreaterThan(0);
  }
});
