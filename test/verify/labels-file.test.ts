/** Files of labels: what holds of several lines, what breaks off, what is refused, and what a hash is of. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hashOfJudged, type Label, labelLine, readLabels, VERDICTS } from '../../engine/audit/labels-file.ts';
import { seeded } from '../../products/kit/permute.ts';
import { folder } from '../fw.ts';

const HASH = 'a'.repeat(64);
const label = (more: Partial<Label> = {}): Label => ({
  ...{ id: 'one', path: '', verdict: 'right', by: 'anna', at: '2026-11-26T19:20:00.000Z', hash: HASH },
  ...more,
});

async function read(text: string, maxLine = 1_000_000) {
  const path = join(folder(), 'labels.ndjson');
  writeFileSync(path, text);
  return readLabels([path], maxLine);
}

test('the last line of a key holds, null takes it back, another answer or judge or path is another key', async () => {
  const lines = [
    label(),
    label({ verdict: 'wrong', value: 'deny', note: 'no "income"\n' }),
    label({ by: 'ben' }),
    label({ by: 'ben', verdict: null }),
    label({ path: '/decision/output/rate', verdict: 'unsure' }),
    label({ hash: 'b'.repeat(64) }),
    label({ id: 'two', sample: { seed: 7, size: 50, of: 1200 }, hidden: ['in.name'] }),
  ];
  const { all, of, lines: count, torn } = await read(lines.map(labelLine).join(''));
  expect([count, torn]).toEqual([7, []]);
  expect(all.map(({ by, id, path, verdict }) => [by, id, path, verdict])).toEqual([
    ['anna', 'one', '', 'wrong'],
    ['anna', 'one', '', 'right'],
    ['anna', 'one', '/decision/output/rate', 'unsure'],
    ['anna', 'two', '', 'right'],
  ]);
  expect(of('one')).toHaveLength(3);
  expect(of('two')).toEqual([lines[6]]);
  expect(of('three')).toEqual([]);
});

test('of several files the later one holds; one that is named twice is read once', async () => {
  const at = folder();
  const [a, b] = [join(at, 'a.ndjson'), join(at, 'b.ndjson')];
  writeFileSync(a, labelLine(label()));
  writeFileSync(b, labelLine(label({ verdict: 'wrong' })));
  expect((await readLabels([a, b, a], 10_000)).all.map(({ verdict }) => verdict)).toEqual(['wrong']);
  expect((await readLabels([b, a], 10_000)).all.map(({ verdict }) => verdict)).toEqual(['right']);
});

test('a line that breaks off is counted and named, at each length of it, and what is written after it is read', async () => {
  const whole = labelLine(label({ id: 'größe' }));
  const bytes = Buffer.from(whole);
  const path = join(folder(), 'labels.ndjson');
  for (let length = 1; length < bytes.length - 1; length++) {
    writeFileSync(path, Buffer.concat([Buffer.from(labelLine(label())), bytes.subarray(0, length)]));
    const { all, torn } = await readLabels([path], 10_000);
    expect(all.map(({ id }) => id)).toEqual(['one']);
    expect(torn).toEqual([
      `${path}:2: a torn line of ${length} byte${length === 1 ? '' : 's'}, which says nothing`,
    ]);
  }
  appendFileSync(path, `\n${whole}`);
  const { all, torn } = await readLabels([path], 10_000);
  expect([all.length, torn.length]).toEqual([2, 1]);
  // a last line without its newline is one
  expect((await read(whole.trimEnd())).all).toHaveLength(1);
});

test.each([
  [
    labelLine(label({ verdict: 'maybe' as 'right' })),
    /:1: expected a label, whose verdict is right, wrong, unsure or null, found "maybe"$/,
  ],
  [
    labelLine(label({ by: '' })),
    /:1: expected a label, found at \/by "", which must NOT have fewer than 1 char/,
  ],
  [
    labelLine(label({ path: 'decision' })),
    /:1: expected a label, found at \/path "decision", which must match/,
  ],
  [labelLine(label({ hash: 'x' })), /:1: expected a label, found at \/hash "x"/],
  [labelLine(label({ at: 'yesterday' })), /:1: expected a label, found at \/at "yesterday"/],
  [labelLine(label({ sample: { seed: 1, size: 0, of: 3 } })), /found at \/sample\/size 0/],
  [labelLine({ ...label(), verdict: undefined as never }), /:1: expected a label, found in it no "verdict"$/],
  [`${labelLine(label())}{"fw":"label","verdit":"right"}\n`, /:2: expected a label, found in it/],
  [
    `{"id":"x","prompt":"p"}\n`,
    /:1: expected a label, as fw view writes them \("fw":"label"\), found an object$/,
  ],
  ['{"id":null,"failure":{"message":"mine"}}\n', /:1: expected a label, as fw view/],
  ['hello\n', /labels\.ndjson:1: expected JSON, found: /],
  ['[1]\n', /labels\.ndjson:1: expected a JSON object, found an array/],
  [
    labelLine(label({ note: 'x'.repeat(3_000) })),
    /labels\.ndjson:1: expected at most 2000 bytes \(--max-line\), found 3\d\d\d/,
  ],
])('what is no label is refused, case %#', async (text, message) => {
  await expect(read(text, 2_000)).rejects.toThrow(message);
  await expect(read(text, 2_000)).rejects.toMatchObject({ exit: 65 });
});

test('no file, and no regular one', async () => {
  await expect(readLabels([join(folder(), 'none')], 100)).rejects.toMatchObject({ exit: 65 });
  await expect(readLabels([folder()], 100)).rejects.toMatchObject({ exit: 64 });
});

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

test(`any label comes back as it was written (SEED=${SEED})`, async () => {
  const random = seeded(SEED);
  const below = (most: number): number => Math.floor(random() * most);
  const text = (): string =>
    String.fromCodePoint(...Array.from({ length: below(12) }, () => below(random() < 0.5 ? 128 : 0xd800)));
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  for (let run = 0; run < 60; run++) {
    const made = label({
      ...{ id: text(), by: `x${text()}`, path: pick(['', '/a', `/${text()}`]), note: text() },
      verdict: pick(VERDICTS),
      value: pick([undefined, null, 'deny', 3, { a: [text()] }]),
      ...(random() < 0.5 && { sample: { seed: below(9), size: 1 + below(9), of: below(99), by: text() } }),
    });
    const { all } = await read(labelLine(made));
    expect(all, `run ${run}`).toEqual([JSON.parse(JSON.stringify(made))]);
  }
});

test('the hash is of what was asked and answered, and of nothing else', () => {
  const step = { agent: 'a', output: { ok: 'yes' }, rung: 'clean', attempts: 1, usage: { prompt: 1 } };
  const item = { id: 'x', row: 1, prompt: 'p', input: { a: '1' }, steps: [step], decision: step };
  const same = { ...item, steps: [{ ...step, rung: 'repaired', attempts: 2, calls: ['k'] }], note: 'merged' };
  expect(hashOfJudged(item)).toMatch(/^[0-9a-f]{64}$/);
  expect(hashOfJudged(same)).toBe(hashOfJudged(item));
  const others = [
    { ...item, id: 'y' },
    { ...item, prompt: 'q' },
    { ...item, steps: [] },
    { ...item, decision: { ...step, output: { ok: 'no' } } },
    { ...item, decision: undefined },
    { ...item, ordering: ['a'] },
  ];
  expect(new Set([item, ...others].map(hashOfJudged)).size).toBe(others.length + 1);
  const batch = (id: string, content: string) => ({
    ...{ id, custom_id: 'q', error: null },
    response: { status_code: 200, body: { id, created: 1, choices: [{ message: { content } }] } },
  });
  expect(hashOfJudged(batch('1', 'yes'))).toBe(hashOfJudged(batch('2', 'yes')));
  expect(hashOfJudged(batch('1', 'yes'))).not.toBe(hashOfJudged(batch('1', 'no')));
  expect(hashOfJudged({ a: 1, b: null })).toBe(hashOfJudged({ a: '1', b: '' }));
  expect(hashOfJudged({ a: 1 })).not.toBe(hashOfJudged({ a: 2 }));
  const legacy = {
    prompt_id: 1,
    ordering: 'a',
    initial_prompt: 'p',
    conversation_history: [],
    business_decision: {},
  };
  expect(hashOfJudged(legacy)).not.toBe(hashOfJudged({ ...legacy, business_decision: { a: 1 } }));
  let deep: unknown = 1;
  for (let at = 0; at < 100_000; at++) deep = [deep];
  expect(hashOfJudged({ ...item, input: deep as never })).toBe(null);
});
