/**
 * The rows of a plan. Each is simulated for itself, and says the same whatever other rows there are. It is run more than
 * once, and how far the runs are apart is added to the error that is said. Where that takes seconds all items are run: as
 * they are, and again with answers that come a little late, for what is in a cache at the right time, and how many calls a
 * server is given, hangs on little. Of more, two parts are run between which the truth lies: whole groups of what begins
 * alike, as if they were asked together; and stretches of the input, as if all were asked in its order.
 */
import { dataError } from '../../engine/core/item/failure.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { type Figures, middleOf, stretched, together } from './plan-figures.ts';
import type { Whole } from './sample.ts';
import { type PlanInput, simulate } from './virtual-run.ts';

/** In calls. */
export interface Budget {
  /** up to which all items are run, and up to which they are where parts do not agree */
  whole: number;
  inDoubt: number;
  /** of each part; the second size is tried where parts of the first do not agree, and all items would be too many */
  parts: readonly [number, number];
  /** a part has no fewer items than so many full batches: a beginning and an end are no run */
  rounds: number;
}

/** 50,000 calls take a core some 8 s. */
const BUDGET: Budget = { whole: 20_000, inDoubt: 200_000, parts: [10_000, 50_000], rounds: 8 };
/** All items are run so often at least, and at most, as the calls of all runs stay below half of `whole`. */
const RUNS = { least: 3, most: 5 };
/** Parts that are as near to each other as this agree. */
const CLOSE = 0.05;
/** Up to here the table has the smaller numbers of endpoints too. */
const MOST_COMPARED = 4;
/** Items that show how many calls an item takes. */
const PILOT = 24;

type Say = (message: string) => void;

/** The figures for 1 to N endpoints, or for N alone where N is more than four. */
export async function tableOf(
  world: PlanInput,
  endpoints: number,
  sample: Whole,
  say: Say,
  budget: Budget = BUDGET,
): Promise<Figures[]> {
  const pilot = await simulate(world, 1, sample.single(PILOT));
  const callsEach = Math.max(1, pilot.calls / pilot.items);
  const counts =
    endpoints > MOST_COMPARED ? [endpoints] : Array.from({ length: endpoints }, (_, index) => index + 1);
  const rows: Figures[] = [];
  for (const count of counts) rows.push(await rowOf({ world, count, sample, callsEach, say, budget }));
  if (rows.at(-1)?.calls === 0)
    throw dataError(
      `expected items to ask about, found none among ${number(sample.size)}: fw run --dry-run shows why`,
    );
  return rows;
}

interface Row {
  world: PlanInput;
  count: number;
  sample: Whole;
  callsEach: number;
  say: Say;
  budget: Budget;
}

async function rowOf({ world, count, sample, callsEach, say, budget }: Row): Promise<Figures> {
  const { size } = sample;
  const calls = size * callsEach;
  const name = `simulating ${counted(count, 'endpoint')}`;
  const least = budget.rounds * count * world.preset.limits.maxNumSeqs;
  let figures: Figures | null = null;
  for (const part of budget.parts) {
    const items = Math.max(part / callsEach, least);
    // two parts of all are no less than all
    if (calls <= budget.whole || 2 * items >= size || (figures !== null && calls <= budget.inDoubt)) {
      say(name);
      const times = Math.max(RUNS.least, Math.min(RUNS.most, budget.whole / 2 / calls));
      const runs: Figures[] = [];
      // an odd number: one is in the middle
      while (runs.length < times || runs.length % 2 === 0)
        runs.push(await simulate(world, count, sample, { noise: runs.length }));
      return middleOf(runs);
    }
    const groups = sample.part(items);
    say(`${name} (twice ${number(groups.size)} of ${counted(size, 'item')})`);
    const one = stretched(await simulate(world, count, groups), size);
    const other = stretched(await simulate(world, count, sample.stretches(items)), size);
    figures = together(one, other);
    if (figures.spread <= CLOSE) break;
  }
  return figures as Figures;
}
