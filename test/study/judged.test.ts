/** What `fw report --labels` counts, against scikit-learn and scipy (judged/oracle.py), and what it never does. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hashOfJudged, type Label, labelLine } from '../../engine/audit/labels-file.ts';
import { seeded } from '../../products/kit/permute.ts';
import type { Judged } from '../../products/report/judged.ts';
import type { Report } from '../../products/report/report.ts';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const HERE = join(ROOT, 'test/study/judged');
const ASKED = '--outcome approval_decision --approve approve --agents .';
const agent = (key: string, role: string, values?: string): string =>
  `key: ${key}\nshort: ${key}\ndisplay: ${key.toUpperCase()}\nrole: ${role}\npersona: p\nschema: { type: object${values ? `, properties: { approval_decision: { enum: [${values}] } }` : ''} }\nsampling: { temperature: 0, max_tokens: 9 }\n`;

function home(files: { [name: string]: string }, values?: string): string {
  const at = folder();
  const agents = { 'a.yaml': agent('a', 'agent'), 'b.yaml': agent('b', 'agent') };
  const all = { ...agents, 'c.yaml': agent('c', 'synthesis', values).replace('short: c\n', ''), ...files };
  for (const [name, text] of Object.entries(all)) writeFileSync(join(at, name), text);
  return at;
}

async function judged(
  files: { [name: string]: string },
  {
    line = ASKED,
    values,
    labels = ['labels.ndjson'],
  }: { line?: string; values?: string; labels?: string[] } = {},
): Promise<Judged & { report: Report; stderr: string }> {
  const named = labels.map(name => `--labels ${name}`).join(' ');
  const { stdout, stderr, code } = await fw(`fw report items.ndjson ${line} ${named} --json`, {
    cwd: home(files, values),
  });
  expect(code, stderr).toBe(0);
  const report = JSON.parse(stdout) as Report;
  return { ...(report.judged as Judged), report, stderr };
}

const oracle = JSON.parse(readFileSync(join(HERE, 'expected.json'), 'utf8'));
const files = Object.fromEntries(
  ['items.ndjson', 'labels.ndjson'].map(name => [name, readFileSync(join(HERE, name), 'utf8')]),
) as { 'items.ndjson': string; 'labels.ndjson': string };

type Share = [[number, number, number], [number, number, number] | null];

function same(found: number | null | undefined, wanted: number, of: string): void {
  expect(Math.abs((found ?? Number.NaN) - wanted), `${of}: ${found} for ${wanted}`).toBeLessThan(1e-9);
}

function sameShare(
  row: Pick<Judged['judges'][number], 'right' | 'wrong' | 'unsure' | 'rate'> | undefined,
  [counts, rate]: Share,
  of: string,
): void {
  expect([row?.right, row?.wrong, row?.unsure], of).toEqual(counts);
  const { value, low, high } = row?.rate ?? {};
  for (const [at, each] of [value, low, high].entries()) if (rate) same(each, rate[at] as number, of);
}

test('counts, shares, their intervals and kappa are those of scikit-learn and scipy', async () => {
  const { judges, between, lines } = await judged(files, { line: `${ASKED} --group region` });
  expect(lines).toBe(files['labels.ndjson'].split('\n').length - 1);
  expect(judges.map(({ by }) => by)).toEqual(Object.keys(oracle.judges));
  for (const row of judges) {
    const wanted = oracle.judges[row.by];
    sameShare(row, wanted.all, row.by);
    for (const [value, share] of Object.entries(wanted.groups as { [value: string]: Share }))
      sameShare(
        row.groups[0]?.rows.find(each => each.value === value),
        share,
        `${row.by}, ${value}`,
      );
    expect(row.table.flat().reduce((sum, each) => sum + each, 0) + row.unknown).toBe(wanted.n);
    expect(row.unknown).toBe(0);
    same(row.kappa?.value, wanted.kappa, row.by);
    const [rate] = row.pointers;
    expect([rate?.path, rate?.right, rate?.wrong, rate?.unsure]).toEqual([
      '/decision/output/rate',
      ...wanted.rate,
    ]);
    expect([row.missing.n, row.otherText.n, row.leftOut.n]).toEqual([wanted.missing, wanted.otherText, 0]);
  }
  expect(judges.map(({ small }) => small)).toEqual([false, false, true]);
  const known = between.map(({ judges: [one, two], n, same: alike }) => [one, two, n, alike]);
  expect(known).toEqual(oracle.between.map((row: unknown[]) => row.slice(0, 4)));
  for (const [at, { kappa }] of between.entries())
    same(kappa?.value, oracle.between[at][4], String(known[at]));
});

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Any order that keeps the order of lines of one key. */
function permuted(text: string, random: () => number): string {
  const queues = new Map<string, string[]>();
  for (const line of text.split('\n').filter(Boolean)) {
    const { id, path, by, hash } = JSON.parse(line) as Label;
    const key = JSON.stringify([id, path, by, hash]);
    queues.set(key, [...(queues.get(key) ?? []), line]);
  }
  const out: string[] = [];
  const open = [...queues.values()];
  while (open.length > 0) {
    const at = Math.floor(random() * open.length);
    const queue = open[at] as string[];
    out.push(queue.shift() as string);
    if (queue.length === 0) open.splice(at, 1);
  }
  return `${out.join('\n')}\n`;
}

