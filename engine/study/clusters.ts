/**
 * Rates of groups whose records are not independent: one applicant in twelve orders, the twins of one cell. What is
 * independent is the cluster. Intervals by the cluster bootstrap; p by the cluster-robust error of the difference
 * (Liang and Zeger 1986: the squares of what each cluster adds to it, times C/(C − 1)).
 */
import { clusterBootstrap } from './bootstrap.ts';
import { Z95 } from './special.ts';
import { fisher, type Interval, pOfZ, type Share } from './statistics.ts';

/** By cluster, by value. */
export type Clusters = Map<number, Map<number, Share>>;

export interface ClusteredFigure {
  rate: Interval | null;
  ratio: Interval | null;
  difference: Interval | null;
  p: number | null;
}

export interface Clustered {
  figures: ClusteredFigure[];
  method: 'cluster-bootstrap' | 'cluster-robust';
}

/** A bootstrap of more sums than this takes seconds; with so many clusters the robust error says the same. */
const MOST_SUMS = 400_000;
const MOST_DRAWN = 64;

export function clustersOf(records: readonly { cluster: number; value: number; state: number }[]): Clusters {
  const clusters: Clusters = new Map();
  for (const { cluster, value, state } of records) {
    const of = clusters.get(cluster) ?? new Map<number, Share>();
    if (of.size === 0) clusters.set(cluster, of);
    const share = of.get(value);
    if (share === undefined) of.set(value, { n: 1, hits: state });
    else {
      share.n += 1;
      share.hits += state;
    }
  }
  return clusters;
}

/** Of each value, against that with the number `reference`. `shares` are the sums of `clusters`. */
export function clusteredFigures(clusters: Clusters, shares: readonly Share[], reference: number): Clustered {
  const robust = robustFigures(clusters, shares, reference);
  const width = shares.length * 2;
  if (shares.length > MOST_DRAWN || clusters.size * width > MOST_SUMS)
    return { figures: robust, method: 'cluster-robust' };
  const at = new Float64Array(clusters.size * width);
  let row = 0;
  for (const values of clusters.values()) {
    for (const [value, { n, hits }] of values) {
      at[row * width + value * 2] = n;
      at[row * width + value * 2 + 1] = hits;
    }
    row += 1;
  }
  const rate = (sums: Float64Array, value: number): number =>
    (sums[value * 2 + 1] as number) / (sums[value * 2] as number);
  const drawn = clusterBootstrap({ clusters: clusters.size, width, at }, sums =>
    shares.flatMap((_, value) => {
      const [own, other] = [rate(sums, value), rate(sums, reference)];
      return [own, other === 0 ? Number.NaN : own / other, own - other];
    }),
  );
  const figures = robust.map(({ p }, value): ClusteredFigure => {
    const [own = null, ratio = null, difference = null] = drawn.slice(value * 3, value * 3 + 3);
    return { rate: own, ratio, difference, p };
  });
  return { figures, method: 'cluster-bootstrap' };
}

function robustFigures(clusters: Clusters, shares: readonly Share[], reference: number): ClusteredFigure[] {
  const own = new Float64Array(shares.length); // squares of what each cluster adds to a rate
  const cross = new Float64Array(shares.length); // and its product with what it adds to the reference's
  const rates = shares.map(({ n, hits }) => hits / n);
  const part = (share: Share | undefined, value: number): number =>
    share ? (share.hits - (rates[value] as number) * share.n) / (shares[value] as Share).n : 0;
  for (const values of clusters.values()) {
    const ofReference = part(values.get(reference), reference);
    for (const [value, share] of values) {
      const each = part(share, value);
      own[value] = (own[value] as number) + each * each;
      cross[value] = (cross[value] as number) + each * ofReference;
    }
  }
  const scale = clusters.size / Math.max(1, clusters.size - 1);
  const other = shares[reference] as Share;
  const q = rates[reference] as number;
  return shares.map((share, value) => {
    const p = rates[value] as number;
    if (share.n === 0 || other.n === 0) return { rate: null, ratio: null, difference: null, p: null };
    const [a, b, ab] = [own[value], own[reference], cross[value]] as [number, number, number];
    const error = Math.sqrt(Math.max(0, scale * (a + b - 2 * ab)));
    const log = Math.sqrt(Math.max(0, scale * (a / (p * p) + b / (q * q) - (2 * ab) / (p * q))));
    const around = (middle: number, half: number): Interval => ({
      value: middle,
      low: Math.max(-1, middle - half),
      high: Math.min(1, middle + half),
    });
    const rate = around(p, Z95 * Math.sqrt(scale * a));
    const isRatio = p > 0 && q > 0;
    const ratio = { value: p / q, low: (p / q) * Math.exp(-Z95 * log), high: (p / q) * Math.exp(Z95 * log) };
    return {
      rate: { ...rate, low: Math.max(0, rate.low) },
      ratio: isRatio ? ratio : null,
      difference: around(p - q, Z95 * error),
      // without any spread between clusters there is no error to judge by
      p: value === reference ? null : error > 1e-12 ? pOfZ((p - q) / error) : fisher(share, other),
    };
  });
}
