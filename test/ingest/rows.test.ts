/** Every row is one item: good, or failed with its code, its line and what was found. */
import { describe, expect, test } from 'vitest';
import { runs } from '../all.ts';
import { blocks, ingested, run } from './ingesting.ts';

const brief = async (text: string | Buffer, given = {}) =>
  (await ingested(text, given)).map(({ id, row, failure }) => [row, id, failure?.code, failure?.line]);

test('a header of a hundred thousand columns is read in time linear in them', async () => {
  const count = runs(100_000, 400_000, 'COLUMNS');
  const columns = Array.from({ length: count }, (_, n) => `c${n}`).join();
  const row = 'v,'.repeat(count);
  const [item] = await ingested(`id,prompt,${columns}\n1,a,${row.slice(0, -1)}\n`);
  expect(item?.id).toBe('1');
  await expect(ingested(`id,prompt,${columns},c7\n1,a,${row}v\n`)).rejects.toThrow("twice or more: 'c7'");
});

describe('broken rows of CSV', () => {
  test('a ragged row keeps its fields and names both counts', async () => {
    const [short, long, good] = await ingested('id,prompt\n1\n2,a,"b\nc"\n3,d\n');
    expect(short?.failure).toMatchObject({ code: 'ragged-row', line: 2, fields: ['1'] });
    expect(long?.failure).toMatchObject({ code: 'ragged-row', line: 3, fields: ['2', 'a', 'b\nc'] });
    expect(long?.failure?.message).toBe('stdin:3: expected 2 fields, as the header has, found 3');
    expect(good).toEqual({ id: '3', row: 3, input: { id: '3', prompt: 'd' }, prompt: 'd' });
  });

  test.each([
    ['text behind a closing quote', '1,"a"b\n'],
    ['a quote inside a quoted field', '1,"he said "hi" to us"\n'],
    ['a quote inside a field without quotes', '1,5" pipe\n'],
    ['quotes inside a field of several lines', '1,"one\n\nhe said "hi, there" and left\nbye"\n'],
  ])('%s breaks its own row alone', async (_what, broken) => {
    const items = await ingested(`id,prompt\n0,"z\nz"\n${broken}2,"c\n\nd"\n3,e\n`);
    expect(items.map(item => item.id)).toEqual(['0', null, '2', '3']);
    expect(items[1]?.failure).toMatchObject({ code: 'bad-quotes', line: 4, text: broken.trimEnd() });
  });

  test('a quote that is missing takes the next quoted row along, says so, and no part of it becomes a row', async () => {
    const items = await ingested('id,prompt\n1,"a\n2,"b\nIncome, 40000\nc"\n3,"d"\n');
    expect(items.map(item => item.id)).toEqual([null, '3']);
    expect(items[0]?.failure?.text).toBe('1,"a\n2,"b\nIncome, 40000\nc"');
    expect(items[0]?.failure?.message).toContain('lines 2 to 5 (4 lines) are taken for this row');
  });

  test('a quote that is never closed is said so, with all that it took', async () => {
    const items = await ingested('id,prompt\n1,a\n2,"b\nc,d\n');
    expect(items[1]?.failure).toMatchObject({ code: 'bad-quotes', line: 3, text: '2,"b\nc,d\n' });
    expect(items[1]?.failure?.message).toContain('found the end of the input');
  });

  test('bytes that are not UTF-8 fail their row and are kept', async () => {
    const text = Buffer.concat([Buffer.from('id,prompt\n1,'), Buffer.from([0xff]), Buffer.from('\n2,é\n')]);
    const [bad, good] = await ingested(text);
    expect(bad?.failure).toMatchObject({ code: 'not-utf8', line: 2, base64: 'MSz/' });
    expect(good?.prompt).toBe('é');
  });

  test('the header again, as of files that were put together', async () => {
    expect(await brief('id,prompt\n1,a\n\ufeffid,prompt\n2,b\n')).toEqual([
      [1, '1', undefined, undefined],
      [2, null, 'header-again', 3],
      [3, '2', undefined, undefined],
    ]);
  });

  test('a header that is too long ends the run once that is known, in an input without an end too', async () => {
    const more = Buffer.alloc(1 << 10, 'x');
    const endless = { ...blocks(''), read: (rest: Buffer | null) => Buffer.concat([rest ?? more, more]) };
    await expect(run([endless], { 'max-line': 5_000 })).rejects.toMatchObject({
      exit: 65,
      message: 'stdin: expected a header of at most 5000 bytes (--max-line), found none in them',
    });
  });

  test('empty lines hold nothing, but count as lines', async () => {
    expect(await brief('id,prompt\n\n1,a\r\n\r\n2\n\n')).toEqual([
      [1, '1', undefined, undefined],
      [2, null, 'ragged-row', 5],
    ]);
  });

  test('a row over --max-line is known by its size, its hash and its beginning', async () => {
    const long = `1,"${'x'.repeat(5000)}\n${'y'.repeat(5000)}"`;
    const [item, next] = await run([blocks(`id,prompt\n${long}\n2,ok\n`, [700])], { 'max-line': 4096 });
    expect(item?.failure).toMatchObject({
      code: 'line-too-long',
      line: 2,
      bytes: long.length,
      text: long.slice(0, 1024),
    });
    expect(next).toMatchObject({ id: '2', row: 2 });
    const [wide] = await ingested(`id,prompt\n1,${'é'.repeat(2000)}x\n`, { 'max-line': 2000 });
    expect(wide?.failure?.text).toBe(`1,${'é'.repeat(511)}`);
    const [, ragged] = await ingested(`id,prompt\n${long}\n2\n`, { 'max-line': 4096 });
    expect(ragged?.failure?.line).toBe(4);
  });
});