test(`the order of lines changes nothing, but for those of one key; nor does a split into files (SEED=${SEED})`, async () => {
  const random = seeded(SEED);
  const { lines: _, report: __, ...wanted } = await judged(files);
  for (let run = 0; run < runs(3, 20); run++) {
    const text = permuted(files['labels.ndjson'], random);
    const cut = text.indexOf('\n', Math.floor(random() * text.length)) + 1;
    const parts = { 'one.ndjson': text.slice(0, cut), 'two.ndjson': text.slice(cut) };
    const found = await judged(
      { ...files, ...parts },
      { labels: Object.keys(parts).filter(name => parts[name as 'one.ndjson'] !== '') },
    );
    expect({ ...wanted, stderr: '' }, `run ${run}`).toMatchObject({
      judges: found.judges,
      between: found.between,
      notes: found.notes,
    });
  }
});

interface Line {
  id: string;
  said?: string;
  input?: { [column: string]: string };
  failure?: object;
  ordering?: string[];
}

function itemOf({ id, said = 'approve', input = {}, failure, ordering = ['a', 'b'] }: Line) {
  const step = (agent: string, decision: string) => ({
    ...{
      agent,
      output: { approval_decision: decision },
      rung: 'clean',
      saw: 'clean',
      repairs: [],
      calls: [],
    },
    ...{ attempts: 1, usage: { prompt: 1, completion: 1 } },
  });
  const steps = ordering.map(key => step(key, key === 'a' ? 'approve' : said));
  return {
    id,
    row: 1,
    input,
    prompt: id,
    ordering,
    steps,
    decision: step('c', said),
    ...(failure && { failure }),
  };
}

type Made = ReturnType<typeof itemOf>;

const linesOf = (items: readonly object[]): string =>
  `${items.map(item => JSON.stringify(item)).join('\n')}\n`;

const labelOf = (item: ReturnType<typeof itemOf>, more: Partial<Label> = {}): Label => ({
  ...{ id: item.id, path: '', verdict: 'right', by: 'anna', at: '2026-11-26T19:20:00Z' },
  hash: hashOfJudged(item) as string,
  ...more,
});

test(`kappa is in [−1, 1], and 1 where all is right and both decisions occur (SEED=${SEED})`, async () => {
  const random = seeded(SEED + 1);
  for (let run = 0; run < runs(4, 30); run++) {
    const items = Array.from({ length: 2 + Math.floor(random() * 60) }, (_, nth) =>
      itemOf({ id: `r${nth}`, said: nth === 0 || random() < 0.5 ? 'approve' : 'deny' }),
    );
    const said = new Set(items.map(({ decision }) => decision.output.approval_decision));
    const verdicts = ['right', 'wrong', 'unsure'] as const;
    const labels = items.flatMap(item => [
      labelOf(item),
      labelOf(item, { by: 'ben', verdict: verdicts[Math.floor(random() * 3)] as 'right' }),
    ]);
    const { judges } = await judged({
      'items.ndjson': linesOf(items),
      'labels.ndjson': labels.map(labelLine).join(''),
    });
    const [anna, ben] = judges;
    if (said.size === 2) expect(anna?.kappa?.value, `run ${run}`).toBe(1);
    else expect(anna?.kappa, `run ${run}`).toBe(null);
    for (const figure of [anna?.kappa, ben?.kappa])
      for (const each of [figure?.value, figure?.low, figure?.high])
        if (typeof each === 'number') expect(Math.abs(each), `run ${run}`).toBeLessThanOrEqual(1);
  }
});

