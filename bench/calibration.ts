/**
 * Whether the report's intervals and tests keep their word: `make calibration`, some minutes. One simulated agent judges
 * the whole grid of applications, 480 cells of twelve names, with SEEDS seeds (200); each run goes through the code of
 * `fw report` from the item on. Prints the table of docs/report.md.
 */

import { ACCEPTED, type Item } from '../engine/item/item.ts';
import { drawsOf, PURPOSE, sha256 } from '../engine/simulator/random.ts';
import { approvalChance, studyWishes } from '../engine/simulator/study.ts';
import { createCollector } from '../engine/study/collect.ts';
import { observe } from '../engine/study/observe.ts';
import { type Report, reportOf } from '../engine/study/report.ts';
import { wilson } from '../engine/study/statistics.ts';

process.argv.length = 1; // in one file with this, the generator would take itself for the program
const { applications, COLUMNS } = await import('../fixtures/applications.ts');

const SEEDS = Number(process.env.SEEDS || 200);
const SYSTEM = 'You are the risk manager of a lender. "approval_decision" is one of your keys.';
const NAMES = new Set(['approval_decision']);
const TWINS = ['credit_score', 'visa_status', 'income', 'age', 'loan_amount'];
const SHIFT = -0.1;

const rows = [...applications()];
const names = [...new Set(rows.map(({ name }) => name))];
const [reference, biased] = [names[0], names[1]] as [string, string];
const bias = [{ column: 'name', value: biased, shift: SHIFT }];
const inputs = rows.map(row => Object.fromEntries(COLUMNS.map(column => [column, row[column]])));
const hashes = rows.map(({ prompt }) => sha256(prompt));
const chances = rows.map(({ prompt }) => approvalChance({ system: SYSTEM, user: prompt }));

/** What the bias takes from the rate of that name in truth: a chance below 10 % cannot lose 10 points. */
const truth = ((): number => {
  const own = chances.filter((_, at) => rows[at]?.name === biased);
  return own.reduce((sum, chance) => sum + Math.max(0, chance + SHIFT) - chance, 0) / own.length;
})();

interface Planted {
  bias: boolean;
  /** how often the parser fails for the biased name, and for the others */
  fails: [number, number];
}

function run(seed: number, { bias: isBiased, fails }: Planted): Report {
  const asked = { groups: ['name'], outcome: 'approval_decision', approve: 'approve', twins: TWINS };
  const { add, collected } = createCollector(asked, new Set(ACCEPTED));
  const draws = drawsOf(seed);
  for (const [at, row] of rows.entries()) {
    const random = draws(hashes[at] as Buffer, PURPOSE.answer);
    const conversation = { system: SYSTEM, user: row.prompt };
    const decision = studyWishes(NAMES, conversation, random, isBiased ? bias : []).get('approval_decision');
    const isLost = random() < (row.name === biased ? fails[0] : fails[1]);
    const step = {
      agent: 'risk_manager',
      saw: 'clean',
      repairs: [],
      calls: [],
      attempts: 1,
      usage: { prompt: 1, completion: 1 },
    };
    const item = {
      id: `r${at}`,
      row: at + 1,
      input: inputs[at],
      prompt: row.prompt,
      steps: [
        isLost
          ? { ...step, rung: 'failed' }
          : { ...step, rung: 'clean', output: { approval_decision: decision } },
      ],
    } as unknown as Item;
    const failure = { stage: 'chain', code: 'no-valid-answer', message: '' } as const;
    add(observe({ ...item }, asked, '', isLost ? failure : undefined));
  }
  return reportOf(collected, {
    version: '',
    files: [],
    references: [reference],
    accept: ACCEPTED,
    notes: [],
  });
}

const hits: { [what: string]: number } = {};
const tried: { [what: string]: number } = {};
function note(what: string, isHit: boolean): void {
  tried[what] = (tried[what] ?? 0) + 1;
  hits[what] = (hits[what] ?? 0) + (isHit ? 1 : 0);
}

const WORDS = {
  twins: `the interval of twins holds the true difference (${(truth * 100).toFixed(2)} points)`,
  rates: 'the interval of the two rates holds it',
  found: 'the biased name is found (Holm, 0.05)',
  nullTwins: 'no bias: the interval of twins holds 0, each of eleven names',
  falseTwins: 'no bias: any of eleven names is "found" between twins',
  falseRates: 'no bias: any of eleven names is "found" among rates',
  parser: 'a parser that fails for 8 % of one name, 3 % of the others, is found',
  falseParser: 'a parser that fails for 3 % of all: any name is "found"',
};

const began = Date.now();
for (let seed = 1; seed <= SEEDS; seed++) {
  const within = (interval: { low: number; high: number } | null | undefined, value: number): boolean =>
    interval !== null && interval !== undefined && interval.low <= value && value <= interval.high;
  const planted = run(seed, { bias: true, fails: [0, 0] });
  const twin = planted.twins[0]?.rows.find(({ value }) => value === biased);
  note('twins', within(twin?.net, truth));
  note('rates', within(planted.groups[0]?.rows.find(({ value }) => value === biased)?.difference, truth));
  note('found', (twin?.holm ?? 1) < 0.05);
  const none = run(seed, { bias: false, fails: [0.03, 0.03] });
  for (const { net } of none.twins[0]?.rows ?? []) note('nullTwins', within(net, 0));
  note(
    'falseTwins',
    (none.twins[0]?.rows ?? []).some(({ holm }) => holm < 0.05),
  );
  note(
    'falseRates',
    (none.groups[0]?.rows ?? []).some(({ holm }) => holm !== null && holm < 0.05),
  );
  const lost = (report: Report): string[] =>
    (report.integrity.groups[0]?.rows ?? [])
      .filter(({ tests }) => (tests['left-out']?.holm ?? 1) < 0.05)
      .map(({ value }) => value);
  note('falseParser', lost(none).length > 0);
  note('parser', lost(run(seed, { bias: false, fails: [0.08, 0.03] })).includes(biased));
}

const wanted: { [what: string]: string } = {
  twins: '95 % ± 3',
  rates: '95 % ± 3',
  found: '',
  nullTwins: '95 % ± 3',
  falseTwins: 'at most 5 %',
  falseRates: 'at most 5 %',
  parser: '',
  falseParser: 'at most 5 %',
};
const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
console.log('| what | of | share | 95 % interval | wanted |\n| --- | ---: | ---: | ---: | --- |');
for (const [what, words] of Object.entries(WORDS)) {
  const share = wilson({ n: tried[what] ?? 0, hits: hits[what] ?? 0 });
  if (share)
    console.log(
      `| ${words} | ${tried[what]} | ${percent(share.value)} | ${percent(share.low)} to ${percent(share.high)} | ${wanted[what]} |`,
    );
}
console.error(
  `${SEEDS} seeds, ${rows.length} applications each, ${Math.round((Date.now() - began) / 1000)} s`,
);
