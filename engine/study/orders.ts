/** Whether the order of the agents changes decisions: the same application, judged in several orders. */
import { cochranQ, kappa } from './agreement.ts';
import { type Collected, NAMED_IDS } from './collect.ts';
import { type Interval, mcnemar, type Share, wilson } from './statistics.ts';

export interface OrderTable {
  rows: { order: string; n: number; approved: number; rate: Interval | null }[];
  /** applications decided in every order, and those of them with the same decision in all */
  complete: number;
  same: number;
  sameRate: Interval | null;
  /** of "all orders approve alike": Cochran's Q, or exact McNemar of two orders, over complete applications */
  test: { name: 'cochran-q' | 'mcnemar'; q: number | null; df: number; p: number } | null;
  /** of the orders in `rows`: the share of applications decided alike in both; null where they share none */
  agreement: (number | null)[][];
  /** the mean of kappa over pairs of orders */
  kappa: number | null;
  /** applications whose decision differs between orders */
  ids: string[];
}

/** Of pairwise tables, which grow by the square. */
const MOST_ORDERS = 24;

/** Null where there are fewer than two orders. */
export function orderTable({ seen, orders, applicants }: Collected): OrderTable | null {
  if (orders.list.length < 2) return null;
  const count = orders.list.length;
  const decisions = new Map<number, Int8Array>();
  for (const { applicant, order, state } of seen) {
    if (order < 0 || state < 0) continue;
    const row = decisions.get(applicant) ?? new Int8Array(count).fill(-1);
    decisions.set(applicant, row);
    row[order] = state;
  }
  const shares: Share[] = orders.list.map(() => ({ n: 0, hits: 0 }));
  const complete: number[] = orders.list.map(() => 0);
  const blocks: number[] = [];
  const ids: string[] = [];
  let same = 0;
  for (const [applicant, row] of decisions) {
    let hits = 0;
    let known = 0;
    for (const [order, state] of row.entries()) {
      if (state < 0) continue;
      known += 1;
      hits += state;
      const share = shares[order] as Share;
      share.n += 1;
      share.hits += state;
    }
    if (hits > 0 && hits < known && ids.length < NAMED_IDS) ids.push(applicants.list[applicant] as string);
    if (known < count) continue;
    for (const [order, state] of row.entries()) complete[order] = (complete[order] as number) + state;
    blocks.push(hits);
    if (hits === 0 || hits === count) same += 1;
  }
  const tables = pairsOf([...decisions.values()], count);
  const kappas = tables.flatMap(({ table }) => {
    const each = kappa(table)?.value;
    return each === undefined ? [] : [each];
  });
  return {
    rows: orders.list.map((order, at) => {
      const share = shares[at] as Share;
      return { order, n: share.n, approved: share.hits, rate: wilson(share) };
    }),
    complete: blocks.length,
    same,
    sameRate: wilson({ n: blocks.length, hits: same }),
    test: testOf(complete, blocks, tables[0]?.table),
    agreement: agreementOf(tables, Math.min(count, MOST_ORDERS)),
    kappa: kappas.length === 0 ? null : kappas.reduce((sum, each) => sum + each, 0) / kappas.length,
    ids,
  };
}

interface PairTable {
  a: number;
  b: number;
  /** [no, yes] of a by [no, yes] of b */
  table: [[number, number], [number, number]];
}

function pairsOf(rows: readonly Int8Array[], count: number): PairTable[] {
  const tables: PairTable[] = [];
  const most = Math.min(count, MOST_ORDERS);
  for (let a = 0; a < most; a++)
    for (let b = a + 1; b < most; b++) {
      const table: PairTable['table'] = [
        [0, 0],
        [0, 0],
      ];
      for (const row of rows) {
        const [one, other] = [row[a] as number, row[b] as number];
        if (one < 0 || other < 0) continue;
        const counts = table[one] as [number, number];
        counts[other] = (counts[other] as number) + 1;
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

function testOf(sums: number[], blocks: number[], first: PairTable['table'] | undefined): OrderTable['test'] {
  if (blocks.length === 0) return null;
  if (sums.length === 2 && first)
    return { name: 'mcnemar', q: null, df: 1, p: mcnemar(first[0][1], first[1][0]) };
  const found = cochranQ(sums, blocks);
  return found === null ? null : { name: 'cochran-q', ...found };
}
