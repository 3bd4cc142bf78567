/** Approval by group, against a reference: rates, ratios, differences, what is missing to parity, and how sure all of it is. */
import {
  clusteredDifference,
  clusteredShare,
  clustersOf,
  LEAST,
  partsOf,
  sameRate,
  twoOf,
} from '../kit/agreement.ts';
import { type Interval, pooledZ, type Share, shortfall } from '../kit/statistics.ts';
import { NAMED_IDS } from './answer-counts.ts';
import type { Collected } from './collect.ts';

export interface GroupRow {
  value: string;
  n: number;
  approved: number;
  /** applications, or cells of twins, that these records are of */
  clusters: number;
  rate: Interval | null;
  /** to the reference's rate: adverse impact ratio */
  ratio: Interval | null;
  /** from the reference's rate */
  difference: Interval | null;
  /** pooled z of the two rates; null where records are not independent */
  z: number | null;
  /** of "same rate as the reference": Fisher's exact test, or labels dealt anew among clusters */
  p: number | null;
  /** the same, corrected over all tests of the page; null where it is none of them: small, or twins are tested instead */
  holm: number | null;
  /** approvals missing to the reference's rate */
  shortfall: number | null;
  /** fewer clusters, or a smaller share of records, than can be judged: shown, and no test of the page */
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
  method: 'independent' | 'clusters';
  clusters: number;
}

/** A group is judged from `LEAST` clusters and from such a share of all records on (the small-group rules of audits). */
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
    records,
    ({ groups }) => groups[at] as number,
    ({ state }) => state === 1,
  );
  const count = new Set(records.map(({ cluster }) => cluster)).size;
  const isClustered = count < records.length;
  const total = records.length;
  const rows = values.list.map((value, nth): GroupRow => {
    const share = shares[nth] as Share;
    const other = reference === null || reference === nth ? null : (shares[reference] as Share);
    const two = other === null || reference === null ? null : twoOf(clusters, nth, reference);
    const parts = partsOf(clusters, nth);
    return {
      value,
      n: share.n,
      approved: share.hits,
      clusters: parts.length,
      rate: clusteredShare(parts),
      ...(two ? clusteredDifference(two) : { difference: null, ratio: null }),
      z: isClustered ? null : other && pooledZ(share, other),
      p: two && other && share.n > 0 && other.n > 0 ? sameRate(two) : null,
      holm: null,
      shortfall: other && shortfall(share, other),
      small: isFew(parts.length, share.n, total),
      ids: ids[nth] as GroupRow['ids'],
    };
  });
  rows.sort((a, b) => b.n - a.n || (a.value < b.value ? -1 : 1));
  return {
    column,
    reference: reference === null ? null : (values.list[reference] as string),
    blank,
    rows,
    method: isClustered ? 'clusters' : 'independent',
    clusters: count,
  };
}

/** Whether `clusters` with `n` of `total` records are too few to be judged. */
export const isFew = (clusters: number, n: number, total: number): boolean =>
  clusters < LEAST || n < LEAST_SHARE * total;

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