test('a wrong decision is the other one where there are two, what was given, or unknown', async () => {
  const items = ['approve', 'deny', 'refer', 'deny', 'deny', 'approve'].map((said, nth) =>
    itemOf({ id: `r${nth}`, said }),
  );
  const [one, two, three, four, five, six] = items as [Made, Made, Made, Made, Made, Made];
  const wrong = (item: Made, more: Partial<Label> = {}): Label =>
    labelOf(item, { verdict: 'wrong', ...more });
  const labels = [
    wrong(one), // no approval, whichever it is
    wrong(two), // an approval, or a referral
    wrong(three, { value: 'deny' }), // the same, as far as approval goes
    wrong(four, { value: 'Approve' }),
    wrong(five, { value: 'maybe' }),
    wrong(six, { value: { approval_decision: 'refer' } }),
  ];
  const all = { 'items.ndjson': linesOf(items), 'labels.ndjson': labels.map(labelLine).join('') };
  const [row] = (await judged(all, { values: 'approve, deny, refer' })).judges;
  expect([row?.wrong, row?.unknown, row?.table]).toEqual([
    6,
    2,
    [
      [1, 1],
      [2, 0],
    ],
  ]);
  // where an agent knows two outcomes alone, nothing is unknown but what is none
  const two2 = {
    'items.ndjson': linesOf([one, two]),
    'labels.ndjson': [wrong(one), wrong(two)].map(labelLine).join(''),
  };
  const [both] = (await judged(two2, { values: 'approve, deny' })).judges;
  expect([both?.unknown, both?.table]).toEqual([
    0,
    [
      [0, 1],
      [1, 0],
    ],
  ]);
});

test('what is not counted is counted apart and named: another answer, no such id, no rate', async () => {
  const items = [
    itemOf({ id: 'ok' }),
    itemOf({ id: 'new' }),
    itemOf({ id: 'bad', failure: { stage: 'x', code: 'no-valid-answer', message: 'm' } }),
  ];
  const [ok, changed, bad] = items as [Made, Made, Made];
  const labels = [
    labelOf(ok),
    labelOf(changed, { hash: 'f'.repeat(64) }),
    labelOf(bad, { verdict: 'wrong' }),
    labelOf(ok, { id: 'gone' }),
    // judged before and after the answer changed: the one of this answer counts
    labelOf(ok, { hash: 'e'.repeat(64), verdict: 'wrong' }),
  ];
  const text = `${labels.map(labelLine).join('')}{"fw":"label","id":"o`;
  const { judges, torn, report, stderr } = await judged({
    'items.ndjson': linesOf(items),
    'labels.ndjson': text,
  });
  const [row] = judges;
  expect([row?.judged, row?.right, row?.wrong]).toEqual([4, 1, 0]);
  expect([row?.otherText, row?.missing, row?.leftOut]).toEqual([
    { n: 1, ids: ['new'] },
    { n: 1, ids: ['gone'] },
    { n: 1, ids: ['bad'] },
  ]);
  expect(torn).toEqual(['labels.ndjson:6: a torn line of 21 bytes, which says nothing']);
  expect(report.notes).toContain(torn[0]);
  expect(stderr).toContain('"anna": 1 judgement of another answer than the line has now, not counted: "new"');
  expect(stderr).toContain('"anna": 1 judgement of ids that are not in these files, not counted: "gone"');
  expect(stderr).toContain('"anna": 1 application said to be right or wrong, fewer than 30');
});

test('an application in several orders counts once in an interval, and a draw by values says whose share it is', async () => {
  const items = Array.from({ length: 40 }, (_, nth) => nth).flatMap(nth =>
    ['a,b', 'b,a'].map(order =>
      itemOf({
        id: `r${nth}/${order}`,
        ordering: order.split(','),
        said: nth % 2 ? 'approve' : 'deny',
        input: { g: nth % 4 ? 'x' : 'y' },
      }),
    ),
  );
  const sample = { seed: 3, size: 100, of: 900, by: 'in.g' };
  const labels = items.map((item, nth) =>
    labelOf(item, { verdict: nth % 10 < 2 ? 'wrong' : 'right', sample, hidden: ['in.g'] }),
  );
  const { judges, notes } = await judged(
    { 'items.ndjson': linesOf(items), 'labels.ndjson': labels.map(labelLine).join('') },
    { line: `${ASKED} --group g` },
  );
  const [row] = judges;
  expect([row?.right, row?.wrong, row?.clusters, row?.small]).toEqual([64, 16, 40, false]);
  // both orders of one are judged alike, so there are 40 cases and no 80
  const width = (row?.rate?.high ?? 0) - (row?.rate?.low ?? 0);
  expect(width).toBeGreaterThan(2 * 1.96 * Math.sqrt((0.8 * 0.2) / 80) * 1.2);
  expect(row?.hidden).toEqual([{ column: 'in.g', judged: 80 }]);
  expect(row?.samples).toEqual([{ ...sample, judged: 80 }]);
  expect(notes.join('\n')).toContain(
    '80 of 100 that were drawn from 900 (seed 3) are judged, drawn from each value of "in.g" alike: the share of all judged is one of this sample, not of all 900; those by "in.g" hold for each value; those that are left may be the harder ones',
  );
});

