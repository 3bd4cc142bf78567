/**
 * Tests that deal a label anew among clusters. If a group, a run or an order changes nothing, what was seen is as likely
 * as what would have been seen had the labels been swapped inside a cell of twins, or dealt otherwise among applications
 * (Fisher 1935; Pitman 1937). A cluster keeps together all that is in it, so it counts once, and p is exact however few
 * clusters there are. Where all labellings are too many they are drawn, with a fixed seed, until `ENOUGH` were as extreme
 * or there are no more draws (Besag and Clifford 1991: p is valid for any number of draws). Clusters are sorted first, so
 * that p does not hang on the order of lines.
 */
import { logChoose, pOfZ, type Two } from './statistics.ts';

export const SEED = 7;
const ENOUGH = 100;
const MOST_DRAWS = 99_999;
/** What one test may cost, in additions; from `LEAST_DRAWS` on, whatever they cost. */
const BUDGET = 1e8;
const LEAST_DRAWS = 9_999;
/** Labellings that are all gone through. */
const MOST_LISTED = 20_000;
/** Clusters that weigh, from which the normal distribution says the same. */
const MANY = 2_000;
/** As extreme, but for rounding. */
const NEARLY = 1 - 1e-9;

/** p of `observed`, by draws of the statistic that cost `size` additions each. */
function drawnP(
  observed: number,
  size: number,
  draw: (random: () => number) => number,
  enough = ENOUGH,
): number {
  const most = Math.min(MOST_DRAWS, Math.max(LEAST_DRAWS, Math.floor(BUDGET / Math.max(1, size))));
  const random = seeded(SEED);
  let extreme = 0;
  for (let drawn = 1; drawn <= most; drawn++) {
    if (draw(random) < observed * NEARLY) continue;
    extreme += 1;
    if (extreme === enough) return extreme / drawn;
  }
  return (extreme + 1) / (most + 1);
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0);
const squaresOf = (values: readonly number[]): number => values.reduce((sum, each) => sum + each * each, 0);

/**
 * The two-sided p of "each of `values` is as likely as its negative", by |Σ|: McNemar's exact test, where all are 1 or −1.
 */
