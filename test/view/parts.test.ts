/** Samples, what is hidden, who is let in: the parts of fw view that need no page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { html } from '../../products/kit/html.ts';
import { seeded } from '../../products/kit/permute.ts';
import { createAccess } from '../../products/view/access.ts';
import { drawOf, pick, sharesOf } from '../../products/view/draw.ts';
import { hideIn, maskOf } from '../../products/view/hide.ts';
import { Judging } from '../../products/view/judging.ts';
import { ALL_ROWS } from '../../products/view/query.ts';
import { Run } from '../../products/view/rows/run.ts';
import { countsOfFew } from '../../products/view/sample-counts.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';

test('shares: as many as are drawn, none above its count, each within one of its proportion', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { minLength: 1, maxLength: 20 }), fc.nat(2_000), (counts, wanted) => {
      const all = counts.reduce((sum, count) => sum + count, 0);
      const size = Math.min(all, wanted);
      const shares = sharesOf(counts, size);
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(size);
      shares.forEach((share, at) => {
        expect(share).toBeLessThanOrEqual(counts[at] as number);
        if (all > 0) expect(Math.abs(share - ((counts[at] as number) * size) / all)).toBeLessThan(1);
      });
    }),
    { numRuns: runs(300, 3_000) },
  );
});

test('a draw has different rows, each as likely as any other', () => {
  const random = seeded(7);
  const hits = new Array<number>(20).fill(0);
  for (let round = 0; round < 4_000; round++) {
    const drawn = pick(20, 5, random);
    expect(new Set(drawn).size).toBe(5);
    for (const at of drawn) hits[at]! += 1;
  }
  // 1,000 expected of each; the standard deviation is 27
  for (const count of hits) expect(Math.abs(count - 1_000)).toBeLessThan(140);
});

async function opened(lines: readonly object[]): Promise<Run> {
  const path = join(folder(), 'items.ndjson');
  writeFileSync(path, lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  const run = await Run.open([path], { maxLine: 1 << 20, keptIn: folder() });
  onTestFinished(() => run.close());
  while (!run.state().done) await run.grown(run.state().rows, 10_000);
  return run;
}

test('a sample by a column has the share of each value; the same seed draws the same rows', async () => {
  const lines = Array.from({ length: 1_000 }, (_, at) => ({
    id: `r${at}`,
    ...(at % 10 > 0 && { group: at % 10 < 7 ? 'large' : at % 10 < 9 ? 'small' : 'least' }),
  }));
  const run = await opened(lines);
  const draw = (seed: number) => drawOf(run, { size: 50, seed, by: 'in.group', where: ALL_ROWS });
  const sample = await draw(7);
  const groups = new Map<string, number>();
  for (const row of sample.rows) {
    const { group = 'none' } = lines[row] as { group?: string };
    groups.set(group, (groups.get(group) ?? 0) + 1);
  }
  expect([...groups].sort()).toEqual([
    ['large', 30],
    ['least', 5],
    ['none', 5],
    ['small', 10],
  ]);
  expect(sample).toMatchObject({ seed: 7, size: 50, by: 'in.group', of: 1_000 });
  expect((await draw(7)).rows).toEqual(sample.rows);
  expect((await draw(8)).rows).not.toEqual(sample.rows);
  const where = { ...ALL_ROWS, filters: [{ column: 'in.group', tests: [{ isNot: false, value: 'least' }] }] };
  const least = await drawOf(run, { size: 500, seed: 7, by: null, where });
  expect([least.rows.length, least.of, new Set(least.rows).size]).toEqual([100, 100, 100]);
  await expect(drawOf(run, { size: 5, seed: 7, by: 'in.grupp', where: ALL_ROWS })).rejects.toThrow(
    '--stratify: expected a column',
  );
});

test('counts of few rows are as those of the index', async () => {
  const lines = Array.from({ length: 300 }, (_, at) => ({
    id: `r${at}`,
    n: at % 7,
    t: `t${at % 3}`,
    ...(at % 5 > 0 && { some: at }),
  }));
  const run = await opened(lines);
  const selection = await run.select(ALL_ROWS);
  for (const column of ['in.n', 'in.t', 'in.some']) {
    const key = column.slice(3) as 'n' | 't' | 'some';
    const values = lines.map(line => (line[key] === undefined ? undefined : String(line[key])));
    expect(countsOfFew(values, 'values', 4), column).toEqual(selection.counts(column, 4));
  }
});

test('what is hidden is in no text and no address of a page, and nothing else is', () => {
  const page = html`<p class="white">A white man, White; whitewash, non-white. "${'white "&" black'}" <a href="/?in.group=white&x=1" title="the white one">x</a><input value="white"></p>`;
  const { html: hidden, places } = hideIn(page, ['white']);
  expect(hidden.text).toBe(
    '<p class="white">A ▒▒▒ man, ▒▒▒; whitewash, non-▒▒▒. "▒▒▒ &quot;&amp;&quot; black" <a href="#hidden" title="the ▒▒▒ one">x</a><input value="▒▒▒"></p>',
  );
  expect(places).toBe(7);
  const all = hideIn(html`<i>${'a "quoted" \u202e <b>, {"v":"a \\"quoted\\" \u202e <b>"}'}</i>`, [
    'a "quoted" \u202e <b>',
  ]);
  expect(all.html.text).toBe('<i>▒▒▒, {&quot;v&quot;:&quot;▒▒▒&quot;}</i>');
  expect(hideIn(html`<p>${'İ white'}</p>`, ['white', '', ' ']).html.text).toBe('<p>İ ▒▒▒</p>');
  expect(hideIn(html`<p>${'İpek is Female, 30'}</p>`, ['Female']).html.text).toBe('<p>İpek is ▒▒▒, 30</p>');
  expect(maskOf(['Female'])('İ FEMALE')).toBe('İ ▒▒▒');
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (value, around) => {
      const made = hideIn(html`<p title="${around} ${value}">${around} ${value} ${around}</p>`, [value]).html
        .text;
      const isTag = /^<p title="[^"]*">[^<]*<\/p>$/.test(made);
      expect(isTag, made).toBe(true);
    }),
    { numRuns: runs(300, 3_000) },
  );
});

test('who is let in', () => {
  const access = createAccess({ host: '127.0.0.1', port: 8123 });
  const cookie = access.cookie.split(';')[0] as string;
  expect(access.cookie).toMatch(/^fw_view_8123=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
  const ask = (given: Partial<Parameters<typeof access.check>[0]>) => {
    const answer = access.check({
      ...{
        method: 'GET',
        host: '127.0.0.1:8123',
        origin: undefined,
        cookie: `a=b; ${cookie}`,
        site: undefined,
        mode: undefined,
      },
      token: null,
      ...given,
    });
    return typeof answer === 'string' ? answer : answer.status;
  };
  const once = access.ticket();
  expect([1, 2].map(() => ask({ cookie: undefined, token: once }))).toEqual(['enter', 403]);
  expect(ask({ cookie: undefined, token: '' })).toBe(403);
  const own = 'http://127.0.0.1:8123';
  expect([ask({}), ask({ host: 'LOCALHOST:8123' }), ask({ method: 'POST', origin: own })]).toEqual([
    'yes',
    'yes',
    'yes',
  ]);
  expect([
    ask({ cookie: undefined, token: access.token }),
    ask({ cookie: undefined }),
    ask({ cookie: undefined, token: 'x' }),
  ]).toEqual(['enter', 403, 403]);
  for (const host of [
    'evil.example:8123',
    '127.0.0.1:8124',
    '127.0.0.1',
    '',
    'localhost.evil.example:8123',
    '127.0.0.1:8123.evil.example',
  ])
    expect([host, ask({ host, token: access.token })]).toEqual([host, 421]);
  for (const origin of [
    'http://evil.example',
    'null',
    'http://localhost:8124',
    'https://127.0.0.1:8123',
    'http://localhost:8123',
  ])
    expect([origin, ask({ method: 'POST', origin }), ask({ origin })]).toEqual([origin, 403, 403]);
  expect([ask({ method: 'POST' }), ask({ method: 'DELETE' })]).toEqual([403, 403]);
  for (const site of ['cross-site', 'same-site'])
    expect([
      ask({ site, mode: 'cors' }),
      ask({ site, mode: 'no-cors' }),
      ask({ site, mode: 'navigate' }),
    ]).toEqual([403, 403, 'yes']);
  expect(ask({ cookie: cookie.replace('8123', '8124') })).toBe(403);

  const all = createAccess({ host: '0.0.0.0', port: 80 });
  const at = (host: string) =>
    all.check({
      method: 'GET',
      host,
      origin: undefined,
      cookie: undefined,
      site: undefined,
      mode: undefined,
      token: all.token,
    });
  expect([at('10.0.0.7'), at('[fe80::1]'), at('evil.example')]).toEqual([
    'enter',
    'enter',
    expect.objectContaining({ status: 421 }),
  ]);
});

test('what is taken back gives way to what was said before it', async () => {
  const path = join(folder(), 'labels.ndjson');
  const judging = await Judging.open({
    path,
    by: 'anna',
    hidden: [],
    maxLine: 1 << 20,
    now: () => new Date(0),
  });
  const line = { id: 'a', prompt: 'p' };
  const said = { row: 0, line, path: '', note: '', sample: undefined };
  judging.say({ ...said, verdict: 'right' });
  judging.say({ ...said, verdict: 'wrong' });
  const own = () => judging.own(line).map(({ verdict }) => verdict);
  expect(own()).toEqual(['wrong']);
  expect(judging.takeBack()).toBe(0);
  expect(own()).toEqual(['right']);
  expect(judging.takeBack()).toBe(0);
  expect(own()).toEqual([]);
  expect(judging.takeBack()).toBeNull();
  judging.close();
  expect(readFileSync(path, 'utf8').trim().split('\n')).toHaveLength(4);
});
