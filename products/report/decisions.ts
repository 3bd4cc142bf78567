/** What else a decision is made of: who changed it on the way, its numbers, and how it follows risk. */
import { clusteredShare, clustersOf, kolmogorovSmirnov, partsOf, quantile } from '../kit/agreement.ts';
import { clusteredKappa } from '../kit/kappa.ts';
import { distanceSwap, type TwoSamples } from '../kit/permute.ts';
import type { Figure, Interval } from '../kit/statistics.ts';
import type { TurnedIds, Turns } from './answer-counts.ts';
import type { Collected, Seen } from './collect.ts';

export interface TurnRow extends TurnedIds {
  agent: string;
  /** answers that came after another agent's decision */
  n: number;
  /** of those, from approval to no approval, and the other way */
  toNo: number;
  toYes: number;
  toNoRate: Interval | null;
  toYesRate: Interval | null;
  /** agreement with the last decision, over lines in which both are known */
  agreement: { n: number; same: number; kappa: Figure | null } | null;
  groups: { column: string; rows: ({ value: string } & Turns & TurnedIds)[] }[];
}

export function turnRows({ agents, groups }: Collected): TurnRow[] {
  return [...agents.values()].map(({ name, clusters, turned: ids, turnsByGroup }) => {
    const own = [...clusters.values()];
    const turned = (key: keyof Turns): number => own.reduce((sum, { turns }) => sum + turns[key], 0);
    const rate = (key: 'toNo' | 'toYes'): Interval | null =>
      clusteredShare(own.map(({ turns }) => ({ n: turns.n, hits: turns[key] })));
    const tables = own.map(({ withDecision }) => withDecision);
    const same = tables.reduce((sum, [[no], [, yes]]) => sum + no + yes, 0);
    const n = tables.flat(2).reduce((sum, each) => sum + each, 0);
    return {
      agent: name,
      ...ids,
      ...{ n: turned('n'), toNo: turned('toNo'), toYes: turned('toYes') },
      ...{ toNoRate: rate('toNo'), toYesRate: rate('toYes') },
      agreement: n === 0 ? null : { n, same, kappa: clusteredKappa(tables) },
      groups: groups.map(({ column, values }, at) => ({
        column,
        rows: values.list.flatMap((value, nth) => {
          const of = turnsByGroup[at]?.[nth];
          return of === undefined ? [] : [{ value, ...of }];
        }),
      })),
    };
  });
}

export interface NumberRow {
  value: string;
  n: number;
  mean: number;
  quartiles: [number, number, number];
  /** applications, or cells of twins, that these numbers are of */
  clusters: number;
  /**
   * two-sample Kolmogorov-Smirnov against the reference; where records are not independent, p by labels dealt anew among
   * clusters. `holm`: corrected over all tests of the page; null where the group is too small to be one of them
   */
  ks: { d: number; p: number; holm: number | null } | null;
}

export interface NumberTable {
  name: string;
  column: string | null;
  reference: string | null;
  rows: NumberRow[];
  /** of the largest groups: [share, number], from the least to the most, for the curve */
  curves: { value: string; points: [number, number][] }[];
}

const CURVES = 6;
const POINTS = 101;

/** A table for each number of the decisions and each group column, or for all lines where no column was named. */
export function numberTables(collected: Collected, references: readonly (string | null)[]): NumberTable[] {
  const { seen, numbers, groups } = collected;
  return numbers.list.flatMap((name, nth) => {
    const columns = groups.length === 0 ? [-1] : groups.map((_, at) => at);
    return columns.map((at): NumberTable => {
      const column = groups[at];
      const samples = new Map<number, Map<number, number[]>>();
      for (const record of seen) {
        const number = record.numbers[nth];
        const value = at < 0 ? 0 : (record.groups[at] as number);
        if (number === undefined || Number.isNaN(number) || value < 0) continue;
        const clusters = samples.get(value) ?? new Map<number, number[]>();
        samples.set(value, clusters);
        const own = clusters.get(record.cluster);
        if (own === undefined) clusters.set(record.cluster, [number]);
        else own.push(number);
      }
      const sorted = [...samples]
        .map(([value, clusters]) => ({
          value: column === undefined ? 'all' : (column.values.list[value] as string),
          clusters,
          sample: Float64Array.from([...clusters.values()].flat()).sort(),
        }))
        .sort((a, b) => b.sample.length - a.sample.length || (a.value < b.value ? -1 : 1));
      const reference = references[at] ?? null;
      return {
        name,
        column: column?.column ?? null,
        reference,
        rows: numberRows(sorted, reference),
        curves: sorted.slice(0, CURVES).map(({ value, sample }) => ({ value, points: curveOf(sample) })),
      };
    });
  });
}

