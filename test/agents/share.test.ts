/** Orderings that begin alike ask once what they have in common: counts, seeds, failures, resuming, and what is said of it. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { isSharedName, resolveOrderings, rowIdOf, sharedName } from '../../engine/asking/agents/orderings.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const agents = loadAgents(packagedAgents());
const CSV = 'fixtures/applications-60.csv';
const ROWS = 3;

let calm: Servers;
const at = folder();
const path = (name: string): string => join(at, name);
const itemsIn = (name: string): Item[] =>
  readFileSync(path(name), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line));
const stepsOf = ({ steps = [], decision }: Item): Step[] => [...steps, ...(decision ? [decision] : [])];

const ask = (flags: string, more = ''): string =>
  `fw ingest ${CSV} --limit ${ROWS} --orderings batch4 | fw chain --share --ledger ${path('ledger')} ${flags} ${more}`;

/** Distinct calls of a ledger that have an answer, by what was asked. */
function recorded(ledger: string): { key: string; item: string; agent: string; seed: number }[] {
  const files = readdirSync(ledger, { recursive: true, encoding: 'utf8' }).filter(name =>
    name.endsWith('.ndjson'),
  );
  return files
    .flatMap(name => readFileSync(join(ledger, name), 'utf8').split('\n'))
    .filter(line => line.startsWith('{"key"') && line.includes('"outcome":"answer"'))
    .map(line => {
      const { key, item, agent } = JSON.parse(line);
      return { key, item, agent, seed: Number(/\\?"seed\\?":(\d+)/.exec(line)?.[1]) };
    });
}

beforeAll(async () => {
  calm = await servers(2);
  const ran = await fw(`${ask(calm.flags)} > ${path('items.ndjson')}`);
  expect(ran.code, ran.stderr).toBe(0);
});

test.each([
  ['batch4', 35, 48],
  ['all', 64, 96],
  ['balanced12', 40, 48],
])('%s: %i chain calls of %i a row', (list, shared, apart) => {
  const names = new Set<string>();
  const orderings = resolveOrderings(list, agents);
  for (const ordering of orderings) {
    const item: Item = { id: `r/${ordering.map(key => agents.byKey.get(key)?.short).join('-')}`, ordering };
    for (const [step] of ordering.entries()) {
      const asked = ordering.slice(0, step + 1);
      names.add(sharedName(rowIdOf(item, agents), asked, agents) ?? `${item.id} ${asked.join()}`);
    }
  }
  expect([names.size, orderings.length * 4]).toEqual([shared, apart]);
});

test('each question of a row is asked once, with one seed, and each item says what it shares', () => {
  const items = itemsIn('items.ndjson');
  expect(items).toHaveLength(12 * ROWS);
  const calls = recorded(path('ledger'));
  expect(new Set(calls.map(({ key }) => key)).size).toBe(calls.length);
  const keys = new Set(items.flatMap(item => stepsOf(item).flatMap(step => step.calls)));
  expect(new Set(calls.map(({ key }) => key))).toEqual(keys);
  const questions = new Set(
    items.flatMap(item => stepsOf(item).map(step => `${step.shared ?? item.id} ${step.agent}`)),
  );
  expect(questions.size).toBe(ROWS * (35 + 12));
  for (const item of items) {
    const marks = item.steps?.map(step => step.shared) ?? [];
    const row = item.id?.split('/')[0];
    const shorts = item.ordering?.map(key => agents.byKey.get(key)?.short);
    expect(marks).toEqual([
      `${row}/${shorts?.[0]}-*`,
      `${row}/${shorts?.[0]}-${shorts?.[1]}-*`,
      undefined,
      undefined,
    ]);
    expect(item.decision?.shared).toBeUndefined();
    expect(marks.slice(0, 2).every((name, step) => isSharedName(name, item, step, agents))).toBe(true);
    expect(isSharedName(marks[0], item, 1, agents)).toBe(false);
  }
  const seeds = new Map(calls.map(({ item, agent, seed }) => [`${item} ${agent}`, seed]));
  expect(new Set(seeds.values()).size).toBe(seeds.size);
});

test('the same command again asks nothing and gives the same bytes; without --share each item has its own samples', async () => {
  const before = calm.requests();
  const again = await fw(`${ask('')} > ${path('again.ndjson')}`);
  expect(again.code, again.stderr).toBe(0);
  expect(calm.requests()).toBe(before);
  const sorted = (name: string): string[] => readFileSync(path(name), 'utf8').split('\n').sort();
  expect(sorted('again.ndjson')).toEqual(sorted('items.ndjson'));
  const apart = await fw(
    `fw ingest ${CSV} --limit 1 --orderings batch4 | fw chain --ledger ${path('apart')} ${calm.flags} > ${path('apart.ndjson')}`,
  );
  expect(apart.code, apart.stderr).toBe(0);
  const keys = itemsIn('apart.ndjson').flatMap(item => stepsOf(item).flatMap(step => step.calls));
  expect(new Set(keys).size).toBe(keys.length);
  expect(itemsIn('apart.ndjson').some(item => stepsOf(item).some(step => 'shared' in step))).toBe(false);
});

