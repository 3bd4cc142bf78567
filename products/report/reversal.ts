/**
 * Whether a difference of groups turns round within strata (Simpson's paradox): in the whole a group is approved less, and
 * among those of the same risk, or of the same other group, more. The difference in the whole is that of the rates; the
 * difference within strata is what a regression on the group and on an intercept for each stratum gives, the mean of the
 * strata's differences with weights n1·n0/(n1 + n0) (those of Mantel and Haenszel 1959; the within estimator). Its error
 * is robust to clusters (Liang and Zeger 1986), with a factor C/(C − 1).
 */
import { clustersOf, LEAST, partsOf, quantile } from '../kit/agreement.ts';
import { points } from '../kit/html.ts';
import type { Interval } from '../kit/statistics.ts';
import { studentQuantile } from '../kit/statistics.ts';
import type { Collected, Seen } from './collect.ts';
import { isFew } from './groups.ts';

export interface Within {
  column: string;
  value: string;
  reference: string;
  /** what records of one stratum share: fifths of a number, the cell of twins, another group */
  by: { kind: 'risk' | 'twins' | 'group'; column: string };
  /** approval of `value` less that of the reference, in the whole, of the records that have a stratum */
  whole: Interval;
  /** the same among records of one stratum */
  within: Interval;
  /** strata with both groups in them, and how many of these have the sign that the whole has not */
  strata: number;
  against: number;
  /** records in such strata, of all that are compared */
  used: number;
  of: number;
  /** both intervals are on their own side of 0 */
  reversed: boolean;
}

const BANDS = 5;
/** Strata of another group; beyond that it is a column of ids. */
const MOST_STRATA = 100;

/**
 * Each group that is judged, by each way to part the records. Intervals are of 95 % for all of them together (Bonferroni
 * over the rows), so that noise turns no difference round on a page of many groups.
 */
export function withinStrata(collected: Collected, references: readonly (string | null)[]): Within[] {
  const trusted = collected.seen.filter(({ state }) => state >= 0);
  const found = collected.groups.flatMap(({ column, values }, at) => {
    const reference = values.list.indexOf(references[at] ?? '');
    if (reference < 0) return [];
    const known = trusted.filter(({ groups }) => (groups[at] as number) >= 0);
    const clusters = clustersOf(
      known,
      ({ groups }) => groups[at] as number,
      () => true,
    );
    const isLarge = (value: number): boolean => {
      const parts = partsOf(clusters, value);
      return !isFew(
        parts.length,
        parts.reduce((sum, { n }) => sum + n, 0),
        known.length,
      );
    };
    if (!isLarge(reference)) return [];
    const judged = values.list.flatMap((_, value) => (value !== reference && isLarge(value) ? [value] : []));
    return waysToPart(collected, at, known).flatMap(({ by, stratumOf }) =>
      judged.flatMap(value => {
        const records = known.flatMap((record): Parted[] => {
          const group = record.groups[at] as number;
          const stratum = group === value || group === reference ? stratumOf(record) : -1;
          return stratum < 0
            ? []
            : [{ stratum, isGroup: group === value, state: record.state, cluster: record.cluster }];
        });
        const made = compare(records);
        const names = {
          column,
          value: values.list[value] as string,
          reference: values.list[reference] as string,
        };
        return made === null ? [] : [{ ...names, by, ...made }];
      }),
    );
  });
  const above = 0.025 / Math.max(1, found.length);
  return found.map(({ whole, within, ...more }): Within => {
    const [all, inside] = [interval(whole, above), interval(within, above)];
    const reversed = (all.low > 0 && inside.high < 0) || (all.high < 0 && inside.low > 0);
    return { ...more, whole: all, within: inside, reversed };
  });
}

interface Parted {
  stratum: number;
  isGroup: boolean;
  state: number;
  cluster: number;
}

interface Estimate {
  value: number;
  error: number;
  clusters: number;
}

