/** The index of fw view: what is selected, sorted and counted is what a plain reading of the lines gives. */
import { appendFileSync, readdirSync, renameSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { fieldsOf } from '../../products/view/rows/line-fields.ts';
import { Run } from '../../products/view/rows/run.ts';
import type { Query, Selection } from '../../products/view/rows/selections.ts';
import { byKeys } from '../../products/view/rows/sort-rows.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const SEED = Number(process.env.SEED) || Date.now() % 2 ** 31;
console.log(`view rows: SEED=${SEED}`);

/** Sources of numbers from 0 to 1, each told apart by its seed. */
function seeded(count: number): { seed: number; random: () => number }[] {
  return Array.from({ length: count }, (_none, at) => {
    let state = SEED + at;
    const random = (): number => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
    return { seed: SEED + at, random };
  });
}

const open: Run[] = [];
afterEach(async () => {
  for (const run of open.splice(0)) await run.close();
});

async function opened(paths: readonly string[], maxLine = 1 << 20): Promise<Run> {
  const run = await Run.open(paths, { maxLine });
  open.push(run);
  await allOf(run);
  return run;
}

async function allOf(run: Run): Promise<void> {
  while (!run.state().done) await run.grown(run.state().rows, 10_000);
}

const query = (more: Partial<Query> = {}): Query => ({ filters: [], sort: null, text: '', ...more });
const rowsOf = (selection: Selection): number[] =>
  Array.from({ length: selection.count }, (_none, at) => selection.at(at));
const is = (column: string, ...values: string[]) => ({
  column,
  tests: values.map(value => ({ isNot: value.startsWith('!'), value: value.replace(/^!/, '') })),
});

test('any filter, order and search of any lines gives what a plain reading of them gives', async () => {
  for (const { random, seed } of seeded(runs(3, 40))) {
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const lines = Array.from({ length: 1 + Math.floor(random() * 600) }, (_line, row) => {
      const input: JsonObject = {
        city: pick(['Rom', 'Köln', '', 'New "York"', '007']),
        income: String(Math.floor(random() * 50)),
      };
      if (random() < 0.2) delete input.city;
      if (random() < 0.1) input[`extra${Math.floor(random() * 9)}`] = random();
      const item: JsonObject = {
        id: `i${row}`,
        row,
        input,
        prompt: pick(['Müller asks', 'a needle here', 'nothing']),
      };
      if (random() < 0.1)
        item.failure = { stage: 'chain', code: pick(['timeout', 'no-valid-answer']), message: 'm' };
      return item;
    });
    const path = join(folder(), 'items.ndjson');
    writeFileSync(
      path,
      lines.map(line => `${JSON.stringify(line)}${pick(['\n', '\n', '\n\n', '\r\n'])}`).join(''),
    );
    const run = await opened([path]);
    const told = `seed ${seed}`;
    const cells = lines.map(line => {
      const found = new Map<string, string>();
      fieldsOf(line, (group, key, value) => {
        if (!found.has(group + key)) found.set(group + key, String(value));
      });
      return found;
    });
    expect(run.state().rows, told).toBe(lines.length);
    for (let round = 0; round < 12; round++) {
      const column = pick(['in.city', 'in.income', 'failure', 'rung', 'id', 'in.extra3', 'in.nothing']);
      const values = [pick(['Rom', 'Köln', '', '007', '12', 'timeout', 'i7', '!Rom', '!', '!12', '!failed'])];
      if (random() < 0.3) values.push(pick(['Köln', '3', '']));
      const filter = is(column, ...values);
      const text = pick(['', '', 'NEEDLE', 'müller', 'Müller', '"York"', 'zzz']);
      const expected = lines.flatMap((line, row) => {
        const value = cells[row]?.get(column) ?? '';
        const wanted = filter.tests.filter(({ isNot }) => !isNot);
        const passes =
          (wanted.length === 0 || wanted.some(each => each.value === value)) &&
          !filter.tests.some(each => each.isNot && each.value === value);
        const inLine = JSON.stringify(line);
        const needle = JSON.stringify(text).slice(1, -1);
        const fold = (from: string): string => from.replace(/[A-Z]/g, letter => letter.toLowerCase());
        return passes && fold(inLine).includes(fold(needle)) ? [row] : [];
      });
      const selected = await run.select(query({ filters: [filter], text }), 10_000);
      expect(rowsOf(selected), `${told} ${column}=${values} q=${text}`).toEqual(expected);
      const counts = selected.counts('in.city', 100);
      const byHand = expected.filter(row => cells[row]?.get('in.city') === 'Rom').length;
      expect(counts.values.find(({ value }) => value === 'Rom')?.count ?? 0, told).toBe(byHand);
      expect(counts.none + counts.others + counts.values.reduce((sum, { count }) => sum + count, 0)).toBe(
        expected.length,
      );
    }
    const sorted = rowsOf(await run.select(query({ sort: { column: 'in.income', isDown: true } })));
    const byHand = lines
      .map((line, row) => ({ row, key: Number((line.input as JsonObject).income) }))
      .sort((a, b) => b.key - a.key || a.row - b.row);
    expect(sorted, told).toEqual(byHand.map(({ row }) => row));
    const last = await run.read(lines.length - 1);
    expect(last.value, told).toEqual(lines.at(-1));
  }
});

test('a file that grows grows here; a last line without an end is read again when it has one', async () => {
  const path = join(folder(), 'items.ndjson');
  const line = (id: string): string => JSON.stringify({ id, prompt: 'p', input: { n: id } });
  writeFileSync(path, `${line('a')}\n${line('b')}`);
  const run = await opened([path]);
  expect(run.state().rows).toBe(2);
  expect(run.state().notes.join()).toMatch(/no end/);
  appendFileSync(path, `\n${line('c')}\n{"id":"torn`);
  await run.look(1e9);
  await allOf(run);
  const ids = async (): Promise<unknown[]> => {
    const all = rowsOf(await run.select(query()));
    return Promise.all(all.map(async row => (await run.read(row)).value.id));
  };
  expect(await ids()).toEqual(['a', 'b', 'c']);
  expect(run.state().notes.join()).toMatch(/the last line has no end \(11 bytes\)/);
  appendFileSync(path, '","prompt":"p"}\n');
  await run.look(2e9);
  await allOf(run);
  expect(await ids()).toEqual(['a', 'b', 'c', 'torn']);
  expect(run.state().notes).toEqual([]);
  truncateSync(path, 10);
  await run.look(3e9);
  expect(run.state().notes.join()).toMatch(/got shorter/);
  expect((await run.read(3)).trouble).toMatch(/shorter/);
});

test('an index is kept for the next time, and goes on where the file has grown', async () => {
  const path = join(folder(), 'many.ndjson');
  const lines = (from: number, to: number): string =>
    Array.from({ length: to - from }, (_line, at) => {
      const n = from + at;
      return `${JSON.stringify({ id: `i${n}`, prompt: 'x'.repeat(3_000), input: { n, even: n % 2 === 0, name: `name ${n}` } })}\n`;
    }).join('');
  writeFileSync(path, lines(0, 11_500));
  const options = { maxLine: 1 << 20, keptIn: join(folder(), 'kept') };
  const first = await Run.open([path], options);
  await allOf(first);
  const { rows, read } = first.state();
  await first.close();
  appendFileSync(path, lines(11_500, 12_000));
  const again = await Run.open([path], options);
  open.push(again);
  expect(again.state(), 'all that was kept is there at once').toMatchObject({ rows, read });
  await allOf(again);
  expect(again.state().rows).toBe(12_000);
  const filters = [
    is('in.even', 'true'),
    { column: 'in.n', tests: [{ isNot: false, from: 11_490, to: 11_505 }] },
  ];
  const selected = await again.select(query({ filters }));
  expect(rowsOf(selected)).toEqual([11490, 11492, 11494, 11496, 11498, 11500, 11502, 11504]);
  expect(rowsOf(await again.select(query({ filters: [is('in.name', 'name 5', 'name 11999')] })))).toEqual([
    5, 11999,
  ]);
});

test('tables, arrays, lines that are none, long lines', async () => {
  const at = folder();
  writeFileSync(join(at, 'a.csv'), '\ufeffname,note\nAnna,"two\nlines, ""quoted"""\nBob,x\n');
  writeFileSync(
    join(at, 'b.json'),
    '[\n {"id":"a","prompt":"p",\n "input":{"n":"1"}},\n {"id":"b","prompt":"q"}\n]\n',
  );
  writeFileSync(join(at, 'c.ndjson'), `{"a":1}\nno json\n[1]\n{"long":"${'x'.repeat(5_000)}"}\n\u0000\n`);
  const run = await opened(
    ['a.csv', 'b.json', 'c.ndjson'].map(name => join(at, name)),
    1_000,
  );
  const values = await Promise.all(
    Array.from({ length: 9 }, async (_none, row) => (await run.read(row)).value),
  );
  expect(run.state().rows).toBe(9);
  expect(values.slice(0, 2)).toEqual([
    { name: 'Anna', note: 'two\nlines, "quoted"' },
    { name: 'Bob', note: 'x' },
  ]);
  expect(values.slice(2, 4).map(({ id }) => id)).toEqual(['a', 'b']);
  expect(values.slice(5).map(({ failure }) => (failure as JsonObject).code)).toEqual([
    'not-json',
    'not-an-object',
    'line-too-long',
    'not-json',
  ]);
  const failed = await run.select(query({ filters: [is('failure', 'line-too-long')] }));
  expect(rowsOf(failed)).toEqual([7]);
  expect(rowsOf(await run.select(query({ text: 'LINES, "QUOTED' }), 10_000))).toEqual([0]);
});

test('results without the columns of their rows have those of the table that was asked; a row of somebody else has none', async () => {
  const at = folder();
  writeFileSync(join(at, 'prompts.csv'), 'city,prompt\nRom,first\nBonn,second\nOslo,third\n');
  const result = (prompt_id: number, initial_prompt: string): string =>
    JSON.stringify({
      ...{
        mode: 'sequential',
        initial_prompt,
        prompt_id,
        ordering: 'a',
        all_agent_outputs: [],
        final_output: {},
      },
      conversation_history: [{ agent: 'a', input: 'x', output: { verdict: 'yes' } }],
      business_decision: { approval_decision: 'approve' },
    });
  writeFileSync(
    join(at, 'out.jsonl'),
    `${[result(2, 'second'), result(1, 'third'), result(3, 'third')].join('\n')}\n`,
  );
  const run = await Run.open([join(at, 'out.jsonl')], { maxLine: 1 << 20, source: join(at, 'prompts.csv') });
  open.push(run);
  await allOf(run);
  expect(rowsOf(await run.select(query({ filters: [is('in.city', 'Bonn')] })))).toEqual([0]);
  expect(rowsOf(await run.select(query({ filters: [is('in.city', '')] })))).toEqual([1]);
  expect(rowsOf(await run.select(query({ filters: [is('step.a.verdict', 'yes')] })))).toEqual([0, 1, 2]);
  expect((await run.read(2)).joined).toEqual({ city: 'Oslo' });
  expect(run.state().notes.join()).toMatch(/1 line of another row than --source has in that place/);
});

test('rows of a Parquet file are filtered, searched and read as those of a table', async () => {
  const at = folder();
  const csv = `n,name\n${Array.from({ length: 1_200 }, (_row, n) => `${n},"name ${n}"`).join('\n')}\n`;
  writeFileSync(join(at, 'rows.csv'), csv);
  const { code, stderr } = await fw(
    `fw ingest rows.csv --prompt name --id n | fw export --format parquet > rows.parquet`,
    { cwd: at },
  );
  expect(code, stderr).toBe(0);
  const run = await opened([join(at, 'rows.parquet')]);
  expect(run.state()).toMatchObject({ rows: 1_200, notes: [] });
  const found = await run.select(query({ text: 'NAME 1177' }), 10_000);
  expect(rowsOf(found)).toEqual([1177]);
  expect(JSON.stringify((await run.read(1177)).value)).toMatch(/name 1177/);
});

test('more values than are counted one by one: numbers keep their ranges, texts their equality', async () => {
  const path = join(folder(), 'rows.ndjson');
  const rows = 25_000;
  const lines = Array.from({ length: rows }, (_line, at) => JSON.stringify({ n: at, name: `name ${at}` }));
  writeFileSync(path, `${lines.join('\n')}\n`);
  const run = await opened([path]);
  const kinds = Object.fromEntries(run.columns().map(({ name, kind }) => [name, kind]));
  expect(kinds).toMatchObject({ 'in.n': 'numbers', 'in.name': 'texts', kind: 'values' });
  const range = { column: 'in.n', tests: [{ isNot: false, from: 9_998, to: 10_003 }] };
  expect(rowsOf(await run.select(query({ filters: [range] })))).toEqual([
    9998, 9999, 10000, 10001, 10002, 10003,
  ]);
  expect(rowsOf(await run.select(query({ filters: [is('in.name', 'name 3', 'name 20000')] })))).toEqual([
    3, 20000,
  ]);
  const down = await run.select(query({ sort: { column: 'in.n', isDown: true } }));
  expect([down.at(0), down.at(rows - 1)]).toEqual([rows - 1, 0]);
});

test('numbers as programs write them are numbers; those too long for one keep every digit', async () => {
  const path = join(folder(), 'rows.ndjson');
  const numbers = Array.from({ length: 12_000 }, (_row, at) => at / 12_001 + 1e-7);
  const lines = numbers.map((p, at) => JSON.stringify({ p, id: `r${at}`, long: `1234567890123456789${at}` }));
  writeFileSync(path, `${lines.join('\n')}\n`);
  const run = await opened([path]);
  const half = { column: 'in.p', tests: [{ isNot: false, from: 0.5, to: null }] };
  expect((await run.select(query({ filters: [half] }))).count).toBe(numbers.filter(p => p >= 0.5).length);
  const down = await run.select(query({ sort: { column: 'in.p', isDown: true } }));
  expect([down.at(0), down.at(11_999)]).toEqual([11_999, 0]);
  expect(rowsOf(await run.select(query({ filters: [is('in.long', '12345678901234567897')] })))).toEqual([7]);
});

test('a file that another takes the place of stays what it was; one that is written anew is not mixed with what it was', async () => {
  const path = join(folder(), 'rows.ndjson');
  const rows = (value: string, count: number): string =>
    Array.from({ length: count }, (_row, at) => `${JSON.stringify({ v: value, n: at })}\n`).join('');
  writeFileSync(path, rows('old', 50));
  const run = await opened([path]);
  renameSync(path, `${path}.1`);
  writeFileSync(path, rows('new', 80));
  appendFileSync(`${path}.1`, rows('old', 3));
  await run.look(1e9);
  await allOf(run);
  expect(run.state().rows).toBe(53);
  expect((await run.select(query({ filters: [is('in.v', 'new')] }))).count).toBe(0);
  writeFileSync(`${path}.1`, rows('else', 99));
  await run.look(2e9);
  await allOf(run);
  expect(run.state().rows).toBe(53);
  expect(run.state().notes.join()).toMatch(/written anew/);
});

test('an index is kept in a folder of our own alone, and no other file is ever removed', async () => {
  const [at, theirs] = [folder(), folder()];
  writeFileSync(join(theirs, 'precious'), 'x');
  symlinkSync(theirs, join(at, 'kept'));
  const path = join(at, 'many.ndjson');
  writeFileSync(path, `${JSON.stringify({ text: 'x'.repeat(1_000) })}\n`.repeat(35_000));
  const run = await Run.open([path], { maxLine: 1 << 20, keptIn: join(at, 'kept') });
  await allOf(run);
  await run.close();
  expect(readdirSync(theirs)).toEqual(['precious']);
});

test('numbers are sorted as numbers are', () => {
  for (const { random, seed } of seeded(runs(20, 500))) {
    const count = Math.floor(random() * 50);
    const keys = Float64Array.from({ length: count }, () =>
      random() < 0.1 ? Number.POSITIVE_INFINITY : (random() - 0.5) * 10 ** Math.floor(random() * 12),
    );
    const rows = Uint32Array.from({ length: count }, (_none, at) => at);
    const expected = [...rows].sort((a, b) => keys[a]! - keys[b]! || a - b);
    expect([...byKeys(rows, keys.slice())], `seed ${seed}`).toEqual(expected);
  }
});
