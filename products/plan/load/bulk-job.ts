/** fw plan --compare of a number of prompts: how many servers, how many in flight, and the time of the whole job. */
import type { Goal } from '../../kit/goal.ts';
import type { Preset } from '../../simulator/presets.ts';
import { type Lengths, latencyOf, runOne } from './load-plan.ts';
import type { LoadFigures } from './virtual-load.ts';

/** What a choice is, beside its card and cost. */
export interface Found {
  servers: number;
  /** requests a second of a server, of a number of prompts from its first to its last; of a rate the most that keeps the bounds */
  rate: number;
  /** how many are in flight then */
  concurrency: number | null;
  figures: LoadFigures;
  /** s; null of a rate, which has no end */
  time: number | null;
}

export interface Bulk {
  preset: Preset;
  lengths: Lengths;
  goal: Goal | null;
  items: number;
  /** s */
  within: number | null;
  /** servers that there are; null: any number */
  most: number | null;
}

/** Of a hundred requests so many keep the bounds. */
export const GOOD = 0.99;
const MOST_IN_FLIGHT = 1_024;
/** Answers for each place that are simulated; a longer job goes on as their middle. */
const ROUNDS = 12;

/** A string says why there is none. */
export function bulkJob(bulk: Bulk): Found | string {
  const { items, within, most } = bulk;
  const level = levelOf(bulk);
  if (level === null) return 'no load keeps the bounds for 99 of 100 requests';
  if (most !== null) return jobOn(bulk, level, Math.min(most, items));
  if (within === null) return jobOn(bulk, level, 1);
  const least = Math.max(1, Math.floor(items / (level.steady * within)));
  return fewestServers(bulk, level, Math.min(items, least), within);
}

/** By halves: more servers have fewer prompts each, and no job is shorter than one request. */
function fewestServers(bulk: Bulk, level: Level, least: number, within: number): Found | string {
  let [low, high] = [least - 1, least];
  let found = jobOn(bulk, level, high);
  while (found.time > within && high < bulk.items) {
    [low, high] = [high, Math.min(bulk.items, high + Math.ceil(high / 8))];
    found = jobOn(bulk, level, high);
  }
  if (found.time > within)
    return `a request alone takes ${found.time.toFixed(1)} s, longer than --within allows`;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const tried = middle < 1 ? null : jobOn(bulk, level, middle);
    if (tried !== null && tried.time <= within) [high, found] = [middle, tried];
    else low = middle;
  }
  return found;
}

interface Level {
  concurrency: number;
  /** requests a second of a long load, and its figures */
  steady: number;
  figures: LoadFigures;
  /** s that the first rounds of a job take */
  beginning: number;
}

/** The closed loop that gives most, of those that keep the bounds: without bounds the largest that the KV cache holds. */
function levelOf({ preset, lengths, goal }: Bulk): Level | null {
  const { maxNumSeqs, kvTokens } = preset.limits;
  const fitting = Math.max(1, Math.floor(kvTokens / (lengths.input + lengths.output)));
  const most = Math.min(maxNumSeqs, MOST_IN_FLIGHT, fitting);
  const levels = [most];
  if (goal !== null) for (let level = most >> 1; level >= 1; level >>= 1) levels.push(level);
  for (const concurrency of levels) {
    const given = { requests: ROUNDS * concurrency };
    const load = { kind: 'closed' as const, concurrency };
    const figures = runOne({ preset, servers: 1, lengths, load, given, goal });
    // the largest that is good enough: fewer in flight give less
    if (figures.good < GOOD * figures.requests) continue;
    const beginning = begun({ preset, lengths, goal }, concurrency, given.requests).duration;
    return { concurrency, steady: figures.steady, figures, beginning };
  }
  return null;
}

/** The job, from its first request to its last answer: filling and draining are of it, however few the prompts. */
function jobOn(bulk: Bulk, level: Level, servers: number) {
  const each = Math.ceil(bulk.items / servers);
  const concurrency = Math.min(level.concurrency, each);
  const rounds = ROUNDS * level.concurrency;
  const isLong = each > rounds;
  const figures = isLong ? level.figures : begun(bulk, concurrency, each);
  const time = isLong ? level.beginning + (each - rounds) / level.steady : figures.duration;
  return { servers, concurrency, time, rate: bulk.items / servers / time, figures };
}

/**
 * All of a job is there at once, but answers of one length would then stay in step to the end, which real ones do not: so it
 * begins over the time of one answer alone, and what is behind its first rounds goes at the rate of a load that is not in step.
 */
function begun(
  { preset, lengths, goal }: Pick<Bulk, 'preset' | 'lengths' | 'goal'>,
  concurrency: number,
  requests: number,
) {
  const load = { kind: 'closed' as const, concurrency, spread: latencyOf(preset, lengths) };
  return runOne({ preset, servers: 1, lengths, load, given: { requests }, goal });
}
