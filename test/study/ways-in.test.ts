/** Each figure of a page leads to its records: the queries are read here as fw view reads them, over the same lines. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hashOfJudged, labelLine } from '../../engine/audit/labels-file.ts';
import { shellWord } from '../../engine/core/item/wording.ts';
import { exactly, otherThan, outcomeRows, rowsQuery } from '../../products/report/rows-query.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const agent = (key: string, role: string): string =>
  `key: ${key}\n${role === 'agent' ? `short: ${key}\n` : ''}display: ${key.toUpperCase()}\nrole: ${role}\npersona: p\nschema: { type: object }\nsampling: { temperature: 0, max_tokens: 9 }\n`;

/** Names that mean ill, or look like operators. */
const GROUPS = ['north', '!south', '\\east', 'a&b=c <i>"\'%', 'größe 東'];

function itemsOf(): { [key: string]: unknown }[] {
  const items = [];
  for (let nth = 0; nth < 120; nth++)
    for (const ordering of [
      ['a', 'b'],
      ['b', 'a'],
    ]) {
      const said = (nth * 7 + (ordering[0] === 'a' && nth % 5 === 0 ? 3 : 0)) % 10 < 6 ? 'approve' : 'deny';
      const rung = nth % 11 === 0 ? 'coerced' : 'clean';
      const step = (key: string, decision: string, of = 'clean') => ({
        ...{
          agent: key,
          output: { ok: decision, rate: nth % 9 },
          rung: of,
          saw: 'clean',
          calls: [],
          attempts: 1,
        },
        repairs: of === 'clean' ? [] : [{ rule: 'case', at: '/ok', from: 'x', to: decision }],
        usage: { prompt: 1, completion: 1 },
      });
      const isFailed = nth % 17 === 0;
      items.push({
        ...{ id: `r${nth}/${ordering.join('-')}`, row: nth + 1, prompt: 'p', ordering },
        input: { g: GROUPS[nth % 5] as string, cell: String(Math.floor(nth / 5)), score: String(500 + nth) },
        steps: ordering.map(key => step(key, nth % 3 ? 'approve' : said)),
        ...(isFailed
          ? { failure: { stage: 'chain', code: 'no-valid-answer', message: 'none' } }
          : { decision: step('c', said, rung) }),
      });
    }
  return items;
}

type Line = ReturnType<typeof itemsOf>[number];

/** The values of a line in a column of fw view. */
function valuesOf(line: Line, column: string): string[] {
  const { input, decision, steps, ordering, failure, id, row } = line as never as {
    input: { [name: string]: string };
    decision?: { agent: string; output: { [name: string]: unknown }; rung: string };
    steps: { agent: string }[];
    ordering: string[];
    failure?: { code: string };
    id: string;
    row: number;
  };
  const name = column.slice(column.indexOf('.') + 1);
  if (column.startsWith('in.')) return name in input ? [input[name] as string] : [];
  if (column.startsWith('out.'))
    return decision && name in decision.output ? [String(decision.output[name])] : [];
  const own: { [column: string]: string[] } = {
    ...{ id: [id], row: [String(row)], ordering: [ordering.join()], failure: failure ? [failure.code] : [] },
    rung: [failure ? 'failed' : (decision?.rung ?? '')],
    agent: [...steps, ...(decision ? [decision] : [])].map(({ agent: key }) => key),
  };
  expect(Object.keys(own), column).toContain(column);
  return own[column] as string[];
}

function matching(lines: readonly Line[], query: string): Line[] {
  const columns = new Map<string, string[]>();
  for (const [column, value] of new URLSearchParams(query))
    columns.set(column, [...(columns.get(column) ?? []), value]);
  return lines.filter(line =>
    [...columns].every(([column, wanted]) => {
      const own = valuesOf(line, column);
      return wanted.some(value =>
        value.startsWith('!')
          ? !own.includes(value.slice(1).replace(/^\\/, ''))
          : own.includes(value.replace(/^\\/, '')),
      );
    }),
  );
}

const unescaped = (text: string): string =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

interface Way {
  query: string;
  text: string;
}

const waysIn = (page: string): Way[] =>
  [...page.matchAll(/<a data-rows="([^"]*)">(.*?)<\/a>/gs)].map(([, query = '', text = '']) => ({
    query: unescaped(query),
    text: unescaped(text.replaceAll(/<title>.*?<\/title>|<[^>]*>/gs, '').trim()),
  }));