test('an id with space around it is the one that its label has', async () => {
  const item = itemOf({ id: ' x ' });
  const { judges } = await judged({
    'items.ndjson': linesOf([item]),
    'labels.ndjson': labelLine(labelOf(item)),
  });
  expect([judges[0]?.right, judges[0]?.missing.n]).toEqual([1, 0]);
});

test('a table, and a batch: labels have the id that a line goes by', async () => {
  const rows = ['a,yes', 'b,no', 'c,yes']
    .map(row => row.split(','))
    .map(([id = '', ok = '']) => ({ id, ok }));
  const table = `id,ok\n${rows.map(({ id, ok }) => `${id},${ok}\n`).join('')}`;
  const batch = (name: string, content: string) => ({
    ...{ id: `batch_req_${name}`, custom_id: name, error: null },
    response: { status_code: 200, request_id: name, body: { choices: [{ message: { content } }] } },
  });
  const lines = [batch('q1', 'yes'), batch('q2', 'no')];
  const label = (id: string, line: object): string =>
    labelLine({ ...labelOf(itemOf({ id })), hash: hashOfJudged(line as never) as string });
  const at = home({
    't.csv': table,
    'b.jsonl': linesOf(lines),
    'labels.ndjson': [
      ...rows.map(row => label(row.id, row)),
      ...lines.map(line => label(line.custom_id, line)),
    ].join(''),
  });
  for (const [file, outcome, right] of [
    ['t.csv', 'ok', 3],
    ['b.jsonl', 'answer', 2],
  ] as const) {
    const line = `fw report ${file} --outcome ${outcome} --approve yes --labels labels.ndjson --json`;
    const { stdout, stderr } = await fw(line, { cwd: at });
    const [row] = (JSON.parse(stdout || stderr) as Report).judged?.judges ?? [];
    expect([file, row?.right, row?.missing.n]).toEqual([file, right, 5 - right]);
  }
});

test('the page has the section, and what judges are called is text', async () => {
  const item = itemOf({ id: 'x"<i>', said: 'deny', input: { g: '<b>&"' } });
  const labels = [
    labelOf(item, { by: '<script>alert(1)</script>', verdict: 'wrong' }),
    labelOf(item, { by: 'ben', path: '/decision/output/<img src=x>' }),
    labelOf(item, { by: 'ben', verdict: 'unsure' }),
  ];
  const at = home({ 'items.ndjson': linesOf([item]), 'labels.ndjson': labels.map(labelLine).join('') });
  const { stdout, code } = await fw(`fw report items.ndjson ${ASKED} --group g --labels labels.ndjson`, {
    cwd: at,
  });
  expect(code).toBe(0);
  expect(stdout).toContain('<h2>Judged by people</h2>');
  expect(stdout).toContain('The judges among themselves');
  expect(stdout).toContain('Found right by &lt;script&gt;');
  expect(stdout).not.toMatch(/<script|<img|<i>|<b>&"/);
  const without = await fw(`fw report items.ndjson ${ASKED}`, { cwd: at });
  expect(without.stdout).not.toContain('Judged by people');
});

test('who judged the outcome itself judged the line, unless the line was judged as a whole too', async () => {
  const [first = '', second = ''] = files['items.ndjson'].split('\n');
  const label = (line: string, path: string, verdict: Label['verdict']): string =>
    labelLine({
      ...{ id: JSON.parse(line).id, path, verdict, by: 'anna', at: '2026-01-01T00:00:00.000Z' },
      hash: hashOfJudged(JSON.parse(line)) as string,
    });
  const outcome = '/decision/output/approval_decision';
  const labels = [
    label(first, outcome, 'right'),
    label(second, outcome, 'wrong'),
    label(second, '', 'right'),
  ];
  const { judges } = await judged({
    'items.ndjson': files['items.ndjson'],
    'labels.ndjson': labels.join(''),
  });
  expect(judges[0]).toMatchObject({ judged: 2, right: 2, wrong: 0 });
  expect(judges[0]?.pointers).toMatchObject([{ path: outcome, right: 0, wrong: 1 }]);
});
