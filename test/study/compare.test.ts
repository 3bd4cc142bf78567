/** `fw compare` on runs whose differences are known, and on three simulated models. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { holding } from '../../engine/asking/ledger/held.ts';
import type { Comparison, RunRow } from '../../products/report/compare-runs.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures/applications-60.csv');
const ASKED = '--outcome ok --approve yes';

/** Lines with an id, as rows: `says` gives the outcome of each, and `numbers` the rate. */
function rows(says: readonly string[]): string {
  return says.map((ok, at) => `${JSON.stringify({ id: `r${at}`, ok })}\n`).join('');
}

async function compared(files: { [name: string]: string }, line: string) {
  const at = folder();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text);
  const { stdout, stderr, code } = await fw(`fw compare ${line} ${ASKED} --json`, { cwd: at });
  const { runs = [], comparisons = [] } = (stdout ? JSON.parse(stdout) : {}) as {
    runs?: RunRow[];
    comparisons?: Comparison[];
  };
  return { code, stderr, runs, comparisons };
}

const YES = Array<string>(300).fill('yes');
const some = (no: number): string[] => YES.map((yes, at) => (at < no ? 'no' : yes));

test('two runs that are alike are identical, and within a margin', async () => {
  const files = { 'a.ndjson': rows(some(100)), 'b.ndjson': rows(some(100)) };
  const { code, comparisons } = await compared(files, 'a.ndjson b.ndjson --margin 0.02');
  expect(code).toBe(0);
  expect(comparisons[0]).toMatchObject({
    matched: 300,
    identical: 300,
    table: [
      [100, 0],
      [0, 200],
    ],
    different: [],
  });
  expect(comparisons[0]?.kappa?.value).toBe(1);
  expect(comparisons[0]?.equivalence?.equivalent).toBe(true);
});

test('differences are found with their sizes, of three runs, and exit 1 is for the margin alone', async () => {
  const files = {
    'a.ndjson': rows(some(100)),
    'b.ndjson': rows(some(130)),
    'c.ndjson': rows([...some(100).slice(0, 250), '', '']),
  };
  const line = 'a.ndjson b.ndjson c.ndjson';
  const free = await compared(files, line);
  expect([free.code, free.runs.map(({ trusted }) => trusted)]).toEqual([0, [300, 300, 250]]);
  const [b, c] = free.comparisons;
  expect(b?.table).toEqual([
    [100, 0],
    [30, 170],
  ]);
  expect(b?.difference?.value).toBeCloseTo(-0.1, 12);
  expect(b?.p).toBeCloseTo(2 / 2 ** 30, 12);
  expect(b?.holm).toBeCloseTo(4 / 2 ** 30, 12);
  expect(b?.different).toHaveLength(10);
  expect(b?.different[0]).toEqual({ id: 'r100', decisions: ['approved', 'not approved'], numbers: {} });
  expect([c?.matched, c?.onlyFirst, c?.onlySecond, c?.p]).toEqual([250, 50, 0, 1]);
  expect((await compared(files, `${line} --margin 0.02`)).code).toBe(1);
  expect((await compared(files, `${line} --margin 0.2`)).code).toBe(0);
});

test('one item that agrees shows no equivalence, nor do runs that share no id', async () => {
  const files = {
    'a.ndjson': rows(['yes']),
    'b.ndjson': rows(['yes']),
    'c.ndjson': '{"id":"other","ok":"yes"}\n',
  };
  expect((await compared(files, 'a.ndjson b.ndjson --margin 0.02')).code).toBe(1);
  const { code, comparisons } = await compared(files, 'a.ndjson c.ndjson --margin 0.02');
  expect([code, comparisons[0]?.matched, comparisons[0]?.equivalence]).toEqual([1, 0, null]);
});

test('three models stand in one table with speed, quality and cost, from real runs and their ledgers', async () => {
  const at = folder();
  const models = ['small', 'large', 'other'];
  const flags: string[] = [];
  for (const [nth, model] of models.entries()) {
    const { flags: own } = await servers(nth === 1 ? 2 : 1, { seed: 7 + nth, model });
    flags.push(own);
    const ran = await fw(
      `fw ingest ${CSV} --limit 12 | fw chain --ledger ${model} ${own} --seed ${nth} > ${model}.ndjson`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
  }
  const line = `fw compare ${models.map(each => `${each}.ndjson`).join(' ')} --outcome approval_decision --approve approve ${models.map(each => `--ledger ${each}`).join(' ')}`;
  const { stdout, code } = await fw(`${line} --gpu-hour 3600 --json`, { cwd: at });
  expect(code).toBe(0);
  const { runs } = JSON.parse(stdout) as { runs: RunRow[] };
  for (const { trusted, ledger } of runs) {
    expect([trusted, ledger?.calls]).toEqual([12, 60]);
    const { hours = 0, endpointHours = 0, cost } = ledger ?? {};
    expect(hours).toBeGreaterThan(0);
    expect(endpointHours).toBeGreaterThanOrEqual(hours);
    expect(endpointHours).toBeLessThanOrEqual(2 * hours);
    expect(cost).toBeCloseTo(endpointHours * 3600, 9);
  }
  const page = await fw(`${line} --gpu-hour 3600`, { cwd: at });
  expect(page.stdout).toMatch(/tokens\/s +hours +GPU hours +cost +a 1,000 items\n(?:.+\n){3}/);
  expect((await fw(`${line}`, { cwd: at })).stdout).not.toContain('a 1,000 items');
});

test('endpoints are held from the first try of a run to its last: overlaps count once, the time between runs not', () => {
  const held = holding();
  const at = (second: number): string => new Date(second * 1000).toISOString();
  held.add(0, 'a', at(10), 10_000);
  held.add(0, 'a', at(20), 1_000);
  held.add(1, 'a', at(25), 10_000); // another process of the same time
  held.add(2, 'a', at(100), 5_000); // resumed
  held.add(0, 'b', at(12), 2_000);
  held.add(0, 'b', 'no time', 2_000);
  expect(held.sum()).toEqual({ wall: 30_000, endpoints: 32_000 });
});

test.each([
  ['a.ndjson a.ndjson --gpu-hour 2', '--gpu-hour: expected --ledger of each run'],
  ['a.ndjson', 'expected two runs or more, found 1'],
  ['a.ndjson a.ndjson --ledger here', '--ledger: expected one of each run, 2, found 1'],
  ['a.ndjson a.ndjson --margin 2', '--margin'],
])('fw compare %s says what is missing', async (line, message) => {
  const { code, stderr } = await compared({ 'a.ndjson': rows(['yes']) }, line);
  expect(code).toBe(64);
  expect(stderr).toContain(message);
});

test('the page for a person', async () => {
  const at = folder();
  writeFileSync(join(at, 'a.ndjson'), rows(some(3)));
  writeFileSync(join(at, 'b.ndjson'), rows(some(4)));
  const { stdout } = await fw(`fw compare a.ndjson b.ndjson ${ASKED} --margin 0.05`, { cwd: at });
  expect(stdout).toContain('matched by id: 300; in the first alone 0, in the second alone 0');
  expect(stdout).toContain('within ±5.0 points: shown');
  expect(stdout).toContain('r3  approved → not approved');
});