export function signFlip(values: readonly number[]): number {
  const sizes = values
    .filter(each => each !== 0)
    .map(Math.abs)
    .sort((a, b) => a - b);
  const observed = Math.abs(sumOf(values));
  if (sizes.length === 0) return 1;
  if (sizes.every(Number.isSafeInteger)) {
    const by = sizes.reduce(divisor);
    const whole = sizes.map(each => each / by);
    if (whole.length * sumOf(whole) <= BUDGET / 4) return wholeFlip(whole, observed / by);
  }
  const square = squaresOf(sizes);
  if (square ** 2 / sizes.reduce((sum, each) => sum + each ** 4, 0) > MANY)
    return pOfZ(observed / Math.sqrt(square));
  if (2 ** sizes.length <= MOST_LISTED) return listedFlip(sizes, observed);
  return drawnP(observed, sizes.length, random => {
    let sum = 0;
    for (const size of sizes) sum += random() < 0.5 ? size : -size;
    return Math.abs(sum);
  });
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** The chance of every sum, cluster by cluster: `chance[s]` that those with a plus come to s. */
function wholeFlip(sizes: readonly number[], observed: number): number {
  const total = sumOf(sizes);
  const chance = new Float64Array(total + 1);
  chance[0] = 1;
  let top = 0;
  for (const size of sizes) {
    top += size;
    for (let s = top; s >= 0; s--)
      chance[s] = ((chance[s] as number) + (s >= size ? (chance[s - size] as number) : 0)) / 2;
  }
  let p = 0;
  for (let s = 0; s <= total; s++) if (Math.abs(2 * s - total) >= observed * NEARLY) p += chance[s] as number;
  return Math.min(1, p);
}

function listedFlip(sizes: readonly number[], observed: number): number {
  const all = 2 ** sizes.length;
  let extreme = 0;
  for (let bits = 0; bits < all; bits++) {
    let sum = 0;
    for (const [at, size] of sizes.entries()) sum += (bits >> at) & 1 ? size : -size;
    if (Math.abs(sum) >= observed * NEARLY) extreme += 1;
  }
  return extreme / all;
}

/**
 * The two-sided p of "the label of a cluster says nothing of its share". Inside a cluster that has both labels they are
 * swapped; among clusters of one label each they are dealt anew. The statistic is the difference inside each such
 * cluster, weighted by n m/(n + m), and that of the others together (Mantel and Haenszel's weights).
 */
export function labelSwap(two: readonly Two[]): number {
  const inside: number[] = [];
  const apart: { one: boolean; n: number; hits: number }[] = [];
  for (const [one, other] of two) {
    if (one.n > 0 && other.n > 0) inside.push((one.hits * other.n - other.hits * one.n) / (one.n + other.n));
    else if (one.n + other.n > 0)
      apart.push({ one: one.n > 0, n: one.n + other.n, hits: one.hits + other.hits });
  }
  if (apart.every(({ one }) => one) || apart.every(({ one }) => !one)) {
    // twins in the same numbers: twice the difference is whole
    const isEven = two.every(([one, other]) => one.n === other.n || one.n === 0 || other.n === 0);
    return signFlip(isEven ? inside.map(each => Math.round(each * 2)) : inside);
  }
  const hits = apart.map(({ hits: own }) => own);
  const rate = sumOf(hits) / sumOf(apart.map(({ n }) => n));
  const scores = apart.map(({ n, hits: own }) => own - rate * n);
  const chosen = apart.filter(({ one }) => one).length;
  const observed = sumOf(scores.filter((_, at) => apart[at]?.one)) + sumOf(inside);
  const by = hits.reduce(divisor);
  const whole = hits.map(each => each / by);
  const isAlike = inside.length === 0 && apart.every(({ n }) => n === apart[0]?.n);
  if (by > 0 && isAlike && hits.length * chosen * sumOf(whole) <= BUDGET / 4)
    return wholeChoice(whole, chosen, Math.abs(observed) / by);
  return dealt(inside, scores, chosen, observed);
}

/** The chance of every sum of `chosen` of `sizes`, cluster by cluster: `chance[k][s]` that k of those seen come to s. */
function wholeChoice(sizes: readonly number[], chosen: number, observed: number): number {
  const total = sumOf(sizes);
  const chance = Array.from({ length: chosen + 1 }, () => new Float64Array(total + 1));
  (chance[0] as Float64Array)[0] = 1;
  for (const [at, size] of sizes.entries())
    for (let k = Math.min(at, chosen); k >= 0; k--) {
      const taken = (chosen - k) / (sizes.length - at);
      const [own, next] = [chance[k] as Float64Array, chance[k + 1]];
      for (let s = 0; s <= total; s++) {
        const each = own[s] as number;
        if (each === 0) continue;
        if (next) next[s + size] = (next[s + size] as number) + each * taken;
        own[s] = each * (1 - taken);
      }
    }
  const middle = (total * chosen) / sizes.length;
  const all = chance[chosen] as Float64Array;
  return Math.min(
    1,
    all.reduce((p, each, s) => (Math.abs(s - middle) >= observed * NEARLY ? p + each : p), 0),
  );
}

/** `inside` with signs of chance, and `chosen` of `scores`, which come to 0 or nearly. */
function dealt(inside: readonly number[], scores: readonly number[], chosen: number, at: number): number {
  const count = scores.length;
  const middle = (sumOf(scores) * chosen) / count;
  const observed = Math.abs(at - middle);
  const square = squaresOf(scores.map(each => each - middle / chosen));
  const fourth = sumOf([...scores, ...inside].map(each => each ** 4));
  const variance = squaresOf(inside) + (chosen * (count - chosen) * square) / (count * (count - 1));
  if (variance < 1e-12) return 1;
  const few = Math.min(chosen, count - chosen);
  const weighing = ((square + squaresOf(inside)) ** 2 / fourth) * (few / count);
  if (weighing > MANY) return pOfZ(observed / Math.sqrt(variance));
  if (inside.length === 0 && logChoose(count, few) <= Math.log(MOST_LISTED))
    return listedChoice(scores, chosen, middle, observed);
  const list = Float64Array.from(scores).sort();
  const signed = inside.map(Math.abs).sort((a, b) => a - b);
  return drawnP(observed, inside.length + few, random => {
    let sum = 0;
    for (let k = 0; k < few; k++) {
      const other = k + Math.floor(random() * (count - k));
      const taken = list[other] as number;
      list[other] = list[k] as number;
      list[k] = taken;
      sum += taken;
    }
    if (few !== chosen) sum = middle * (count / chosen) - sum;
    for (const each of signed) sum += random() < 0.5 ? each : -each;
    return Math.abs(sum - middle);
  });
}

function listedChoice(scores: readonly number[], chosen: number, middle: number, observed: number): number {
  let [all, extreme] = [0, 0];
  const go = (from: number, left: number, sum: number): void => {
    if (left === 0) {
      all += 1;
      if (Math.abs(sum - middle) >= observed * NEARLY) extreme += 1;
      return;
    }
    for (let at = from; at <= scores.length - left; at++) go(at + 1, left - 1, sum + (scores[at] as number));
  };
  go(0, chosen, 0);
  return extreme / all;
}

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

/** mulberry32: numbers in [0, 1), the same on every machine. */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
