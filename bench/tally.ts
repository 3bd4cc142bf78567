/** What is counted of made-up studies: which tests reject, and which intervals hold what is true. */

import { type Figure, holm, type Interval, type Share } from '../products/kit/statistics.ts';
import { compareAll } from '../products/report/compare-runs.ts';
import { type Report, reportOf } from '../products/report/report.ts';
import { type Design, studyOf, truthOf } from './studies.ts';

const BASE: Design = {
  ...{ cells: 40, groups: 3, names: 1, orders: 6, samples: 1 },
  ...{ twins: true, shift: 0, middle: 0.4 },
};

/** The studies of docs/report.md. */
export const DESIGNS: { [name: string]: { design: Design; studies: number } } = {
  '40 × 3 × 6': { design: BASE, studies: 1000 },
  '40 × 12 × 12': { design: { ...BASE, groups: 12, orders: 12 }, studies: 300 },
  '4 names a group': { design: { ...BASE, names: 4, orders: 12 }, studies: 150 },
  '3 samples': { design: { ...BASE, orders: 3, samples: 3 }, studies: 300 },
  '95 % approved': { design: { ...BASE, orders: 2, middle: 4 }, studies: 300 },
  'no twins': { design: { ...BASE, twins: false }, studies: 300 },
  '3 cells': { design: { ...BASE, cells: 3, orders: 12 }, studies: 500 },
  '5 cells': { design: { ...BASE, cells: 5, orders: 12 }, studies: 500 },
  '10 cells': { design: { ...BASE, cells: 10, orders: 12 }, studies: 500 },
  '20 cells': { design: { ...BASE, cells: 20, orders: 12 }, studies: 500 },
  '+11.4 points': { design: { ...BASE, shift: 0.7 }, studies: 300 },
  '+15.9 points': { design: { ...BASE, shift: 1 }, studies: 300 },
};

export interface Tally {
  rejections: Map<string, Share>;
  coverage: Map<string, Share>;
}

export const createTally = (): Tally => ({ rejections: new Map(), coverage: new Map() });

function note(into: Map<string, Share>, what: string, isHit: boolean): void {
  const known = into.get(what) ?? { n: 0, hits: 0 };
  known.n += 1;
  known.hits += isHit ? 1 : 0;
  into.set(what, known);
}

/** One study, and the same asked again. */
export function measure(design: Design, seed: number, { rejections, coverage }: Tally): Report {
  const truth = truthCached(design);
  const collected = studyOf(design, seed);
  const report = reportOf(collected, {
    ...{ version: '', files: [], references: ['group 0'], accept: ['clean', 'repaired'], notes: [] },
  });
  const test = (what: string, ps: readonly (number | null | undefined)[]): void => {
    const known = ps.filter(p => p !== null && p !== undefined);
    if (known.length === 0) return;
    note(
      rejections,
      what,
      holm(known).some(p => p < 0.05),
    );
  };
  const holds = (what: string, interval: Figure | null | undefined, value: number): void => {
    if (!interval || interval.low === null || interval.high === null) return;
    note(coverage, what, interval.low <= value + 1e-12 && value - 1e-12 <= interval.high);
  };
  const last = `group ${design.groups - 1}`;
  const of = (value: string): number => (value === last ? truth.shifted : truth.rate);
  const groups = report.groups[0]?.rows ?? [];
  const twins = report.twins[0]?.rows ?? [];
  test(
    'groups',
    groups.map(({ p }) => p),
  );
  test(
    'twins',
    twins.map(({ p }) => p),
  );
  test(
    'twins, each order alone',
    twins.flatMap(({ orders }) => orders.map(({ p }) => p)),
  );
  test('the order', [report.orders?.test?.p]);
  const fates = report.integrity.groups.flatMap(({ rows }) => rows.flatMap(row => Object.values(row.tests)));
  test(
    'integrity',
    fates.map(row => row?.p),
  );
  test(
    'numbers',
    report.numbers.flatMap(({ rows }) => rows.map(({ ks }) => ks?.p)),
  );
  note(rejections, 'the page: any finding', report.family.findings.length > 0);
  if (design.shift !== 0)
    note(
      rejections,
      'the page: that group is a finding',
      report.family.findings.some(each => each.what.includes(last) && each.section === 'groups'),
    );

  for (const { value, rate, difference, ratio } of groups) {
    holds('rate of a group', rate, of(value));
    holds('difference of groups', difference, of(value) - truth.rate);
    holds('ratio of groups', ratio, of(value) / truth.rate);
  }
  for (const { value, net, flips, aboveNoise } of twins) {
    const own = value === last ? truth.shiftedFlips : truth.flips;
    holds('difference of twins', net, of(value) - truth.rate);
    holds('twins that differ', flips, own);
    holds('twins that differ, above noise', aboveNoise, own - truth.noise);
  }
  holds('noise floor', report.noise.rate, truth.noise);
  holds('rate of all', report.level.rate, truth.level);
  for (const { rate } of report.orders?.rows ?? []) holds('rate of an order', rate, truth.level);
  holds('the same in all orders', report.orders?.sameRate, truth.same);
  holds('trusted', report.integrity.trustedRate, truth.trusted);
  for (const { trustedRate } of report.integrity.groups[0]?.rows ?? [])
    holds('trusted, of a group', trustedRate, truth.trusted);
  for (const { rate, groups: own } of report.risk?.bands ?? []) {
    holds('rate of a fifth of risk', rate, truth.level);
    for (const row of own[0]?.rows ?? [])
      holds('rate of a fifth of risk, of a group', row.rate, of(row.value));
  }
  // of this table the intervals are of 95 % together
  const isIn = ({ low, high }: Interval, value: number): boolean => low <= value && value <= high;
  if (report.within.length > 0) {
    const all = report.within.flatMap(({ value, whole, within }) => {
      const apart = of(value) - truth.rate;
      return [isIn(whole, apart), isIn(within, apart)];
    });
    note(coverage, 'differences within strata, all of the table', !all.includes(false));
    note(
      rejections,
      'a difference turns round',
      report.within.some(({ reversed }) => reversed),
    );
  }
  for (const { toNoRate, agreement } of report.turns) {
    holds('decisions turned by an agent', toNoRate, truth.noise / 2);
    if (agreement) holds('kappa of an agent and the decision', agreement.kappa, truth.kappa);
  }
  const again = studyOf(design, seed, 1);
  const [compared] = compareAll({ name: 'a', collected }, [{ name: 'b', collected: again }], 0.1);
  test('compare: approval', [compared?.p]);
  test('compare: numbers', compared?.numbers.map(({ ks }) => ks.p) ?? []);
  holds('compare: agreement', compared?.agreement, 1 - truth.noise);
  holds('compare: kappa', compared?.kappa, truth.kappa);
  holds('compare: difference', compared?.difference, 0);
  return report;
}

const truths = new Map<Design, ReturnType<typeof truthOf>>();
function truthCached(design: Design): ReturnType<typeof truthOf> {
  const known = truths.get(design) ?? truthOf(design);
  truths.set(design, known);
  return known;
}
