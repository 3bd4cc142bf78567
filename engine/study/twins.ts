/**
 * Counterfactual pairs: cases that are alike in all that was named, and differ in the group. What changes between them
 * is the group's doing, or noise; repeats of the same question say how much is noise.
 */

import { clusteredFigures, clustersOf } from './clusters.ts';
import { type Collected, NAMED_IDS, type Seen } from './collect.ts';
import {
  holm,
  type Interval,
  mcnemar,
  pairedDifference,
  rateDifference,
  type Share,
  wilson,
} from './statistics.ts';

export interface TwinRow {
  value: string;
  pairs: number;
  /** pairs in which the reference alone was approved, and in which the group alone was */
  referenceOnly: number;
  groupOnly: number;
  /** the share of pairs that differ */
  flips: Interval | null;
  /** flips less those of repeats */
  aboveNoise: Interval | null;
  /** the group's rate less the reference's, over pairs */
  net: Interval | null;
  /** exact McNemar, of all pairs as if independent */
  mcnemar: number;
  /** `mcnemar` where each cell has one pair; else the cluster-robust p of `net` */
  p: number;
  holm: number;
  /** exact McNemar of each ordering alone, where there are several; Holm over all of them of this column */
  orders: {
    order: string;
    pairs: number;
    referenceOnly: number;
    groupOnly: number;
    p: number;
    holm: number;
  }[];
  /** of flipped pairs: the reference's, the group's */
  ids: [string, string][];
}

export interface TwinTable {
  column: string;
  reference: string;
  /** cells (in each order) with all twins decided, and those of them in which all twins agree */
  cells: number;
  invariant: number;
  /** cells with a twin left out or missing: their pairs count, but not in `cells` */
  partial: number;
  rows: TwinRow[];
  tests: number;
}

export interface Noise {
  /** repeated answers compared with the first one to the same question */
  pairs: number;
  flips: number;
  rate: Interval | null;
}

export function noiseIn({ repeats, seen }: Collected): Noise {
  let pairs = 0;
  let flips = 0;
  for (const { of, state } of repeats) {
    const first = seen[of]?.state ?? -1;
    if (first < 0) continue;
    pairs += 1;
    if (first !== state) flips += 1;
  }
  return { pairs, flips, rate: wilson({ n: pairs, hits: flips }) };
}

interface Pair {
  cell: number;
  order: number;
  reference: Seen;
  group: Seen;
}

/** Null where nothing is paired. */
export function twinTable(
  collected: Collected,
  at: number,
  reference: string | null,
  noise: Noise,
): TwinTable | null {
  const { column, values } = collected.groups[at] as Collected['groups'][number];
  const base = reference === null ? -1 : values.list.indexOf(reference);
  if (base < 0) return null;
  const units = unitsOf(collected.seen, at);
  const pairs = values.list.map((): Pair[] => []);
  let cells = 0;
  let invariant = 0;
  let partial = 0;
  for (const unit of units) {
    const byValue = new Map<number, Seen[]>();
    for (const record of unit) {
      const value = record.groups[at] as number;
      byValue.set(value, [...(byValue.get(value) ?? []), record]);
    }
    if (byValue.size < 2) continue;
    const all = unit.filter(({ state }) => state >= 0);
    if (all.length < unit.length) partial += 1;
    else {
      cells += 1;
      if (all.every(({ state }) => state === all[0]?.state)) invariant += 1;
    }
    const references = byValue.get(base) ?? [];
    for (const [value, records] of byValue) {
      if (value === base) continue;
      // several twins of one group are paired as they come
      for (const [nth, group] of records.entries()) {
        const other = references[nth];
        if (other === undefined || other.state < 0 || group.state < 0) continue;
        pairs[value]?.push({ cell: group.cell, order: group.order, reference: other, group });
      }
    }
  }
  const rows = pairs.flatMap((list, value) =>
    list.length === 0 ? [] : [rowOf(values.list[value] as string, list, noise, collected.orders.list)],
  );
  if (rows.length === 0) return null;
  for (const [nth, p] of holm(rows.map(row => row.p)).entries()) (rows[nth] as TwinRow).holm = p;
  const orders = rows.flatMap(row => row.orders);
  for (const [nth, p] of holm(orders.map(row => row.p)).entries())
    (orders[nth] as TwinRow['orders'][number]).holm = p;
  rows.sort((a, b) => b.pairs - a.pairs || (a.value < b.value ? -1 : 1));
  return { column, reference: reference as string, cells, invariant, partial, rows, tests: rows.length };
}

/** Records of the same cell in the same order. */
function unitsOf(seen: readonly Seen[], at: number): Iterable<Seen[]> {
  const units = new Map<string, Seen[]>();
  for (const record of seen) {
    if (record.cell < 0 || (record.groups[at] as number) < 0) continue;
    const key = `${record.cell} ${record.order}`;
    const unit = units.get(key);
    if (unit === undefined) units.set(key, [record]);
    else unit.push(record);
  }
  return units.values();
}

function countsOf(pairs: readonly Pair[]): { n: number; referenceOnly: number; groupOnly: number } {
  let referenceOnly = 0;
  let groupOnly = 0;
  for (const { reference, group } of pairs) {
    if (reference.state > group.state) referenceOnly += 1;
    if (group.state > reference.state) groupOnly += 1;
  }
  return { n: pairs.length, referenceOnly, groupOnly };
}

function rowOf(value: string, pairs: readonly Pair[], noise: Noise, orders: readonly string[]): TwinRow {
  const { n, referenceOnly, groupOnly } = countsOf(pairs);
  const flipped: Share = { n, hits: referenceOnly + groupOnly };
  const exact = mcnemar(groupOnly, referenceOnly);
  const isSingle = new Set(pairs.map(({ cell }) => cell)).size === n;
  const clustered = isSingle ? null : clusteredNet(pairs);
  const byOrder = new Map<number, Pair[]>();
  for (const pair of pairs) byOrder.set(pair.order, [...(byOrder.get(pair.order) ?? []), pair]);
  return {
    value,
    pairs: n,
    referenceOnly,
    groupOnly,
    flips: wilson(flipped),
    aboveNoise: noise.pairs === 0 ? null : rateDifference(flipped, { n: noise.pairs, hits: noise.flips }),
    net: clustered ? clustered.net : pairedDifference({ n, b: groupOnly, c: referenceOnly }),
    mcnemar: exact,
    p: clustered ? clustered.p : exact,
    holm: 1,
    orders:
      byOrder.size < 2
        ? []
        : [...byOrder].map(([order, list]) => {
            const { n, ...counts } = countsOf(list);
            const p = mcnemar(counts.groupOnly, counts.referenceOnly);
            return { order: orders[order] ?? '', pairs: n, ...counts, p, holm: 1 };
          }),
    ids: pairs
      .filter(({ reference, group }) => reference.state !== group.state)
      .slice(0, NAMED_IDS)
      .map(({ reference, group }) => [reference.id, group.id]),
  };
}

/** The net difference where a cell has several pairs, in several orders or of several names. */
function clusteredNet(pairs: readonly Pair[]): { net: Interval | null; p: number } {
  const records = pairs.flatMap(({ cell, reference, group }) => [
    { cluster: cell, value: 0, state: reference.state },
    { cluster: cell, value: 1, state: group.state },
  ]);
  const shares: Share[] = [0, 1].map(value => ({
    n: pairs.length,
    hits: records.filter(record => record.value === value && record.state === 1).length,
  }));
  const figure = clusteredFigures(clustersOf(records), shares, 0).figures[1];
  return { net: figure?.difference ?? null, p: figure?.p ?? 1 };
}
