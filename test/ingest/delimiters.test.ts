/** Tables that are read with another delimiter than theirs are noticed; a first line `sep=;` is understood, wherever tables are read. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Fatal } from '../../engine/core/item/failure.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { Values } from '../../engine/flow/options.ts';
import { lookAtTable } from '../../engine/tables/look.ts';
import { countRows } from '../../engine/tables/selection.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { blocks, open, writtenBy } from './ingesting.ts';

const at = folder();
/** A template that names no column, so that any header is right for it. */
const template = join(at, 'row.liquid');
writeFileSync(template, 'Here is the row: {% row_as_json %}');

interface Came {
  items?: Item[];
  exit?: number;
  said: string;
}

async function ingest(text: string, given: Values, sizes: number[] = [], name = 'stdin'): Promise<Came> {
  const warned: string[] = [];
  try {
    const { items } = await open([blocks(text, sizes, name)], given, '.', message => warned.push(message));
    const all = (await items.collect().toPromise(Promise)) as unknown as Item[];
    return { items: all, said: warned.join('\n') };
  } catch (error) {
    if (!(error instanceof Fatal)) throw error;
    return { exit: error.exit, said: error.message };
  }
}

const ROWS = [
  { id: '1', prompt: 'a', income: '1,5' },
  { id: '2', prompt: 'b; c', income: '' },
];
const written = (delimiter: string, end = '\n'): string =>
  [
    'id,prompt,income'.replaceAll(',', delimiter),
    `1,a,"1,5"`.replaceAll(/,(?!5)/g, delimiter),
    `2,"b; c",`.replaceAll(',', delimiter),
    '',
  ].join(end);

describe('sep=', () => {
  test.each([
    ['a line feed', `sep=;\n${written(';')}`],
    ['carriage returns', `sep=;\r\n${written(';', '\r\n')}`],
    ['carriage returns alone', `sep=;\r${written(';', '\r')}`],
    ['capitals', `SEP=;\n${written(';')}`],
    ['quotes', `"sep=;"\r\n${written(';', '\r\n')}`],
    ['a byte order mark', `\ufeffsep=;\r\n${written(';', '\r\n')}`],
    ['a mark and quotes', `\ufeff"sep=;"\n${written(';')}`],
    ['a comma', `sep=,\n${written(',')}`],
    ['a bar', `sep=|\n${written('|')}`],
    ['a tab', `sep=\t\n${written('\t')}`],
    ['a tab that is spelt', `sep=\\t\n${written('\t')}`],
    ['an unusual one', `sep=^\n${written('^')}`],
  ])('with %s', async (_, text) => {
    for (const sizes of [[], [1], [3, 7]]) {
      for (const given of [{}, { template }]) {
        const { items, said } = await ingest(text, given, sizes);
        expect(items?.map(({ input, row, failure }) => ({ input, row, failure }))).toEqual(
          ROWS.map((input, index) => ({ input, row: index + 1, failure: undefined })),
        );
        expect(said).toMatch(/the first line, sep=.{1,2}, sets the delimiter and is not a row/);
      }
      const lines = (await writtenBy([blocks(text, sizes)])).trim().split('\n');
      expect(lines.map(line => JSON.parse(line).input)).toEqual(ROWS);
    }
    const path = join(at, 'counted.csv');
    writeFileSync(path, text);
    expect(await countRows([path, path], { maxLine: 1 << 20, signal: new AbortController().signal })).toBe(4);
    const { columns, delimiter, rows } = await lookAtTable(path, { maxLine: 1 << 20 });
    expect([columns, delimiter, rows.length]).toEqual([['id', 'prompt', 'income'], undefined, 2]);
  });

  test.each<[string, string, Values, string, number, RegExp]>([
    [
      'another in the options',
      `sep=;\n${written(';')}`,
      { delimiter: ',' },
      'stdin',
      65,
      /^stdin:1: expected the delimiter ',' of the options, found sep=;/,
    ],
    [
      'another format',
      `sep=;\n${written(';')}`,
      { format: 'tsv' },
      'stdin',
      65,
      /expected the delimiter '\\t' of the options/,
    ],
    [
      'nothing named',
      `sep=\n${written(';')}`,
      {},
      'stdin',
      65,
      /expected one ASCII character after sep=, found none/,
    ],
    [
      'no ASCII',
      `sep=§\n${written(';')}`,
      {},
      'stdin',
      65,
      /expected one ASCII character after sep=, found "§"/,
    ],
    [
      'two characters',
      `sep=;;\n${written(';')}`,
      {},
      'stdin',
      65,
      /expected one ASCII character after sep=, found ";;"/,
    ],
    ['a header alone', 'sep=;\nid;prompt\n', {}, 'stdin', 65, /expected rows under the header, found none/],
    ['nothing else', 'sep=;', {}, 'stdin', 65, /expected a header and rows under the line sep=, found none/],
    ['an empty line', 'sep=;\n\n', {}, 'stdin', 65, /expected a header and rows/],
  ])('with %s', async (_, text, given, name, exit, message) => {
    for (const sizes of [[], [1]]) {
      const came = await ingest(text, { template, ...given }, sizes, name);
      expect([came.exit, came.said]).toEqual([exit, expect.stringMatching(message)]);
    }
  });

  test('the same in the options, the ending of the name, and the lines of bad rows', async () => {
    const text = `sep=;\n${written(';')}3;c\n`;
    for (const [given, name] of [
      [{ delimiter: ';' }, 'a.csv'],
      [{}, 'a.tsv'],
      [{ format: 'csv' }, 'a.txt'],
    ] as const) {
      const { items } = await ingest(text, given, [], name);
      expect(items?.map(({ row }) => row)).toEqual([1, 2, 3]);
      expect(items?.[2]?.failure?.message).toBe(`${name}:5: expected 3 fields, as the header has, found 2`);
    }
  });

  test('a report reads it too', async () => {
    writeFileSync(join(at, 'decided.csv'), 'sep=;\r\nok;g\r\nyes;a\r\nno;b\r\n');
    const { code, stdout } = await fw('fw report decided.csv --outcome ok --approve yes --group g --json', {
      cwd: at,
    });
    expect([
      code,
      JSON.parse(stdout)
        .groups[0].rows.map(({ value }: { value: string }) => value)
        .sort(),
    ]).toEqual([0, ['a', 'b']]);
  });
});

