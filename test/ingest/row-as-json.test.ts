/** Prompts for tables without a prompt column: `--or-template`, and the row as JSON. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { folder, ROOT } from '../fw.ts';
import { blocks, run } from './ingesting.ts';
import { holds } from './property.ts';

const base = folder();
const templated = (
  template: string,
  table: string,
  option = 'template',
  more: object = {},
): Promise<Item[]> => {
  writeFileSync(join(base, 'ask.liquid'), template);
  return run([blocks(table)], { [option]: 'ask.liquid', ...more }, base);
};
const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
const csv = (...rows: readonly (readonly string[])[]): string =>
  rows.map(row => `${row.map(quoted).join(',')}\n`).join('');

describe('row_as_json', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.constantFrom(
      '',
      ' ',
      '"',
      '\\',
      'O\'Brien "Bob"',
      'Zoë 李 🦊',
      '\u2028',
      '{% row %}',
      '{{ x }}',
      '</x>',
      'a\n\nb',
    ),
    fc.constantFrom(
      '0',
      '-0',
      '007',
      '0.30',
      '12.50',
      '1e5',
      '.5',
      '5.',
      '+5',
      'NaN',
      'true',
      'null',
      '12345678901234567890',
    ),
  );
  // a carriage return in a name or at the end of a field is another test's
  const clean = text.filter(value => !/[\r\0]/.test(value));
  // an object puts keys that are numbers first, whoever reads it
  const column = clean.filter(
    name => name.trim() !== '' && !/^\d+$|[,%\n]/.test(name) && name.trim() === name && name !== '__proto__',
  );
  const tables = fc.uniqueArray(column, { minLength: 1, maxLength: 6 }).chain(columns =>
    fc.record({
      columns: fc.constant(columns),
      fields: fc.tuple(...columns.map(() => clean)),
      numbers: fc.subarray(columns),
    }),
  );

  test('is the row, key for key and letter for letter; numbers stand as they are written', () =>
    holds(tables, async ({ columns, fields, numbers }) => {
      const table = csv(['id', ...columns.map(name => `c ${name}`)], ['1', ...fields]);
      const named = numbers.map(name => `c ${name}`).join(', ');
      const tag = numbers.length > 0 ? `{% row_as_json numbers: ${named} %}` : '{% row_as_json %}';
      const [item] = await templated(`Application Data: ${tag}`, table);
      const prompt = item?.prompt ?? '';
      expect(prompt.slice(0, 18)).toBe('Application Data: ');
      // a number is given back as it is written: it stands between `": ` and `, "` or `}`
      const asText = prompt.slice(18).replace(/(": )(-?\d[\d.]*)(?=, "|\}$)/g, '$1"$2"');
      expect(Object.entries(JSON.parse(asText))).toEqual(Object.entries(item?.input ?? {}));
      const row = JSON.parse(prompt.slice(18));
      for (const [index, name] of columns.entries()) {
        const isNumber = numbers.includes(name) && /^-?(0|[1-9]\d*)(\.\d+)?$/.test(fields[index] as string);
        const isLong = (fields[index] as string).length > 16;
        expect(typeof row[`c ${name}`]).toBe(isNumber && !isLong ? 'number' : 'string');
      }
    }));

  test('a name that no column has does no harm; anything else behind the tag is refused', async () => {
    const [item] = await templated('{% row_as_json numbers: b, nobody %}', 'id,b\nx,0.30\n');
    expect(item?.prompt).toBe('{"id": "x", "b": 0.30}');
    for (const tag of ['{% row_as_json b %}', '{% row_as_json number: b %}'])
      await expect(templated(tag, 'id,b\nx,1\n')).rejects.toThrow(
        /row_as_json: expected nothing, or numbers:/,
      );
  });

  test('the counters of a template are no columns', async () => {
    const [item] = await templated('{% increment n %}{% row_as_json %}', 'id\nx\n');
    expect(item?.prompt).toBe('0{"id": "x"}');
  });
});

describe('--or-template', () => {
  const OR = 'or-template';
  test('the column where the table has it, else the template', async () => {
    const [asked] = await templated('{{ name }}?', 'id,prompt\n1,May I?\n', OR);
    expect(asked?.prompt).toBe('May I?');
    const [written] = await templated('{{ name }}?', 'id,name\n1,Priya\n', OR);
    expect(written?.prompt).toBe('Priya?');
  });

  test('an empty prompt is a failure of its row, and no reason for the template', async () => {
    const items = await templated('{{ name }}', 'id,name,prompt\n1,Priya,\n2,Lena,ok\n', OR);
    expect(items.map(({ prompt, failure }) => prompt ?? failure?.code)).toEqual(['empty-prompt', 'ok']);
  });

  test('rows of both kinds: those of the other kind than the first fail by name', async () => {
    const rows = ['{"id":"1","name":"a"}', '{"id":"2","name":"b","prompt":"?"}', '{"id":"3","name":"c"}'];
    const kinds = async (order: readonly number[]) => {
      const items = await templated('{{ name }}', order.map(at => `${rows[at]}\n`).join(''), OR);
      return items.map(({ id, prompt, failure }) => [id, prompt ?? failure?.code]);
    };
    expect(await kinds([0, 1, 2])).toEqual([
      ['1', 'a'],
      ['2', 'template-failed'],
      ['3', 'c'],
    ]);
    expect(await kinds([1, 0, 2])).toEqual([
      ['2', '?'],
      ['1', 'empty-prompt'],
      ['3', 'empty-prompt'],
    ]);
  });

  test('a template that lacks a column is refused only where it is used', async () => {
    const [item] = await templated('{{ salary }}', 'id,prompt\n1,?\n', OR);
    expect(item?.prompt).toBe('?');
    await expect(templated('{{ salary }}', 'id,name\n1,a\n', OR)).rejects.toThrow(
      /expected the columns 'salary'/,
    );
  });

  test('the column may be another one, and --template wins: nobody has to unsay what a pipeline file says', async () => {
    const table = 'id,ask,prompt\n1,May I?,no\n';
    const [asked] = await templated('{{ ask }}!', table, OR, { prompt: 'ask' });
    expect(asked?.prompt).toBe('May I?');
    const [written] = await templated('{{ ask }}!', table, OR, { prompt: 'question' });
    expect(written?.prompt).toBe('May I?!');
    writeFileSync(join(base, 'mine.liquid'), 'mine');
    const [mine] = await templated('{{ ask }}!', table, OR, { template: 'mine.liquid' });
    expect(mine?.prompt).toBe('mine');
    await expect(templated('', table, OR, { template: 'mine.liquid', prompt: 'ask' })).rejects.toThrow(
      /found --prompt and --template/,
    );
  });

  test('lines that are items pass, as they do where neither is said', async () => {
    const item = { id: 'a', row: 9, prompt: '?', ordering: ['x'] };
    expect(await templated('{{ name }}', `${JSON.stringify(item)}\n`, OR)).toEqual([item]);
  });
});

test('the template of FairWatch is found by its pipelines, and gives what the loaders look for', async () => {
  const table = csv(
    ['name', 'credit_score', 'visa_status', 'income', 'age', 'dti_ratio', 'is_young', 'prompt_id'],
    ['Zoë "Z" O\'Hara', '540', 'H-1B, pending', '38000', '', '0.30', 'true', '126280115812'],
  );
  const given = { 'or-template': 'application.liquid' };
  const [item] = await run([blocks(table)], given, join(ROOT, 'pipelines/fairwatch'));
  expect(item?.prompt).toBe(
    'Application Data: {"name": "Zoë \\"Z\\" O\'Hara", "credit_score": 540, "visa_status": "H-1B, pending", "income": 38000, ' +
      '"age": "", "dti_ratio": 0.30, "is_young": "true", "prompt_id": "126280115812"}',
  );
});
