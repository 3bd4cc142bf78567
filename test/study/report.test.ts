/** What `fw report` counts, on lines made here whose sums are known, and what it does with lines that mean ill. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Report } from '../../products/report/report.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const ASKED = '--outcome approval_decision --approve approve';
/** Agents of these tests: any schema fits, so that what is counted is theirs to say. */
const AGENTS = {
  'a.yaml':
    'key: a\nshort: a\ndisplay: A\nrole: agent\npersona: p\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 9 }\n',
  'b.yaml':
    'key: b\nshort: b\ndisplay: B\nrole: agent\npersona: p\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 9 }\n',
  'c.yaml':
    'key: c\ndisplay: C\nrole: synthesis\npersona: p\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 9 }\n',
};

interface Made {
  id: string;
  row: number;
  input: { [column: string]: string };
  ordering?: string[];
  says: [string, unknown][];
  rung?: string;
  attempts?: number;
}

function item({ id, row, input, ordering = ['a', 'b'], says, rung = 'clean', attempts = 1 }: Made): string {
  const steps = says.map(([agent, decision], at) => ({
    agent,
    output: { approval_decision: decision, interest_rate: 5 + row },
    rung,
    saw: at === 0 ? 'clean' : rung,
    repairs:
      rung === 'defaulted' ? [{ rule: 'null-default', at: '/interest_rate', from: null, to: 5 + row }] : [],
    calls: [],
    attempts,
    usage: { prompt: 10, completion: 2 },
  }));
  return JSON.stringify({
    id,
    row,
    input,
    prompt: 'p',
    ordering,
    steps: steps.slice(0, -1),
    decision: steps.at(-1),
  });
}

