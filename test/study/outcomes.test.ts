/** Which values enter a rate: of tables, of answers that are texts or numbers, of one agent of several, of exported tables. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Comparison } from '../../products/report/compare-runs.ts';
import type { Report } from '../../products/report/report.ts';
import { outcomeRule } from '../../products/report/values.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const agent = (key: string, form: string): string =>
  `key: ${key}\nshort: ${key}\ndisplay: ${key}\nrole: agent\npersona: p\n${form}sampling: { temperature: 0, max_tokens: 9 }\n`;
const AGENTS = {
  'agents/facts.yaml': agent('facts', ''),
  'agents/mood.yaml': agent('mood', 'choice: [approve, deny, refer]\n'),
  'agents/open.yaml': agent('open', 'schema: { type: boolean }\n'),
  'agents/score.yaml': agent('score', 'schema: { type: integer, minimum: 0, maximum: 10 }\n'),
  'agents/terms.yaml': agent(
    'terms',
    'schema: { type: object, properties: { plan: { $ref: "#/$defs/plan" }, rate: { type: number } }, $defs: { plan: { type: object, properties: { kind: { enum: [long, short, null] } } } } }\n',
  ),
};

function home(files: { [name: string]: string }): string {
  const at = folder();
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(at, name.replace('agents/', '')), text);
  }
  return at;
}

const GROUPS = ['x', 'y'];
const MOODS = ['approve', 'deny', 'refer'];

/** Row k has mood k mod 3, score k mod 11, open in even rows; in row 4 the agent `facts` failed. */
function items(count: number, isOther = false): string {
  return Array.from({ length: count }, (_, k) => {
    const said: [string, unknown][] = [
      ['mood', MOODS[(k + (isOther && k < 3 ? 1 : 0)) % 3]],
      ['open', k % 2 === 0],
      ['score', k % 11],
      ['terms', { plan: { kind: k % 4 === 0 ? 'long' : 'short' }, rate: 1.5 + k }],
      ['facts', `text ${k}`],
    ];
    const steps = said.map(([agent, output]) => ({
      ...{ agent, output, rung: 'clean', saw: 'clean', repairs: [], calls: [], attempts: 1 },
      usage: { prompt: 5, completion: 2 },
    }));
    const failed = { ...steps[4], rung: 'failed', output: undefined, raw: '', problem: undefined };
    const failure = { stage: 'chain', code: 'no-valid-answer', message: 'm', agent: 'facts' };
    const item = { id: `r${k}`, row: k + 1, input: { group: GROUPS[k % 2] }, prompt: `p${k}` };
    return JSON.stringify(
      k === 4 ? { ...item, steps: [...steps.slice(0, 4), failed], failure } : { ...item, steps },
    );
  }).join('\n');
}

