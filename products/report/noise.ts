/**
 * The noise floor: how often the same question, asked again, is decided differently. Asked again are samples, which were
 * asked on purpose, and lines with an id that was there before.
 */
import { addTo, type Clusters, clusteredShare, partsOf } from '../kit/clusters.ts';
import type { Interval } from '../kit/statistics.ts';
import type { Collected, Seen } from './collect.ts';

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
