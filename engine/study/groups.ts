/** Approval by group, against a reference: rates, ratios, differences, what is missing to parity, and how sure all of it is. */
import { type Clustered, clusteredFigures, clustersOf } from './clusters.ts';
import { type Collected, NAMED_IDS } from './collect.ts';
import {
  fisher,
  holm,
  type Interval,
  pooledZ,
  rateDifference,
  rateRatio,
  type Share,
  shortfall,
  wilson,
} from './statistics.ts';

export interface GroupRow {
  value: string;
  n: number;
  approved: number;
  rate: Interval | null;
  /** to the reference's rate: adverse impact ratio */
  ratio: Interval | null;
  /** from the reference's rate */
  difference: Interval | null;
  /** pooled z of the two rates, as if all records were independent */
  z: number | null;
  /** of "same rate as the reference" */
  p: number | null;
  /** the same, corrected by Holm over the rows of this column that are judged */
  holm: number | null;
  /** approvals missing to the reference's rate */
  shortfall: number | null;
  /** fewer records than can be judged: shown, and no test of the family */
  small: boolean;
  ids: { approved: string[]; others: string[] };
}

export interface GroupTable {
  column: string;
  reference: string | null;
  /** records whose column is blank, and that are in no row */
  blank: number;
  rows: GroupRow[];
  /** how p and the intervals were had */
  method: 'independent' | 'cluster-bootstrap' | 'cluster-robust';
  clusters: number;
  tests: number;
}

/** A group is judged from so many records and from such a share of all on (the small-group rules of audits: n, 2 %). */
export const LEAST = 30;
export const LEAST_SHARE = 0.02;

export function groupTable(collected: Collected, at: number, wanted: string | undefined): GroupTable {
  const { column, values, blank } = collected.groups[at] as Collected['groups'][number];
  const records = collected.seen.filter(({ state, groups }) => state >= 0 && (groups[at] as number) >= 0);
  const shares: Share[] = values.list.map(() => ({ n: 0, hits: 0 }));
  const ids = values.list.map(() => ({ approved: [] as string[], others: [] as string[] }));
  for (const { groups, state, id } of records) {
    const value = groups[at] as number;
    const share = shares[value] as Share;
    share.n += 1;
    share.hits += state;
    const named = ids[value]?.[state === 1 ? 'approved' : 'others'] as string[];
    if (named.length < NAMED_IDS) named.push(id);
  }
  const reference = referenceIn(values.list, shares, wanted);
  const clusters = clustersOf(
    records.map(({ cluster, groups, state }) => ({ cluster, value: groups[at] as number, state })),
  );
  const isClustered = reference !== null && clusters.size < records.length;
  const clustered: Clustered | null = isClustered ? clusteredFigures(clusters, shares, reference) : null;
  const total = records.length;
  const rows = values.list.map((value, nth): GroupRow => {
    const share = shares[nth] as Share;
    const other = reference === null || reference === nth ? null : (shares[reference] as Share);
    const more = clustered?.figures[nth];
    const isSmall = share.n < LEAST || share.n < LEAST_SHARE * total;
    const difference = other && (more ? more.difference : rateDifference(share, other));
    return {
      value,
      n: share.n,
      approved: share.hits,
      rate: more ? more.rate : wilson(share),
      ratio: other && (more ? more.ratio : rateRatio(share, other)),
      difference,
      z: other && pooledZ(share, other),
      p: other && share.n > 0 && other.n > 0 ? (more ? more.p : fisher(share, other)) : null,
      holm: null,
      shortfall: other && shortfall(share, other),
      small: isSmall,
      ids: ids[nth] as GroupRow['ids'],
    };
  });
  const judged = rows.filter(({ p, small }) => p !== null && !small);
  for (const [nth, p] of holm(judged.map(row => row.p as number)).entries())
    (judged[nth] as GroupRow).holm = p;
  rows.sort((a, b) => b.n - a.n || (a.value < b.value ? -1 : 1));
  return {
    column,
    reference: reference === null ? null : (values.list[reference] as string),
    blank,
    rows,
    method: clustered?.method ?? 'independent',
    clusters: clusters.size,
    tests: judged.length,
  };
}

/** The reference that was named, where this column has it; else the largest group, of equal ones the first by name. */
function referenceIn(values: readonly string[], shares: readonly Share[], wanted?: string): number | null {
  if (wanted !== undefined && values.includes(wanted)) return values.indexOf(wanted);
  let best: number | null = null;
  for (const [at, { n }] of shares.entries()) {
    const most = best === null ? 0 : (shares[best] as Share).n;
    if (
      n > most ||
      (n === most && n > 0 && best !== null && (values[at] as string) < (values[best] as string))
    )
      best = at;
  }
  return best;
}
