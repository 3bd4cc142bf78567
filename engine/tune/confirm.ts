/**
 * The best setting against the present one: started in turn, three times each, so that a machine which drifts does so for
 * both. A gain is the mean of the paired differences with its 95 % interval; where that holds 0 there is no difference.
 * Under a rate both are asked the same rate first: one that keeps it too is not worse, whatever its search had found.
 */
import { meanInterval } from '../bench/statistics.ts';
import type { Interval } from '../study/statistics.ts';
import type { Entry } from './entry.ts';
import { goalValue, keptBy, meanOf, type Point } from './point.ts';
import { findsRate, hourlyOf } from './rank.ts';
import { rungOf } from './rate.ts';
import { inSession, SettingFailed, type World } from './session.ts';
import type { Setting } from './study.ts';

export const RUNS = 3;
const BLOCKS = 2;

export interface Confirmation {
  /** requests a second at which both were asked; null at full load */
  rate: number | null;
  /** of the goal, a value a run */
  best: number[];
  present: number[];
  /** the rate of the present values: its own, where it does not keep that of the best */
  present_rate: number | null;
  best_kept: boolean;
  present_kept: boolean;
  /** best - present, as a share of present; null where the present setting does not run */
  gain: Interval | null;
  verdict: 'better' | 'no difference' | 'worse' | 'present fails';
  points: { best: Point[]; present: Point[] };
}

interface Sides {
  best: Entry;
  present: Entry;
}

/** null where the best setting failed at one of these starts. */
export async function confirm(world: World, best: Entry, present: Entry): Promise<Confirmation | null> {
  const { study } = world;
  const sides: Sides = { best, present };
  const own = best.rate === null ? null : rungOf.below(best.rate);
  const theirs = present.rate === null ? null : rungOf.below(present.rate);
  // one rung below the highest that was kept, for that one was found by luck as often as not
  const rate = own === null ? null : rungOf.rate(Math.max(own - 1, theirs ?? Number.NEGATIVE_INFINITY));
  const lower = theirs !== null && rate !== null && rungOf.rate(theirs) < rate ? rungOf.rate(theirs) : null;
  const runs = { best: [] as Point[][], present: [] as Point[][], lower: [] as Point[][] };
  let presentRuns = present.state !== 'failed';
  for (let run = 1; run <= RUNS; run++) {
    for (const side of ['best', 'present'] as const) {
      if (side === 'present' && !presentRuns) continue;
      const { setting } = sides[side];
      try {
        await inSession(world, { phase: 'confirm', setting, run }, async session => {
          if (rate === null) {
            const blocks: Point[] = [];
            for (let block = 1; block <= BLOCKS; block++) blocks.push(await session.block(block));
            runs[side].push(blocks);
            return;
          }
          runs[side].push(await session.rate(rate));
          if (side === 'present' && lower !== null) runs.lower.push(await session.rate(lower));
        });
      } catch (error) {
        if (!(error instanceof SettingFailed)) throw error;
        if (side === 'best') return null;
        presentRuns = false;
      }
    }
  }
  const values = (all: readonly Point[][], setting: Setting): number[] =>
    all.map(points => meanOf(points.map(point => goalValue(point, study.goal, hourlyOf(study, setting)))));
  const judged = (all: readonly Point[][]) => keptBy(all.flat(), study.slo);
  const ofBest = values(runs.best, best.setting);
  const kept = { best: judged(runs.best), present: judged(runs.present) };
  const isLower = lower !== null && presentRuns && !kept.present.kept;
  const ofPresent = presentRuns ? values(isLower ? runs.lower : runs.present, present.setting) : [];
  const paired = gainOf(ofBest, ofPresent);
  const gain = paired && isLower ? widened(paired, own as number, theirs as number) : paired;
  // what was found at two rates must hold at one, too
  const atOne = isLower ? gainOf(ofBest, values(runs.present, present.setting)) : paired;
  const isKept = kept.best.kept || !kept.best.sure;
  return {
    rate,
    best: ofBest,
    present: ofPresent,
    present_rate: isLower ? lower : rate,
    best_kept: kept.best.kept,
    present_kept: kept.present.kept,
    gain,
    verdict: verdictOf(gain, atOne, { best: isKept, present: kept.present.kept || findsRate(study) }),
    points: { best: runs.best.flat(), present: (isLower ? runs.lower : runs.present).flat() },
  };
}

/** Paired by run. */
function gainOf(best: readonly number[], present: readonly number[]): Interval | null {
  const base = meanOf(present);
  if (present.length !== best.length || !(base > 0)) return null;
  return meanInterval(best.map((value, run) => (value - (present[run] as number)) / base));
}

/** Rates are rungs: each setting may keep a little more than the highest one that was tried. */
function widened({ value, low, high }: Interval, best: number, present: number): Interval {
  const ratio = (a: number, b: number): number => rungOf.rate(a) / rungOf.rate(b) - 1;
  return {
    value,
    low: Math.min(low, ratio(best - 1, present + 1)),
    high: Math.max(high, ratio(best + 1, present)),
  };
}

function verdictOf(
  gain: Interval | null,
  atOne: Interval | null,
  kept: { best: boolean; present: boolean },
): Confirmation['verdict'] {
  if (!kept.best) return 'no difference';
  if (gain === null || atOne === null) return 'present fails';
  // bounds that the present setting breaks at a fixed load are reason enough
  if (!kept.present) return 'better';
  if (gain.low > 0 && atOne.low > 0) return 'better';
  return gain.high < 0 ? 'worse' : 'no difference';
}