test('verify takes shared items, and finds one whose shared answer is another, or has a name of others', async () => {
  const fine = await fw(`fw verify --expect ${12 * ROWS} ${path('items.ndjson')}`);
  expect(fine.code, fine.stderr).toBe(0);
  const items = itemsIn('items.ndjson');
  const [first] = items as [Item];
  const name = first.steps?.[0]?.shared;
  const sharing = items.filter(item => item.steps?.[0]?.shared === name && item !== first);
  expect(sharing.length).toBeGreaterThan(0);
  const change = (item: Item, step: Partial<Step>): Item => ({
    ...item,
    steps: [{ ...(item.steps?.[0] as Step), ...step }, ...(item.steps?.slice(1) ?? [])],
  });
  for (const [bad, expected] of [
    [change(first, { calls: ['0'.repeat(32)] }), `the answer that other items have to ${name}`],
    [change(first, { shared: 'another/risk-*' }), 'the name of a question that the ordering'],
  ] as const) {
    const lines = items.map(item => (item === first ? bad : item)).map(item => JSON.stringify(item));
    writeFileSync(path('bad.ndjson'), `${lines.join('\n')}\n`);
    const found = await fw(`fw verify --pass ${path('bad.ndjson')}`);
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(expected);
  }
});

test('a report counts the tokens of a shared answer once', async () => {
  const usage = new Map<string, number>();
  for (const item of itemsIn('items.ndjson'))
    for (const step of stepsOf(item))
      usage.set(step.shared ?? `${item.id} ${step.agent}`, step.usage.completion);
  const { stdout } = await fw(
    `fw report ${path('items.ndjson')} --outcome approval_decision --approve approve --json`,
  );
  expect(JSON.parse(stdout).tokens.completion).toBe([...usage.values()].reduce((sum, each) => sum + each, 0));
});

test('explain says with whom an answer is shared; results and their provenance are made of shared items', async () => {
  const [first] = itemsIn('items.ndjson') as [Item];
  const told = await fw(`fw explain ${first.id} ${path('items.ndjson')}`);
  expect(told.stdout).toContain(`asked once for all items of ${first.steps?.[0]?.shared}`);
  const made = await fw(
    `fw legacy-convert --provenance ${path('how.jsonl')} ${path('items.ndjson')} > ${path('out.jsonl')} && fw verify --expect ${12 * ROWS} --provenance ${path('how.jsonl')} ${path('out.jsonl')} && fw validate ${path('items.ndjson')} | fw verify --expect ${12 * ROWS}`,
  );
  expect(made.code, made.stderr).toBe(0);
  expect(readFileSync(path('how.jsonl'), 'utf8')).toContain(`"shared":"${first.steps?.[0]?.shared}"`);
});

test('a shared call that fails fails each item of it, and is asked again once', async () => {
  // answers that are always cut off: the first question of each row fails for all that begin so
  const broken = await servers(1, { faults: 'truncated=1' });
  const ledger = path('failing');
  const line = (flags: string, more: string): string =>
    `fw ingest ${CSV} --limit 1 --orderings batch4 | fw chain --share --attempts 1 --ledger ${ledger} ${flags} ${more} > ${path('failed.ndjson')}`;
  const failed = await fw(line(broken.flags, ''));
  expect(failed.code, failed.stderr).toBe(1);
  expect(
    itemsIn('failed.ndjson')
      .map(item => item.failure?.agent)
      .sort(),
  ).toEqual(
    resolveOrderings('batch4', agents)
      .map(([agent]) => agent)
      .sort(),
  );
  expect(broken.requests()).toBe(recorded(ledger).length);
  expect(recorded(ledger)).toHaveLength(3);
  const before = calm.requests();
  const retry = await fw(
    `fw chain --share --retry-failed --ledger ${ledger} ${calm.flags} ${path('failed.ndjson')} > ${path('healed.ndjson')}`,
  );
  expect(retry.code, retry.stderr).toBe(0);
  expect(calm.requests() - before).toBeGreaterThanOrEqual(47);
  expect(new Set(itemsIn('healed.ndjson').flatMap(item => item.steps?.[0]?.calls ?? [])).size).toBe(3);
  expect(itemsIn('healed.ndjson').every(item => item.steps?.[0]?.round === 1)).toBe(true);
  const verified = await fw(`fw verify --expect 12 ${path('healed.ndjson')}`);
  expect(verified.code, verified.stderr).toBe(0);
  // the command of the beginning finds what the recovery got
  const whole = await fw(line('', ''));
  expect(whole.code, whole.stderr).toBe(0);
});

test('--share needs a ledger', async () => {
  const { code, stderr } = await fw(`fw ingest ${CSV} --limit 1 | fw chain --share ${calm.flags}`);
  expect(code).toBe(64);
  expect(stderr).toContain('--share: expected a ledger');
});

test.each([
  [{ id: 'a/risk-data', ordering: ['risk_manager', 'data_science'] }, ['a', '/risk-data', '']],
  [{ id: 'a/risk-data#2', ordering: ['risk_manager', 'data_science'], sample: 2 }, ['a', '/risk-data', '#2']],
  [{ id: 'a#2', sample: 2 }, ['a', '', '#2']],
  [{ id: 'a#2' }, ['a#2', '', '']],
  [
    { id: '37/risk_manager,data_science', ordering: ['risk_manager', 'data_science'] },
    ['37', '/risk_manager,data_science', ''],
  ],
  [{ id: '/risk-data', ordering: ['risk_manager', 'data_science'] }, ['/risk-data', '', '']],
  [{ id: 'a/risk', ordering: ['data_science'] }, ['a/risk', '', '']],
])('the id %j in its parts', (item, [row, label, sample]) => {
  expect(rowIdOf(item as Item, agents)).toEqual({ row, label, sample });
});
