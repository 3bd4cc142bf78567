import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkIds, identityOf } from '../../engine/audit/expected-ids.ts';
import { createIdSet, createIdTable } from '../../engine/core/files/idset.ts';
import { folder } from '../fw.ts';

const path = join(folder(), 'ids');
const options = { stage: 'verify', maxLine: 1 << 20 };

test('missing, unknown and twice are what sets say', () => {
  const ids = fc.array(fc.integer({ min: 0, max: 40 }).map(String), { minLength: 1, maxLength: 40 });
  const property = fc.property(ids, ids, fc.boolean(), (listed, seen, asItems) => {
    writeFileSync(path, listed.map(id => (asItems ? JSON.stringify({ id, prompt: '?' }) : id)).join('\n'));
    const check = checkIds(path, options);
    const firsts = seen.filter(id => check.see(identityOf({ id, prompt: '?' })));
    const missing = listed.filter(id => !seen.includes(id));
    const unknown = seen.filter(id => !listed.includes(id));
    expect(firsts).toEqual([...new Set(seen)]);
    expect(check.duplicates.count).toBe(seen.length - firsts.length);
    expect(check.unknown).toEqual({ count: unknown.length, first: unknown.slice(0, 10) });
    expect(check.missing()).toEqual({
      expected: listed.length,
      missing: { count: missing.length, first: missing.slice(0, 10) },
    });
  });
  fc.assert(property, { seed: 20261120, numRuns: 200 });
});

test('a legacy result stands for the item that it came from, or for any ordering of its row', () => {
  const asked = [
    { id: 'x', row: 1, ordering: ['a', 'b'], prompt: '?' },
    { id: 'y', row: 2, prompt: '?' },
    { id: 'z', row: 3, ordering: ['a', 'b'], prompt: '?' },
  ];
  writeFileSync(path, asked.map(item => JSON.stringify(item)).join('\n'));
  const check = checkIds(path, options);
  const legacy = (prompt_id: number, ordering: string) => ({
    prompt_id,
    ordering,
    business_decision: {},
    conversation_history: [],
  });
  for (const line of [legacy(1, 'a,b'), legacy(2, 'b,a'), legacy(2, 'a,b'), legacy(3, 'b,a')])
    expect(check.see(identityOf(line))).toBe(true);
  expect(check.unknown.first).toEqual(['3/b,a']);
  expect(check.missing()?.missing.first).toEqual(['z']);
});

test('a list that is no list of ids is refused, with its line', () => {
  writeFileSync(
    path,
    'a\n{"id": "b", "prompt": "?"}\n{"id": null, "failure": {"stage": "chain", "code": "input-incomplete", "message": "stopped"}}\n',
  );
  expect(() => checkIds(path, options)).toThrow(
    `${path}:3: expected an id, an item or a legacy result; stopped`,
  );
});

test('a table gives each id its number, through every growth', () => {
  const table = createIdTable();
  const set = createIdSet();
  for (let number = 0; number < 5000; number++) {
    expect(table.numberOf(`id ${number}`, number)).toBe(number);
    expect(set.add(`id ${number}`)).toBe(true);
  }
  for (let number = 0; number < 5000; number++) expect(table.numberOf(`id ${number}`, 9999)).toBe(number);
  expect([table.size, set.size, table.has('id 5000'), table.has('id 4999')]).toEqual([
    5000,
    5000,
    false,
    true,
  ]);
});

test('ids of half a surrogate pair are as different as they look', () => {
  const ids = createIdSet();
  const odd = ['\ud800', '\ud801', '\udc00', '\ufffd', 'a\ud800', '\ud800\u0080', '\u0000\u0600'];
  expect(odd.map(id => ids.add(id))).toEqual(odd.map(() => true));
  expect(odd.map(id => ids.has(id))).toEqual(odd.map(() => true));
});

test.each([
  ['asked.csv', 'id,prompt\n1,hi\n2,"a, b"\n', 'a table: id,prompt'],
  ['asked.CSV', 'ticket;text\n1;hi\n', 'a table: ticket;text'],
  ['asked.tsv', 'ticket\n1\n', 'a table: ticket'],
  ['asked.txt', '\uFEFF"prompt_id","prompt"\r\n1,hi\r\n', 'a table: "prompt_id","prompt"'],
  ['asked', 'id\n1\n', 'a table: id'],
  ['asked.json', '[{"id":"a","prompt":"?"}]\n', 'a JSON array: [{"id":"a","prompt":"?"}]'],
  ['asked.json', '[\n{"id":"a","prompt":"?"}\n]\n', 'a JSON array: ['],
])('a table is no list of ids: %s, %j', (name, text, found) => {
  const list = join(folder(), name);
  writeFileSync(list, text);
  expect(() => checkIds(list, options)).toThrow(
    `--ids ${list}: expected ids, items or legacy results, one a line, found what looks like ${found}`,
  );
  expect(() => checkIds(list, options)).toThrow(`fw ingest ${list} > asked.jsonl`);
});

test('ids may have commas, semicolons and blanks in them', () => {
  const ids = ['1/risk_manager,data_science', 'Smith, John', 'a;b', 'x y', '[1]', 'Ids', 'identity'];
  writeFileSync(path, ids.join('\n'));
  const check = checkIds(path, options);
  for (const id of ids) check.see(identityOf({ id, prompt: '?' }));
  expect(check.unknown.count).toBe(0);
  expect(check.missing()).toEqual({ expected: ids.length, missing: { count: 0, first: [] } });
});
