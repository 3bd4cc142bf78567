/**
 * What changed between two runs, and whether it is within a margin, of the tables of clusters: [no, yes] of the first run by
 * [no, yes] of the second.
 */
import { clusteredDifference, LEAST } from '../kit/agreement.ts';
import { sizeOf, type TwoByTwo } from '../kit/kappa.ts';
import { signFlip } from '../kit/permute.ts';
import {
  betaBelow,
  type Interval,
  mcnemar,
  pairedDifference,
  pairedError,
  studentAbove,
  tost,
} from '../kit/statistics.ts';

/** Two one-sided tests; equivalent where p is below 0.05. p is null of few clusters. */
export interface Equivalence {
  margin: number;
  p: number | null;
  equivalent: boolean;
}

/** Of the second less the first, and p of "the same". */
export function differenceOf(
  [[, won], [lost]]: TwoByTwo,
  tables: readonly TwoByTwo[],
  n: number,
): { difference: Interval | null; p: number } {
  if (tables.length === n)
    return { difference: pairedDifference({ n, b: won, c: lost }), p: mcnemar(won, lost) };
  const ways = tables.map(each => {
    const size = sizeOf(each);
    return [
      { n: size, hits: each[0][1] },
      { n: size, hits: each[1][0] },
    ] as const;
  });
  return {
    difference: clusteredDifference(ways).difference,
    p: signFlip(tables.map(([[, up], [down]]) => up - down)),
  };
}

/** Of fewer clusters that changed, the error of a difference is not known. */
const CHANGED = 10;

/**
 * Whether the runs are within ±`margin`: two one-sided tests by the error of clusters, of pairs where each is one. Where
 * hardly any changed there is no error to go by: p is the chance to see so few of them if as large a share as the margin
 * did (the binomial distribution; clusters that changed in part count as that part, together rounded up). Few clusters
 * show nothing.
 */
export function equivalenceOf(
  [[, won], [lost]]: TwoByTwo,
  tables: readonly TwoByTwo[],
  margin: number,
): Equivalence {
  const count = tables.length;
  if (count < LEAST) return { margin, p: null, equivalent: false };
  const sizes = tables.map(sizeOf);
  const n = sizes.reduce((sum, each) => sum + each, 0);
  const value = (won - lost) / n;
  const changed = ((won + lost) / n) * count;
  const p = ((): number => {
    if (changed < CHANGED) {
      const most = Math.ceil(changed - 1e-9);
      return 1 - betaBelow(margin, most + 1, count - most);
    }
    if (count === n) return tost(value, pairedError({ n, b: won, c: lost }), margin);
    const spread = tables.reduce(
      (sum, [[, up], [down]], at) => sum + (up - down - value * (sizes[at] as number)) ** 2,
      0,
    );
    const error = Math.sqrt((spread * count) / (count - 1)) / n;
    const above = (distance: number): number =>
      error === 0 ? (distance > 0 ? 0 : 1) : studentAbove(distance / error, count - 1);
    return Math.max(above(value + margin), above(margin - value));
  })();
  return { margin, p, equivalent: p < 0.05 };
}
