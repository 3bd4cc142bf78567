/** Two runs joined row by row, and the page of one pair: what differs is marked, and nothing of a line is markup. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { comparable, DIFFERS, joinRuns, type RunHashes } from '../../products/view/beside.ts';
import { besideParts, type Side } from '../../products/view/beside-page.ts';
import { differingIn, keysOf, movesIn, pairsOther } from '../../products/view/pair-columns.ts';
import { ColumnBuilder, hashOf } from '../../products/view/rows/chunk.ts';
import { fieldsOf } from '../../products/view/rows/line-fields.ts';
import { RowIndex } from '../../products/view/rows/row-index.ts';
import { wordDiff } from '../../products/view/word-diff.ts';
import { runs } from '../all.ts';
import { ROOT } from '../fw.ts';
import { holds } from '../integrity/property.ts';
import { anyText } from '../ledger/records.ts';
import { fileOf, viewing } from './viewing.ts';

const LINKS = { raw: null, filter: () => null };

/** What the index holds of lines. */
function hashesOf(lines: readonly JsonObject[], names = false): RunHashes {
  const known = lines.map(line => comparable(line));
  const of = (make: (one: (typeof known)[number]) => unknown): Float64Array =>
    Float64Array.from(known, one => {
      const value = make(one);
      return value === undefined || value === null
        ? Number.NaN
        : hashOf(typeof value === 'string' ? value : JSON.stringify(value));
    });
  return {
    ids: of(({ id }) => id),
    decided: of(({ decision }) => decision),
    said: of(({ answers }) => answers.map(({ value }) => value)),
    rungs: of(({ rung }) => rung),
    ...(names && { names: of(({ name }) => name) }),
  };
}

const pairsOf = (a: RunHashes, b: RunHashes): [number, number, number][] => {
  const { first, second, differs, order } = joinRuns(a, b);
  return [...order].map(pair => [first[pair] as number, second[pair] as number, differs[pair] as number]);
};

const step = (output: unknown, rung = 'clean'): JsonObject => ({
  agent: 'a',
  output,
  rung,
  saw: 'clean',
  repairs: [],
  calls: [],
  attempts: 1,
});
const item = (id: string, output: unknown, rung?: string): JsonObject => ({
  id,
  prompt: 'p',
  steps: [step(output, rung)],
});

