/** What makes a whole source unusable, in one message; several sources; reading no more than is asked for. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { Fatal } from '../../engine/core/item/failure.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { Values } from '../../engine/flow/options.ts';
import { folder } from '../fw.ts';
import { blocks, ingested, open, run } from './ingesting.ts';

async function refusal(running: Promise<unknown>): Promise<[number, string]> {
  const error = await running.then(
    () => new Error('nothing was refused'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Fatal)) throw error;
  return [error.exit, error.message];
}

describe('no table', () => {
  test.each<[string, string | Buffer, Values, string]>([
    ['nothing', '', {}, 'expected a table, found nothing'],
    ['a byte order mark alone', '\ufeff', {}, 'expected a table, found nothing but space'],
    ['empty lines alone', '\n \r\n', {}, 'expected a table, found nothing but space'],
    ['a header alone', 'id,prompt\n', {}, 'expected rows under the header, found none'],
    ['zero bytes', Buffer.from('\x7fELF\x02\x01\x01\0\0', 'latin1'), {}, 'found bytes of a binary file'],
    [
      'UTF-16',
      Buffer.from('\ufeffid,prompt\n', 'utf16le'),
      {},
      'found UTF-16; fw ingest --encoding utf-16le reads a table in it; iconv -f UTF-16 -t UTF-8 FILE',
    ],
    [
      'UTF-16 without a mark',
      Buffer.from('id,prompt\n', 'utf16le'),
      {},
      'found UTF-16LE; fw ingest --encoding utf-16le',
    ],
    ['UTF-32', Buffer.from('fffe0000690000006400', 'hex'), {}, 'found UTF-32; iconv -f UTF-32'],
    [
      'gzip',
      gzipSync('id,prompt\n1,a\n'),
      {},
      'found gzip, which is compressed; decompress it first: gunzip -c FILE | fw …',
    ],
    ['gzip, said to be JSON', gzipSync('[{}]'), { format: 'json' }, 'found gzip'],
    ['a workbook', Buffer.from('504b0304140000000800', 'hex'), {}, 'found a ZIP archive or a workbook'],
    [
      'a header in Latin-1',
      Buffer.from('id,caf\xe9\n', 'latin1'),
      {},
      'iconv -f WINDOWS-1252 -t UTF-8 converts',
    ],
    ['columns without a name', 'id,,prompt,\n1,,a,\n', {}, 'found none for the columns 2, 4'],
    ['semicolons', 'id;prompt\n1;a\n', {}, "alone (is it --delimiter ';'?)"],
    ['commas, said to be others', 'id,prompt\n1,a\n', { delimiter: ';' }, "alone (is it --delimiter ','?)"],
    ['a header without a delimiter', 'text\na\n', {}, 'alone (is the --format right?)'],
    ['a header that is no UTF-8', Buffer.from([0x69, 0xe9, 10, 49]), {}, 'stdin:1: expected a header'],
    ['a header with broken quotes', '"id"x,prompt\n1,2\n', {}, 'stdin:1: expected a header'],
    ['columns that come twice', 'id,a,prompt,a,id\n1,2,3,4,5\n', {}, "found twice or more: 'a', 'id'"],
    ['a prompt column that is not there', 'id,text\n1,a\n', {}, "the columns 'prompt', found 'id', 'text'"],
    [
      'an id column that is not there',
      'id,prompt\n1,a\n',
      { id: 'key' },
      "the columns 'key', found 'id', 'prompt'",
    ],
    ['tabs read as CSV', 'id\tprompt\n1\ta\n', {}, "alone (is it --delimiter '\\t'?)"],
    ['a JSON scalar', '42', { format: 'json' }, 'expected an array of objects, or objects one a line'],
    ['an empty array', ' [ ] ', {}, 'expected objects, in an array, found none'],
    ['an array without objects', '[1,2]', {}, 'found none among 2 elements'],
    ['lines without objects', 'null\n', { format: 'ndjson' }, 'found none among 1 lines'],
    ['an array that is cut off', '[{"prompt":"a"},', {}, 'expected the array to be closed'],
    ['an array and more', '[{"prompt":"a"}] x', {}, 'expected nothing after the closing bracket'],
    ['an object without a prompt', '{"id":"a","text":"b"}', {}, "the columns 'prompt', found 'id', 'text'"],
  ])('%s', async (_what, content, given, message) => {
    const [exit, said] = await refusal(ingested(content, given));
    expect(exit).toBe(65);
    expect(said).toContain('stdin');
    expect(said).toContain(message);
  });

  test('rows before the place where a source turns out to be broken have left', async () => {
    const { items } = await open([blocks('[{"prompt":"a"},{"prompt":"b"}')]);
    const left: Item[] = [];
    await refusal(
      items
        .tap(item => left.push(item))
        .collect()
        .toPromise(Promise) as unknown as Promise<unknown>,
    );
    expect(left.map(item => item.prompt)).toEqual(['a']);
  });
});

test.each([
  ['', 'column 3 of 4 has no name; it is "" in'],
  [' ', 'column 3 of 4 has no name; it is " " in'],
  ['x', ''],
])('a column named %j is warned of, once, and is a column like others', async (name, warning) => {
  const files = ['1,a,b,c\n', '2,d,e,f\n'].map((row, at) =>
    blocks(`id,prompt,${name},y\n${row}`, [], `${at}.csv`),
  );
  const warnings: string[] = [];
  const { items } = await open(files, {}, '.', message => warnings.push(message));
  const all = (await items.collect().toPromise(Promise)) as unknown as Item[];
  expect(all.map(({ input }) => input?.[name])).toEqual(['b', 'e']);
  expect(warnings.map(text => text.replace(/^0.csv: | the input of the items$/g, ''))).toEqual(
    warning ? [warning] : [],
  );
});

describe('several sources', () => {
  test('rows are numbered over the run, and lines in each source', async () => {
    const items = await run([
      blocks('id,prompt\n1,a\n2,b\n', [], 'a.csv'),
      blocks('id,prompt\n1,c\n3\n', [], 'b.csv'),
      blocks('{"id":"4","prompt":"d"}', [], 'c.json'),
    ]);
    expect(items.map(({ row, failure }) => [row, failure?.message])).toEqual([
      [1, undefined],
      [2, undefined],
      [3, "b.csv:2: expected every id once, found '1', which an earlier row has"],
      [4, 'b.csv:3: expected 2 fields, as the header has, found 1'],
      [5, undefined],
    ]);
  });

  test.each([
    ['prompt,id\n1,a\n', 'found it in another order'],
    ['id,prompt,x\n1,a,b\n', "found it with 'x'"],
    ['id,text\n1,a\n', "found it without 'prompt', with 'text'"],
  ])('another header is named: %j', async (text, difference) => {
    const inputs = [blocks('id,prompt\n1,a\n', [], 'a.csv'), blocks(text, [], 'b.csv')];
    expect(await refusal(run(inputs))).toEqual([
      65,
      `b.csv: expected the same header as a.csv, ${difference}`,
    ]);
  });

  test('the format is that of the name, else that of the first bytes, else the one that is given', async () => {
    const one = async (text: string, name: string, given = {}) =>
      (await run([blocks(text, [1], name)], given))[0]?.prompt;
    expect(await one('id\tprompt\n1\ta\n', 'x.TSV')).toBe('a');
    expect(await one('{"prompt":"a"}', 'x.jsonl')).toBe('a');
    expect(await one('{"prompt":"a"}', 'x.json')).toBe('a');
    expect(await one('\ufeff [{"prompt":"a"}]', 'stdin')).toBe('a');
    expect(await one('[id,prompt\n1,a\n', 'x.csv')).toBe('a');
    expect(await one('id\tprompt\n1\ta\n', 'x.csv', { format: 'tsv' })).toBe('a');
    expect(await one('id;prompt\n1;a\n', 'x.tsv', { delimiter: ';' })).toBe('a');
    expect(await one('id\tprompt\n1\ta\n', 'x', { delimiter: '\\t' })).toBe('a');
    expect(await one('id|prompt\n1|a\n', 'x', { delimiter: '|', format: 'tsv' })).toBe('a');
  });

  test.each(['', ';;', '\n', '\r', '"', 'é', '\0'])('--delimiter %j is refused', async delimiter => {
    expect((await refusal(ingested('id,prompt\n1,a\n', { delimiter })))[0]).toBe(64);
  });

  test('--delimiter has no place in JSON, nor in legacy results without a table', async () => {
    for (const format of ['json', 'ndjson', 'legacy'])
      expect(await refusal(ingested('', { delimiter: ';', format }))).toEqual([
        64,
        '--delimiter: expected a table of CSV',
      ]);
  });
});

const many = (rows: number): string =>
  `id,prompt\n${Array.from({ length: rows }, (_u, at) => `${at},?\n`).join('')}`;

describe('reading', () => {
  test('stops with a slow reader', async () => {
    const input = blocks(many(20_000), [1000]);
    const { items } = await open([input]);
    await new Promise<void>(resolve => {
      let taken = 0;
      items
        .consume<never>((_error, _item, _push, next) => {
          taken += 1;
          if (taken === 10) return resolve(); // and never asks again
          next();
        })
        .resume();
    });
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(input.reads).toBeLessThanOrEqual(2);
  });

  test('stops at --limit without the row after it, and closes the source', async () => {
    let asked = 0;
    const input = {
      ...blocks(''),
      read: () => {
        asked += 1;
        return asked === 1 ? Buffer.from('id,prompt\n1,a\n2,b\n') : new Promise<never>(() => {});
      },
    };
    expect((await run([input], { limit: 2 })).map(item => item.id)).toEqual(['1', '2']);
    expect(input.closed).toBe(true);
  });

  test('ends when the run is stopped, also where a pipe brings nothing', async () => {
    let closed = false;
    let wake: (end: null) => void = () => {};
    const input = {
      ...blocks(''),
      regular: false,
      read: () =>
        new Promise<Buffer | null>(resolve => {
          wake = resolve;
        }),
      close() {
        closed = true;
        wake(null);
      },
    };
    const { items, stop } = await open([input]);
    const all = items.collect().toPromise(Promise) as unknown as Promise<Item[]>;
    await new Promise(setImmediate);
    stop();
    expect(await all).toEqual([]);
    expect(closed).toBe(true);
  });

  test('an error of the source ends the run with that error', async () => {
    const input = { ...blocks(''), read: () => Promise.reject(new Fatal(74, 'stdin: EIO')) };
    expect(await refusal(run([input]))).toEqual([74, 'stdin: EIO']);
  });
});

describe('--template', () => {
  const base = folder();
  const templated = (template: string, table: string): Promise<Item[]> => {
    writeFileSync(join(base, 'ask.liquid'), template);
    return run([blocks(table)], { template: 'ask.liquid' }, base);
  };

  test('renders the columns', async () => {
    const [item] = await templated(
      '{{ name }}{% if note %} ({{ note }}){% endif %}: {{ ["credit score"] | plus: 1 }}{% assign own = name %}{{ own }}',
      'id,name,credit score,note\n1,"A ""B""",540,\n',
    );
    expect(item?.prompt).toBe('A "B": 541A "B"');
  });

  test('a variable that no column gives is named before the first row', async () => {
    const [exit, message] = await refusal(templated('{{ nmae }}', 'id,name\n1,a\n'));
    expect(exit).toBe(65);
    expect(message).toBe("stdin: expected the columns 'nmae', found 'id', 'name'; see ask.liquid");
  });

  test('a filter that is not known, a tag that is not closed, a file of another', async () => {
    for (const template of ['{{ name | shout }}', '{% if name %}', '{% include "x" %}', '{% render "x" %}']) {
      const [exit, message] = await refusal(templated(template, 'id,name\n1,a\n'));
      expect(exit).toBe(65);
      expect(message).toMatch(/^ask\.liquid: expected a Liquid template, found: .*line:1, col:1/);
    }
  });

  test('a row that lacks the variable, or takes too much, fails alone', async () => {
    const items = await templated('{{ name }}', '{"id":"1","name":"a"}\n{"id":"2","name":null}\n');
    expect(items[0]?.prompt).toBe('a');
    expect(items[1]).toMatchObject({ id: '2', failure: { code: 'template-failed', line: 2 } });
    expect(items[1]?.failure?.message).toContain('name');
    const huge = await templated('{% for x in (1..n) %}.{% endfor %}', 'id,n\n1,3\n2,999999999999\n');
    expect(huge.map(item => item.prompt ?? item.failure?.code)).toEqual(['...', 'template-failed']);
  });
});
