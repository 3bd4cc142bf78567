/** Finding lines by their id, in real files. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { searchById } from '../../engine/audit/search.ts';
import { folder, shell } from '../fw.ts';
import { fw } from '../here.ts';

const MAX_LINE = 1 << 20;
const cwd = folder();
mkdirSync(cwd, { recursive: true });
const file = (name: string, lines: unknown[]): string => {
  const path = join(cwd, name);
  writeFileSync(
    path,
    lines.map(line => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
  );
  return path;
};
const item = (id: string, row: number) => ({ id, row, prompt: '?', ordering: ['x', 'y'] });
const legacy = (row: number) => ({
  prompt_id: row,
  ordering: 'x,y',
  conversation_history: [],
  business_decision: {},
});

const items = file('items', [
  '',
  item('abc1', 1),
  '',
  'no json',
  item('abc2', 2),
  item('abd', 3),
  item('abc', 12),
]);
const again = file('again', [item('abc1', 1), item('abc1', 1)]);
const results = file('results', [legacy(1), legacy(2), legacy(12)]);
const how = file('how', [{ id: 'abc2', prompt_id: 2, ordering: 'x,y', rung: 'clean', agents: [] }]);

const found = async (id: string, ...paths: string[]) =>
  (await searchById(paths, id, MAX_LINE)).hits.map(({ where }) => where.slice(cwd.length + 1));

test('an exact id is found in every file, in order, by its line', async () => {
  expect(await found('abc1', items, again)).toEqual(['items:2', 'again:1', 'again:2']);
  expect(await found('abc', items, again)).toEqual(['items:7']);
});

test('the beginning of one id is enough, that of several is not', async () => {
  expect(await found('abd', items)).toEqual(['items:6']);
  expect(await found('ab', items)).toEqual([]);
  expect((await searchById([items, again], 'ab', MAX_LINE)).several).toEqual(['abc1', 'abc2', 'abd', 'abc']);
  expect(await found('1/', results)).toEqual(['results:1']);
});

test('what tells of the same item under another name comes along', async () => {
  expect(await found('abc2', items, results, how)).toEqual(['items:5', 'results:2', 'how:1']);
  expect(await found('2/x,y', items, results, how)).toEqual(['items:5', 'results:2', 'how:1']);
  expect(await found('2/', how, results, items)).toEqual(['how:1', 'results:2', 'items:5']);
});

test('what is not there has neighbours', async () => {
  const { near, others, read, unreadable } = await searchById([items], 'ABC3', MAX_LINE);
  expect({ near, others, read, unreadable }).toEqual({
    near: ['abc1', 'abc2', 'abc', 'abd'],
    others: [],
    read: 5,
    unreadable: 1,
  });
  expect((await searchById([items], 'zzz', MAX_LINE)).others).toEqual(['abc1', 'abc2', 'abd', 'abc']);
});

test('lines are found across blocks, and a line beyond the bound is passed over', async () => {
  const long = 'x'.repeat(300_000);
  const many = file('many', [
    ...Array.from({ length: 30 }, (_, at) => ({ id: `n${at}`, prompt: long })),
    { id: 'far', prompt: 'y'.repeat(MAX_LINE) },
    { id: 'end', prompt: '?' },
  ]);
  expect(await found('end', many)).toEqual(['many:32']);
  expect(await found('n29', many)).toEqual(['many:30']);
  expect((await searchById([many], 'far', MAX_LINE)).unreadable).toBe(1);
});

test('a pipe is read once: its lines are found, and no others are looked for', async () => {
  const { stdout, code } = await shell(`cat ${items} ${results} | fw explain abc2 | head -2`, { cwd });
  expect(code).toBe(0);
  expect(stdout).toContain('stdin:5 · item');
});

test('a line that nests too deep is found, and said to be so', async () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  const path = file('deep', [`{"id":"deep","prompt":"?","steps":[],"x":${deep}}`]);
  const story = await fw(`fw explain deep ${path}`);
  expect([story.code, story.stdout.split('\n')[1]]).toEqual([
    0,
    `  ${path}:1 · (root): expected at most 512 levels, got more, so it is not shown`,
  ]);
  expect((await fw(`fw explain deep ${path} --value /x`)).code).toBe(1);
});

test('a reader that goes away ends it quietly, a full disk with 74', async () => {
  const path = file('big', [{ id: 'big', prompt: 'x\n'.repeat(500_000) }]);
  const { stdout, stderr, code } = await fw(`fw explain big ${path} | head -1; echo "\${PIPESTATUS[0]}"`);
  expect([stdout, stderr, code]).toEqual(['big\n141\n', '', 0]);
  const full = await fw(`fw explain big ${path} > /dev/full`);
  expect([full.code, full.stderr]).toEqual([74, 'fw explain: stdout: expected to write, found ENOSPC\n']);
});
