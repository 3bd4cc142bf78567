/** The pages of fw view as a browser without scripts has them: what they show, to whom, and what a judge may see and say. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PAGE_HEADERS } from '../../products/kit/page.ts';
import { queryOf } from '../../products/view/query.ts';
import { folder } from '../fw.ts';
import { fileOf, itemOf, itemsOf, viewing, WICKED } from './viewing.ts';

const rowsIn = (text: string): string[] =>
  [...text.matchAll(/<tr aria-rowindex[^>]*><th scope="row"[^>]*><a href="\/item\/(\d+)/g)].map(
    ([, row]) => row as string,
  );
const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>);

test('nobody has anything without the token, and the token stays in no address', async () => {
  const at = await viewing([fileOf(itemsOf(3))], { where: queryOf('rung=failed&from=3') });
  expect(at.address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}&rung=failed&from=3$/);
  const entered = await fetch(at.address, { redirect: 'manual' });
  expect([entered.status, entered.headers.get('location')]).toEqual([303, '/?rung=failed&from=3']);
  const paths = [
    '/',
    '/rows',
    '/item/0',
    '/item/0/raw',
    '/view.js',
    '/report',
    '/none',
    '/%2e%2e/etc/passwd',
  ];
  for (const path of paths) {
    const reply = await fetch(at.origin + path, { redirect: 'manual' });
    const text = await reply.text();
    expect([path, reply.status, /Applicant|id-0/.test(text)]).toEqual([path, 403, false]);
    for (const [name, value] of Object.entries(PAGE_HEADERS))
      expect(reply.headers.get(name), path).toBe(value);
    expect(text).toContain('the address with its token');
  }
  // the page that says so has the looks of the others: there is nothing in a style
  expect((await fetch(`${at.origin}/view.css`)).status).toBe(200);
  for (const headers of [
    { cookie: `${at.cookie}x` },
    { cookie: 'fw_view_1=1' },
    { origin: 'http://evil.example' },
    { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' },
  ] as Record<string, string>[])
    expect([headers, (await at.get('/rows?count=9', headers)).status]).toEqual([headers, 403]);
  for (const headers of [{}, { origin: 'null' }, { origin: 'http://127.0.0.1:1' }] as Record<
    string,
    string
  >[])
    expect([headers, (await at.post('/label', { row: '0', verdict: 'right' }, headers)).status]).toEqual([
      headers,
      403,
    ]);
  const rebound = await raw(
    at.origin,
    `GET /?token=${new URL(at.address).searchParams.get('token')} HTTP/1.1\r\nHost: evil.example:${new URL(at.origin).port}\r\nConnection: close\r\n\r\n`,
  );
  expect(rebound).toMatch(/^HTTP\/1\.1 421 /);
  expect(rebound).not.toContain('set-cookie');
  for (const path of ['//evil.example/%2e%2e', '/\\evil.example', 'http://[', '*']) {
    const token = new URL(at.address).searchParams.get('token');
    const reply = await raw(
      at.origin,
      `GET ${path}?token=${token} HTTP/1.1\r\nHost: ${new URL(at.origin).host}\r\nConnection: close\r\n\r\n`,
    );
    expect([path, /location: \/\//.test(reply), /^HTTP\/1\.1 5/.test(reply)]).toEqual([path, false, false]);
  }
  expect(at.bugs).toEqual([]);
});

function raw(origin: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(origin).port), '127.0.0.1', () => socket.write(request));
    let text = '';
    socket.on('data', block => {
      text += block;
    });
    socket.on('end', () => resolve(text));
    socket.on('error', reject);
  });
}

test('the table: filters, order, columns, pages of rows, and what the address says wrong', async () => {
  const at = await viewing([fileOf(itemsOf(250))]);
  const all = await at.get('/');
  expect(rowsIn(all.text)).toEqual(Array.from({ length: 100 }, (_, row) => String(row)));
  expect(all.text).toContain('<b data-sum="selected">250</b> of <b data-sum="of">250</b> rows');
  expect(all.text).toContain('aria-rowcount="251"');
  const next = /<a rel="next" href="([^"]+)"/.exec(all.text)?.[1] as string;
  expect(rowsIn((await at.get(next)).text)[0]).toBe('100');
  const failed = await at.get('/?rung=failed&sort=-tokens.in&show=id&show=rung&show=in.income');
  expect(rowsIn(failed.text).slice(0, 2)).toEqual(['247', '237']);
  expect(failed.text).toContain('<b data-sum="selected">25</b> of');
  expect(failed.text).toMatch(/<th scope="col"[^>]*title="in.income"/);
  expect(failed.text).not.toContain('title="in.name"><a');
  // the values of a column that is chosen by are those that could be chosen too
  expect(failed.text).toMatch(/aria-current="true"><span class="v">failed<\/span><span class="c">25</);
  expect(failed.text).toMatch(/<span class="v">clean<\/span><span class="c">200</);
  const chip = /<a class="chip" href="([^"]+)"/.exec(failed.text)?.[1]?.replaceAll('&amp;', '&') as string;
  expect(queryOf(chip.slice(2)).filters).toEqual([]);
  const wrong = await at.get('/?in.incom=3&sort=none&show=nothing');
  expect(wrong.text).toContain('There is no column in.incom in these files; the nearest is in.income.');
  expect(wrong.text).toContain('There is no column none in these files');
  expect((await at.get('/?income=20000..20100')).text).toContain('<b data-sum="selected">11</b>');
  expect((await at.get('/?q=loan+of+1007%3F')).text).toContain('<b data-sum="selected">1</b>');
  const rows = JSON.parse(
    (await at.get('/rows?group=elm&from=2&count=2&show=id&show=in.group')).text,
  ) as object;
  expect(rows).toMatchObject({
    rows: 250,
    done: true,
    selected: 62,
    from: 2,
    cells: [
      [11, 'id-11', 'elm'],
      [15, 'id-15', 'elm'],
    ],
  });
  expect(JSON.parse((await at.get('/rows?count=0')).text)).toMatchObject({ cells: [], selected: 250 });
  expect(at.bugs).toEqual([]);
});

test('one row: before, next and back within what was chosen; its bytes', async () => {
  const path = fileOf(itemsOf(50));
  const at = await viewing([path]);
  const { text } = await at.get('/item/17?rung=failed');
  expect(text).toContain('2 of 5 rows');
  expect(text).toMatch(/rel="prev" href="\/item\/7\?rung=failed"/);
  expect(text).toMatch(/rel="next" href="\/item\/27\?rung=failed"/);
  expect(text).toContain('href="/?rung=failed&amp;from=1"');
  expect((await at.get('/item/16?rung=failed')).text).toContain('not among the 5 rows that are chosen');
  const bytes = await at.get('/item/17/raw');
  expect([bytes.text, bytes.headers.get('content-type'), bytes.headers.get('content-disposition')]).toEqual([
    readFileSync(path, 'utf8').split('\n')[17],
    'text/plain; charset=utf-8',
    'attachment; filename="row-18.txt"',
  ]);
  for (const none of [
    '/item/50',
    '/item/-1',
    '/item/x',
    '/item/1e3',
    '/item/99999999999999999999',
    '/report',
  ])
    expect([none, (await at.get(none)).status]).toEqual([none, 404]);
  expect(at.bugs).toEqual([]);
});

test('what a file says is text on each page, whatever it is', async () => {
  const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`c${n}`, n]));
  const at = await viewing([
    fileOf([
      itemOf(0, { id: WICKED, input: { [WICKED]: WICKED, group: WICKED } }),
      ...itemsOf(20),
      { id: 'many', input: many },
      `{"id":"long","prompt":"${'x'.repeat(10 * 1024 * 1024)}"}`,
      'no JSON',
      '[1]',
      '',
      `{"id":"deep","input":${'['.repeat(5_000)}${']'.repeat(5_000)}}`,
      '{"id":"torn',
    ]),
  ]);
  const selected = await at.get('/');
  const paths = [
    '/',
    `/?in.group=${encodeURIComponent(WICKED)}&q=${encodeURIComponent(WICKED)}&sort=${encodeURIComponent(WICKED)}`,
    ...rowsIn(selected.text).map(row => `/item/${row}`),
  ];
  expect(paths.length).toBeGreaterThan(25);
  for (const path of paths) {
    const { status, text } = await at.get(path);
    expect([
      path,
      status,
      text.includes('<script>top'),
      text.includes('<img src=x'),
      ['\u202e', '\0', '\u001b'].some(one => text.includes(one)),
    ]).toEqual([path, 200, false, false, false]);
    expect(text.length, path).toBeLessThan(3_000_000);
  }
  expect(at.bugs).toEqual([]);
});

test('a file that grows: more rows are there at the next look, and a line without an end is told', async () => {
  const path = fileOf(itemsOf(5));
  const at = await viewing([path]);
  appendFileSync(path, `${JSON.stringify(itemOf(5))}\n{"id":"to`);
  for (;;) {
    const { rows, notes } = JSON.parse((await at.get('/rows?count=0')).text) as {
      rows: number;
      notes: string[];
    };
    if (rows === 6 && notes.length > 0) break;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  expect((await at.get('/')).text).toContain('the last line has no end (9 bytes)');
});

test('fifty drawn rows are judged; each label is a line on disk before the answer, and one is taken back', async () => {
  const path = fileOf(itemsOf(400));
  const sample = { size: 50, seed: 7, by: 'group', where: queryOf('rung=!failed') };
  const at = await viewing([path], { sample, hide: ['group'] });
  let to: string | null = `/item/${rowsIn((await at.get('/')).text)[0]}`;
  const seen: string[] = [];
  for (let n = 0; n < 50; n++) {
    const row = /^\/item\/(\d+)/.exec(to as string)?.[1] as string;
    seen.push(row);
    const { text } = await at.get(to as string);
    expect(text).toContain(`${n} of 50 judged`);
    expect(text).not.toMatch(/\b(ash|birch|cedar|elm)\b/);
    const verdict = ['right', 'wrong', 'unsure'][n % 3] as string;
    ({ to } = await at.post('/label', {
      row,
      path: '',
      verdict,
      note: n === 0 ? 'a "note"' : '',
      query: '',
    }));
    expect(linesOf(at.labels)).toHaveLength(n + 1);
  }
  expect(to).toBe('/?from=49');
  const lines = linesOf(at.labels);
  expect(new Set(seen).size).toBe(50);
  expect(lines[0]).toMatchObject({
    ...{
      fw: 'label',
      id: `id-${seen[0]}`,
      path: '',
      verdict: 'right',
      note: 'a "note"',
      by: 'anna',
      at: '2026-01-01T00:00:01.000Z',
    },
    ...{ sample: { seed: 7, size: 50, by: 'in.group', of: 360 }, hidden: ['group'] },
  });
  expect(lines[0]?.hash).toMatch(/^[0-9a-f]{64}$/);
  const table = (await at.get('/')).text;
  expect(table).toContain('50 of 50 judged');
  expect(table.match(/data-is="unsure">unsure/g)).toHaveLength(16);
  const back = await at.post('/label', { row: seen[0] as string, verdict: 'back', query: '' });
  expect(back.to).toBe(`/item/${seen[49]}`);
  expect(linesOf(at.labels)[50]).toMatchObject({ id: `id-${seen[49]}`, verdict: null });
  expect((await at.get(back.to as string)).text).toContain('49 of 50 judged');
  // a sample is all that a judge sees
  const other = Array.from({ length: 400 }, (_, row) => String(row)).find(
    row => !seen.includes(row),
  ) as string;
  expect((await at.get(`/item/${other}`)).status).toBe(404);
  for (const bad of [
    { row: other, verdict: 'right' },
    { row: seen[0], verdict: 'good' },
    { row: seen[0], verdict: 'right', path: 'x' },
    { row: seen[0], verdict: 'right', note: 'x'.repeat(5_000) },
    {},
  ] as Record<string, string>[])
    expect([400, 404]).toContain((await at.post('/label', bad)).status);
  expect([linesOf(at.labels).length, at.bugs]).toEqual([51, []]);
});

test('what was judged before is shown to its judge; of others no more than that they judged; another answer is not judged', async () => {
  const path = fileOf(itemsOf(3));
  const labels = join(folder(), 'labels.ndjson');
  const anna = await viewing([path], { labels });
  await anna.post('/label', { row: '1', verdict: 'wrong', note: 'too high' });
  await anna.post('/label', { row: '1', verdict: 'right', path: '/decision/output/interest_rate' });
  const ben = await viewing([path], { labels, by: 'ben' });
  const seen = (await ben.get('/item/1')).text;
  expect(seen).toContain('also judged by anna');
  expect(seen).not.toContain('too high');
  const own = (await (await viewing([path], { labels })).get('/item/1')).text;
  expect(own).toMatch(/<b data-is="wrong">wrong<\/b> the whole line <q>too high<\/q>/);
  expect(own).toMatch(/<b data-is="right">right<\/b> \/decision\/output\/interest_rate/);
  expect(own).toMatch(/value="wrong"[^>]*aria-pressed="true"/);
  writeFileSync(path, readFileSync(path, 'utf8').replaceAll('"interest_rate":4.25', '"interest_rate":9'));
  expect((await (await viewing([path], { labels })).get('/item/1')).text).not.toContain('too high');
  const lone = await viewing([fileOf(['{"a":1}'])]);
  expect((await lone.get('/item/0')).text).toContain('It has no id');
  expect((await lone.post('/label', { row: '0', verdict: 'right' })).status).toBe(409);
});

test('what is hidden is on no page, cannot be chosen by, and no line is given as it is', async () => {
  const said = (item: object): object => {
    const { input, ...rest } = item as { input: { group: string } };
    return { ...rest, input: { ...input, reason: `since it is ${input.group}` } };
  };
  const at = await viewing([fileOf(itemsOf(40).map(said))], { hide: ['in.group', 'nothing'] });
  const pages = [
    '/',
    '/?in.group=elm',
    '/?sort=in.group',
    '/?show=in.group',
    '/?show=in.reason',
    '/?q=elm',
    '/item/3',
    '/rows?count=40&show=in.group&show=in.name',
    '/rows?count=40&show=group',
  ];
  for (const path of pages) {
    const { text } = await at.get(path);
    expect([path, /\b(ash|birch|cedar)\b/.exec(text.replaceAll(/value="[^"]*"/g, ''))]).toEqual([path, null]);
  }
  expect((await at.get('/?in.group=elm')).text).toContain('The column in.group is hidden.');
  expect((await at.get('/?in.group=elm')).text).toContain('<b data-sum="selected">40</b>');
  expect((await at.get('/?q=elm')).text).toContain('Nothing is searched for while columns are hidden');
  expect((await at.get('/')).text).toContain('--hide nothing: no column nothing in these files');
  expect((await at.get('/item/3')).text).toMatch(/applicant of the ▒▒▒ group/);
  expect((await at.get('/item/3/raw')).status).toBe(403);
});

test('the figures of a report lead to rows; nothing in it runs', async () => {
  const report = join(folder(), 'report.html');
  writeFileSync(
    report,
    '<!doctype html><script>top.ran=1</script><a data-rows="?in.group=elm">x</a><a data-rows="//evil.example">y</a>',
  );
  const at = await viewing([fileOf(itemsOf(3))], { report });
  const { text, headers } = await at.get('/report');
  expect(text).toContain('<a href="/?in.group=elm">x</a><a data-rows="//evil.example">y</a>');
  expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'unsafe-inline';/);
  expect((await at.get('/')).text).toContain('<a href="/report">Report</a>');
});

test('two runs beside each other: what differs first, by decision, rung and text; what is hidden stays so', async () => {
  const first = fileOf(itemsOf(120));
  const second = fileOf(
    itemsOf(121)
      .slice(1)
      .map((item, at) => {
        const text = JSON.stringify(item);
        if (at === 3) return text.replaceAll('"deny"', '"approve"').replaceAll('"approve"', '"refuse"');
        if (at === 5)
          return text.replace(
            '"rung":"clean","saw":"clean","repairs":[],"calls":[],"attempts":1,"usage":{"prompt":506',
            '"rung":"coerced","saw":"clean","repairs":[],"calls":[],"attempts":1,"usage":{"prompt":506',
          );
        return text;
      }),
  );
  const at = await viewing([first], { beside: second });
  expect((await at.get('/')).text).toContain('<a href="/beside">');
  const { text } = await at.get('/beside');
  expect(text).toMatch(/any value of the decision <b>1</);
  expect(text).toMatch(/in the first alone <b>1</);
  expect(text).toMatch(/in the second alone <b>1</);
  expect(text.indexOf('refuse')).toBeLessThan(text.indexOf('in the first alone</td>'));
  const one = /href="(\/beside\/\d+)" aria-label="Pair of row 5"/.exec(text)?.[1] as string;
  const pair = await at.get(one);
  expect([pair.status, pair.text]).toEqual([200, expect.stringContaining('refuse')]);
  expect((await at.get('/beside?differs=second')).text.match(/aria-label="Pair/g)).toHaveLength(1);
  expect((await at.get('/beside?from=50')).text).toContain('Pairs 51 to 100 of 121');
  for (const none of ['/beside/999', '/beside/x', '/beside/-1'])
    expect((await at.get(none)).status).toBe(404);
  expect((await at.get('/item/4')).text).toContain('<a href="/beside/4">This row beside the other run</a>');
  const blind = await viewing([first], { beside: second, hide: ['group'] });
  for (const path of ['/beside', one, '/beside?differs=group', '/beside?differs=in.group&first=elm'])
    expect([path, /\b(ash|birch|cedar|elm)\b/.exec((await blind.get(path)).text)]).toEqual([path, null]);
  expect((await (await viewing([first])).get('/beside')).status).toBe(404);
  expect([at.bugs, blind.bugs]).toEqual([[], []]);
});
