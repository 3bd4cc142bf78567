/**
 * Counterfactual pairs: cases that are alike in all that was named, and differ in the group. What changes between them
 * is the group's doing, or noise; repeats of the same question say how much is noise.
 */

import {
  addTo,
  type Clusters,
  clusteredDifference,
  clusteredShare,
  partsOf,
  twoOf,
} from '../kit/agreement.ts';
import { signFlip } from '../kit/permute.ts';
import { holm, type Interval, mcnemar, pairedDifference } from '../kit/statistics.ts';
import { NAMED_IDS } from './answer-counts.ts';
import type { Collected, Seen } from './collect.ts';

export interface TwinRow {
  value: string;
  /** in each cell, order and sample, each record of the group with each of the reference */
  pairs: number;
  cells: number;
  /** pairs in which the reference alone was approved, and in which the group alone was */
  referenceOnly: number;
  groupOnly: number;
  /** the share of pairs that differ */
  flips: Interval | null;
  /** flips less those of repeats */
  aboveNoise: Interval | null;
  /** the group's rate less the reference's, over pairs */
  net: Interval | null;
  /** exact McNemar; null where a cell has several pairs, which are not independent */
  mcnemar: number | null;
  /** of "the group changes nothing": the group and the reference swapped in each cell; McNemar's where a cell has one pair */
  p: number;
  /** corrected over all tests of the page */
  holm: number;
  /** the same test of each ordering alone, where there are several; Holm over all of them of this column, outside the page's */
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
  /** cells (in each order and sample) with all twins decided, and those of them in which all twins agree */
  cells: number;
  invariant: number;
  invariantRate: Interval | null;
  /** cells with a twin left out or missing: their pairs count, but not in `cells` */
  partial: number;
  rows: TwinRow[];
}

/** The records of one group and of the reference that are compared: of one cell, order and sample. */
interface Pairing {
  cell: number;
  order: number;
  group: readonly Seen[];
  reference: readonly Seen[];
}

/** Null where nothing is paired. */
export function twinTable(
  collected: Collected,
  at: number,
  reference: string | null,
  noise: Repeated,
): TwinTable | null {
  const { column, values } = collected.groups[at] as Collected['groups'][number];
  const base = reference === null ? -1 : values.list.indexOf(reference);
  if (base < 0) return null;
  const pairings = values.list.map((): Pairing[] => []);
  const alike: Clusters = [];
  let [cells, invariant, partial] = [0, 0, 0];
  for (const unit of unitsOf(collected.seen, at)) {
    const byValue = new Map<number, Seen[]>();
    for (const record of unit) {
      const value = record.groups[at] as number;
      const known = byValue.get(value);
      if (known) known.push(record);
      else byValue.set(value, [record]);
    }
    if (byValue.size < 2) continue;
    const [{ cell, order, cluster, state: first }] = unit as [Seen];
    if (unit.some(({ state }) => state < 0)) partial += 1;
    else {
      const isAlike = unit.every(({ state }) => state === first);
      cells += 1;
      if (isAlike) invariant += 1;
      addTo(alike, 0, cluster, 1, isAlike ? 1 : 0);
    }
    const decided = (value: number): Seen[] => (byValue.get(value) ?? []).filter(({ state }) => state >= 0);
    const others = decided(base);
    for (const value of byValue.keys()) {
      const group = decided(value);
      if (value === base || group.length === 0 || others.length === 0) continue;
      pairings[value]?.push({ cell, order, group, reference: others });
    }
  }
  const rows = pairings.flatMap((list, value) =>
    list.length === 0 ? [] : [rowOf(values.list[value] as string, list, noise, collected.orders.list)],
  );
  if (rows.length === 0) return null;
  const orders = rows.flatMap(row => row.orders);
  for (const [nth, p] of holm(orders.map(row => row.p)).entries())
    (orders[nth] as TwinRow['orders'][number]).holm = p;
  rows.sort((a, b) => b.pairs - a.pairs || (a.value < b.value ? -1 : 1));
  const invariantRate = clusteredShare(partsOf(alike, 0));
  return { column, reference: reference as string, cells, invariant, invariantRate, partial, rows };
}

/** Records of the same cell in the same order and sample. */
function unitsOf(seen: readonly Seen[], at: number): Iterable<Seen[]> {
  const units = new Map<string, Seen[]>();
  for (const record of seen) {
    if (record.cell < 0 || (record.groups[at] as number) < 0) continue;
    const key = `${record.cell} ${record.order} ${record.sample}`;
    const unit = units.get(key);
    if (unit === undefined) units.set(key, [record]);
    else unit.push(record);
  }
  return units.values();
}

interface Counts {
  pairs: number;
  referenceOnly: number;
  groupOnly: number;
}

const approvedOf = (records: readonly Seen[]): number => records.filter(({ state }) => state === 1).length;

/** Each record of the group with each of the reference: so nothing hangs on which of them comes first in a file. */
function countsOf({ group, reference }: Pairing): Counts {
  const [own, base] = [approvedOf(group), approvedOf(reference)];
  return {
    pairs: group.length * reference.length,
    referenceOnly: base * (group.length - own),
    groupOnly: own * (reference.length - base),
  };
}