interface Sample {
  value: string;
  /** of each cluster */
  clusters: Map<number, number[]>;
  sample: Float64Array;
}

function numberRows(sorted: readonly Sample[], reference: string | null): NumberRow[] {
  const base = sorted.find(({ value }) => value === reference);
  return sorted.map((own): NumberRow => {
    const { value, sample, clusters } = own;
    return {
      value,
      n: sample.length,
      clusters: clusters.size,
      mean: sample.reduce((sum, each) => sum + each, 0) / sample.length,
      quartiles: [quantile(sample, 0.25), quantile(sample, 0.5), quantile(sample, 0.75)],
      ks: base === undefined || own === base ? null : distanceOf(own, base),
    };
  });
}

function distanceOf(one: Sample, other: Sample): NumberRow['ks'] {
  const isShared = [...one.clusters.keys()].some(cluster => other.clusters.has(cluster));
  const isSingle = one.sample.length === one.clusters.size && other.sample.length === other.clusters.size;
  if (isSingle && !isShared) {
    const found = kolmogorovSmirnov(one.sample, other.sample);
    return found && { ...found, holm: null };
  }
  const two: TwoSamples[] = [...one.clusters].map(([cluster, own]) => [
    own,
    other.clusters.get(cluster) ?? [],
  ]);
  for (const [cluster, own] of other.clusters) if (!one.clusters.has(cluster)) two.push([[], own]);
  const found = distanceSwap(two);
  return found && { ...found, holm: null };
}

function curveOf(sample: Float64Array): [number, number][] {
  return Array.from({ length: POINTS }, (_, at) => {
    const share = at / (POINTS - 1);
    return [share, quantile(sample, share)];
  });
}

export interface RiskTable {
  column: string;
  /** records without a number there */
  blank: number;
  bands: {
    from: number;
    to: number;
    n: number;
    approved: number;
    rate: Interval | null;
    groups: {
      column: string;
      rows: { value: string; n: number; approved: number; rate: Interval | null }[];
    }[];
  }[];
}

const BANDS = 5;

/** Approval by fifths of a number; values that are alike stay in one band, so there may be fewer. */
export function riskTable({ seen, groups, asked }: Collected): RiskTable | null {
  if (asked.risk === undefined) return null;
  const trusted = seen.filter(({ state }) => state >= 0);
  const known = trusted.filter(({ risk }) => Number.isFinite(risk)).sort((a, b) => a.risk - b.risk);
  const sorted = known.map(({ risk }) => risk);
  const cuts = Array.from({ length: BANDS - 1 }, (_, at) => quantile(sorted, (at + 1) / BANDS));
  const bands = [...new Set(cuts)].concat(Number.POSITIVE_INFINITY).map((to, at, all) => {
    const from = at === 0 ? Number.NEGATIVE_INFINITY : (all[at - 1] as number);
    return known.filter(({ risk }) => risk > from && risk <= to);
  });
  return {
    column: asked.risk,
    blank: trusted.length - known.length,
    bands: bands
      .filter(band => band.length > 0)
      .map(band => ({
        from: band[0]?.risk as number,
        to: band.at(-1)?.risk as number,
        ...rateOf(band),
        groups: groups.map(({ column, values }, at) => ({
          column,
          rows: [...byValue(band, at)].map(([nth, own]) => ({
            value: values.list[nth] as string,
            ...rateOf(own),
          })),
        })),
      })),
  };
}

function byValue(band: readonly Seen[], at: number): Map<number, Seen[]> {
  const found = new Map<number, Seen[]>();
  for (const record of band) {
    const value = record.groups[at] as number;
    if (value < 0) continue;
    const own = found.get(value);
    if (own === undefined) found.set(value, [record]);
    else own.push(record);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

function rateOf(records: readonly Seen[]): { n: number; approved: number; rate: Interval | null } {
  const clusters = clustersOf(
    records,
    () => 0,
    ({ state }) => state === 1,
  );
  const approved = records.filter(({ state }) => state === 1).length;
  return { n: records.length, approved, rate: clusteredShare(partsOf(clusters, 0)) };
}
