/** The table that was asked, joined to results: by id or by row, and only where what a result holds of its row agrees. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { seeded } from '../../products/kit/permute.ts';
import type { Report } from '../../products/report/report.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const RACES = ['black', 'white', 'asian'];
const ROWS = Array.from({ length: 12 }, (_, k) => ({
  id: `app-${k}`,
  race: RACES[k % 3] as string,
  income: `${30_000 + 500 * k}.50`,
  prompt: `Judge applicant ${k}, who earns ${30_000 + 500 * k}.`,
}));
type Row = Partial<(typeof ROWS)[number]> & { [column: string]: string };

const csv = (rows: readonly Row[], columns = Object.keys(rows[0] ?? {})): string =>
  `${[columns.join(), ...rows.map(row => columns.map(name => JSON.stringify(row[name] ?? '').replaceAll('\\"', '""')).join())].join('\n')}\n`;
const without = (...columns: string[]): Row[] =>
  ROWS.map(row => Object.fromEntries(Object.entries(row).filter(([name]) => !columns.includes(name))));

/** White and asian applicants are approved. */
const decisionOf = ({ race }: Row): string => (race === 'black' ? 'deny' : 'approve');

function step(agent: string, row: Row) {
  const output = { approval_decision: decisionOf(row) };
  const more = { rung: 'clean', saw: 'clean', repairs: [], calls: [], attempts: 1 };
  return { agent, output, ...more, usage: { prompt: 1, completion: 1 } };
}
const lines = (all: readonly object[]): string => `${all.map(line => JSON.stringify(line)).join('\n')}\n`;

/** What a run over the rows leaves: items and results, with more or less of the row in them. */
const RESULTS: { [name: string]: (row: Row, k: number) => object } = {
  // an item by its number, with its prompt
  'numbered.ndjson': (row, k) => ({
    id: `other-${k}`,
    row: k + 1,
    prompt: row.prompt,
    steps: [step('a', row)],
  }),
  // an item by its id alone
  'named.ndjson': (row, k) => ({
    id: `${row.id}/a`,
    ordering: ['a'],
    prompt: `p${k}`,
    steps: [step('a', row)],
  }),
  // a result of the older scripts
  'legacy.jsonl': (row, k) => ({
    ...{ mode: 'sequential', prompt_id: k + 1, ordering: 'a', initial_prompt: row.prompt },
    ...{ conversation_history: [{ agent: 'a', input: row.prompt, output: step('a', row).output }] },
    ...{ all_agent_outputs: [step('a', row).output], final_output: step('a', row).output },
    ...{ business_decision: step('a', row).output, timestamp: '2026-01-01T00:00:00' },
  }),
  // its columns, and not the group
  'columns.ndjson': (row, k) => ({
    ...{
      id: `other-${k}`,
      row: k + 1,
      prompt: `p${k}`,
      input: { income: row.income },
      steps: [step('a', row)],
    },
  }),
  // its columns as JSON in the prompt, numbers as numbers
  'json.ndjson': (row, k) => ({
    ...{
      id: `other-${k}`,
      row: k + 1,
      prompt: `Row: {"income": ${Number(row.income)}}`,
      steps: [step('a', row)],
    },
  }),
  // its number alone
  'bare.ndjson': (row, k) => ({ id: `other-${k}`, row: k + 1, prompt: `p${k}`, steps: [step('a', row)] }),
};

const AGENT =
  'key: a\nshort: a\ndisplay: A\nrole: agent\npersona: p\nschema: { type: object, properties: { approval_decision: { enum: [approve, deny] } } }\nsampling: { temperature: 0, max_tokens: 9 }\n';

const AGENT_FILES = [
  ['a.yaml', AGENT],
  [
    'c.yaml',
    AGENT.replace('key: a\nshort: a', 'key: c').replace(
      'display: A\nrole: agent',
      'display: C\nrole: synthesis',
    ),
  ],
] as const;

function home(sources: { [name: string]: string }): string {
  const at = folder();
  const made = Object.entries(RESULTS).map(([name, of]) => [name, lines(ROWS.map(of))] as const);
  for (const [name, text] of [...made, ...AGENT_FILES, ...Object.entries(sources)])
    writeFileSync(join(at, name), text);
  return at;
}

const SAID = '--agents . --no-decision --outcome approval_decision --approve approve --group race --json';

