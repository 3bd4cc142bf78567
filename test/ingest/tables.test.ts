/** What a table says is what its items say: for any table, in every format, however the bytes come. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Fatal } from '../../engine/core/item/failure.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { blocks, ingested, run } from './ingesting.ts';
import { holds, objectsOf, sizes, tables, writings, written } from './property.ts';

const inputsOf = (items: Item[]): unknown[] => items.map(item => item.input);

describe('any table comes back equal', () => {
  test('from CSV', () =>
    holds(fc.tuple(tables, writings, sizes), async ([table, writing, chunks]) => {
      const items = await run([blocks(written(table, writing), chunks)]);
      expect(inputsOf(items)).toEqual(objectsOf(table));
      expect(items.map(item => item.row)).toEqual(table.rows.map((_row, at) => at + 1));
      expect(items.map(item => item.prompt)).toEqual(table.rows.map(row => row[1]));
      expect(items.every(item => item.failure === undefined)).toBe(true);
    }));

  test('from TSV', () =>
    holds(fc.tuple(tables, writings, sizes), async ([table, writing, chunks]) => {
      const text = written(table, { ...writing, delimiter: '\t' });
      expect(inputsOf(await run([blocks(text, chunks)], { format: 'tsv' }))).toEqual(objectsOf(table));
    }));

  test('from CSV with any other delimiter', () =>
    holds(
      fc.tuple(tables, writings, sizes, fc.constantFrom(...';|:a 0~\u0001\\')),
      async ([table, writing, chunks, delimiter]) => {
        const text = written(table, { ...writing, delimiter });
        expect(inputsOf(await run([blocks(text, chunks)], { delimiter }))).toEqual(objectsOf(table));
      },
    ));

  test('from NDJSON and from a JSON array, indented or not', () =>
    holds(fc.tuple(tables, fc.constantFrom(0, 2), sizes), async ([table, indent, chunks]) => {
      const objects = objectsOf(table);
      const lines = objects.map(object => `${JSON.stringify(object)}\n`).join('');
      expect(inputsOf(await run([blocks(lines, chunks)]))).toEqual(objects);
      const array = `${JSON.stringify(objects, null, indent)}\n`;
      expect(inputsOf(await run([blocks(array, chunks)]))).toEqual(objects);
    }));
});

const mess = fc
  .array(fc.constantFrom('a', 'b', '"', '"', '""', ',', '\n', '\n', '\r\n', '\r', '"x"', '1,"y"\n'), {
    maxLength: 60,
  })
  .map(parts => `id,prompt\n${parts.join('')}`);

/** The items, or the message with which the run ended. */
async function outcome(content: string, chunks: number[], given = {}): Promise<unknown> {
  try {
    return await run([blocks(content, chunks)], given);
  } catch (error) {
    if (error instanceof Fatal) return error.message;
    throw error;
  }
}

describe('whatever the bytes are', () => {
  test('CSV of any kind gives the same items in blocks of any size, and csv-parse reads what was cut', () =>
    holds(fc.tuple(mess, sizes), async ([text, chunks]) => {
      expect(await outcome(text, chunks)).toEqual(await outcome(text, [text.length]));
    }));

  test('rows over --max-line leave the same items whatever the blocks', () =>
    holds(fc.tuple(mess, sizes), async ([text, chunks]) => {
      const given = { 'max-line': 12 };
      expect(await outcome(text, chunks, given)).toEqual(await outcome(text, [text.length], given));
    }));

  test('JSON of any kind gives the same items in blocks of any size', () => {
    const parts = fc.constantFrom(
      '{"id":"a","prompt":"?"}',
      '[',
      ']',
      ',',
      '{',
      '}',
      '"',
      '\\',
      ' ',
      '\n',
      '1',
      '"b"',
    );
    const text = fc.array(parts, { maxLength: 20 }).map(list => `[{"prompt":"!"},${list.join('')}`);
    return holds(fc.tuple(text, sizes), async ([json, chunks]) => {
      expect(await outcome(json, chunks)).toEqual(await outcome(json, [json.length]));
    });
  });
});

describe('columns stay text', () => {
  test('in CSV', async () => {
    const [item] = await ingested('id,prompt,n,e,t\n1,?,008.50,1e3,true\n');
    expect(item?.input).toEqual({ id: '1', prompt: '?', n: '008.50', e: '1e3', t: 'true' });
  });

  test('in JSON numbers keep their digits, nested values their text, and null is no value', async () => {
    const line =
      '{"id":7,"prompt":"?","n":8.50,"big":12345678901234567890,"o":{"a": [1, "]"]},"t":true,"z":null}';
    const [item] = await ingested(line);
    expect(item).toEqual({
      id: '7',
      row: 1,
      input: {
        id: '7',
        prompt: '?',
        n: '8.50',
        big: '12345678901234567890',
        o: '{"a": [1, "]"]}',
        t: 'true',
      },
      prompt: '?',
    });
  });

  test('columns may have the names of what every object has', async () => {
    const [csv] = await ingested('id,prompt,__proto__,constructor\n1,?,a,b\n');
    expect(JSON.stringify(csv?.input)).toBe('{"id":"1","prompt":"?","__proto__":"a","constructor":"b"}');
    const [json] = await ingested('{"id":"1","prompt":"?","__proto__":{"x":1}}');
    expect(JSON.stringify(json?.input)).toBe('{"id":"1","prompt":"?","__proto__":"{\\"x\\":1}"}');
  });
});