describe('a header that holds another delimiter', () => {
  test.each<[string, string, Values]>([
    ['semicolons', written(';'), {}],
    ['semicolons and decimal commas in the rows', 'id;name;income\n1;Elif;1200,50\n', {}],
    ['a mark', `\ufeff${written(';')}`, {}],
    ['tabs', written('\t'), {}],
    ['bars', written('|'), {}],
    ['commas, said to be tabs', written(','), { format: 'tsv' }],
    ['a header alone', 'id;prompt\n', {}],
    ['an empty name', 'id;\n1;2\n', {}],
  ])('alone is refused: %s', async (_, text, given) => {
    for (const sizes of [[], [1]]) {
      const { exit, said } = await ingest(text, { template, ...given }, sizes);
      expect([exit, said]).toEqual([
        65,
        expect.stringMatching(/ alone \(is it --delimiter '(?:;|\\t|\||,)'\?\)/),
      ]);
    }
  });

  test.each<[string, string, Values, RegExp]>([
    [
      'more columns by another',
      'id;name;income, EUR\n1;Elif;1200,50\n',
      {},
      /its header is 2 columns by ',' and 3 by ';'/,
    ],
    ['as many by another', 'id;income, EUR\n1;1200,50\n', {}, /its header is 2 columns by ',' and 2 by ';'/],
    ['one column, as was said', 'id;prompt\n1;a\n', { delimiter: ',' }, /"id;prompt" alone/],
    ['one column by what was said', 'id,prompt\n1,a\n', { delimiter: ';' }, /"id,prompt" alone/],
    ['lines in quotes', '"id,prompt"\n"1,a"\n', {}, /one column, "id,prompt", in quotes/],
    [
      'lines in quotes, and what was said',
      '"id;prompt"\n"1;a"\n',
      { delimiter: ';' },
      /one column, "id;prompt", in quotes/,
    ],
  ])('is told where it may be right: %s', async (_, text, given, message) => {
    const { items, said } = await ingest(text, { template, ...given });
    expect([items?.length, said]).toEqual([1, expect.stringMatching(message)]);
  });

  test.each<[string, string, Values]>([
    ['one column', 'question\na; b; c\n', {}],
    ['names in quotes', 'id,"tags; a; b","x|y|z"\n1,a;b,c\n', {}],
    ['fewer columns by another', 'id,name,age (years; months)\n1,a,3\n', {}],
    ['text in the rows', 'id,prompt\n1,"a;b;c"\n2,d;e\n', {}],
    ['another that was said', 'id;a,b,c;d\n1;2;3\n', { delimiter: ';' }],
    ['JSON', '{"id;a": "1"}\n', { format: 'ndjson' }],
  ])('is right: %s', async (_, text, given) => {
    const { items, said } = await ingest(text, { template, ...given });
    expect([items?.every(({ failure }) => failure === undefined), said]).toEqual([true, '']);
  });

  test('the second of two files, and a look at it', async () => {
    writeFileSync(join(at, 'a.csv'), 'id,prompt\n1,a\n');
    writeFileSync(join(at, 'b.csv'), 'id;prompt\n1;a\n');
    const second = await fw('fw ingest a.csv b.csv', { cwd: at });
    expect([second.code, second.stderr]).toEqual([
      65,
      expect.stringContaining(`"id;prompt" alone (is it --delimiter ';'?)`),
    ]);
    const { columns, delimiter } = await lookAtTable(join(at, 'b.csv'), { maxLine: 1 << 20 });
    expect([columns, delimiter]).toEqual([['id', 'prompt'], ';']);
  });
});
