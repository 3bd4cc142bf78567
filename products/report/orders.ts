/** Whether the order of the agents changes decisions: the same application, judged in several orders. */
import {
  addTo,
  type Clusters,
  clusteredShare,
  cochranQ,
  LEAST,
  partsOf,
  repeatedMeasures,
} from '../kit/agreement.ts';
import { emptyTable, kappa, type TwoByTwo } from '../kit/kappa.ts';
import { columnShuffle, signFlip } from '../kit/permute.ts';
import { type Interval, mcnemar } from '../kit/statistics.ts';
import { NAMED_IDS } from './answer-counts.ts';
import type { Collected, Seen } from './collect.ts';
import { MOST_IDS } from './rows-query.ts';

/**
 * The test of "all orders approve alike". Where each cluster is one application: exact McNemar of two orders, Cochran's Q
 * of more. Else, by cluster: of two orders, swapped in each cluster; of more, repeated measures. Of few clusters the
 * orders of each are dealt anew.
 */
export interface OrderTest {
  name: 'mcnemar' | 'cochran-q' | 'swap' | 'repeated-measures' | 'shuffle';
  /** Cochran's Q, or the F of repeated measures; null of the others */
  q: number | null;
  df: number;
  p: number;
  /** corrected over all tests of the page */
  holm: number;
}

export interface OrderTable {
  rows: { order: string; n: number; approved: number; rate: Interval | null }[];
  /** applications (each sample of them) decided in every order, and those of them with the same decision in all */
  complete: number;
  same: number;
  sameRate: Interval | null;
  /** over complete applications; null where there is none, or where no decision differs between orders */
  test: OrderTest | null;
  /** of the orders in `rows`: the share of applications decided alike in both; null where they share none */
  agreement: (number | null)[][];
  /** the mean of kappa over pairs of orders */
  kappa: number | null;
  /** applications whose decision differs between orders */
  ids: string[];
  /** the records of the first of them */
  records: string[];
}

/** Of pairwise tables, which grow by the square. */
const MOST_ORDERS = 24;

/** What was decided of one application, or of one sample of it, by order; −1 where nothing was. */
interface Row {
  applicant: number;
  cluster: number;
  states: Int8Array;
}

/** Null where there are fewer than two orders. */
export function orderTable({ seen, orders, applicants }: Collected): OrderTable | null {
  if (orders.list.length < 2) return null;
  const count = orders.list.length;
  const decisions = new Map<string, Row>();
  const rates: Clusters = [];
  const approved: number[] = orders.list.map(() => 0);
  const n: number[] = orders.list.map(() => 0);
  for (const { applicant, order, sample, cluster, state } of seen) {
    if (order < 0 || state < 0) continue;
    const key = `${applicant} ${sample}`;
    const row = decisions.get(key) ?? { applicant, cluster, states: new Int8Array(count).fill(-1) };
    decisions.set(key, row);
    row.states[order] = state;
    addTo(rates, order, cluster, 1, state);
    n[order] = (n[order] as number) + 1;
    approved[order] = (approved[order] as number) + state;
  }
  const rows = [...decisions.values()];
  const complete = rows.filter(({ states }) => !states.includes(-1));
  const alike: Clusters = [];
  for (const { cluster, states } of complete)
    addTo(alike, 0, cluster, 1, states.every(state => state === states[0]) ? 1 : 0);
  const same = partsOf(alike, 0).reduce((sum, { hits }) => sum + hits, 0);
  const tables = pairsOf(rows, count);
  const turned = differing(rows);
  const kappas = tables.flatMap(({ table }) => kappa(table)?.value ?? []);
  return {
    rows: orders.list.map((order, at) => ({
      order,
      n: n[at] as number,
      approved: approved[at] as number,
      rate: clusteredShare(partsOf(rates, at)),
    })),
    complete: complete.length,
    same,
    sameRate: clusteredShare(partsOf(alike, 0)),
    test: testOf(complete, count),
    agreement: agreementOf(tables, Math.min(count, MOST_ORDERS)),
    kappa: kappas.length === 0 ? null : kappas.reduce((sum, each) => sum + each, 0) / kappas.length,
    ids: turned.slice(0, NAMED_IDS).map(applicant => applicants.list[applicant] as string),
    records: recordsOf(turned, seen),
  };
}