describe('two runs', () => {
  test('are joined by id, what differs most first, then what one run alone has', () => {
    const a = [
      item('1', { x: 1 }),
      item('2', { x: 1 }),
      item('3', { x: 1 }),
      item('4', 'same'),
      item('alone', 1),
    ];
    const b = [
      item('4', 'same'),
      item('3', { x: 2 }),
      item('2', { x: 1 }, 'coerced'),
      item('1', { x: 2 }, 'repaired'),
      item('new', 1),
    ];
    const all = DIFFERS.decision + DIFFERS.text;
    expect(pairsOf(hashesOf(a), hashesOf(b))).toEqual([
      [0, 3, all + DIFFERS.rung],
      [2, 1, all],
      [1, 2, DIFFERS.rung],
      [4, -1, 0],
      [-1, 4, 0],
      [3, 0, 0],
    ]);
    expect(joinRuns(hashesOf(a), hashesOf(b)).counts).toEqual({
      matched: 4,
      onlyFirst: 1,
      onlySecond: 1,
      decision: 2,
      rung: 2,
      text: 2,
      same: 1,
    });
  });

  test('an id that is there twice is joined in the order of the rows; a row without one stands alone', () => {
    const a = [item('1', 'a'), item('1', 'b'), { x: 1 }];
    const b = [item('1', 'a'), item('1', 'c'), item('1', 'd'), { x: 1 }];
    expect(pairsOf(hashesOf(a), hashesOf(b))).toEqual([
      [1, 1, 5],
      [2, -1, 0],
      [-1, 2, 0],
      [-1, 3, 0],
      [0, 0, 0],
    ]);
  });

  test('an item and the legacy result of it are joined by row and ordering', () => {
    const line = { id: 'x/risk', row: 7, prompt: 'p', ordering: ['risk', 'data'], steps: [step({ a: 1 })] };
    const legacy = {
      prompt_id: 7,
      ordering: 'risk,data',
      conversation_history: [{ agent: 'a', output: { a: 1 } }],
      business_decision: { a: 1 },
    };
    const [pair] = pairsOf(hashesOf([line], true), hashesOf([legacy], true));
    expect(pair?.slice(0, 2)).toEqual([0, 0]);
    expect(pairsOf(hashesOf([line]), hashesOf([legacy]))).toHaveLength(2);
  });

  test('any ids are joined as a Map joins them', () => {
    const ids = fc.array(fc.constantFrom(...'abcdefgh'), { maxLength: 12 });
    holds(fc.tuple(ids, ids), ([a, b]) => {
      const left = new Map<string, number[]>();
      for (const [row, id] of b.entries()) left.set(id, [...(left.get(id) ?? []), row]);
      const expected = a.map((id, row) => [row, left.get(id)?.shift() ?? -1]);
      const found = joinRuns(hashesOf(a.map(id => item(id, 1))), hashesOf(b.map(id => item(id, 1))));
      expect(a.map((_, row) => [found.first[row], found.second[row]])).toEqual(expected);
      expect([...found.order].sort((x, y) => x - y)).toEqual([...found.first.keys()]);
      const { matched, onlyFirst, onlySecond } = found.counts;
      expect([matched + onlyFirst, matched + onlySecond]).toEqual([a.length, b.length]);
    });
  });

  test('of very many rows', () => {
    const count = runs(200_000, 1_000_000, 'ROWS');
    const side = (of: (row: number) => number): RunHashes => {
      const ids = Float64Array.from({ length: count }, (_, row) => hashOf(`id ${of(row)}`));
      return { ids, decided: ids, said: ids, rungs: ids };
    };
    const found = joinRuns(
      side(row => row),
      side(row => count - row),
    );
    expect(found.counts).toMatchObject({ matched: count - 1, onlyFirst: 1, onlySecond: 1, same: count - 1 });
    expect(found.second[1]).toBe(count - 1);
  });
});

/** An index of lines, some in a chunk, as the thread that reads makes it. */
function indexOf(lines: readonly JsonObject[], inChunk = 3): RowIndex {
  const index = new RowIndex();
  const builders = new Map<string, ColumnBuilder>();
  for (let from = 0; from < lines.length; from += inChunk) {
    const part = lines.slice(from, from + inChunk);
    const rows = part.length;
    part.forEach((line, row) => {
      fieldsOf(line, (group, key, value) => {
        const name = `${group}${key}`;
        const builder = builders.get(name) ?? new ColumnBuilder(builders.size, group, key);
        builders.set(name, builder);
        builder.add(row, value);
      });
    });
    const taken = [...builders.values()].map(builder => builder.take(rows));
    const whole = new Uint32Array(rows);
    const numbers = new Float64Array(rows);
    index.add(
      {
        ...{ file: from, rows, offsets: numbers, lengths: whole, lines: whole, ids: numbers },
        ...{ decided: null, said: null, columns: taken.flatMap(({ data }) => data ?? []) },
      },
      taken.flatMap(({ news }) => news ?? []),
    );
  }
  return index;
}

