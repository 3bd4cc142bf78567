/** --schema: a row that does not fit fails by the name of its column; what is passed on is the text as it was found. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder } from '../fw.ts';
import { blocks, run, writtenBy } from './ingesting.ts';
import { holds } from './property.ts';

const base = folder();
const schema = join(base, 'row.schema.json');
const judged = async (
  column: unknown,
  texts: readonly string[],
  more: JsonObject = {},
): Promise<boolean[]> => {
  writeFileSync(schema, JSON.stringify({ properties: { v: column }, ...more }));
  const quoted = texts.map((text, at) => `${at},?,"${text.replaceAll('"', '""')}"\n`);
  const items = await run([blocks(`id,prompt,v\n${quoted.join('')}`)], { schema });
  items.forEach((item, at) => {
    expect(item.input?.v).toBe(texts[at]);
    if (item.failure)
      expect(item.failure).toMatchObject({ code: 'row-mismatch', message: expect.stringContaining('/v') });
  });
  return items.map(item => item.failure === undefined);
};

describe('text is judged as the type that the schema names for its column', () => {
  test.each<[unknown, string[], string[]]>([
    [
      { type: 'number' },
      ['0', '-1.5', '1e3', '007', '.5', '5.', '+5', ' 5 '],
      ['', 'a', '1,000', '0x10', 'NaN', 'Infinity', '1e', '5 %', '--1', 'true'],
    ],
    [{ type: 'integer', minimum: 18 }, ['18', '42', '20.0'], ['17', '18.5', '']],
    [{ minimum: 2, maximum: 30 }, ['2', '30', 'text'], ['1', '31']],
    [{ type: 'boolean' }, ['true', 'false'], ['True', '1', 'yes', '']],
    [{ type: ['number', 'null'] }, ['', '1'], ['NA', ' ']],
    [{ type: 'string', pattern: '^[0-9]{5}$' }, ['02134'], ['2134', '']],
    [{ type: 'string' }, ['1', 'true', '', '[1]'], []],
    [{ enum: [1, 2, 'NA'] }, ['1', '2', 'NA', '1.0'], ['3', '']],
    [{ const: true }, ['true'], ['false', '1']],
    [{ anyOf: [{ type: 'integer', minimum: 18 }, { const: 'unknown' }] }, ['18', 'unknown'], ['17', 'x']],
    [{ $ref: '#/$defs/rate' }, ['2', '30'], ['31', 'x']],
    [{ type: 'array', items: { type: 'number' } }, ['[1, 2]', '[]'], ['["a"]', '[1', '1']],
    [{ minLength: 2 }, ['ab', '12'], ['a', '1']],
    [true, ['', 'a'], []],
    [false, [], ['', 'a']],
  ])('%j', async (column, fit, misfit) => {
    const more = { $defs: { rate: { type: 'number', maximum: 30 } } };
    expect(await judged(column, [...fit, ...misfit], more)).toEqual([
      ...fit.map(() => true),
      ...misfit.map(() => false),
    ]);
  });

  test('wherever the schema speaks of it: conditions, patterns, all other columns', async () => {
    writeFileSync(schema, '{"if":{"properties":{"v":{"const":1}}},"then":{"required":["none"]}}');
    const items = await run([blocks('id,prompt,v\n1,?,1\n2,?,2\n')], { schema });
    expect(items.map(item => item.failure?.code)).toEqual(['row-mismatch', undefined]);
    expect(
      await judged(true, ['1', 'a'], { properties: {}, patternProperties: { '^v': { type: 'number' } } }),
    ).toEqual([true, false]);
    const others = { properties: { id: true, prompt: true }, additionalProperties: { type: 'number' } };
    expect(await judged(true, ['1', 'a'], others)).toEqual([true, false]);
    expect(await judged(true, ['1', 'a'], { allOf: [{ properties: { v: { type: 'number' } } }] })).toEqual([
      true,
      false,
    ]);
  });
});

test('a number is one however it is written, and its text is passed on', () =>
  holds(fc.double({ noNaN: true, noDefaultInfinity: true }), async number => {
    expect(await judged({ type: 'number', minimum: number, maximum: number }, [String(number)])).toEqual([
      true,
    ]);
  }));

const shifted = 'id,income,married,prompt\n1,52000,true,?\n2,true,?,52000\n2,40000,false,?\n';

test('a shifted row fails and claims no id, in a pipe as in a file, and the account says which column', async () => {
  writeFileSync(
    schema,
    JSON.stringify({ properties: { income: { type: 'number' }, married: { type: 'boolean' } } }),
  );
  const items = await run([blocks(shifted)], { schema });
  expect(items.map(({ id, failure }) => [id, failure?.message])).toEqual([
    ['1', undefined],
    [null, 'stdin:3: /income: expected number, got "true"; /married: expected boolean, got "?"'],
    ['2', undefined],
  ]);
  expect(await writtenBy([blocks(shifted)], { schema })).toBe(
    items.map(item => `${JSON.stringify(item)}\n`).join(''),
  );
});

test('JSON rows are judged as text too, and items are rows', async () => {
  writeFileSync(schema, JSON.stringify({ required: ['n'], properties: { n: { type: 'number' } } }));
  const lines = [
    '{"id":"1","prompt":"?","n":8.50}',
    '{"id":"2","prompt":"?","n":"8.50"}',
    '{"id":"3","prompt":"?","n":null}',
    '{"id":"4","prompt":"?","steps":[]}',
  ];
  const items = await run([blocks(lines.join('\n'))], { schema });
  expect(items.map(item => [item.input?.n, item.failure?.code])).toEqual([
    ['8.50', undefined],
    ['8.50', undefined],
    [undefined, 'row-mismatch'],
    [undefined, 'row-mismatch'],
  ]);
});

test.each([
  ['{', 'expected a JSON Schema, found'],
  ['[]', 'expected a JSON Schema'],
  ['{"type":"nmber"}', 'expected a valid schema'],
])('a schema that is none ends the run: %s', async (text, message) => {
  writeFileSync(schema, text);
  await expect(run([blocks('id,prompt\n1,?\n')], { schema })).rejects.toMatchObject({
    exit: 65,
    message: expect.stringContaining(message),
  });
});