async function rates(at: string, file: string, source: string) {
  const { stdout, stderr, code } = await fw(`fw report ${file} --source ${source} ${SAID}`, { cwd: at });
  if (code !== 0) return { code, stderr, rates: null, report: null };
  const report = JSON.parse(stdout) as Report;
  const found = report.groups[0]?.rows.map(({ value, n, approved }) => [value, `${approved}/${n}`]) ?? [];
  return { code, stderr, rates: Object.fromEntries(found), report };
}

const RIGHT = { black: '0/4', white: '4/4', asian: '4/4' };
const shuffled = (rows: readonly Row[], seed: number): Row[] => {
  const random = seeded(seed);
  return rows
    .map(row => ({ row, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ row }) => row);
};

test.each(Object.keys(RESULTS))('%s: the table gives its columns, or it is refused', async file => {
  const rotated = [...ROWS.slice(1), ...ROWS.slice(0, 1)];
  const sources: {
    [name: string]: [text: string, isIn: (file: string) => 'right' | 'refused' | 'unchecked'];
  } = {
    'whole.csv': [csv(ROWS), () => (file.startsWith('bare') ? 'unchecked' : 'right')],
    'mark.csv': [`\uFEFF${csv(ROWS)}`, () => (file.startsWith('bare') ? 'unchecked' : 'right')],
    'shuffled.csv': [
      csv(shuffled(ROWS, 5)),
      () => (file.startsWith('named') ? 'right' : file.startsWith('bare') ? 'unchecked' : 'refused'),
    ],
    'rotated.csv': [
      csv(rotated),
      () => (file.startsWith('named') ? 'right' : file.startsWith('bare') ? 'unchecked' : 'refused'),
    ],
    'short.csv': [csv(ROWS.slice(0, 5)), () => (file.startsWith('named') ? 'unchecked' : 'refused')],
    'edited.csv': [
      csv(ROWS.map((row, k) => (k === 7 ? { ...row, prompt: 'another', income: '1' } : row))),
      () => (file.startsWith('named') ? 'right' : file.startsWith('bare') ? 'unchecked' : 'refused'),
    ],
  };
  const at = home(Object.fromEntries(Object.entries(sources).map(([name, [text]]) => [name, text])));
  // prompts of this run are not those of the table
  if (
    file.startsWith('named') ||
    file.startsWith('columns') ||
    file.startsWith('json') ||
    file.startsWith('bare')
  )
    for (const [name, [text]] of Object.entries(sources)) {
      const [, ...rest] = text.split('\n');
      expect(rest.length).toBeGreaterThan(5);
      const rows = text.replaceAll(/,"Judge[^"]*"|,"another"/g, '').replace(',prompt', '');
      writeFileSync(join(at, name), rows);
    }
  for (const [name, [, isIn]] of Object.entries(sources)) {
    const { code, stderr, rates: found, report } = await rates(at, file, name);
    const wanted = isIn(file);
    if (wanted === 'refused') {
      expect([code, name], stderr).toEqual([65, name]);
      expect(stderr).toMatch(/row \d+.*expected|expected row \d+ of/);
      expect(stderr).toContain('Expected the table that was asked');
      continue;
    }
    expect(code, `${name}: ${stderr}`).toBe(0);
    if (wanted === 'right') expect(found, name).toEqual(RIGHT);
    const notes = report?.notes.join('\n') ?? '';
    expect(/by the number of the row alone|without a row/.test(notes), `${name}: ${notes}`).toBe(
      wanted === 'unchecked',
    );
  }
});

test('ids that are there twice, blank ids, and a group that both have and that differs', async () => {
  const twice = ROWS.map((row, k) => (k === 5 ? { ...row, id: 'app-4' } : row));
  const sames = ROWS.flatMap(row => [row, row]);
  const blank = ROWS.map((row, k) => (k === 5 ? { ...row, id: '' } : row));
  const own = ROWS.map(row => ({ id: row.id, ok: decisionOf(row), race: row.race }));
  const at = home({
    'twice.csv': csv(twice, ['id', 'race']),
    'sames.csv': csv(sames, ['id', 'race']),
    'blank.csv': csv(blank, ['id', 'race']),
    'other.csv': csv(
      ROWS.map(row => ({ ...row, race: row.id === 'app-3' ? 'white' : row.race })),
      ['id', 'race'],
    ),
    'decisions.csv': csv(own, ['id', 'ok']),
    'grouped.csv': csv(own),
  });
  const refused = await rates(at, 'named.ndjson', 'twice.csv');
  expect([refused.code, refused.stderr]).toEqual([
    65,
    expect.stringContaining('found rows 5 and 6, which differ'),
  ]);
  expect((await rates(at, 'named.ndjson', 'sames.csv')).rates).toEqual(RIGHT);
  const lacking = await rates(at, 'named.ndjson', 'blank.csv');
  expect(lacking.rates).toEqual({ ...RIGHT, asian: '3/3' });
  expect(lacking.report?.source).toMatchObject({ byId: 11, byRow: 0, unjoined: 1 });
  expect(lacking.report?.notes.join()).toContain('1 record without a row in it');
  // a table of decisions takes the groups of the table that was asked, by id
  const table = async (file: string, source: string) => {
    const line = `fw report ${file} --source ${source} --outcome ok --approve approve --group race --json`;
    return fw(line, { cwd: at });
  };
  const joined = await table('decisions.csv', 'blank.csv');
  expect(joined.code, joined.stderr).toBe(0);
  const differs = await table('grouped.csv', 'other.csv');
  expect([differs.code, differs.stderr]).toEqual([
    65,
    expect.stringContaining('expected race "black", as the result has it, found "white"'),
  ]);
});

