/**
 * fw plan --compare: a model on several cards, split in several ways: how many are needed, how long they take, and what
 * that costs; of a number of prompts, or of a rate of requests under bounds.
 */
import { usageError } from '../../../engine/core/item/failure.ts';
import { durationOf, type OptionsOf } from '../../../engine/flow/options.ts';
import { type Goal, goalOf } from '../../kit/goal.ts';
import { type PresetGiven, presetGiven } from '../../simulator/preset-options.ts';
import { type Preset, type SERVER_OPTIONS, withServerOptions } from '../../simulator/presets.ts';
import { DoesNotFit } from '../../simulator/sequence.ts';
import { bulkJob, type Found, GOOD } from './bulk-job.ts';
import { cardsOf, pricesOf, rateOf, splitsOf } from './compare-given.ts';
import { expectContext, type Lengths, type LoadGiven, lengthsOf, runOne } from './load-plan.ts';
import type { LoadFigures } from './virtual-load.ts';

type ServerGiven = Partial<OptionsOf<typeof SERVER_OPTIONS>>;
const NO_FLAGS = {
  'max-num-seqs': undefined,
  'max-num-batched-tokens': undefined,
  'gpu-memory-utilization': undefined,
  'speculative-tokens': undefined,
  'acceptance-rate': undefined,
  'draft-ms': undefined,
};

export interface Comparing {
  /** `8xh100-80g,a100-80g`: cards, and how many there are; a card alone may be there in any number */
  cards: string;
  /** `1,2,4` */
  tp: string | undefined;
  /** `h100-80g=2.5,a100-80g=1.3`: of a card and an hour */
  prices: readonly string[] | undefined;
  /** a deadline, `60h`; only with `items` */
  within: string | undefined;
  /** prompts that are to be answered; undefined: a rate is to be served */
  items: number | undefined;
  given: PresetGiven & LoadGiven & ServerGiven;
}

export interface Choice extends Found {
  card: string;
  preset: Preset;
  tp: number;
  gpuHours: number;
  /** null: nobody said what the card costs; of a rate for an hour */
  cost: number | null;
  /** nothing else is both quicker (or has fewer cards) and cheaper */
  isBest: boolean;
}

export interface Compared {
  choices: Choice[];
  /** what cannot be, and why */
  not: { card: string; tp: number; why: string }[];
}

/** Exit 64 where the options do not say what is compared. */
export function compareCards(comparing: Comparing): Compared {
  const { given, items } = comparing;
  const goal = goalOf(given.goodput);
  const lengths = lengthsOf(given);
  const cards = cardsOf(comparing.cards);
  const prices = pricesOf(
    comparing.prices,
    cards.map(({ card }) => card),
  );
  const rate = items === undefined ? rateOf(given.rate, goal) : null;
  if (items !== undefined && given.rate !== undefined)
    throw usageError('expected --items or --rate with --compare, found both');
  if (items === undefined && comparing.within !== undefined)
    throw usageError('expected --items with --within, found none: a rate has no end');
  const within = withinOf(comparing.within);
  const choices: Choice[] = [];
  const not: Compared['not'] = [];
  for (const { card, count } of cards)
    for (const tp of splitsOf(comparing.tp)) {
      try {
        const told = presetGiven({ ...given, preset: undefined, gpu: card, tp: String(tp) });
        if (told === undefined)
          throw usageError(
            'expected --model-config with --compare, found none: a model to compare cards for',
          );
        const preset = withServerOptions(told.preset, { ...NO_FLAGS, ...given });
        expectContext(preset, lengths);
        const most = count === null ? null : Math.floor(count / tp);
        const found =
          most === 0
            ? `${count} cards are fewer than a server has`
            : items === undefined
              ? servedBy(preset, { lengths, goal: goal as Goal, rate: rate as number, most, tp })
              : bulkJob({ preset, lengths, goal, items, within, most });
        if (typeof found === 'string') {
          not.push({ card, tp, why: found });
          continue;
        }
        const gpuHours = found.servers * tp * ((found.time ?? 3600) / 3600);
        const price = prices.get(card);
        choices.push({
          ...{ card, preset, tp, gpuHours, isBest: false },
          ...found,
          cost: price === undefined ? null : price * gpuHours,
        });
      } catch (error) {
        const { message, cause = error } = error as Error;
        // a model that does not fit is an answer; all else is for whoever asked
        if (!(cause instanceof DoesNotFit)) throw error;
        not.push({ card, tp, why: message });
      }
    }
  return { choices: marked(choices), not };
}