function interval({ value, error, clusters }: Estimate, above: number): Interval {
  const half = studentQuantile(above, clusters - 1) * error;
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

interface Estimated extends Pick<Within, 'strata' | 'against' | 'used' | 'of'> {
  whole: Estimate;
  within: Estimate;
}

interface Parting {
  by: Within['by'];
  /** −1: none */
  stratumOf(record: Seen): number;
}

/** By fifths of the risk, by the cells of twins, and by each other group column. */
function waysToPart({ asked, groups, cells }: Collected, at: number, known: readonly Seen[]): Parting[] {
  const ways: Parting[] = [];
  if (asked.risk !== undefined) {
    const sorted = Float64Array.from(known.map(({ risk }) => risk).filter(Number.isFinite)).sort();
    const cuts = Array.from({ length: BANDS - 1 }, (_, nth) => quantile(sorted, (nth + 1) / BANDS));
    ways.push({
      by: { kind: 'risk', column: asked.risk },
      stratumOf: ({ risk }) => (Number.isFinite(risk) ? cuts.filter(cut => risk > cut).length : -1),
    });
  }
  if (cells.list.length > 1)
    ways.push({ by: { kind: 'twins', column: asked.twins.join(', ') }, stratumOf: ({ cell }) => cell });
  for (const [nth, { column, values }] of groups.entries())
    if (nth !== at && values.list.length > 1 && values.list.length <= MOST_STRATA)
      ways.push({ by: { kind: 'group', column }, stratumOf: record => record.groups[nth] as number });
  return ways;
}

/** Null where too little of it can be compared, or nothing varies. */
function compare(records: readonly Parted[]): Estimated | null {
  const strata = new Map<number, [none: Side, group: Side]>();
  for (const { stratum, isGroup, state } of records) {
    const sides = strata.get(stratum) ?? [side(), side()];
    strata.set(stratum, sides);
    const own = sides[isGroup ? 1 : 0];
    own.n += 1;
    own.hits += state;
  }
  const both = new Set([...strata].filter(([, [a, b]]) => a.n > 0 && b.n > 0).map(([stratum]) => stratum));
  const used = records.filter(({ stratum }) => both.has(stratum));
  for (const isGroup of [true, false]) {
    const own = used.filter(record => record.isGroup === isGroup);
    if (new Set(own.map(({ cluster }) => cluster)).size < LEAST) return null;
  }
  const whole = within(records.map(record => ({ ...record, stratum: 0 })));
  const inside = within(used);
  if (both.size < 2 || whole === null || inside === null) return null;
  const sign = Math.sign(whole.value);
  const against = [...both].filter(stratum => {
    const [a, b] = strata.get(stratum) as [Side, Side];
    return sign !== 0 && Math.sign(b.hits / b.n - a.hits / a.n) === -sign;
  }).length;
  return { whole, within: inside, strata: both.size, against, used: used.length, of: records.length };
}

interface Side {
  n: number;
  hits: number;
}
const side = (): Side => ({ n: 0, hits: 0 });

/** The slope of the state on the group, both less their means in the stratum, and its error by clusters. */
function within(records: readonly Parted[]): Estimate | null {
  const sums = new Map<number, { n: number; groups: number; states: number }>();
  for (const { stratum, isGroup, state } of records) {
    const own = sums.get(stratum) ?? { n: 0, groups: 0, states: 0 };
    sums.set(stratum, own);
    own.n += 1;
    own.groups += isGroup ? 1 : 0;
    own.states += state;
  }
  const centred = records.map(({ stratum, isGroup, state, cluster }) => {
    const { n, groups, states } = sums.get(stratum) as { n: number; groups: number; states: number };
    return { x: (isGroup ? 1 : 0) - groups / n, y: state - states / n, cluster };
  });
  const squares = centred.reduce((sum, { x }) => sum + x * x, 0);
  if (squares < 1e-9) return null;
  const value = centred.reduce((sum, { x, y }) => sum + x * y, 0) / squares;
  const scores = new Map<number, number>();
  for (const { x, y, cluster } of centred)
    scores.set(cluster, (scores.get(cluster) ?? 0) + x * (y - value * x));
  const clusters = scores.size;
  const sum = [...scores.values()].reduce((all, score) => all + score * score, 0);
  const error = Math.sqrt((clusters / Math.max(1, clusters - 1)) * sum) / squares;
  // clusters without any spread are not surer than one of them that decided otherwise
  return { value, error: Math.max(error, 1 / clusters), clusters };
}

/** Each reversal as a sentence. */
export function reversalNotes(rows: readonly Within[]): string[] {
  const more = (value: number): string =>
    `${Math.abs(value * 100).toFixed(1)} points ${value < 0 ? 'less' : 'more'}`;
  const ends = ({ low, high }: Interval): string => `${points(low)} to ${points(high)}`;
  return rows
    .filter(({ reversed }) => reversed)
    .map(({ column, value, reference, by, whole, within: inside, strata, against }) => {
      const alike = {
        risk: `of the same fifth of ${by.column}`,
        twins: 'of the same cell of twins',
        group: `with the same ${by.column}`,
      }[by.kind];
      return `${column} ${value} against ${reference} turns round within strata (Simpson's paradox): in the whole ${more(whole.value)} (${ends(whole)}), among records ${alike} ${more(inside.value)} (${ends(inside)}), and in ${against} of ${strata} such strata. The two groups are not spread alike over them`;
    });
}