describe('the columns in which two runs differ', () => {
  const all = (): boolean => true;
  const valuesOf = (line: JsonObject): Map<string, string> => {
    const fields = new Map<string, string>();
    fieldsOf(line, (group, key, value) => {
      if (!fields.has(`${group}${key}`)) fields.set(`${group}${key}`, String(value));
    });
    return fields;
  };

  test('are counted as a plain reading of the lines counts them, and from what to what', () => {
    const long = 'a reason '.repeat(30);
    const value = fc.constantFrom<unknown>('approve', 'deny', '', 4, 4.5, -0, true, long, `${long}!`, null);
    const output = fc.record({ decision: value, rate: value, why: value }, { requiredKeys: [] });
    const one = fc.record({
      id: fc.constantFrom(...'abcdefgh'),
      output,
      rung: fc.constantFrom('clean', 'coerced'),
      isFailed: fc.boolean(),
    });
    const lines = fc.array(one, { maxLength: 12 }).map(made =>
      made.map(({ id, output: said, rung, isFailed }) =>
        JSON.parse(
          JSON.stringify({
            ...item(id, said, rung),
            ...(isFailed && { failure: { stage: 'chain', code: 'timeout', message: 'm' } }),
          }),
        ),
      ),
    );
    holds(fc.tuple(lines, lines), ([a, b]: [JsonObject[], JsonObject[]]) => {
      const joined = joinRuns(hashesOf(a), hashesOf(b));
      const indexes = [indexOf(a), indexOf(b)] as const;
      const { columns, order } = differingIn(indexes, joined, joined.order, all);
      expect([...order].sort((x, y) => x - y)).toEqual([...joined.order].sort((x, y) => x - y));
      const moves = new Map<string, Map<string, number>>();
      for (const pair of joined.order) {
        const [row, other] = [joined.first[pair] as number, joined.second[pair] as number];
        if (row < 0 || other < 0) continue;
        const [left, right] = [valuesOf(a[row] as JsonObject), valuesOf(b[other] as JsonObject)];
        for (const name of new Set([...left.keys(), ...right.keys()])) {
          if (!/^(?:out\.|step\.|rung$|failure$)/.test(name)) continue;
          const [from, to] = [left.get(name) ?? '', right.get(name) ?? ''];
          if (from === to) continue;
          const of = moves.get(name) ?? new Map<string, number>();
          of.set(`${from} → ${to}`, (of.get(`${from} → ${to}`) ?? 0) + 1);
          moves.set(name, of);
        }
      }
      const totals = [...moves].map(([name, of]) => [name, [...of.values()].reduce((x, y) => x + y)]);
      expect(columns.map(({ name, differs }) => [name, differs]).sort()).toEqual(totals.sort());
      for (const { name } of columns) {
        const keys = keysOf(...indexes, name);
        const expected = moves.get(name) as Map<string, number>;
        const found = movesIn(keys, joined, joined.order);
        if (found !== null)
          expect(new Map(found.map(({ from, to, count }) => [`${from} → ${to}`, count]))).toEqual(expected);
        for (const [move, count] of expected) {
          const [from = '', to = ''] = move.split(' → ');
          expect(pairsOther(keys, joined, joined.order, { from, to })).toHaveLength(count);
        }
        expect(pairsOther(keys, joined, joined.order, { from: 'nobody says this', to: null })).toHaveLength(
          0,
        );
      }
    });
  });

  test('columns of few values come first, and pairs that differ in them', () => {
    const of = (at: number, decision: string, rate: number): JsonObject =>
      item(`${at}`, { always: 'same', rate, decision });
    const a = Array.from({ length: 60 }, (_, at) => of(at, 'approve', at));
    const b = Array.from({ length: 60 }, (_, at) => of(at, at === 40 ? 'deny' : 'approve', at + 0.5));
    const joined = joinRuns(hashesOf(a), hashesOf(b));
    const { columns, order } = differingIn([indexOf(a), indexOf(b)], joined, joined.order, all);
    expect(columns).toEqual([
      { name: 'out.decision', differs: 1, values: 2 },
      { name: 'step.a.decision', differs: 1, values: 2 },
      { name: 'out.rate', differs: 60, values: 120 },
      { name: 'step.a.rate', differs: 60, values: 120 },
    ]);
    expect([...order.slice(0, 3)]).toEqual([40, 0, 1]);
    const isShown = (name: string): boolean => name !== 'out.decision';
    const hidden = differingIn([indexOf(a), indexOf(b)], joined, joined.order, isShown);
    expect(hidden.columns.map(({ name }) => name)).not.toContain('out.decision');
  });

  test('are chosen on the page: which pairs, from what to what, and what cannot be done is said', async () => {
    const of = (flips: readonly number[]): object[] =>
      Array.from({ length: 200 }, (_, at) => {
        const decision = (at % 2 === 0) === flips.includes(at) ? 'deny' : 'approve';
        return {
          ...item(`id-${at}`, { kind: 'loan', rate: at + flips.length, decision }),
          input: { half: at < 100 ? 'a' : 'b' },
        };
      });
    const at = await viewing([fileOf(of([]))], { beside: fileOf(of([10, 20, 31, 120])) });
    const rowsOf = (text: string): string[] =>
      [...text.matchAll(/aria-label="Pair of row (\d+)"/g)].map(([, row]) => row as string);
    const whole = (await at.get('/beside')).text;
    expect(rowsOf(whole).slice(0, 5)).toEqual(['11', '21', '32', '121', '1']);
    expect(whole).toMatch(/differs=out\.decision" title="out\.decision">.*?<span class="c">4</);
    expect(whole).not.toContain('title="out.kind"');
    const flips = (await at.get('/beside?differs=decision_of_nobody')).text;
    expect(flips).toContain('There is no column decision_of_nobody in these files');
    const chosen = (await at.get('/beside?differs=out.decision')).text;
    expect(rowsOf(chosen)).toEqual(['11', '21', '32', '121']);
    expect(chosen).toContain('approve → deny <b>3</b>');
    expect(chosen).toContain('deny → approve <b>1</b>');
    expect(chosen).toContain('<td class="changed">approve → <b>deny</b></td>');
    const move = '/beside?differs=out.decision&first=deny&second=approve';
    expect(chosen).toContain(`href="${move.replaceAll('&', '&amp;')}"`);
    expect(rowsOf((await at.get(move)).text)).toEqual(['32']);
    expect(rowsOf((await at.get('/beside?differs=out.decision&in.half=b')).text)).toEqual(['121']);
    expect(rowsOf((await at.get('/beside?id=id-31')).text)).toEqual(['32']);
    expect((await at.get('/?id=id-31')).text).toContain('<a href="/beside?id=id-31">');
    expect((await at.get('/beside?first=deny')).text).toContain('differs=COLUMN says of which');
    expect((await at.get('/beside?whatever=1')).text).toContain('There is no column whatever');
    const pair = (await at.get('/beside/20?differs=out.decision')).text;
    expect(pair).toContain('2 of 4 pairs');
    expect(pair).toContain('href="/beside/31?differs=out.decision"');
    expect(at.bugs).toEqual([]);
  });
});

describe('while columns are hidden', () => {
  test('they are counted nowhere, and no value of theirs stands in what is listed', async () => {
    const of = (verdict: (at: number) => string): string =>
      fileOf(
        Array.from({ length: 20 }, (_, at) => ({
          ...item(`id-${at}`, {
            about: at % 2 === 0 ? 'female' : 'male',
            secret: verdict(at),
            open: at === 3 ? 'granted' : 'refused',
          }),
          input: { gender: at % 2 === 0 ? 'female' : 'male' },
        })),
      );
    const second = fileOf(
      Array.from({ length: 20 }, (_, at) => ({
        ...item(`id-${at}`, {
          about: at === 4 ? 'unknown' : at % 2 === 0 ? 'female' : 'male',
          secret: 'no',
          open: 'refused',
        }),
        input: { gender: at % 2 === 0 ? 'female' : 'male' },
      })),
    );
    const hide = ['gender', 'out.secret', 'step.a.secret'];
    const at = await viewing([of(row => (row === 3 ? 'yes' : 'no'))], { beside: second, hide });
    for (const path of [
      ...['/beside', '/beside?differs=out.about', '/beside?differs=secret', '/beside?differs=in.gender'],
      ...['/beside?show=gender&show=secret', '/beside?differs=in.gender&first=male', '/beside?gender=male'],
    ]) {
      const { text } = await at.get(path);
      expect([path, /\b(?:fe)?male\b/.exec(text)]).toEqual([path, null]);
      expect([path, /title="(?:out|step\.a)\.secret"/.exec(text)]).toEqual([path, null]);
    }
    expect((await at.get('/beside?differs=out.about')).text).toContain('its values hold what is hidden');
    expect((await at.get('/beside?differs=secret')).text).toContain('The column out.secret is hidden.');
    expect((await at.get('/beside?differs=open')).text).toContain('granted → refused <b>1</b>');
    expect(at.bugs).toEqual([]);
  });
});

describe('the difference of two texts', () => {
  test('has both of them in it', () => {
    const text = fc
      .array(fc.oneof(fc.constantFrom('a ', 'word ', ', ', '\n'), anyText), { maxLength: 20 })
      .map(parts => parts.join(''));
    holds(fc.tuple(text, text), ([a, b]) => {
      const pieces = wordDiff(a, b);
      const side = (name: string): string =>
        pieces
          .filter(({ kind }) => kind === 'same' || kind === name)
          .map(piece => piece.text)
          .join('');
      expect([side('left'), side('right')]).toEqual([a, b]);
    });
  });

  test('marks whole numbers and whole words', () => {
    for (const [a, b] of [
      ['23.05', '23.95'],
      ['1,000.5', '1,000.25'],
      ['-5', '5'],
      ['1e-5', '1e-7'],
      ["don't", "didn't"],
      ['cafe\u0301', 'cafe'],
      ['risk_level', 'risk_levels'],
    ] as const)
      expect(wordDiff(`rate ${a}.`, `rate ${b}.`)).toEqual([
        { kind: 'same', text: 'rate ' },
        { kind: 'left', text: a },
        { kind: 'right', text: b },
        { kind: 'same', text: '.' },
      ]);
  });

  test('is small where little differs, and bounded where all does', () => {
    const words = Array.from({ length: 5_000 }, (_, at) => `word${at} `);
    const other = words.with(2_500, 'another ');
    expect(wordDiff(words.join(''), other.join('')).map(({ kind }) => kind)).toEqual([
      'same',
      'left',
      'right',
      'same',
    ]);
    const far = Array.from({ length: 200_000 }, (_, at) => `x${at} `).join('');
    expect(wordDiff(words.join(''), far).length).toBe(3);
  });
});

describe('the page of a pair', () => {
  const side = (line: JsonObject | null, name: string): Side => ({
    line,
    text: JSON.stringify(line),
    isRow: false,
    name,
  });
  const pageOf = (a: JsonObject | null, b: JsonObject | null): string =>
    besideParts([side(a, 'old.ndjson'), side(b, 'new <b>.ndjson')], { hidden: null, links: LINKS }).text;

  test('shows what differs first, and marks it', () => {
    const a = item('1', { kind: 'loan', decision: 'approve', why: 'The income covers the rate.' });
    const b = item(
      '1',
      { kind: 'loan', decision: 'deny', why: 'The income barely covers the rate.' },
      'coerced',
    );
    const page = pageOf(a, b);
    expect(page).toContain('They differ in the decision, the rung and what was answered.');
    expect(page).toMatch(/<th scope="row">decision.*1 value the same.*<th scope="row">kind/s);
    expect(page).toContain('<ins><span class="unseen">[only here: </span>barely ');
    expect(page).toContain('new &lt;b&gt;.ndjson');
    expect(pageOf(a, a)).toContain('Both say the same.');
    expect(pageOf(a, null)).toContain('This run does not have the row.');
  });

  test('says that other prompts were asked', () => {
    const page = pageOf(
      { ...item('1', 'x'), prompt: 'Be kind.' },
      { ...item('1', 'x'), prompt: 'Be strict.' },
    );
    expect(page).toContain('They were asked otherwise');
    expect(page).toContain('said the same in both');
  });

  test('has what was asked once where it is the same, folded where it is long', () => {
    const of = (group: string, output: unknown): JsonObject => ({
      ...item('1', output),
      input: { group, income: 7 },
      prompt: 'Be kind. '.repeat(100),
    });
    const page = pageOf(of('ash', 'a'), of('ash', 'b'));
    expect(page).toMatch(/<details open><summary><b>input<\/b>, the same in both.*>group<.*>ash</s);
    expect(page).toContain('<details><summary><b>prompt</b>, the same in both');
    expect(page.match(/Be kind\. Be kind/g)).toHaveLength(50);
    const other = pageOf(of('ash', 'a'), of('elm', 'b'));
    expect(other).toMatch(/They were asked otherwise.*<del>.*ash.*<ins>.*elm.*What both were asked/s);
    const { text } = besideParts(
      [
        { ...side(item('1', 'a'), 'a'), joined: { income: 7 } },
        { ...side(item('1', 'b'), 'b'), joined: { income: 7 } },
      ],
      { hidden: null, links: LINKS },
    );
    expect(text).toContain('>income<');
  });

  test('compares answers of batches, and failures', () => {
    const of = (content: string): JsonObject => ({
      custom_id: 'c',
      response: { status_code: 200, body: { choices: [{ message: { content } }] } },
      error: null,
    });
    expect(pageOf(of('Yes, it is.'), of('No, it is not.'))).toContain('<del>');
    expect(
      pageOf(of('Yes'), { custom_id: 'c', response: null, error: { code: 'x', message: 'm' } }),
    ).toContain('<b>x</b>');
  });

  test('hides what a judge must not see', () => {
    const a = { ...item('1', { decision: 'approve' }), input: { gender: 'female' } };
    const b = { ...item('1', { decision: 'deny' }), input: { gender: 'male' } };
    const hidden = {
      has: (name: string) => name === 'in.gender' || name === 'out.decision',
      mask: (text: string) => text.replace(/(?:fe)?male/g, '▒'),
      hidesAnswers: true,
    };
    const { text } = besideParts([side(a, 'a'), side(b, 'b')], { hidden, links: LINKS });
    expect(text).not.toMatch(/male|approve|deny/);
  });

  test('of any two lines has markup of ours alone, and is at most a megabyte', () => {
    const items = readFileSync(join(ROOT, 'fixtures/explain/items.ndjson'), 'utf8')
      .trim()
      .split('\n')
      .map(text => JSON.parse(text) as JsonObject);
    const value = fc.oneof(
      anyText,
      fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' }),
      fc.constantFrom('</pre><script>', '" x="'),
    );
    const line = fc
      .oneof(
        fc.constantFrom(...items),
        fc.record(
          {
            id: value,
            prompt: value,
            steps: fc.array(fc.record({ agent: value, output: value, rung: value })),
            decision: fc.record({ output: value }),
          },
          { requiredKeys: ['id', 'steps'] },
        ),
        fc.record({ conversation_history: fc.array(value), business_decision: value }),
        fc.dictionary(anyText, value),
      )
      .map(one => JSON.parse(JSON.stringify(one)) as JsonObject);
    const expectOwn = (page: string): void => {
      const tags =
        /<\/?(?:article|section|div|h2|h3|p|b|i|pre|table|tbody|tr|th|td|details|summary|span|del|ins)(?: open| [a-z]+="[a-z0-9 -]*")*>/g;
      expect(/[<>]/.test(page.replaceAll(tags, ''))).toBe(false);
      expect(Buffer.byteLength(page)).toBeLessThan(1_000_000);
    };
    holds(fc.tuple(line, line), ([a, b]) => expectOwn(pageOf(a, b)));
    const long = '<&"\u202e '.repeat(300_000);
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`k${at}<`, at]));
    expectOwn(
      pageOf({ ...item('1', many), prompt: long }, { ...item('1', { ...many, k5: 1 }), prompt: `${long}x` }),
    );
    expectOwn(pageOf(item('1', long), item('1', long.slice(1))));
    const deep = `{"id":"a","steps":[{"output":${'['.repeat(3_000)}${']'.repeat(3_000)}}]}`;
    const both: Side = { line: JSON.parse(deep) as JsonObject, text: deep, isRow: false, name: 'x' };
    expectOwn(besideParts([both, both], { hidden: null, links: LINKS }).text);
  });
});