describe('ids and prompts', () => {
  test('the second row of an id fails without one, since ids are unique in a run', async () => {
    const [first, second] = await ingested('id,prompt\na,1\na,2\n');
    expect(first?.failure).toBeUndefined();
    expect(second).toMatchObject({
      id: null,
      row: 2,
      input: { id: 'a', prompt: '2' },
      failure: { code: 'duplicate-id' },
    });
    expect(second?.failure?.message).toBe(
      "stdin:3: expected every id once, found 'a', which an earlier row has",
    );
  });

  test('ids are text: 1 and " 1" are two, 1 and "1" of JSON are one', async () => {
    expect(await brief('id,prompt\n1,a\n 1,b\n')).toEqual([
      [1, '1', undefined, undefined],
      [2, ' 1', undefined, undefined],
    ]);
    expect((await brief('{"id":1,"prompt":"a"}\n{"id":"1","prompt":"b"}\n'))[1]?.[2]).toBe('duplicate-id');
  });

  test('an empty id and an empty prompt', async () => {
    expect(await brief('id,prompt\n,a\n1,\n2," \n"\n')).toEqual([
      [1, null, 'empty-id', 2],
      [2, '1', 'empty-prompt', 3],
      [3, '2', 'empty-prompt', 4],
    ]);
    expect(
      (await brief('{"id":null,"prompt":"a"}\n{"id":"1","prompt":null}\n')).map(line => line[2]),
    ).toEqual(['empty-id', 'empty-prompt']);
  });

  test('the id is the column id, else prompt_id, else a hash of the row that no order of columns changes', async () => {
    expect((await ingested('prompt_id,id,prompt\nx,y,?\n'))[0]?.id).toBe('y');
    expect((await ingested('prompt_id,prompt\nx,?\n'))[0]?.id).toBe('x');
    const [hashed] = await ingested('a,prompt\nx,?\n');
    expect(hashed?.id).toMatch(/^[0-9a-f]{12}$/);
    expect((await ingested('prompt,a\n?,x\n'))[0]?.id).toBe(hashed?.id);
    expect((await ingested('{"prompt":"?","a":"x"}'))[0]?.id).toBe(hashed?.id);
    expect((await ingested('a,prompt\nx,!\n'))[0]?.id).not.toBe(hashed?.id);
    expect((await brief('a,prompt\nx,?\nx,?\n'))[1]?.[2]).toBe('duplicate-id');
  });
});

describe('JSON', () => {
  test('what is no object fails in its place', async () => {
    expect(await brief('{"id":"a","prompt":"?"}\nnull\n3\n[]\n{"id":\n\n{"id":"b","prompt":"?"}')).toEqual([
      [1, 'a', undefined, undefined],
      [2, null, 'not-an-object', 2],
      [3, null, 'not-an-object', 3],
      [4, null, 'not-an-object', 4],
      [5, null, 'not-json', 5],
      [6, 'b', undefined, undefined],
    ]);
    const array = '[ {"id":"a","prompt":"[,]\\""},\n null, {"id":},,\n{"id":"b","prompt":"?"}]\n';
    expect(await brief(array)).toEqual([
      [1, 'a', undefined, undefined],
      [2, null, 'not-an-object', 2],
      [3, null, 'not-json', 2],
      [4, null, 'not-json', 2],
      [5, 'b', undefined, undefined],
    ]);
  });

  test('a key that comes twice is no guess of ours', async () => {
    expect((await brief('{"id":"a","prompt":"?","prompt":"!"}'))[0]?.[2]).toBe('value-not-kept');
  });

  test('an item of another tool keeps its id, its prompt, its ordering, its row and the rest', async () => {
    const item = { id: 'a', row: 9, prompt: '?', ordering: ['x'], more: { n: 1 } };
    expect(await ingested(JSON.stringify(item))).toEqual([item]);
    expect(await ingested('{"id":"a","prompt":"?","input":{}}')).toEqual([
      { id: 'a', row: 1, prompt: '?', input: {} },
    ]);
    const failed = '{"id":null,"failure":{"stage":"x","code":"not-json","message":"m"}}';
    expect(await ingested(failed)).toEqual([JSON.parse(failed)]);
  });

  test('an item whose numbers would change when it is written again fails and is kept', async () => {
    const text = '{"id":"a","prompt":"?","steps":[],"n":12345678901234567890}';
    expect((await ingested(text))[0]?.failure).toMatchObject({ code: 'value-not-kept', text });
  });

  test('an object with an id and a prompt and nothing of an item is a row', async () => {
    const [item] = await ingested('{"id":"a","prompt":"?","age":24}');
    expect(item).toEqual({ id: 'a', row: 1, input: { id: 'a', prompt: '?', age: '24' }, prompt: '?' });
    const [row] = await ingested('{"id":"a","prompt":"?","ordering":["x"]}', { prompt: 'prompt' });
    expect(row?.input).toEqual({ id: 'a', prompt: '?', ordering: '["x"]' });
  });
});