async function reported(at: string, line: string): Promise<Report> {
  const { stdout, stderr, code } = await fw(`fw report ${line} --json`, { cwd: at });
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

const counts = ({ level, outcomes, noOutcomes, integrity }: Report) => ({
  n: level.n,
  approved: level.approved,
  outcomes,
  none: Object.fromEntries(noOutcomes.values.map(({ value, count }) => [value, count])),
  left: integrity.left,
});

test('what is no outcome in a table is counted and listed, and no denial', async () => {
  const rows = [
    ...['a,approve', 'a,deny', 'b, Approve ', 'b,DENY', 'b,declined', 'a,approved', 'b,N/A', 'b,n/a'],
    ...['b,ERROR: timeout', 'b,ERROR: timeout', 'b,refer', 'b,', 'b,None', 'b,-', 'b,1'],
  ];
  const at = home({ 't.csv': `\uFEFFg,ok\n${rows.join('\n')}\n` });
  const line = 't.csv --outcome ok --approve approve --group g';
  const report = await reported(at, line);
  expect(counts(report)).toEqual({
    ...{ n: 5, approved: 2 },
    outcomes: { approve: 1, deny: 1, Approve: 1, DENY: 1, declined: 1 },
    none: { approved: 1, 'N/A': 1, 'n/a': 1, 'ERROR: timeout': 2, refer: 1, '': 1, None: 1, '-': 1, '1': 1 },
    left: { 'blank-outcome': 5, 'unknown-outcome': 5 },
  });
  expect(report.notes.join('\n')).toContain('10 records without an outcome left out, and no denials');
  expect(report.groups[0]?.rows.map(({ value, n, approved }) => [value, n, approved])).toEqual([
    ['b', 3, 1],
    ['a', 2, 1],
  ]);
  const named = await reported(at, `${line} --approve approved --deny deny --deny refer`);
  expect(counts(named)).toMatchObject({ n: 6, approved: 3, outcomes: { refer: 1 }, none: { declined: 1 } });
  const page = await fw(`fw report ${line}`, { cwd: at });
  expect(page.stdout).toContain('10 left out');
  expect(page.stdout).not.toContain('none left out');
  expect(page.stdout).toMatch(/ERROR: timeout<\/a><\/th><td>2<\/td><td>–<\/td><td>no outcome: left out/);
});

test.each<[approve: string[], deny: string[], text: string, is: boolean | null]>([
  [['1'], [], '1.0', true],
  [['1'], [], '0.0', false],
  [['1'], [], '-0', false],
  [['1'], [], '01', null],
  [['1'], [], '2', null],
  [['1'], [], 'true', null],
  [['1'], [], 'Infinity', null],
  [['1'], [], '1e0', null],
  [['true'], [], 'True', true],
  [['TRUE'], [], 'FALSE', false],
  [['Y'], [], 'n', false],
  [['yes'], [], 'no answer', null],
  [['no'], [], 'yes', false],
  [['deny'], [], 'approved', false],
  [['approve'], [], 'not_approved', false],
  [['approve'], [], 'failed', null],
  [['approve', '1'], [], '0', false],
  [['A'], ['a'], 'a', false],
  [['A'], ['B'], 'a', true],
  [['A-1'], [], 'A_1', null],
  [['1'], ['2'], '0', null],
  [['1'], ['2'], '2.0', false],
  [['pass'], [], 'fail', false],
  [['x'], [], 'y', null],
  [['__proto__'], [], 'constructor', null],
])('of a table, --approve %j --deny %j makes of %j %j', (approve, deny, text, is) => {
  expect(outcomeRule({ approve, deny }).of(text, null)).toBe(is);
});

test.each([
  [
    't.csv --approve invite',
    `--deny: expected the values of 'ok' that count as denials, found "pass on" (2)`,
  ],
  ['t.csv --approve aprove', `--approve: expected 'aprove' in 'ok', found "invite" (2), "pass on" (2)`],
  [
    't.csv --approve yes',
    `--approve: expected 'yes' and what is otherwise (no, n) in 'ok', found "invite" (2)`,
  ],
  ['u.csv --approve approve', `--approve: expected 'approve' and what is otherwise (deny,`],
  ['t.csv --approve invite --deny invite', '--deny: expected another value than --approve'],
  ['blank.csv --approve yes', "--outcome: expected lines with 'ok', found none"],
  ['t.csv --approve invite --deny "pass on" --twins nope', "--twins: expected lines with 'nope'"],
  ['t.csv --approve invite --deny "pass on" --risk g', "--risk: expected lines with numbers in 'g'"],
  ['t.csv --approve invite --agent mood', "--agent: expected an agent of these lines, found 'mood'"],
  ['t.csv --approve invite --agent mood --read-out terminal', '--agent: expected no --read-out'],
])('fw report %s is refused', async (line, message) => {
  const at = home({
    't.csv': 'g,ok\na,invite\nb,invite\na,pass on\nb,pass on\nb,N/A\n',
    'u.csv': 'g,ok\na,Approved!\nb,deny\n',
    'blank.csv': 'g,ok\na,\nb,NA\n',
  });
  const { code, stderr, stdout } = await fw(`fw report ${line} --outcome ok --json`, { cwd: at });
  expect([code, stdout]).toEqual([64, '']);
  expect(stderr).toContain(message);
});

test('a table may have columns id and prompt, as CSV and as lines, and any names that items have', async () => {
  const rows = ['1,hello,1,a,x', '2,hi,0,b,y', ',hm,0,b,y', ',hm,1,b,y'];
  const lines = [
    { id: 1, prompt: 'hello', ok: 1, g: 'a' },
    { id: 'z', prompt: 'hi', ok: false, g: 'b' },
    { id: '', prompt: 'hm', ok: 0, g: 'b' },
    { id: '', prompt: 'hm', ok: { a: 1 }, g: 'b' },
    { id: 'q', prompt: 'hm', ok: [1], g: 'b' },
  ];
  const at = home({
    'm.csv': `id,prompt,ok,g,failure\n${rows.join('\n')}\n`,
    'm.ndjson': `${lines.map(line => JSON.stringify(line)).join('\n')}\n`,
  });
  const table = await reported(at, 'm.csv --outcome ok --approve 1 --group g');
  // rows without an id are rows all the same
  expect([table.level.n, table.level.approved, table.integrity.repeated]).toEqual([4, 2, 0]);
  expect(table.groups[0]?.rows.flatMap(({ ids }) => [...ids.approved, ...ids.others]).sort()).toEqual([
    ...['1', '2', 'm.csv:3', 'm.csv:4'],
  ]);
  const json = await reported(at, 'm.ndjson --outcome ok --approve 1 --group g');
  expect(counts(json)).toMatchObject({
    ...{ n: 2, approved: 1, outcomes: { '1': 1, '0': 1 } },
    ...{ none: { false: 1, 'an object': 1, 'an array of 1': 1 }, left: { 'unknown-outcome': 3 } },
  });
  const pointed = await reported(at, 'm.ndjson --outcome /ok/0 --approve 1');
  expect(counts(pointed)).toMatchObject({ n: 1, approved: 1 });
});

test('the whole answer of an agent, by its name, alone and among several', async () => {
  const at = home({ ...AGENTS, 'i.ndjson': `${items(12)}\n` });
  const own = '--agents . --no-decision';
  const same = [
    '--outcome mood',
    '--agent mood',
    '--agent mood --outcome mood.output',
    '--outcome mood.output',
  ];
  for (const spelled of same) {
    const report = await reported(at, `i.ndjson ${own} ${spelled} --approve approve --group group`);
    expect(counts(report), spelled).toEqual({
      ...{ n: 11, approved: 4, outcomes: { approve: 4, deny: 3, refer: 4 }, none: {} },
      left: { 'no-valid-answer': 1 },
    });
    expect(report.asked.schema).toBe(true);
  }
  const open = await reported(at, `i.ndjson ${own} --agent open --approve true`);
  expect(counts(open)).toMatchObject({ n: 11, approved: 5, outcomes: { true: 5, false: 6 } });
  const score = await reported(at, `i.ndjson ${own} --outcome score --approve 1 --deny 0 --deny 2`);
  expect(counts(score)).toMatchObject({ n: 4, approved: 1, left: { 'unknown-outcome': 7 } });
  for (const name of ['/plan/kind', 'terms.output.plan.kind']) {
    const plan = await reported(at, `i.ndjson ${own} --agent terms --outcome ${name} --approve long`);
    expect(counts(plan)).toMatchObject({ n: 11, approved: 2, outcomes: { long: 2, short: 9 } });
    expect(plan.numbers.map(({ name }) => name)).toEqual(['rate']);
  }
  const few = await reported(at, `i.ndjson ${own} --agent mood --approve approve --deny deny`);
  expect(counts(few)).toMatchObject({ n: 7, approved: 4, none: { refer: 4 } });
  for (const [line, message] of [
    ['--agent mod --approve approve', '"mood", "open", "score", "terms", "facts"'],
    ['--agent mood --approve aprove', 'the schema has: "approve", "deny", "refer"'],
    ['--agent score --approve 7', "--deny: expected the values of 'score'"],
    ['--outcome nope --approve 1', '"mood", "open", "score", "facts"'],
  ] as const) {
    const { code, stderr } = await fw(`fw report i.ndjson ${own} ${line}`, { cwd: at });
    expect([code, stderr.includes(message)], stderr).toEqual([64, true]);
  }
});

test.each(['csv', 'parquet'])('an exported table (%s) says what its items say', async format => {
  const at = home({ ...AGENTS, 'a.ndjson': `${items(12)}\n`, 'b.ndjson': `${items(12, true)}\n` });
  const made = await fw(
    `fw export --format ${format} a.ndjson > a.${format}; fw export --format ${format} b.ndjson > b.${format}`,
    { cwd: at },
  );
  expect(made.code, made.stderr).toBe(0);
  const own = '--agents . --no-decision --group group';
  for (const named of [
    '--outcome mood.output --approve approve',
    '--agent mood --approve approve',
    '--outcome terms.output.plan.kind --approve long',
    '--agent terms --outcome /plan/kind --approve long',
    '--agent open --approve true',
    '--agent score --approve 1 --deny 0 --deny 2',
  ]) {
    const [items, table] = await Promise.all(
      ['a.ndjson', `a.${format}`].map(file => reported(at, `${file} ${own} ${named}`)),
    );
    for (const figure of ['level', 'groups', 'outcomes', 'noOutcomes', 'numbers', 'tokens'] as const)
      expect(table?.[figure], `${named} ${figure}`).toEqual(items?.[figure]);
    expect(table?.integrity.left).toEqual(items?.integrity.left);
    expect(table?.integrity.rungs).toEqual(items?.integrity.rungs);
  }
  const column = await reported(
    at,
    `a.${format} --outcome mood.output --approve approve --group input.group`,
  );
  expect(column.groups[0]?.rows).toHaveLength(2);
  const { stdout, stderr, code } = await fw(
    `fw compare a.${format} b.ndjson --agents . --no-decision --outcome mood.output --approve approve --json`,
    { cwd: at },
  );
  expect(code, stderr).toBe(0);
  const [comparison] = (JSON.parse(stdout) as { comparisons: Comparison[] }).comparisons;
  expect([comparison?.matched, comparison?.table]).toEqual([
    11,
    [
      [6, 1],
      [1, 3],
    ],
  ]);
});

test.each([
  ['text', 'PAR1 and no more of it PAR1'],
  ['nothing', ''],
  ['a footer that is too long', `PAR1${'x'.repeat(20)}\u007f\u007f\u007f\u007fPAR1`],
])('a Parquet file that is %s is refused', async (_, text) => {
  const at = home({ 'x.parquet': text });
  const { code, stderr } = await fw('fw report x.parquet --outcome a --approve 1', { cwd: at });
  expect([code, stderr]).toEqual([65, expect.stringContaining('x.parquet: expected a Parquet file')]);
});

test('so many different errors as there are rows are held in bounded memory', async () => {
  const rows = Array.from({ length: 3_000 }, (_, k) => `x,ERROR ${k} ${'e'.repeat(300)}`);
  const at = home({ 't.csv': `g,ok\nx,yes\nx,no\n${rows.join('\n')}\n` });
  const { noOutcomes, integrity } = await reported(at, 't.csv --outcome ok --approve yes');
  expect(noOutcomes.values).toHaveLength(100);
  expect(noOutcomes.values[0]?.value.length).toBeLessThan(210);
  expect(noOutcomes.others).toBe(2_900);
  expect(integrity.left).toEqual({ 'unknown-outcome': 3_000 });
});

test('the output of a batch: what has no answer is failed, and groups come from the table that was asked, by id', async () => {
  const words = ['yes', 'No', 'I cannot decide', 'yes', 'no', null, 'yes'];
  const lines = words.map((content, k) => ({
    ...{ id: `batch_req_${k}`, custom_id: `q${k}`, error: null },
    response:
      content === null
        ? { status_code: 400, body: { error: { message: 'no', code: 400 } } }
        : { status_code: 200, body: { choices: [{ index: 0, message: { role: 'assistant', content } }] } },
  }));
  const again = lines.map((line, k) => ({ ...line, id: `other_${k}` }));
  const of = (all: object[]): string => `${all.map(line => JSON.stringify(line)).join('\n')}\n`;
  const at = home({
    'out.jsonl': of(lines),
    'again.jsonl': of(again),
    'asked.csv': `id,g\n${words.map((_, k) => `q${words.length - 1 - k},${k % 2 ? 'x' : 'y'}`).join('\n')}\n`,
  });
  const line = '--outcome answer --approve yes';
  const made = await fw('fw export --format csv out.jsonl > out.csv', { cwd: at });
  expect(made.stderr).not.toContain('expected');
  for (const file of ['out.jsonl', 'out.csv']) {
    const report = await reported(at, `${file} ${line} --source asked.csv --group g`);
    expect(counts(report), file).toEqual({
      ...{ n: 5, approved: 3, outcomes: { yes: 3, no: 1, No: 1 }, none: { 'I cannot decide': 1 } },
      left: { 'unknown-outcome': 1, 'call-refused': 1 },
    });
    expect(report.source).toMatchObject({ byId: 7, unjoined: 0 });
    expect(report.groups[0]?.rows.map(({ value, n, approved }) => [value, n, approved])).toEqual([
      ['y', 3, 2],
      ['x', 2, 1],
    ]);
  }
  const { stdout, code } = await fw(`fw compare out.jsonl again.jsonl ${line} --json`, { cwd: at });
  expect([code, (JSON.parse(stdout) as { comparisons: Comparison[] }).comparisons[0]?.matched]).toEqual([
    0, 5,
  ]);
});