describe('answers that are plain texts', () => {
  const batch = (id: string, content: string): object => ({
    custom_id: id,
    response: {
      status_code: 200,
      body: { model: 'm', choices: [{ finish_reason: 'stop', message: { content } }] },
    },
    error: null,
  });

  test.each<[string, object]>([
    ['a line of a batch', batch('a', ' Yes, it is. ')],
    ['an item', item('a', 'Yes, it is.')],
    [
      'a request that was answered',
      {
        id: 'a',
        prompt: 'p',
        steps: [
          {
            agent: 'r',
            response: { status_code: 200, body: { choices: [{ message: { content: 'Yes, it is.' } }] } },
          },
        ],
      },
    ],
    ['a call on record', { key: 'k', outcome: 'ok', endpoint: 'e', request: {}, answer: 'Yes, it is.' }],
    [
      'the reply of a call on record',
      {
        key: 'k',
        outcome: 'ok',
        endpoint: 'e',
        request: {},
        answer: JSON.stringify({ choices: [{ message: { content: 'Yes, it is.' } }] }),
      },
    ],
    [
      'a chat',
      {
        messages: [
          { role: 'user', content: 'Is it?' },
          { role: 'assistant', content: 'Yes, it is.' },
        ],
      },
    ],
  ])('%s has its answer as a column', (_, line) => {
    const found = new Map<string, unknown>();
    fieldsOf(line as JsonObject, (group, key, value) => found.set(`${group}${key}`, value));
    expect(found.get('out.text')).toBe('Yes, it is.');
  });

  test('one in JSON has its own columns, and none of a text', () => {
    const found = new Map<string, unknown>();
    fieldsOf(batch('a', '{"decision":"deny"}') as JsonObject, (group, key, value) =>
      found.set(`${group}${key}`, value),
    );
    expect([found.get('out.decision'), found.has('out.text')]).toEqual(['deny', false]);
  });

  test('are shown in the table, and counted beside another run, also where they are long', async () => {
    const long = 'It depends on much. '.repeat(40);
    const first = fileOf(Array.from({ length: 30 }, (_, at) => batch(`c${at}`, at % 2 === 0 ? 'yes' : 'no')));
    const second = fileOf(
      Array.from({ length: 30 }, (_, at) => batch(`c${at}`, at % 2 === 0 || at === 7 ? 'yes' : 'no')),
    );
    const short = await viewing([first], { beside: second });
    expect((await short.get('/')).text).toContain('<th scope="col" class="w9" title="out.text">');
    expect((await short.get('/beside?differs=out.text')).text).toContain('no → yes <b>1</b>');
    const longs = fileOf(Array.from({ length: 30 }, (_, at) => batch(`c${at}`, `${long}${at}`)));
    const others = fileOf(Array.from({ length: 30 }, (_, at) => batch(`c${at}`, `${long}${at % 10}`)));
    const at = await viewing([longs], { beside: others });
    const { text } = await at.get('/');
    expect(text).toContain('title="out.text"');
    expect(text).toContain('It depends on much. It depends');
    expect(text).not.toContain(long);
    expect((await at.get('/beside?differs=out.text')).text).toContain('<b>20</b> of <b>30</b> pairs');
    expect([short.bugs, at.bugs]).toEqual([[], []]);
  });
});

test('a row that was read again, longer, is in no pair', () => {
  const of = (...ids: string[]): RunHashes => {
    const hashes = Float64Array.from(ids, hashOf);
    return { ids: hashes, decided: hashes, said: hashes, rungs: hashes };
  };
  const again = { ...of('a', 'b', 'b', 'c'), gone: new Set([1]) };
  again.ids = Float64Array.from(again.ids);
  again.ids[1] = Number.NaN;
  const other = of('a', 'b', 'c');
  for (const { counts, order } of [joinRuns(again, other), joinRuns(other, again)]) {
    expect(counts).toMatchObject({ matched: 3, onlyFirst: 0, onlySecond: 0, same: 3 });
    expect(order).toHaveLength(3);
  }
});
