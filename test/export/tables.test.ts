/** Items as tables, read back by others: Parquet by hyparquet, CSV by csv-parse. test/by-hand/tables.sh asks pandas and DuckDB. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet';
import { describe, expect, test } from 'vitest';
import type { Frame } from '../../engine/core/files/ndjson-out.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { FormatOptions } from '../../engine/tables/export/export-format.ts';
import { FORMATS } from '../../engine/tables/export/export-formats.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

type Cells = Record<string, unknown>;

interface Read {
  bytes: Buffer;
  rows: Cells[];
  notes: readonly string[];
}

/** What a frame writes of items, to a reader that is always behind. */
async function written(frame: Frame, items: readonly Item[]): Promise<Buffer> {
  const parts: Buffer[] = [];
  const drain = {
    keeps: true,
    put: (bytes: Buffer) => parts.push(bytes) < 0,
    ready: (act: () => void) => void setImmediate(act),
    end: async () => {},
  };
  const output = frame.open(drain, folder(), error => {
    throw error;
  });
  for (const item of items) output.write(item);
  await output.end();
  return Buffer.concat(parts);
}

const NO_OPTIONS: FormatOptions = { errors: undefined, ordered: false };

async function parquet(items: readonly Item[], options = NO_OPTIONS): Promise<Read> {
  const frame = FORMATS.parquet.frame(options);
  const bytes = await written(frame, items);
  return { bytes, rows: await parquetRowsOf(bytes), notes: frame.notes ?? [] };
}

function parquetRowsOf(bytes: Buffer): Promise<Cells[]> {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  return parquetReadObjects({
    file,
    compressors: { GZIP: (page: Uint8Array) => gunzipSync(page) },
  }) as Promise<Cells[]>;
}

/** Cells of CSV: undefined where there is nothing, else the text. */
function csvRowsOf(bytes: Buffer): Record<string, string | undefined>[] {
  const cast = (text: string, { quoting, header }: { quoting: boolean; header: boolean }) =>
    text === '' && !quoting && !header ? undefined : text;
  return parse(bytes, { columns: true, cast }) as Record<string, string | undefined>[];
}

async function csv(items: readonly Item[], options = NO_OPTIONS) {
  const frame = FORMATS.csv.frame(options);
  const bytes = await written(frame, items);
  return { bytes, rows: csvRowsOf(bytes), notes: frame.notes ?? [] };
}

const step = (agent: string, output: unknown, rung = 'clean') => ({
  ...{ agent, output, rung, saw: 'clean', repairs: [], calls: ['k1'], attempts: 1 },
  usage: { prompt: 5, completion: 2 },
});
const item = (id: string, output: unknown): Item =>
  ({ id, row: 1, prompt: 'p', steps: [step('a', output)] }) as unknown as Item;