function differing(rows: readonly Row[]): number[] {
  const found = rows.filter(({ states }) => states.includes(0) && states.includes(1));
  return [...new Set(found.map(({ applicant }) => applicant))];
}

/** Of whole applications, as many as one query names. */
function recordsOf(applicants: readonly number[], seen: readonly Seen[]): string[] {
  const of = new Map(applicants.slice(0, MOST_IDS).map(applicant => [applicant, [] as string[]]));
  for (const { applicant, id, state } of seen) if (state >= 0) of.get(applicant)?.push(id);
  const ids: string[] = [];
  for (const own of of.values()) if (ids.length + own.length <= MOST_IDS) ids.push(...own);
  return ids;
}

interface PairTable {
  a: number;
  b: number;
  /** of a by b */
  table: TwoByTwo;
}

function pairsOf(rows: readonly Row[], count: number): PairTable[] {
  const tables: PairTable[] = [];
  const most = Math.min(count, MOST_ORDERS);
  for (let a = 0; a < most; a++)
    for (let b = a + 1; b < most; b++) {
      const table = emptyTable();
      for (const { states } of rows) {
        const [one, other] = [states[a] as number, states[b] as number];
        if (one >= 0 && other >= 0) table[one as 0 | 1][other as 0 | 1] += 1;
      }
      tables.push({ a, b, table });
    }
  return tables;
}

function agreementOf(tables: readonly PairTable[], size: number): (number | null)[][] {
  const shares = Array.from({ length: size }, (_, a) =>
    Array.from({ length: size }, (_, b): number | null => (a === b ? 1 : null)),
  );
  for (const { a, b, table } of tables) {
    const [[no, oneWay], [otherWay, yes]] = table;
    const n = no + oneWay + otherWay + yes;
    const share = n === 0 ? null : (no + yes) / n;
    (shares[a] as (number | null)[])[b] = share;
    (shares[b] as (number | null)[])[a] = share;
  }
  return shares;
}

function testOf(complete: readonly Row[], count: number): OrderTest | null {
  const clusters = new Map<number, number[]>();
  for (const { cluster, states } of complete) {
    const sums = clusters.get(cluster) ?? new Array<number>(count).fill(0);
    clusters.set(cluster, sums);
    for (const [order, state] of states.entries()) sums[order] = (sums[order] as number) + state;
  }
  const rows = [...clusters.values()];
  if (rows.every(sums => sums.every(sum => sum === sums[0]))) return null;
  const isSingle = rows.length === complete.length;
  if (count === 2) {
    const apart = rows.map(([one = 0, other = 0]) => one - other);
    const [won, lost] = [apart.filter(each => each > 0).length, apart.filter(each => each < 0).length];
    const p = isSingle ? mcnemar(won, lost) : signFlip(apart);
    return { name: isSingle ? 'mcnemar' : 'swap', q: null, df: 1, p, holm: 1 };
  }
  if (rows.length < LEAST)
    return { name: 'shuffle', q: null, df: count - 1, p: columnShuffle(rows), holm: 1 };
  if (isSingle) {
    const treatments = Array.from({ length: count }, (_, at) =>
      rows.reduce((sum, row) => sum + (row[at] as number), 0),
    );
    const found = cochranQ(
      treatments,
      rows.map(row => row.reduce((sum, each) => sum + each, 0)),
    );
    return found && { name: 'cochran-q', ...found, holm: 1 };
  }
  const found = repeatedMeasures(rows);
  return found && { name: 'repeated-measures', q: found.f, df: found.df[0], p: found.p, holm: 1 };
}
