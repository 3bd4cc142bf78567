/** Labels dealt anew among clusters, as in permute.ts, for numbers and for columns. */
import { drawnP } from './permute.ts';

/** As extreme as seen, and enough of them: a distance of distributions costs more than a sum. */
const DISTANCES = 50;

/** Numbers of one cluster, by label. */
export type TwoSamples = readonly [one: readonly number[], other: readonly number[]];

/** The largest distance of the cumulative distributions of two labels, and its p by labels dealt anew as in `labelSwap`. */
export function distanceSwap(unsorted: readonly TwoSamples[]): { d: number; p: number } | null {
  const inOrder = (samples: readonly number[]): number[] => [...samples].sort((a, b) => a - b);
  const clusters = unsorted.map(([one, other]) => [inOrder(one), inOrder(other)] as const).sort(compared);
  const records = clusters
    .flatMap(([one, other], cluster) => [
      ...one.map(value => ({ value, cluster, label: 0 })),
      ...other.map(value => ({ value, cluster, label: 1 })),
    ])
    .sort((a, b) => a.value - b.value);
  const size = records.length;
  const cluster = Int32Array.from(records, each => each.cluster);
  const label = Uint8Array.from(records, each => each.label);
  // of equal numbers the last one: the distributions are compared after it
  const isLast = Uint8Array.from(records, (each, at) => (records[at + 1]?.value === each.value ? 0 : 1));
  const flipped = new Uint8Array(clusters.length);
  const distance = (): number => {
    let ones = 0;
    for (const [at, two] of clusters.entries()) ones += two[flipped[at] ? 0 : 1].length;
    if (ones === 0 || ones === size) return 0;
    const [up, down] = [1 / ones, 1 / (size - ones)];
    let [apart, d] = [0, 0];
    for (let at = 0; at < size; at++) {
      apart += (label[at] as number) ^ (flipped[cluster[at] as number] as number) ? up : -down;
      if (isLast[at] && (apart > d || -apart > d)) d = Math.abs(apart);
    }
    return d;
  };
  const both = clusters.flatMap(([one, other], at) => (one.length > 0 && other.length > 0 ? [at] : []));
  const single = clusters.flatMap(([one, other], at) => (one.length > 0 !== other.length > 0 ? [at] : []));
  const others = single.filter(at => (clusters[at]?.[1].length ?? 0) > 0).length;
  if (both.length === 0 && (others === 0 || others === single.length)) return null;
  const d = distance();
  const p = drawnP(
    d,
    2 * size,
    random => {
      for (const at of both) flipped[at] = random() < 0.5 ? 1 : 0;
      let left = others;
      for (const [nth, at] of single.entries()) {
        const isOther = random() * (single.length - nth) < left;
        if (isOther) left -= 1;
        flipped[at] = isOther === (clusters[at]?.[1].length ?? 0) > 0 ? 0 : 1;
      }
      return distance();
    },
    DISTANCES,
  );
  return { d, p };
}

/** Some order of samples that hangs on their numbers alone. */
function compared([a, b]: TwoSamples, [c, d]: TwoSamples): number {
  return byNumbers(a, c) || byNumbers(b, d);
}

function byNumbers(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return a.length - b.length;
  const at = a.findIndex((each, nth) => each !== b[nth]);
  return at < 0 ? 0 : (a[at] as number) - (b[at] as number);
}

/** p of "the hits of a cluster would stand as well in any order of its columns", by the squares of the columns' sums. */
export function columnShuffle(rows: readonly (readonly number[])[]): number {
  const width = rows[0]?.length ?? 0;
  const sums = new Float64Array(width);
  const statistic = (): number => sums.reduce((all, each) => all + each * each, 0);
  for (const row of rows) for (const [at, hits] of row.entries()) sums[at] = (sums[at] as number) + hits;
  const observed = statistic();
  const shuffled = rows.map(row => [...row].sort((a, b) => a - b)).sort(byNumbers);
  return drawnP(observed, rows.length * width * 2, random => {
    sums.fill(0);
    for (const row of shuffled)
      for (let at = width - 1; at >= 0; at--) {
        const other = Math.floor(random() * (at + 1));
        const hits = row[other] as number;
        row[other] = row[at] as number;
        row[at] = hits;
        sums[at] = (sums[at] as number) + hits;
      }
    return statistic();
  });
}