describe('columns', () => {
  test('an item is a row: its rung, its columns, the answers by their agents, its failure', async () => {
    const good = { ...item('x', { verdict: { ok: true, why: ['b', 1] }, sum: 2.5 }), input: { text: 'ü' } };
    const bad = { id: 'y', row: 2, prompt: 'q', failure: { stage: 's', code: 'no-steps', message: 'm' } };
    const { rows } = await parquet([good, bad as Item]);
    expect(rows[0]).toMatchObject({
      id: 'x',
      row: 1n,
      rung: 'clean',
      'input.text': 'ü',
      'a.output.verdict.ok': true,
      'a.output.verdict.why': '["b",1]',
      'a.output.sum': 2.5,
      'a.calls': '["k1"]',
      'a.usage.completion': 2n,
    });
    expect(rows[0]?.['failure.code'] ?? null).toBeNull();
    expect(rows[1]).toMatchObject({ id: 'y', rung: 'failed', 'failure.code': 'no-steps' });
    expect(Object.keys(rows[0] as Cells).slice(0, 4)).toEqual(['id', 'row', 'rung', 'failure.stage']);
  });

  test('no items at all are a table without rows', async () => {
    expect((await csv([])).bytes.toString()).toBe('id,rung\n');
    const { bytes, rows } = await parquet([]);
    expect(rows).toEqual([]);
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
    expect(parquetSchema(parquetMetadata(file)).children.map(({ element }) => element.name)).toEqual([
      'id',
      'rung',
    ]);
  });

  test('values of several types in a column are texts of JSON, and it is said', async () => {
    const items = ['3', 3, [3], true, null].map((value, n) => item(`i${n}`, { v: value }));
    const { rows, notes } = await parquet(items);
    expect(rows.map(row => row['a.output.v'] ?? null)).toEqual(['"3"', '3', '[3]', 'true', null]);
    expect(notes).toEqual([
      'column a.output.v has values of several types (1 boolean, 1 integer, 1 text, 1 list or object), ' +
        'so each is a text of JSON',
    ]);
    expect((await csv(items)).rows.map(row => row['a.output.v'])).toEqual([
      '"3"',
      '3',
      '[3]',
      'true',
      undefined,
    ]);
  });

  test('integers and fractions are numbers, integers alone integers, also near 2^53', async () => {
    const most = Number.MAX_SAFE_INTEGER;
    const { rows } = await parquet([
      item('a', { n: most, f: 1 }),
      item('b', { n: -most, f: 0.1 }),
      item('c', { n: 0, f: 1e20 }),
    ]);
    expect(rows.map(row => row['a.output.n'])).toEqual([BigInt(most), BigInt(-most), 0n]);
    expect(rows.map(row => row['a.output.f'])).toEqual([1, 0.1, 1e20]);
  });

  test('an agent that answered twice has columns for each; a column named as an agent is told from it', async () => {
    const twice = {
      id: 'x',
      prompt: '',
      steps: [step('risk', 'yes'), step('risk', 'no')],
    } as unknown as Item;
    const { rows } = await parquet([twice]);
    expect(rows[0]).toMatchObject({ 'risk.output': 'yes', 'risk#2.output': 'no' });
    const same = {
      ...{ id: 'y', prompt: '', rung: 'mine', input: { rung: 'theirs', 'a.b': '1', a: '2' } },
      steps: [step('input', 'x')],
    } as unknown as Item;
    expect((await parquet([same])).rows[0]).toMatchObject({
      ...{ rung: 'clean', '"rung"': 'mine' },
      ...{ '"input".rung': 'theirs', 'steps."input".rung': 'clean', 'input.a.b': '1', 'input.a': '2' },
    });
  });

  test('objects whose keys are names of things are texts of JSON, whatever the order in which items come', async () => {
    const items = Array.from({ length: 300 }, (_, n) => item(`i${n}`, { of: { [`name ${n}`]: { n } } }));
    for (const some of [items, items.toReversed()]) {
      const { rows, notes } = await parquet(some);
      expect(rows.map(row => JSON.parse(row['a.output.of'] as string))).toEqual(
        some.map(({ steps: [answered] = [] }) => (answered as { output: { of: object } }).output.of),
      );
      expect(notes).toEqual([
        'column a.output.of has objects with more than 256 different keys, so each is a text of JSON',
      ]);
    }
  });

  test('more columns than a table can have end the run with 65, and the message names what has them', async () => {
    const wide = {
      id: 'x',
      prompt: '',
      input: Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [n, ''])),
    };
    await expect(csv([wide as Item])).rejects.toThrow(
      /expected at most 2,000 columns, found 2,003 columns; input alone has 2,000 keys/,
    );
    const key = 'x'.repeat(1_000_000);
    const names = Array.from({ length: 9 }, (_, n) => ({ id: `${n}`, prompt: '', [`${key}${n}`]: 1 }));
    await expect(csv(names as Item[])).rejects.toThrow(/found far more/);
  });
});

describe('cells', () => {
  test('CSV: no value is changed; nothing and an empty text are two things; formulas are counted', async () => {
    const texts = ['=1+1', '-5', ' a ', '', 'a,b', 'say "hi"', 'two\r\nlines\r', 'ü\u{1f600}', 'NA', '\0'];
    const none = { id: 'none', row: 1, prompt: 'p' };
    const { rows, notes, bytes } = await csv([...texts.map((text, n) => item(`i${n}`, text)), none]);
    expect(rows.map(row => row['a.output'])).toEqual([...texts, undefined]);
    expect(bytes.toString()).toContain('\ni3,1,clean,p,"",');
    expect(notes).toEqual([
      '2 texts begin as a formula does (=, +, -, @), the first in a.output; open the table as text in a spreadsheet. ' +
        'No value was changed',
    ]);
  });

  const halves = fc.string({
    unit: fc.constantFrom('a', '"', ',', '\n', '\r', '\0', 'ü', '\u{1f600}', '=', ' ', '.'),
  });
  const key = fc.oneof(
    halves,
    fc.constantFrom('a', 'b', 'a.b', '"', 'rung', 'output', '__proto__', 'constructor', ''),
  );
  const { value } = fc.letrec(tie => ({
    value: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      ...[halves, fc.integer(), fc.maxSafeInteger(), fc.boolean(), fc.constant(null)],
      fc.double({ noNaN: true, noDefaultInfinity: true }).map(n => n + 0),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('value')), { maxLength: 3 }).map(objectOf),
    ),
  }));
  const items = fc.array(
    fc.record({ output: value, input: fc.array(fc.tuple(key, halves), { maxLength: 3 }), agent: key }),
    {
      maxLength: 12,
    },
  );

  test('whatever is in an item: each of its values is in a cell of its row, and nothing else is', async () => {
    await fc.assert(
      fc.asyncProperty(items, async made => {
        const all = made.map(
          ({ output, input, agent }, n) =>
            ({
              id: `i${n}`,
              prompt: 'p',
              input: objectOf(input),
              steps: [step(agent, output)],
            }) as unknown as Item,
        );
        const tables = [await csv(all), await parquet(all)] as const;
        for (const [n, one] of all.entries()) {
          const expected = [...leavesOf({ ...one, rung: 'clean', steps: withoutAgents(one) })].sort();
          const [fromCsv, fromParquet] = tables.map(({ rows }) => rows[n] as Cells) as [Cells, Cells];
          const typed = Object.entries(fromParquet).filter(([, cell]) => cell !== null && cell !== undefined);
          // what is JSON in a column of texts is JSON, and what is a text is its JSON
          const said = typed.map(([, cell]) => textsOf(cell));
          for (const texts of said)
            expect(
              texts.some(text => expected.includes(text)),
              texts.join(' or '),
            ).toBe(true);
          expect(said).toHaveLength(expected.length);
          for (const text of expected) expect(said.flat()).toContain(text);
          const cells = Object.entries(fromCsv).filter(([, cell]) => cell !== undefined);
          expect(cells.map(([name, cell]) => [name, cell])).toEqual(
            typed.map(([name, cell]) => [name, typeof cell === 'string' ? cell : String(cell)]),
          );
        }
      }),
      { numRuns: runs(40, 1_000) },
    );
  });
});

