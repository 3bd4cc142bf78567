/** A difference that turns round within strata is said, with its figures; one that does not, or that noise would turn, is not. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ACCEPTED } from '../../engine/core/item/item.ts';
import { seeded } from '../../products/kit/permute.ts';
import { createCollector } from '../../products/report/collect.ts';
import { observe } from '../../products/report/observe.ts';
import { withinStrata } from '../../products/report/reversal.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

type Row = { [column: string]: string | number };

/** The rows as the report sees them, and what is found within strata. */
function withinOf(rows: readonly Row[], more: { groups?: string[]; twins?: string[]; risk?: string }) {
  const asked = { groups: ['g'], twins: [], outcome: 'ok', approve: 'yes', ...more };
  const { add, collected } = createCollector(asked, new Set(ACCEPTED));
  for (const [nth, row] of rows.entries()) add(observe(row, asked, `t:${nth}`, undefined, 'row'));
  return withinStrata(
    collected,
    asked.groups.map(column => (column === 'g' ? 'a' : null)),
  );
}

const times = (n: number, row: Row): Row[] => Array.from({ length: n }, () => row);
const share = (of: Row, yes: number, no: number): Row[] => [
  ...times(yes, { ...of, ok: 'yes' }),
  ...times(no, { ...of, ok: 'no' }),
];

/** Kidney stones (Charig et al. 1986): small 81/87 against 234/270, large 192/263 against 55/80. */
const STONES = [
  ...share({ g: 'open', stones: 'small', size: 1 }, 81, 6),
  ...share({ g: 'a', stones: 'small', size: 1 }, 234, 36),
  ...share({ g: 'open', stones: 'large', size: 2 }, 192, 71),
  ...share({ g: 'a', stones: 'large', size: 2 }, 55, 25),
];

test('within strata the difference is the mean of theirs by n1 n0 / (n1 + n0)', () => {
  const [row] = withinOf(STONES, { groups: ['g', 'stones'] });
  const weights = [(87 * 270) / 357, (263 * 80) / 343] as const;
  const differences = [81 / 87 - 234 / 270, 192 / 263 - 55 / 80] as const;
  const expected = (weights[0] * differences[0] + weights[1] * differences[1]) / (weights[0] + weights[1]);
  expect(row?.whole.value).toBeCloseTo(273 / 350 - 289 / 350, 12);
  expect(row?.within.value).toBeCloseTo(expected, 12);
  // of numpy: least squares on the group and the stones, sandwich error with the factor 700/699; scipy's t of 699
  expect((row?.within.high ?? 0) - (row?.within.low ?? 0)).toBeCloseTo(
    2 * 1.9633635759209036 * 0.033375037800624,
    9,
  );
  expect([row?.strata, row?.against, row?.used, row?.of]).toEqual([2, 2, 700, 700]);
  // 700 records are too few to be sure of 5 points; ten times as many are not
  expect(row?.reversed).toBe(false);
  const many = withinOf(
    STONES.flatMap(row => times(20, row)),
    { groups: ['g', 'stones'] },
  );
  expect(many.filter(({ column }) => column === 'g').map(({ reversed }) => reversed)).toEqual([true]);
});

/** Group b has the higher risk; approval falls with risk, and b gets `effect` more at the same risk. */
function confounded(seed: number, { n = 1200, slope = -1, effect = 0.22, lean = 0.6 }): Row[] {
  const random = seeded(seed);
  return Array.from({ length: n }, () => {
    const isB = random() < 0.5;
    const risk = (random() + (isB ? lean : 0)) / (1 + lean);
    const p = Math.min(0.98, Math.max(0.02, 0.85 + slope * risk + (isB ? effect : 0)));
    const ok = random() < p ? 'yes' : 'no';
    return { g: isB ? 'b' : 'a', r: risk, ok };
  });
}

