/** What `fw report` counts, on lines made here whose sums are known, and what it does with lines that mean ill. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Report } from '../../engine/study/report.ts';
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
  const steps = says.map(([agent, decision]) => ({
    agent,
    output: { approval_decision: decision, interest_rate: 5 + row },
    rung,
    saw: 'clean',
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
  expect(row?.mcnemar).toBeCloseTo(2 / 32, 12);
  expect(row?.orders.map(({ pairs, referenceOnly }) => [pairs, referenceOnly])).toEqual([
    [6, 2],
    [6, 3],
  ]);
  expect(row?.ids).toContainEqual(['r1/a-b', 'r2/a-b']);
  expect([order?.complete, order?.same, order?.test?.name, order?.ids]).toEqual([12, 11, 'mcnemar', ['r6']]);
  expect(turns.find(({ agent }) => agent === 'c')).toMatchObject({ n: 24, toNo: 5, toYes: 0 });
  expect(groups[0]?.method).toBe('cluster-bootstrap');
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
    `fw report i.ndjson --agents . ${ASKED} --group g --twins g --risk row`,
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