/** The counts of all, and of each cell. */
function cellsOf(pairings: readonly Pairing[]): { sum: Counts; cells: Map<number, Counts> } {
  const sum = { pairs: 0, referenceOnly: 0, groupOnly: 0 };
  const cells = new Map<number, Counts>();
  for (const pairing of pairings) {
    const counts = countsOf(pairing);
    const own = cells.get(pairing.cell) ?? { pairs: 0, referenceOnly: 0, groupOnly: 0 };
    cells.set(pairing.cell, own);
    for (const into of [sum, own])
      for (const key of ['pairs', 'referenceOnly', 'groupOnly'] as const) into[key] += counts[key];
  }
  return { sum, cells };
}

const isOnePair = (cells: Map<number, Counts>): boolean =>
  [...cells.values()].every(({ pairs }) => pairs === 1);

function pOf({ sum, cells }: ReturnType<typeof cellsOf>): number {
  if (isOnePair(cells)) return mcnemar(sum.groupOnly, sum.referenceOnly);
  return signFlip([...cells.values()].map(({ groupOnly, referenceOnly }) => groupOnly - referenceOnly));
}

function rowOf(
  value: string,
  pairings: readonly Pairing[],
  noise: Repeated,
  orders: readonly string[],
): TwinRow {
  const all = cellsOf(pairings);
  const { sum, cells } = all;
  const flipped: Clusters = [];
  const ways: Clusters = [];
  for (const [cell, { pairs, referenceOnly, groupOnly }] of cells) {
    addTo(flipped, 0, cell, pairs, groupOnly + referenceOnly);
    addTo(ways, 0, cell, pairs, groupOnly);
    addTo(ways, 1, cell, pairs, referenceOnly);
  }
  const byOrder = new Map<number, Pairing[]>();
  for (const pairing of pairings) {
    const known = byOrder.get(pairing.order);
    if (known) known.push(pairing);
    else byOrder.set(pairing.order, [pairing]);
  }
  return {
    value,
    ...sum,
    cells: cells.size,
    flips: clusteredShare(partsOf(flipped, 0)),
    aboveNoise: aboveNoise(pairings, noise),
    net: netOf(sum, cells, ways),
    mcnemar: isOnePair(cells) ? mcnemar(sum.groupOnly, sum.referenceOnly) : null,
    p: pOf(all),
    holm: 1,
    orders:
      byOrder.size < 2
        ? []
        : [...byOrder].map(([order, list]) => {
            const own = cellsOf(list);
            return { order: orders[order] ?? '', ...own.sum, p: pOf(own), holm: 1 };
          }),
    ids: flippedIds(pairings),
  };
}

/** The rate of pairs that the group wins less that of those that it loses. */
function netOf(
  { pairs, groupOnly, referenceOnly }: Counts,
  cells: Map<number, Counts>,
  ways: Clusters,
): Interval | null {
  if (isOnePair(cells)) return pairedDifference({ n: pairs, b: groupOnly, c: referenceOnly });
  return clusteredDifference(twoOf(ways, 0, 1)).difference;
}

function aboveNoise(pairings: readonly Pairing[], { noise, clusters }: Repeated): Interval | null {
  if (noise.pairs === 0) return null;
  const both: Clusters = [clusters[0], undefined];
  for (const pairing of pairings) {
    const { pairs, referenceOnly, groupOnly } = countsOf(pairing);
    const { cluster } = pairing.group[0] as Seen;
    addTo(both, 1, cluster, pairs, referenceOnly + groupOnly);
  }
  return clusteredDifference(twoOf(both, 1, 0)).difference;
}

function flippedIds(pairings: readonly Pairing[]): [string, string][] {
  const ids: [string, string][] = [];
  for (const { group, reference } of pairings)
    for (const own of group)
      for (const other of reference) {
        if (ids.length === NAMED_IDS) return ids;
        if (own.state !== other.state) ids.push([other.id, own.id]);
      }
  return ids;
}

// The noise floor: how often the same question, asked again, is decided differently. Asked again are samples, which were
// asked on purpose, and lines with an id that was there before.

export interface Noise {
  /** of answers to the same question, each with each */
  pairs: number;
  flips: number;
  rate: Interval | null;
}

/** `clusters`: the pairs of each, as value 0. */
export interface Repeated {
  noise: Noise;
  clusters: Clusters;
}

export function noiseIn(collected: Collected): Repeated {
  const { repeats, seen } = collected;
  const answers = new Map<string, { cluster: number; n: number; hits: number }>();
  const question = (at: number): string => {
    const { applicant, order, sample } = seen[at] as Seen;
    return sample > 0 ? `${applicant} ${order}` : `line ${at}`;
  };
  const add = (at: number, state: number): void => {
    if (state < 0) return;
    const known = answers.get(question(at)) ?? { cluster: (seen[at] as Seen).cluster, n: 0, hits: 0 };
    known.n += 1;
    known.hits += state;
    answers.set(question(at), known);
  };
  const again = new Set(repeats.map(({ of }) => of));
  for (const [at, { sample, state }] of seen.entries()) if (sample > 0 || again.has(at)) add(at, state);
  for (const { of, state } of repeats) if ((seen[of] as Seen).state >= 0) add(of, state);
  const clusters: Clusters = [];
  let [pairs, flips] = [0, 0];
  for (const { cluster, n, hits } of answers.values()) {
    if (n < 2) continue;
    const own = (n * (n - 1)) / 2;
    pairs += own;
    flips += hits * (n - hits);
    addTo(clusters, 0, cluster, own, hits * (n - hits));
  }
  return { noise: { pairs, flips, rate: clusteredShare(partsOf(clusters, 0)) }, clusters };
}