test.each([1, 2, 3])('by fifths of risk, %i: said where it turns round, with the right sign', seed => {
  const [row] = withinOf(confounded(seed, {}), { risk: 'r' });
  expect(row?.whole.value).toBeLessThan(0);
  expect(row?.within.value).toBeGreaterThan(0);
  expect(row?.reversed).toBe(true);
});

describe('noise turns nothing round', () => {
  const studies = runs(40, 600);
  test.each([
    ['no effect at all', { effect: 0, slope: 0, lean: 0 }],
    ['a difference that is the risk alone', { effect: 0, slope: -0.5, lean: 0.5 }],
    ['a difference that is there within strata too', { effect: -0.2, slope: -0.3, lean: 0.3 }],
  ])('%s', (_, of) => {
    let said = 0;
    for (let seed = 1; seed <= studies; seed++)
      said += withinOf(confounded(seed, { n: 300, ...of }), { risk: 'r' }).some(({ reversed }) => reversed)
        ? 1
        : 0;
    expect(said / studies).toBeLessThanOrEqual(0.05);
  });
});

test('twelve orders of an application are one application', () => {
  const cells = confounded(5, { n: 300 }).flatMap((row, nth) =>
    Array.from({ length: 12 }, () => ({ ...row, cell: nth })),
  );
  const [alone] = withinOf(confounded(5, { n: 300 }), { risk: 'r' });
  const [clustered] = withinOf(cells, { risk: 'r', twins: ['cell'] });
  const width = (row: typeof alone): number => (row ? row.within.high - row.within.low : 0);
  // a cell has one group here, and is no stratum
  expect(width(clustered)).toBeCloseTo(width(alone), 6);
});

test.each([
  ['one stratum', STONES.filter(({ stones }) => stones === 'small')],
  ['few of one group', [...share({ g: 'a', stones: 's' }, 50, 50), ...share({ g: 'b', stones: 'l' }, 5, 5)]],
  [
    'strata with one group each',
    [...share({ g: 'a', stones: 's' }, 50, 50), ...share({ g: 'b', stones: 'l' }, 50, 50)],
  ],
  ['nobody', []],
])('%s: nothing is compared', (_, rows) => {
  expect(withinOf(rows, { groups: ['g', 'stones'] }).filter(({ column }) => column === 'g')).toEqual([]);
});

test('everybody of a stratum decided alike: a difference without spread is no surer than its clusters', () => {
  const rows = [
    ...share({ g: 'a', stones: 's' }, 0, 90),
    ...share({ g: 'b', stones: 's' }, 10, 0),
    ...share({ g: 'a', stones: 'l' }, 0, 10),
    ...share({ g: 'b', stones: 'l' }, 90, 0),
  ];
  const [row] = withinOf(rows, { groups: ['g', 'stones'] });
  expect([row?.whole.value, row?.within.value, row?.reversed]).toEqual([1, 1, false]);
  expect(row?.within.low).toBeLessThan(1);
});

test('the page says it in words, above all figures, and --json has it', async () => {
  const at = folder();
  const rows = confounded(9, {});
  writeFileSync(join(at, 't.csv'), `g,r,ok\n${rows.map(({ g, r, ok }) => `${g},${r},${ok}`).join('\n')}\n`);
  const line = 'fw report t.csv --outcome ok --approve yes --group g --risk r --reference a';
  const { stdout: json } = await fw(`${line} --json`, { cwd: at });
  const { within, notes } = JSON.parse(json);
  expect(within).toHaveLength(1);
  expect(notes.join()).toMatch(
    /g b against a turns round within strata \(Simpson's paradox\): in the whole \d+\.\d points less .* among records of the same fifth of r \d+\.\d points more/,
  );
  const { stdout: page } = await fw(line, { cwd: at });
  expect(page.indexOf('turns round within strata')).toBeGreaterThan(0);
  expect(page.indexOf('turns round within strata')).toBeLessThan(page.indexOf('<h2>Integrity'));
  expect(page).toContain('1 of 1 differences turn round within strata');
});