/** s */
function withinOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const within = durationOf(text, '--within') / 1000;
  if (within > 0) return within;
  throw usageError(`--within: expected a duration above 0, such as 60h, found "${text}"`);
}

interface Serving {
  lengths: Lengths;
  goal: Goal;
  rate: number;
  most: number | null;
  tp: number;
}

function servedBy(preset: Preset, { lengths, goal, rate, most, tp }: Serving): Found | string {
  const found = capacity(preset, lengths, goal, rate);
  if (found === null) return 'no load keeps the bounds for 99 of 100 requests';
  const servers = Math.ceil(rate / found.rate);
  if (most !== null && servers > most)
    return `${servers * tp} cards are needed, and there are ${most * tp} in servers of ${tp}`;
  return { ...found, servers, time: null, concurrency: null };
}

/** Arrivals that a rate is tried with: near the edge one sequence of them says little. */
const ARRIVALS = [1, 2, 3, 4, 5];
/** What a bound is taken off for: the mean of so few runs, two standard errors. */
const ERRORS = 2;

/** The rate of one server that keeps the bounds, by halves, up to what is asked for. */
function capacity(
  preset: Preset,
  lengths: Lengths,
  goal: Goal,
  wanted: number,
): { rate: number; figures: LoadFigures } | null {
  let [low, high] = [0, wanted];
  let best: LoadFigures | null = null;
  for (let round = 0; round < 8; round++) {
    const rate = round === 0 ? wanted : (low + high) / 2;
    const figures = goodEnough(preset, lengths, goal, rate);
    if (figures !== null) {
      best = figures;
      low = rate;
      if (round === 0) break;
    } else high = rate;
  }
  return best === null ? null : { rate: low, figures: best };
}

/** The run in the middle; null where 99 of 100 requests keep the bounds in too few runs to be sure of it. */
function goodEnough(preset: Preset, lengths: Lengths, goal: Goal, rate: number): LoadFigures | null {
  // five minutes, where that is neither a handful nor more than can be waited for
  const requests = Math.round(Math.min(4_000, Math.max(400, rate * 300)));
  const runs: { share: number; figures: LoadFigures }[] = [];
  for (const seed of ARRIVALS) {
    const load = { kind: 'open' as const, rate };
    const figures = runOne({ preset, servers: 1, lengths, load, given: { requests, seed }, goal });
    const share = figures.good / figures.requests;
    // what is far off is so with any arrivals
    if (share < 0.9) return null;
    runs.push({ share, figures });
  }
  const mean = runs.reduce((sum, { share }) => sum + share, 0) / runs.length;
  const variance = runs.reduce((sum, { share }) => sum + (share - mean) ** 2, 0) / (runs.length - 1);
  if (mean - ERRORS * Math.sqrt(variance / runs.length) < GOOD) return null;
  runs.sort((one, other) => one.share - other.share);
  return (runs[runs.length >> 1] as (typeof runs)[number]).figures;
}

/** By cost where it is known, else by cards and hours; and what nothing else beats in both. */
function marked(choices: readonly Choice[]): Choice[] {
  const spent = ({ cost, gpuHours }: Choice): number => cost ?? gpuHours;
  const slow = ({ time, servers, tp }: Choice): number => time ?? servers * tp;
  const isBest = (one: Choice): boolean =>
    !choices.some(
      other =>
        other !== one &&
        spent(other) <= spent(one) &&
        slow(other) <= slow(one) &&
        (spent(other) < spent(one) || slow(other) < slow(one)),
    );
  return choices.map(one => ({ ...one, isBest: isBest(one) })).sort((a, b) => spent(a) - spent(b));
}