function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  const made = {};
  for (const [key, value] of entries) {
    Object.defineProperty(made, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return made;
}

const withoutAgents = ({ steps }: Item): object[] => (steps ?? []).map(({ agent: _, ...rest }) => rest);

/** The values of an item that have a cell, as JSON: what is no object, and objects without keys; nulls have none. */
function* leavesOf(value: unknown, isSteps = false): Generator<string> {
  if (value === null) return;
  const isObject = typeof value === 'object' && (!Array.isArray(value) || isSteps);
  const below = isObject ? Object.entries(value) : [];
  if (below.length === 0) yield JSON.stringify(value);
  for (const [key, each] of below) yield* leavesOf(each, key === 'steps' && Array.isArray(each));
}

/** What a cell may stand for, as JSON. */
function textsOf(cell: unknown): string[] {
  if (typeof cell !== 'string') return [typeof cell === 'bigint' ? String(cell) : JSON.stringify(cell)];
  return [cell, JSON.stringify(cell)];
}

describe('fw export', () => {
  const lines = [
    '{"id":"a","row":2,"prompt":"p","x":9007199254740993}',
    '{"id":"b","row":1,"prompt":"half \\ud800"}',
    '{"id":"c","row":3,"prompt":"whole \\ud83d\\ude00"}',
    '{"id":"d\\udc00","row":4,"prompt":"q","failure":{"stage":"s","code":"id-not-utf8","message":"half \\udc00"}}',
    'no JSON',
  ];

  test('what a table cannot keep fails its item, which is counted and keeps its line as a text', async () => {
    const { code, stdout, stderr } = await fw('fw export --format csv', { stdin: lines.join('\n') });
    expect(code).toBe(0);
    expect(stderr).toContain('= 1 clean + 0 repaired + 0 coerced + 0 defaulted + 4 failed');
    const rows = csvRowsOf(Buffer.from(stdout));
    expect(rows.map(row => [row.id, row['failure.code']])).toEqual([
      ['a', 'value-not-kept'],
      ['b', 'value-not-kept'],
      ['c', undefined],
      [undefined, 'id-not-utf8'],
      [undefined, 'not-json'],
    ]);
    expect(rows[0]?.['failure.text']).toBe(lines[0]);
    expect(JSON.parse(rows[1]?.['failure.text'] as string).prompt).toBe('half \ud800');
    expect(rows[2]?.prompt).toBe('whole \u{1f600}');
    expect([rows[3]?.['failure.message'], rows[4]?.['failure.text']]).toEqual(['half \\udc00', 'no JSON']);
  });

  test('--errors takes failed items out, --ordered sorts by row, and the old file of errors goes', async () => {
    const at = folder();
    writeFileSync(join(at, 'failed.csv'), 'old\n');
    const { code, stdout } = await fw('fw export --format csv --ordered --errors failed.csv', {
      ...{ cwd: at, stdin: [...lines, '{"id":"z","row":0.5,"prompt":""}'].join('\n') },
    });
    expect([code, csvRowsOf(Buffer.from(stdout)).map(({ id }) => id)]).toEqual([0, ['z', 'c']]);
    const failed = csvRowsOf(readFileSync(join(at, 'failed.csv')));
    expect(failed.map(row => row['failure.code'])).toEqual([
      ...['value-not-kept', 'value-not-kept', 'id-not-utf8', 'not-json'],
    ]);
  });

  test('a pipeline file writes a table in one run, and it has its name at the end', async () => {
    const at = folder();
    writeFileSync(join(at, 'rows.csv'), 'id,text\n7,hello\n8,"a, b"\n');
    writeFileSync(
      join(at, 'p.yaml'),
      'input: rows.csv\nstages:\n  - ingest: { prompt: text }\n  - export: { format: parquet }\noutput: out/rows.parquet\n',
    );
    const { code, stderr } = await fw('fw run p.yaml', { cwd: at });
    expect(code, stderr).toBe(0);
    const rows = await parquetRowsOf(readFileSync(join(at, 'out/rows.parquet')));
    expect(rows.map(row => [row.id, row['input.text']])).toEqual([
      ['7', 'hello'],
      ['8', 'a, b'],
    ]);
  });
});