test('each query chooses records, and where its text is a count as many as it says', async () => {
  const at = folder();
  const lines = itemsOf();
  writeFileSync(join(at, 'items.ndjson'), `${lines.map(line => JSON.stringify(line)).join('\n')}\n`);
  for (const [key, role] of [
    ['a', 'agent'],
    ['b', 'agent'],
    ['c', 'synthesis'],
  ] as const)
    writeFileSync(join(at, `${key}.yaml`), agent(key, role));
  const labels = lines.slice(0, 40).map((line, nth) =>
    labelLine({
      ...{ id: line.id as string, path: '', verdict: nth % 8 === 0 ? 'wrong' : 'right', by: 'anna' },
      ...{ at: '2026-11-26T19:20:00Z', hash: hashOfJudged(line) as string },
    }),
  );
  writeFileSync(join(at, 'labels.ndjson'), labels.join(''));
  const line = `fw report items.ndjson --agents . --outcome ok --approve approve --group g --twins cell --risk score --labels labels.ndjson`;
  const { stdout: page, stderr, code } = await fw(line, { cwd: at });
  expect(code, stderr).toBe(0);
  const ways = waysIn(page);
  expect(page.match(/data-rows="/g)?.length).toBe(ways.length);
  expect(ways.length).toBeGreaterThan(100);
  let counts = 0;
  for (const { query, text } of ways) {
    expect(query, text).toMatch(/^\?[A-Za-z0-9.=&%!'()*~_\\-]+$/);
    const found = matching(lines, query).length;
    if (found === 0) expect(text, query).toMatch(/^0( %)?$/);
    if (!/^[\d,]+$/.test(text) || query.startsWith('?id=')) continue;
    counts += 1;
    expect(found, `${text} at ${query}`).toBe(Number(text.replaceAll(',', '')));
  }
  expect(counts).toBeGreaterThan(8);
  for (const group of GROUPS)
    expect(
      ways.some(({ query }) => query === rowsQuery([['in.g', exactly(group)]])),
      group,
    ).toBe(true);
  const all = ways.map(({ query }) => query);
  expect(all).toContain('?failure=no-valid-answer');
  expect(all).toContain('?rung=coerced');
  expect(all).toContain('?in.g=north&out.ok=approve');
  expect(all).toContain('?in.g=north&out.ok=deny');
  expect(all).toContain('?ordering=a%2Cb');
  expect(Math.max(...all.map(query => query.split('id=').length - 1))).toBeLessThanOrEqual(50);
  // the applications that were decided both ways, whole
  const [turned] = ways.filter(({ text }) => text === 'The others');
  expect(matching(lines, turned?.query ?? '').length % 2).toBe(0);
  expect(page).toContain('<code>fw view items.ndjson --report THIS.html</code>');
  expect(page).not.toMatch(/<script|<i>/);
  // what fw view does with them
  expect(page.replaceAll(' data-rows="', ' href="/')).toContain('<a href="/?in.g=north">');
  expect(page).not.toContain('href="');
});

test('what only verification refuses is chosen by its ids', async () => {
  const at = folder();
  const [one, two, three] = itemsOf().slice(6, 9) as [Line, Line, Line];
  const broken = { ...two, decision: { ...(two.decision as object), rung: 'defaulted' } };
  writeFileSync(
    join(at, 'items.ndjson'),
    `${[one, broken, three].map(line => JSON.stringify(line)).join('\n')}\n`,
  );
  for (const key of ['a', 'b']) writeFileSync(join(at, `${key}.yaml`), agent(key, 'agent'));
  writeFileSync(join(at, 'c.yaml'), agent('c', 'synthesis'));
  const { stdout } = await fw('fw report items.ndjson --agents . --outcome ok --approve approve --json', {
    cwd: at,
  });
  const { integrity } = JSON.parse(stdout);
  const [code = ''] = Object.keys(integrity.left);
  expect(integrity.leftRows).toEqual({ [code]: `?id=${encodeURIComponent(two.id as string)}` });
});

test('an outcome that is no column of a line leads nowhere; of many others the query says which it is not', () => {
  const asked = { outcome: '/terms/ok', approve: 'yes', agent: null, readOut: null };
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, nth) => [`no ${nth}`, 1]));
  const integrity = { agents: [{}] };
  const of = { asked, outcomes: { yes: 2, ...many }, approvals: ['yes'], integrity };
  const { approved, others } = outcomeRows(of);
  expect(outcomeRows({ ...of, integrity: { agents: [] } }).approved).toEqual([['in.terms.ok', 'yes']]);
  expect([approved, others]).toEqual([[['out.terms.ok', 'yes']], [['out.terms.ok', '!yes']]]);
  for (const more of [{ agent: 'a' }, { readOut: 'majority' }])
    expect(
      outcomeRows({
        asked: { ...asked, ...more },
        outcomes: { yes: 1, no: 1 },
        approvals: ['yes'],
        integrity,
      }),
    ).toMatchObject({ approved: null, others: null });
  expect([exactly('!a'), exactly('\\a'), exactly('a!'), otherThan('!a'), otherThan('a')]).toEqual([
    '\\!a',
    '\\\\a',
    'a!',
    '!\\!a',
    '!a',
  ]);
  expect(rowsQuery([['id', 'a\ud800b']])).toBe('?id=a%EF%BF%BDb');
});

test('words of a shell', () => {
  expect(['a.ndjson', 'out/*.jsonl', "it's", '', '$(x)'].map(shellWord)).toEqual([
    'a.ndjson',
    "'out/*.jsonl'",
    "'it'\\''s'",
    "''",
    "'$(x)'",
  ]);
});