async function report(files: { [name: string]: string }, line: string): Promise<Report> {
  const { stdout, stderr, code } = await fw(`fw report ${line} --json`, { cwd: home(files) });
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

function home(files: { [name: string]: string }): string {
  const at = folder();
  for (const [name, text] of Object.entries({ ...AGENTS, ...files })) writeFileSync(join(at, name), text);
  return at;
}

test('rates, ratios and what is missing to parity, of a table', async () => {
  const rows = [
    'x,yes,1',
    'x,yes,2',
    'x,no,3',
    'x,yes,4',
    'y,yes,5',
    'y,no,6',
    ' ,yes,7',
    'y,,8',
    'y,NA,9',
    'y,NaN,10',
  ];
  const { integrity, groups, level, notes } = await report(
    { 't.csv': ['g,ok,n', ...rows, ''].join('\n') },
    't.csv --outcome ok --approve yes --group g',
  );
  expect([integrity.seen, integrity.trusted, integrity.left]).toEqual([10, 7, { 'blank-outcome': 3 }]);
  expect(integrity.rungs).toEqual({ unknown: 10 });
  expect([level.n, level.approved]).toEqual([7, 5]);
  const [table] = groups;
  expect([table?.reference, table?.blank, table?.method]).toEqual(['x', 1, 'independent']);
  const found = table?.rows.map(({ value, n, approved, ratio, shortfall, small }) => [
    value,
    n,
    approved,
    ratio?.value,
    shortfall,
    small,
  ]);
  expect(found).toEqual([
    ['x', 4, 3, undefined, null, true],
    ['y', 2, 1, 0.5 / 0.75, 0.5, true],
  ]);
  expect(table?.rows[1]?.ids).toEqual({ approved: ['t.csv:5'], others: ['t.csv:6'] });
  expect(notes.join()).toContain('3 records without an outcome');
});

test('twins, orders, turns and repeats, of items', async () => {
  const lines: string[] = [];
  const orders = [
    ['a', 'b'],
    ['b', 'a'],
  ];
  // cell k: both groups, two orders; the second group is denied in cells 0 and 1, and in cell 2 in the second order alone
  for (let cell = 0; cell < 6; cell++)
    for (const [g, group] of ['m', 'w'].entries())
      for (const [o, ordering] of orders.entries()) {
        const isDenied = g === 1 && (cell < 2 || (cell === 2 && o === 1));
        const row = cell * 2 + g + 1;
        const id = `r${row}/${ordering.join('-')}`;
        const last = isDenied ? 'deny' : 'approve';
        const says: [string, unknown][] = [
          ...ordering.map((agent): [string, unknown] => [agent, 'approve']),
          ['c', last],
        ];
        lines.push(item({ id, row, input: { group, cell: `${cell}` }, ordering, says }));
      }
  const again = [lines[0], lines[2]?.replaceAll('"deny"', '"approve"'), lines[4]] as string[];
  const {
    twins,
    orders: order,
    turns,
    noise,
    groups,
    integrity,
  } = await report(
    { 'one.ndjson': `${lines.join('\n')}\n`, 'two.ndjson': `${again.join('\n')}\n` },
    `one.ndjson two.ndjson --agents . ${ASKED} --group group --twins cell --reference m`,
  );
  expect([integrity.seen, integrity.trusted, integrity.repeated]).toEqual([24, 24, 3]);
  expect([noise.pairs, noise.flips]).toEqual([3, 1]);
  const [table] = twins;
  expect([table?.cells, table?.invariant, table?.partial]).toEqual([12, 7, 0]);
  const [row] = table?.rows ?? [];
  expect([row?.value, row?.pairs, row?.referenceOnly, row?.groupOnly]).toEqual(['w', 12, 5, 0]);
  expect(row?.net?.value).toBeCloseTo(-5 / 12, 12);
  // three cells differ, by 2, 2 and 1 of their pairs: of eight ways to swap them two are as extreme
  expect([row?.mcnemar, row?.p]).toEqual([null, 2 / 8]);
  expect(row?.orders.map(({ pairs, referenceOnly }) => [pairs, referenceOnly])).toEqual([
    [6, 2],
    [6, 3],
  ]);
  expect(row?.ids).toContainEqual(['r1/a-b', 'r2/a-b']);
  expect([order?.complete, order?.same, order?.test?.name, order?.ids]).toEqual([12, 11, 'swap', ['r6']]);
  expect(turns.find(({ agent }) => agent === 'c')).toMatchObject({ n: 24, toNo: 5, toYes: 0 });
  expect(groups[0]?.method).toBe('clusters');
  expect(groups[0]?.clusters).toBe(6);
});

test('what verification refuses enters no rate, and the group that it befalls more is found', async () => {
  const lines = Array.from({ length: 400 }, (_, row) => {
    const group = row % 2 === 0 ? 'x' : 'y';
    const rung = group === 'y' && row % 10 === 1 ? 'defaulted' : 'clean';
    return item({
      id: `r${row}`,
      row: row + 1,
      input: { group },
      rung,
      says: [
        ['a', 'deny'],
        ['b', 'deny'],
        ['c', 'approve'],
      ],
      attempts: group === 'y' ? 2 : 1,
    });
  });
  const files = { 'i.ndjson': `${lines.join('\n')}\n` };
  const { integrity } = await report(files, `i.ndjson --agents . ${ASKED} --group group --reference x`);
  expect([integrity.seen, integrity.trusted]).toEqual([400, 360]);
  expect(integrity.left).toEqual({ 'not-accepted': 40 });
  const y = integrity.groups[0]?.rows.find(({ value }) => value === 'y');
  expect([y?.trusted, y?.askedAgain]).toEqual([160, 200]);
  expect(y?.tests['left-out']?.holm).toBeLessThan(0.001);
  expect(y?.tests['asked-again']?.holm).toBeLessThan(0.001);
  const all = await report(files, `i.ndjson --agents . ${ASKED} --group group --accept clean,defaulted`);
  expect(all.integrity.trusted).toBe(400);
});

const ORDERS = [['a', 'b'].join(), ['b', 'a'].join(), 'c'];

/** Rows of cells of two groups with two names each, in three orders, in some order of lines. */
function cellRows(cells: number, by: (row: object, at: number) => number): string {
  const rows: { [key: string]: unknown }[] = [];
  for (let cell = 0; cell < cells; cell++)
    for (const [g, group] of ['m', 'm', 'w', 'w'].entries())
      for (const [o, ordering] of ORDERS.entries()) {
        const says = (cell * 7 + g * 5 + o * 3 + ((cell * g) % 4)) % 11;
        rows.push({
          id: `${cell}-${g}/${o}`,
          ordering,
          group,
          cell,
          rate: 4 + (says % 5),
          ok: says < 6 ? 'yes' : says === 10 ? '' : 'no',
        });
      }
  const sorted = rows.map((row, at) => ({ row, key: by(row, at) })).sort((a, b) => a.key - b.key);
  return sorted.map(({ row }) => `${JSON.stringify(row)}\n`).join('');
}

test('a cell with several twins of a group is counted alike whatever the order of its lines', async () => {
  const line = 'rows.ndjson --outcome ok --approve yes --group group --twins cell --reference m';
  const [one, other] = await Promise.all(
    [(_: object, at: number) => at, (_: object, at: number) => (at * 7919) % 1009].map(by =>
      report({ 'rows.ndjson': cellRows(34, by) }, line),
    ),
  );
  const figures = ({ groups, twins, orders, integrity, family }: Report) => [
    groups.map(({ rows }) => rows.map(({ n, approved, p }) => [n, approved, p])),
    twins.map(({ cells, invariant, partial, rows }) => [
      [cells, invariant, partial],
      rows.map(({ pairs, referenceOnly, groupOnly, p, holm }) => [pairs, referenceOnly, groupOnly, p, holm]),
    ]),
    [orders?.complete, orders?.same],
    integrity.groups.map(({ rows }) => rows.map(({ tests }) => tests)),
    family.tests,
  ];
  expect(figures(other as Report)).toEqual(figures(one as Report));
  expect(one?.orders?.test?.p).toBeCloseTo(other?.orders?.test?.p ?? Number.NaN, 12);
  // four pairs in each cell and order, less those of what was left out
  expect(one?.twins[0]?.rows[0]?.pairs).toBeLessThan(34 * 3 * 4);
  expect(one?.twins[0]?.rows[0]?.mcnemar).toBeNull();
});

test('samples are the same question asked again: no more applications, but a noise floor', async () => {
  const lines: string[] = [];
  let [alike, differing] = [0, 0];
  for (let cell = 0; cell < 20; cell++) {
    const said = ['m', 'w'].map((group, g) =>
      [1, 2, 3].map(sample => {
        const ok = (cell * 5 + g * 2 + sample * (cell % 3)) % 7 < 4 ? 'yes' : 'no';
        lines.push(JSON.stringify({ id: `${cell}-${group}#${sample}`, sample, group, cell, ok }));
        return ok;
      }),
    );
    for (const of of said)
      differing += [of[0] !== of[1], of[0] !== of[2], of[1] !== of[2]].filter(Boolean).length;
    alike += [0, 1, 2].filter(sample => said[0]?.[sample] === said[1]?.[sample]).length;
  }
  const files = { 'rows.ndjson': `${lines.join('\n')}\n` };
  const { level, noise, twins, integrity } = await report(
    files,
    'rows.ndjson --outcome ok --approve yes --group group --twins cell --reference m',
  );
  expect([integrity.seen, level.n, level.applicants, level.clusters, level.samples]).toEqual([
    120,
    120,
    40,
    20,
    true,
  ]);
  expect([noise.pairs, noise.flips]).toEqual([120, differing]);
  expect([twins[0]?.cells, twins[0]?.invariant]).toEqual([60, alike]);
  const page = await fw('fw report rows.ndjson --outcome ok --approve yes --group group', {
    cwd: home(files),
  });
  expect(page.stdout).toContain('of 40 applications, each asked several times');
});

test('what befalls an application in all its orders befell one application', async () => {
  const rows = ['x', 'y'].flatMap(group =>
    Array.from({ length: 30 }, (_, at) =>
      Array.from({ length: 12 }, (_none, order) => ({
        ...{ id: `${group}${at}/${order}`, ordering: `o${order}`, group },
        ok: at < (group === 'x' ? 1 : 4) ? '' : at % 2 === 0 ? 'yes' : 'no',
      })),
    ).flat(),
  );
  const { integrity, groups, family } = await report(
    { 'rows.ndjson': rows.map(row => `${JSON.stringify(row)}\n`).join('') },
    'rows.ndjson --outcome ok --approve yes --group group --reference x',
  );
  const lost = integrity.groups[0]?.rows.find(({ value }) => value === 'y')?.tests['left-out'];
  // Fisher's test of 1 of 30 against 4 of 30, which counted lines would call p 0.000001
  expect(lost?.p).toBeCloseTo(0.3533, 3);
  expect(groups[0]?.rows.map(({ n, clusters, small }) => [n, clusters, small])).toEqual([
    [348, 29, true],
    [312, 26, true],
  ]);
  expect(family.findings).toEqual([]);
});

test('the page says what it calls a finding, and how its tests are corrected', async () => {
  const rows = (no: number) =>
    ['x', 'y'].flatMap(group =>
      Array.from({ length: 100 }, (_, at) => `${group},${at < (group === 'x' ? 30 : no) ? 'no' : 'yes'}`),
    );
  const page = async (no: number) => {
    const files = { 't.csv': ['g,ok', ...rows(no), ''].join('\n') };
    return (
      await fw('fw report t.csv --outcome ok --approve yes --group g --reference x', { cwd: home(files) })
    ).stdout;
  };
  expect(await page(34)).toContain(
    '<strong>No finding.</strong> </p><p class="dim">1 test on this page, of approval between groups; so there is',
  );
  const found = await page(70);
  expect(found).toContain('<strong>1 finding:</strong> g y against x (p < 0.001, corrected).');
});

const EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\u001b[2J\u202e';

test("a model's markup is text on the page", async () => {
  const evil = { [EVIL]: EVIL, g: EVIL };
  const lines = [1, 2, 3].map(row =>
    item({
      id: `${EVIL}${row}`,
      row,
      input: evil,
      says: [
        ['a', EVIL],
        ['b', 'deny'],
        ['c', row === 1 ? EVIL : 'approve'],
      ],
    }),
  );
  const broken = JSON.stringify({
    id: 'b',
    prompt: 'p',
    failure: { stage: EVIL, code: EVIL, message: EVIL },
  });
  const at = home({ 'i.ndjson': `${lines.join('\n')}\n${broken}\nno json <script>\n` });
  const { stdout, stderr, code } = await fw(
    `fw report i.ndjson --agents . ${ASKED} --deny deny --group g --twins g --risk interest_rate`,
    { cwd: at },
  );
  expect(code, stderr).toBe(0);
  expect(stdout).toContain('&lt;script&gt;');
  expect(stdout).not.toMatch(/<script|<img|<[^>]*\s(?:on\w+|src|href)=|javascript:|url\(|@import/i);
  for (const hidden of ['\u001b', '\u202e']) expect(stdout).not.toContain(hidden);
});

test.each([
  ['one group', 'g,ok\nx,yes\nx,no\n', 1],
  ['a group without approvals', 'g,ok\nx,yes\nx,yes\ny,no\ny,no\n', 2],
  ['a reference without approvals', 'g,ok\nx,no\nx,no\nx,no\ny,yes\n', 2],
  ['one row', 'g,ok\nx,yes\n', 1],
  ['blank groups', 'g,ok\n,yes\nx,yes\n,no\n', 1],
  ['everybody approved', 'g,ok\nx,yes\ny,yes\n', 2],
  ['names of the language', 'g,ok\n__proto__,yes\nconstructor,no\ntoString,yes\n', 3],
])('a page for %s', async (_, table, rows) => {
  const at = home({ 't.csv': table });
  const line = 'fw report t.csv --outcome ok --approve yes --group g';
  const page = await fw(line, { cwd: at });
  expect(page.code, page.stderr).toBe(0);
  expect(page.stdout).not.toMatch(/NaN|undefined|Infinity|\[object/);
  const { groups } = JSON.parse((await fw(`${line} --json`, { cwd: at })).stdout) as Report;
  expect(groups[0]?.rows).toHaveLength(rows);
});

test('ten thousand groups are counted, and one more is refused', async () => {
  const rows = Array.from({ length: 10_000 }, (_, at) => `g${at},${at % 3 === 0 ? 'yes' : 'no'}`);
  const at = home({
    't.csv': ['g,ok', ...rows, ''].join('\n'),
    'u.csv': ['g,ok', ...rows, 'more,yes', ''].join('\n'),
  });
  const page = await fw('fw report t.csv --outcome ok --approve yes --group g', { cwd: at });
  expect(page.code, page.stderr).toBe(0);
  expect(page.stdout.length).toBeLessThan(1_000_000);
  const refused = await fw('fw report u.csv --outcome ok --approve yes --group g', { cwd: at });
  expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining('at most 10,000 values')]);
});

test.each([
  ['t.csv', '--outcome'],
  ['t.csv --outcome ok', '--approve'],
  ['t.csv --outcome nope --approve yes', 'expected lines with \'nope\', found none; there are: "g", "ok"'],
  ['t.csv --outcome ok --approve yes --group nope', "expected lines with 'nope', found none"],
  ['t.csv --outcome ok --approve yes --group g --reference z', '--reference: expected a value of'],
  ['t.csv --outcome ok --approve yes --accept good', '--accept'],
])('fw report %s says what is missing', async (line, message) => {
  const { code, stderr, stdout } = await fw(`fw report ${line}`, { cwd: home({ 't.csv': 'g,ok\nx,yes\n' }) });
  expect([code, stdout]).toEqual([64, '']);
  expect(stderr).toContain(message);
});

test('an approval that nobody got is said on the page, and is no error', async () => {
  const { notes, level } = await report({ 't.csv': 'g,ok\nx,no\n' }, 't.csv --outcome ok --approve yes');
  expect(notes.join()).toContain("nobody was approved: no 'ok' is 'yes'; there are: \"no\"");
  expect(level.approved).toBe(0);
});
