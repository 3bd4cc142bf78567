/**
 * The best setting against the present one: started in turn, three times each, so that a machine which drifts does so for
 * both. A gain is the mean of the paired differences with its 95 % interval; where that holds 0 there is no difference.
 * Under a rate both are asked the same one first: a setting that keeps it too is not worse, whatever its search had found.
 */

import type { Interval } from '../../kit/statistics.ts';
import { meanInterval } from '../bench/bench-statistics.ts';
import { type Entry, goalValue, keptBy, meanOf, type Point } from './point.ts';
import { rungOf, STEP } from './race.ts';
import { findsRate, hourlyOf } from './rank.ts';
import { inSession, SettingFailed, type World } from './session.ts';
import type { Bound, Setting } from './tune-file.ts';

export const RUNS = 3;
const BLOCKS = 2;

export interface Confirmation {
  /** requests a second of the values: the highest rate that was kept over all runs; null at full load */
  rate: number | null;
  present_rate: number | null;
  /** of the goal, a value a run */
  best: number[];
  present: number[];
  /** over all runs, at those rates */
  best_kept: boolean;
  present_kept: boolean;
  /** best - present, as a share of present; null where the present setting does not run */
  gain: Interval | null;
  verdict: 'better' | 'no difference' | 'worse' | 'present fails';
  points: { best: Point[]; present: Point[] };
}

/** What a setting did at a rate (null: at full load), run by run. */
interface Asked {
  rate: number | null;
  runs: Point[][];
}

/** null where the best setting failed at one of these starts. */
export async function confirm(world: World, best: Entry, present: Entry): Promise<Confirmation | null> {
  const { study } = world;
  const rates = ratesOf(best, present);
  const asked = {
    best: rates.best.map((rate): Asked => ({ rate, runs: [] })),
    present: rates.present.map((rate): Asked => ({ rate, runs: [] })),
  };
  let presentRuns = present.state !== 'failed';
  for (let run = 1; run <= RUNS; run++) {
    for (const side of ['best', 'present'] as const) {
      if (side === 'present' && !presentRuns) continue;
      const { setting } = side === 'best' ? best : present;
      try {
        await inSession(world, { phase: 'confirm', setting, run }, async session => {
          for (const { rate, runs } of asked[side]) {
            if (rate !== null) runs.push(await session.rate(rate));
            else {
              const blocks: Point[] = [];
              for (let block = 1; block <= BLOCKS; block++) blocks.push(await session.block(block));
              runs.push(blocks);
            }
          }
        });
      } catch (error) {
        if (!(error instanceof SettingFailed)) throw error;
        if (side === 'best') return null;
        presentRuns = false;
      }
    }
  }
  const isKept = ({ runs }: Asked): boolean => keptBy(runs.flat(), study.slo).kept;
  /**
   * In most runs the first keeps the bounds where the other breaks them, or the other breaks them by far over all runs; and
   * in none it is the other way round. A machine that stopped for a second breaks a bound by a little, in one run.
   */
  const keepsMore = (some: readonly Point[][], others: readonly Point[][]): boolean => {
    const pairs = some.map((points, run) => [points, others[run] ?? []] as const);
    const is = (points: readonly Point[]): boolean => keptBy(points, study.slo).kept;
    const more = pairs.filter(([one, other]) => is(one) && !is(other)).length;
    const isFar = study.slo.some(bound => missesOf(others.flat(), bound) > BY_FAR);
    return (more > RUNS / 2 || (more > 0 && isFar)) && !pairs.some(([one, other]) => !is(one) && is(other));
  };
  // the highest rate that is kept, else the lowest
  const standing = (all: readonly Asked[]): Asked => all.find(isKept) ?? (all.at(-1) as Asked);
  const valuesAt = ({ runs }: Asked, setting: Setting): number[] =>
    runs.map(points => meanOf(points.map(point => goalValue(point, study.goal, hourlyOf(study, setting)))));
  const ours = standing(asked.best);
  const theirs = standing(asked.present);
  const ofBest = valuesAt(ours, best.setting);
  const ofPresent = presentRuns ? valuesAt(theirs, present.setting) : [];
  const gain = gainOf(ofBest, ofPresent);
  const wide = gain && ours.rate !== theirs.rate ? widened(gain, ours.rate, theirs.rate) : gain;
  // what was found at two rates must hold at one, too: with the same arrivals one keeps the bounds, and the other does not
  const same = asked.present.find(({ rate }) => rate === ours.rate);
  const isApart = ours.rate === theirs.rate || same === undefined || keepsMore(ours.runs, same.runs);
  const kept = { best: isKept(ours), present: isKept(theirs) };
  return {
    rate: ours.rate,
    present_rate: theirs.rate,
    best: ofBest,
    present: ofPresent,
    best_kept: kept.best,
    present_kept: kept.present,
    gain: wide,
    verdict: verdictOf(wide, isApart, { best: kept.best, present: kept.present || findsRate(study) }),
    points: { best: ours.runs.flat(), present: theirs.runs.flat() },
  };
}

/** How much lower the second rate of the best is, in rungs. */
const LOWER = 3;

/**
 * From the highest to the lowest. The best setting is asked one rung below the highest that it kept, since that one was
 * found by luck as often as not, and one that is clearly lower; the present one at the first of these, and at its own.
 */
function ratesOf(best: Entry, present: Entry): { best: (number | null)[]; present: (number | null)[] } {
  if (best.rate === null) return { best: [null], present: [null] };
  const own = rungOf.below(best.rate) - 1;
  const theirs = present.rate === null ? null : rungOf.below(present.rate);
  if (theirs !== null && own <= theirs)
    return { best: [rungOf.rate(theirs)], present: [rungOf.rate(theirs)] };
  const lower = own - LOWER;
  return {
    best: [own, ...(theirs === null || lower > theirs ? [lower] : [])].map(rungOf.rate),
    present: [own, ...(theirs === null ? [] : [theirs])].map(rungOf.rate),
  };
}

/** Requests beyond a bound, as a multiple of those that its percentile allows. */
const BY_FAR = 3;

function missesOf(points: readonly Point[], { name, percentile }: Bound): number {
  const good = points.reduce((sum, { within }) => sum + (within[name]?.good ?? 0), 0);
  const of = points.reduce((sum, { within }) => sum + (within[name]?.of ?? 0), 0);
  return (of - good) / (1 - percentile / 100) / of;
}

/** Paired by run. */
function gainOf(best: readonly number[], present: readonly number[]): Interval | null {
  const base = meanOf(present);
  if (present.length !== best.length || !(base > 0)) return null;
  return meanInterval(best.map((value, run) => (value - (present[run] as number)) / base));
}

/** Rates are rungs: each setting may keep a little more than the highest one that was tried. */
function widened({ value, low, high }: Interval, best: number | null, present: number | null): Interval {
  if (best === null || present === null) return { value, low, high };
  return {
    value,
    low: Math.min(low, best / (present * STEP) - 1),
    high: Math.max(high, (best * STEP) / present - 1),
  };
}

function verdictOf(
  gain: Interval | null,
  isApart: boolean,
  kept: { best: boolean; present: boolean },
): Confirmation['verdict'] {
  if (!kept.best) return 'no difference';
  if (gain === null) return 'present fails';
  // bounds that the present setting breaks at a fixed load are reason enough
  if (!kept.present) return 'better';
  if (gain.low > 0 && isApart) return 'better';
  return gain.high < 0 ? 'worse' : 'no difference';
}
