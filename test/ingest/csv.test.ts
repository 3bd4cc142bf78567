/**
 * The reader of CSV agrees with csv-parse on whatever it calls fine, and on where rows end; and the lines that ingest
 * writes from bytes are those of the items that it makes where a stage comes behind it.
 */
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CsvReader, fieldTexts } from '../../engine/tables/csv-rows.ts';
import { runs } from '../all.ts';
import { blocks, ingested, writtenBy } from './ingesting.ts';
import { seed, sizes } from './property.ts';

const RUNS = runs(200, 2_000);
const holds = <T>(arbitrary: fc.Arbitrary<T>, predicate: (value: T) => Promise<void> | void) =>
  fc.assert(
    fc.asyncProperty(arbitrary, async value => predicate(value)),
    { seed, numRuns: RUNS },
  );

const delimiters = fc.constantFrom(',', '\t', ';', '|', ' ', '\\', ':');
const bits = (delimiter: string) =>
  fc.constantFrom(
    'a',
    'é',
    '漢',
    '😀',
    '"',
    '"',
    '""',
    delimiter,
    delimiter,
    '\n',
    '\r\n',
    '\r',
    ' ',
    '\t',
    '\\',
    '\0',
    '\ufeff',
    '\u2028',
    'x'.repeat(70),
    `"b${delimiter}\n""c"`,
  );
const messes = delimiters.chain(delimiter =>
  fc.record({
    delimiter: fc.constant(delimiter),
    text: fc.array(bits(delimiter), { maxLength: 40 }).map(parts => parts.join('')),
    sizes,
  }),
);

interface Found {
  texts: string[];
  complaint: string | null;
}

/** The rows of the text, in blocks of these sizes, as whoever reads a pipe would cut them. */
function read(text: string, delimiter: string, chunks: readonly number[]): Found[] {
  const reader = new CsvReader(delimiter.charCodeAt(0));
  const bytes = Buffer.from(text);
  const rows: Found[] = [];
  let block = Buffer.alloc(0);
  let at = 0;
  for (let taken = 0, turn = 0; ; turn++) {
    const size = chunks[turn % chunks.length]!;
    const final = taken >= bytes.length;
    block = Buffer.concat([block, bytes.subarray(taken, taken + size)]);
    taken += size;
    let from = 0;
    while (from < block.length || final) {
      if (!reader.cut(block, from, at, final)) break;
      if (!reader.void)
        rows.push({ texts: fieldTexts(block, from, reader.fields), complaint: reader.complaint });
      if (final && reader.next === block.length) return rows;
      from = at = reader.next;
    }
    at = Math.max(reader.to, from) - from;
    block = block.subarray(from);
  }
}

test('rows without a complaint are those of csv-parse, wherever blocks end', () =>
  holds(messes, ({ text, delimiter, sizes }) => {
    const rows = read(text, delimiter, sizes);
    expect(read(text, delimiter, [1])).toEqual(rows);
    expect(read(text, delimiter, [text.length * 4 + 1])).toEqual(rows);
    if (rows.some(({ complaint }) => complaint !== null)) return;
    const theirs = parse(Buffer.from(text), {
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      skip_empty_lines: true,
    });
    expect(rows.map(({ texts }) => texts)).toEqual(theirs);
  }));

test('what csv-parse refuses has a complaint', () =>
  holds(messes, ({ text, delimiter, sizes }) => {
    if (text.includes('"\0')) return; // which csv-parse takes for the end of a field
    let refused = false;
    try {
      parse(Buffer.from(text), {
        delimiter,
        record_delimiter: ['\r\n', '\n', '\r'],
        relax_column_count: true,
        skip_empty_lines: true,
      });
    } catch {
      refused = true;
    }
    expect(read(text, delimiter, sizes).some(({ complaint }) => complaint !== null)).toBe(refused);
  }));

const names = fc.uniqueArray(
  fc.oneof(
    fc.constantFrom('id', 'prompt', '', '7', '10', '__proto__', 'a"b', 'é', 'x,y', 'a\nb'),
    fc.string({ maxLength: 3 }),
  ),
  { minLength: 0, maxLength: 5 },
);
const fields = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '1',
    '2',
    'id',
    '\u00a0',
    '\u2003',
    '\ufeff',
    '"',
    '\\',
    '\n',
    '\u0001',
    'é😀',
    'y'.repeat(200),
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);
const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
const written = fc.tuple(names, fc.boolean()).chain(([found, hasId]) => {
  const columns = [...new Set([...found.filter(name => hasId || !/^(prompt_)?id$/.test(name)), 'prompt'])];
  const row = fc.array(fields, { minLength: columns.length, maxLength: columns.length });
  const line = fc.oneof(
    { arbitrary: row.map(texts => texts.map(quoted).join()), weight: 8 },
    { arbitrary: row.map(texts => texts.map(text => text.replace(/[",\r\n]/g, '-')).join()), weight: 8 },
    fc.constantFrom(
      columns.map(quoted).join(),
      `\ufeff${columns.map(quoted).join()}`,
      'a',
      '1,2,3,4,5,6,7',
      '"a"b',
      '',
      '"a',
    ),
  );
  return fc.record({
    text: fc
      .array(line, { minLength: 1, maxLength: 12 })
      .map(lines => `${columns.map(quoted).join()}\n${lines.join('\n')}\n`),
    sizes,
    given: fc.record(
      {
        orderings: fc.constantFrom(...Array(39).fill(undefined), ['risk-data', 'data-risk']), // reads the agents
        offset: fc.nat(3),
        limit: fc.integer({ min: 1, max: 6 }),
        shard: fc.constantFrom('1/2', '2/2'),
        'max-line': fc.integer({ min: 10, max: 400 }),
      },
      { requiredKeys: [] },
    ),
  });
});

const outcome = async (running: Promise<string>): Promise<string> =>
  running.catch(error => String(error.message));

test('the lines written from bytes are those of the items, for any table and part of it', () =>
  holds(written, async ({ text, sizes, given }) => {
    const made = outcome(
      ingested(text, given).then(items => items.map(item => `${JSON.stringify(item)}\n`).join('')),
    );
    expect(await outcome(writtenBy([blocks(text, sizes)], given))).toBe(await made);
  }));
