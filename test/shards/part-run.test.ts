/** One line in is one line out, in its place; a stage that does otherwise breaks the part. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import _ from 'highland';
import { expect, test } from 'vitest';
import { ItemFailure } from '../../engine/core/item/failure.ts';
import { resolveOptions } from '../../engine/flow/options.ts';
import { type Each, type Stage, stage } from '../../engine/flow/stage.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';
import { type PartOutcome, PartRun } from '../../products/workers/worker/part-run.ts';
import { folder } from '../fw.ts';

const LINES = Array.from({ length: 6 }, (_, n) => JSON.stringify({ id: `i${n}`, prompt: 'p', n: 1.0 }));

function ran(spec: Stage, lines = LINES): Promise<PartOutcome> {
  const base = folder();
  const path = join(base, 'lines.ndjson');
  writeFileSync(path, lines.map(line => `${line}\n`).join(''));
  const options = resolveOptions(optionsOf(spec), {}, (_, message) => {
    throw new Error(message);
  });
  const task = { label: 'w', row: [], files: null, models: [], owner: 'o', weight: 1 };
  const pool = () => {
    throw new Error('asked for a pool');
  };
  return new PartRun({ task, base, row: [{ stage: spec, options }], pool, leave() {} }, path, lines).ended;
}

const each = (work: Each): Stage => stage({ name: 'odd', summary: '', options: {}, each: () => work });

test('each line has its number and what became of it; an untouched one its bytes', async () => {
  const spaced = LINES.map((line, n) => (n === 2 ? line.replace(',', ' , ') : line));
  const { answered, broken } = await ran(
    each(item => (item.id === 'i4' ? { ...item, prompt: 'q' } : item)),
    spaced,
  );
  expect(broken).toBeUndefined();
  expect(answered.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(answered[2]?.line).toBe(spaced[2]);
  expect(JSON.parse(answered[4]?.line ?? '')).toEqual({ id: 'i4', prompt: 'q', n: 1 });
});

test.each<[string, Stage, RegExp]>([
  ['another id', each(item => (item.id === 'i3' ? { ...item, id: 'x' } : item)), /found "x" as number 4/],
  [
    'a line too few',
    stage({ name: 'odd', summary: '', options: {}, through: () => items => items.drop(1) }),
    /in their order, found "i1" as number 1/,
  ],
  [
    'the last one missing',
    stage({ name: 'odd', summary: '', options: {}, through: () => items => items.take(5) }),
    /expected 6 lines, found 5/,
  ],
  [
    'a line too many',
    stage({
      name: 'odd',
      summary: '',
      options: {},
      through: () => items => items.flatMap(item => _([item, item])),
    }),
    /found "i0" as number 2/,
  ],
  [
    'a bug',
    each(() => {
      throw new TypeError('no such thing');
    }),
    /a bug, please report it: TypeError: no such thing/,
  ],
])('%s', async (_what, spec, message) => {
  expect(await ran(spec)).toMatchObject({
    answered: [],
    model: null,
    broken: expect.stringMatching(message),
  });
});

test('what failed as interrupted here is not answered; what came so is', async () => {
  const came = { id: 'i6', prompt: 'p', failure: { stage: 'chain', code: 'interrupted', message: 'x' } };
  const { answered } = await ran(
    each(item => {
      if (item.id === 'i1') throw new ItemFailure('interrupted', 'stopped');
      return item;
    }),
    [...LINES, JSON.stringify(came)],
  );
  expect(answered.map(({ index }) => index)).toEqual([0, 2, 3, 4, 5, 6]);
  expect(JSON.parse(answered.at(-1)?.line ?? '')).toEqual(came);
});