test('a table whose rows have no id is joined by the hash of the row, which is the id of its items', async () => {
  const at = home({ 'rows.csv': csv(without('id')), 'mixed.csv': csv(shuffled(without('id'), 3)) });
  const made = await fw('fw ingest rows.csv > asked.ndjson', { cwd: at });
  expect(made.code, made.stderr).toBe(0);
  const items = readFileSync(join(at, 'asked.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const answered = items.map(({ id, row }, k) => ({
    id,
    row,
    prompt: 'p',
    steps: [step('a', ROWS[k] as Row)],
  }));
  writeFileSync(join(at, 'answered.ndjson'), lines(answered));
  // the prompts are another text here, so that the ids alone are left
  for (const name of ['rows.csv', 'mixed.csv']) {
    const found = await rates(at, 'answered.ndjson', name);
    expect([found.code, found.stderr]).toEqual([
      65,
      expect.stringContaining('expected the prompt of the result'),
    ]);
  }
  writeFileSync(
    join(at, 'answered.ndjson'),
    lines(answered.map((item, k) => ({ ...item, prompt: (ROWS[k] as Row).prompt }))),
  );
  expect((await rates(at, 'answered.ndjson', 'mixed.csv')).rates).toEqual(RIGHT);
});

test('a failed result may be damaged, and then has no row; the others are counted', async () => {
  const at = home({ 'whole.csv': csv(ROWS) });
  const damaged = ROWS.map((row, k) => {
    const item = { id: `other-${k}`, row: k + 1, prompt: row.prompt, steps: [step('a', row)] };
    const failure = { stage: 'chain', code: 'no-valid-answer', message: 'm' };
    return k === 3 ? { ...item, prompt: 'torn', failure } : item;
  });
  writeFileSync(join(at, 'damaged.ndjson'), lines(damaged));
  const { rates: found, report } = await rates(at, 'damaged.ndjson', 'whole.csv');
  expect(found).toEqual({ ...RIGHT, black: '0/3' });
  expect(report?.source).toEqual({
    path: 'whole.csv',
    rows: 12,
    byId: 0,
    byRow: 11,
    unchecked: 0,
    unjoined: 1,
  });
});

test('results with provenance have the ids of their items, and are joined by them', async () => {
  const at = folder();
  const csvPath = join(ROOT, 'fixtures/applications-60.csv');
  const { flags } = await servers(1);
  const ran = await fw(
    `fw ingest ${csvPath} --limit 12 | fw chain ${flags} > items.ndjson; fw legacy-convert --provenance out.jsonl.provenance.ndjson items.ndjson > out.jsonl`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  const rows: Row[] = parse(readFileSync(csvPath), { columns: true });
  const names = Object.keys(rows[0] as Row).filter(name => name !== 'prompt');
  writeFileSync(join(at, 'mixed.csv'), csv(shuffled(rows, 7), names));
  const line = '--outcome approval_decision --approve approve --group name --json';
  const [right, mixed] = await Promise.all(
    [csvPath, 'mixed.csv'].map(source => fw(`fw report out.jsonl --source ${source} ${line}`, { cwd: at })),
  );
  const found = JSON.parse(mixed?.stdout ?? '') as Report;
  expect(found.source).toMatchObject({ byId: 12, byRow: 0, unchecked: 0, unjoined: 0 });
  expect(found.groups).toEqual((JSON.parse(right?.stdout ?? '') as Report).groups);
});
